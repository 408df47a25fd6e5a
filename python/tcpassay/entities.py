"""Results of each host, flow or controller, from the recordings of runs, as runs with a further factor.

The factor is `host`, `flow` or `cc`.

Values are of the whole run, unlike those of `tcpassay metrics`, which a warm-up shortens.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final, Literal, cast, get_args

import polars as pl

from tcpassay.errors import Place, UserError
from tcpassay.finding import Finding
from tcpassay.levels import OF_ENTITIES, Measured, measured
from tcpassay.messages import Outcome
from tcpassay.plan.document import suggest
from tcpassay.plan.expand import CONTROLLER, show
from tcpassay.plan.fields import Scalar
from tcpassay.plural import plural
from tcpassay.recording import DamagedError, Recording, carried, understood
from tcpassay.recording_format import Flow
from tcpassay.result_format import RunRow
from tcpassay.results import Results

Per = Literal["host", "flow", "cc"]
PERS: Final = get_args(Per)
BACKGROUND: Final = "background"
PYTHON: Final = "python"
"""How a recording names a controller in Python, and the beginning of its value in a plan."""


class EntityResults(Results):
    """The results of a plan with a run for each sending host, flow or controller of each run that has a recording.

    The metrics are those of `OF_ENTITIES`. A flow is the direction of a connection that carried more payload;
    background traffic is left out, as in metrics. There are no findings: they belong to whole runs.
    """

    def __init__(self, results: Results, per: Per) -> None:
        super().__init__(results.folder)
        self.whole = results
        self.per: Per = per
        self.absent = 0
        """Number of completed runs that have no usable recording."""
        self.of: list[str] = []
        """The case of the run of each row of `runs`."""

    @cached_property
    def runs(self) -> list[RunRow]:
        """A run for each host, flow or controller, with the case, say, `c4 sender0`."""
        made: list[RunRow] = []
        for run in self.whole.runs:
            if run.get("outcome") != Outcome.DONE:
                continue
            try:
                found = self._found_in(run)
            except DamagedError:
                found = None
            if found is None:
                self.absent += 1
                continue
            made += found
            self.of += [run["case"]] * len(found)
        return made

    def _found_in(self, run: RunRow) -> list[RunRow] | None:
        if not run.get("recording"):
            return None
        recording = Recording.open(self.whole.place_of(run))
        with understood(recording.folder / "recording.json"):
            found = list(_of_run(recording, self.per, _classes(run.get("triples") or {})))
        varied = {name: show(value) for name, value in (run.get("varied") or {}).items()}
        made: list[RunRow] = []
        for named, values in found:
            # What the plan varies under the name of a column has the values of the plan.
            beside = {name: value for name, value in named.items() if name == self.per or name not in varied}
            row: RunRow = {**run, "case": f"{run['case']} {named[self.per]}", "metrics": values}
            row["varied"] = {**varied, **beside}
            row["triples"] = {**(run.get("triples") or {}), **beside}
            if trace := run.get("trace"):
                row["trace"] = f"{trace} {named[self.per]}"
            made.append(row)
        return made

    @cached_property
    def listed(self) -> list[RunRow] | None:
        """`runs`; `None` if the folder does not list its runs."""
        return None if self.whole.listed is None else self.runs

    @cached_property
    def metrics(self) -> pl.DataFrame:
        """One row per run of `runs`: `case`, `seed`, and each value of `OF_ENTITIES`."""
        schema = {"case": pl.String(), "seed": pl.Int64()} | dict.fromkeys(OF_ENTITIES, pl.Float64())
        rows = [
            (run["case"], run["seed"], *((run.get("metrics") or {}).get(name) for name in OF_ENTITIES))
            for run in self.runs
        ]
        return pl.DataFrame(rows, schema=schema, orient="row")

    @cached_property
    def found(self) -> list[Finding]:
        """None."""
        return []

    @property
    def measured(self) -> list[Measured]:
        """`runs` for tables."""
        return [replace(one, whole=case) for one, case in zip(measured(self.runs), self.of, strict=True)]

    @property
    def notes(self) -> list[str]:
        """What these results lack, each in words."""
        from tcpassay.run.replay import spec_of  # noqa: PLC0415 - start-up time

        made = []
        if (warmup := spec_of(self.whole)[0].collect.warmup) != "0s":
            made.append(
                f"values of hosts, flows and controllers are of the whole run, also of the warm-up of {warmup}"
            )
        if self.runs and self.absent:
            made.append(f"{plural(self.absent, 'run')} without a recording ([keep] of the plan)")
        return made


def results_of(results: Results, per: str) -> EntityResults:
    """The results of each host, flow or controller. Raises `UserError` for another word, or without any recording."""
    if per not in PERS:
        raise UserError(f"`--per {per}`: allowed are {', '.join(PERS)}{suggest(per, PERS)}")
    made = EntityResults(results, cast("Per", per))
    if not made.runs:
        raise UserError("no run in this folder has a recording", Place(results.folder))
    return made


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
        name = {"host": host, "flow": flow["name"], "cc": _controller(flow["cc"], host, classes)}[per]
        groups.setdefault(name, []).append(flow)
    for name, of in groups.items():
        names = (_controller(flow["cc"], recording.hosts[flow["from"]], classes) for flow in of)
        named: dict[str, str] = {per: name, "cc": ", ".join(dict.fromkeys(names))}
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
