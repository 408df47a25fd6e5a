"""Results of each host or flow, from the recordings of runs, as runs with the further factors `host` or `flow`.

Values are of the whole run, unlike those of `tcpassay metrics`, which a warm-up shortens.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, get_args

from tcpassay.levels import Measured
from tcpassay.messages import Outcome
from tcpassay.plan.expand import CONTROLLER, show
from tcpassay.plan.fields import Scalar
from tcpassay.recording import DamagedError, Recording, carried, understood
from tcpassay.recording_format import Flow
from tcpassay.results import Results

Per = Literal["host", "flow"]
PERS: Final = get_args(Per)
BACKGROUND: Final = "background"
PYTHON: Final = "python"
"""How a recording names a controller in Python, and the beginning of its value in a plan."""


def measured(results: Results, per: Per) -> tuple[list[Measured], int]:
    """A run for each sending host or flow of each run, and the number of runs that have no usable recording.

    A flow is the direction of a connection that carried more payload; background traffic is left out, as in metrics.
    """
    made: list[Measured] = []
    absent = 0
    for run in results.runs:
        if run.get("outcome") != Outcome.DONE:
            continue
        if not run.get("recording"):
            absent += 1
            continue
        varied = {name: show(value) for name, value in (run.get("varied") or {}).items()}
        classes = _classes(run.get("triples") or {})
        try:
            recording = Recording.open(results.place_of(run))
            with understood(recording.folder / "recording.json"):
                found = list(_of_run(recording, per, classes))
        except DamagedError:
            absent += 1
            continue
        trace = str(run.get("trace") or "")
        made += [
            # What the plan varies under the name of a column has the values of the plan.
            Measured(
                f"{run['case']} {named[per]}",
                int(run["seed"]),
                varied | _beside(named, varied, per),
                values,
                trace,
                str(run["case"]),
            )
            for named, values in found
        ]
    return made, absent


def _beside(named: Mapping[str, str], varied: Mapping[str, str], per: Per) -> dict[str, str]:
    return {name: value for name, value in named.items() if name == per or name not in varied}


def _classes(triples: Mapping[str, Scalar]) -> dict[str, str]:
    """The controllers in Python of a case by the host or side that has them; an empty name stands for all hosts."""
    found = {}
    for path, value in triples.items():
        address, _, plain = path.rpartition("/")
        if plain == CONTROLLER and show(value).startswith(f"{PYTHON}:"):
            found[address] = show(value)
    return found


def _controller(cc: str, host: str, classes: Mapping[str, str]) -> str:
    """The controller of a host: in Python its class, because a recording has only `python`."""
    if cc != PYTHON:
        return cc
    side = "receiver" if host.startswith("receiver") else "sender"
    for address in (host, side, ""):
        if address in classes:
            return classes[address]
    return next(iter(classes.values())) if len(set(classes.values())) == 1 else cc


def _of_run(
    recording: Recording, per: Per, classes: Mapping[str, str]
) -> Iterator[tuple[dict[str, str], dict[str, float | None]]]:
    flows = _of_test(recording.flows)
    total = sum(flow["counters"]["read_bytes"] for flow in flows)
    end = recording.header["duration_ns"]
    groups: dict[str, list[Flow]] = {}
    for flow in flows:
        host = recording.hosts[flow["from"]]
        groups.setdefault(host if per == "host" else flow["name"], []).append(flow)
    for name, of in groups.items():
        names = (_controller(flow["cc"], recording.hosts[flow["from"]], classes) for flow in of)
        ccs = ", ".join(dict.fromkeys(names))
        named = {per: name, "cc": ccs}
        if per == "flow":
            named |= {"from": recording.hosts[of[0]["from"]], "to": recording.hosts[of[0]["to"]]}
            during = (of[0]["end_ns"] or end) - of[0]["start_ns"]
        else:
            during = end
        yield named, _values(of, total, during)


def _of_test(flows: Sequence[Flow]) -> list[Flow]:
    """For each connection that is not background traffic: the direction that carried more payload."""
    main: dict[int, Flow] = {}
    for flow in flows:
        if flow["class"] == BACKGROUND or not carried(flow):
            continue
        best = main.setdefault(flow["connection"], flow)
        if carried(flow) > carried(best):
            main[flow["connection"]] = flow
    return list(main.values())


def _values(flows: Sequence[Flow], total: int, during_ns: int) -> dict[str, float | None]:
    read = sum(flow["counters"]["read_bytes"] for flow in flows)
    sent = [flow["counters"]["sent_bytes"] for flow in flows]
    again = [flow["counters"]["retransmitted_bytes"] for flow in flows]
    timeouts = [count for flow in flows if (count := flow["tcp"]["timeouts"]) is not None]
    least = [value for flow in flows if (value := flow["tcp"]["min_rtt_ns"]) is not None]
    smooth = [value for flow in flows if (value := flow["tcp"]["srtt_ns"]) is not None]
    payload = sum(count or 0 for count in sent)
    return {
        "goodput": read * 8e9 / during_ns if during_ns > 0 else None,
        "share": read / total if total else None,
        "retransmitted": sum(count or 0 for count in again) / payload if payload else None,
        "timeouts": float(sum(timeouts)) if timeouts else None,
        "min_rtt": min(least) / 1e9 if least else None,
        "srtt": sum(smooth) / len(smooth) / 1e9 if smooth else None,
    }
