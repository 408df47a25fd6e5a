"""Notes about settings that have no effect, because the setting that they belong to is not made.

A row says on which values of another parameter a parameter depends. Parameters of `stack` are left out: those of a
profile are not in the plan. Contradictions that the data plane refuses need no row.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from tcpassay.plan import table
from tcpassay.plan.expand import Case, factors, show
from tcpassay.plan.model import PlanFile

_AQM: Final = ("codel", "fq_codel", "pie", "dualpi2")
_REQUESTS: Final = ("rpc", "rpc-open", "incast", "echo", "exchange", "streams", "mix")
NEEDS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "app.mix": ("app.workload", ("mix",)),
    "app.flow_size": ("app.workload", ("bulk", "onoff", "paced", "mix")),
    "app.arrival": ("app.workload", ("rpc-open", "bulk", "mix")),
    "app.request": ("app.workload", _REQUESTS),
    "app.response": ("app.workload", _REQUESTS),
    "app.concurrency": ("app.workload", _REQUESTS),
    "app.order": ("app.workload", ("streams", "mix")),
    "app.think": ("app.workload", ("rpc", "incast", "bulk", "echo", "exchange", "streams", "mix")),
    "app.rate": ("app.workload", ("paced", "mix")),
    "app.burst": ("app.workload", ("paced", "onoff", "mix")),
    "queue.ecn_threshold": ("queue.ecn_mark", ("data", "ack")),
    "queue.red_min": ("queue.kind", ("red",)),
    "queue.red_max": ("queue.kind", ("red",)),
    "queue.red_probability": ("queue.kind", ("red",)),
    "queue.target": ("queue.kind", _AQM),
    "queue.interval": ("queue.kind", _AQM),
    "queue.ecn": ("queue.kind", ("red", "codel", "fq_codel", "pie")),
    "queue.served_by": ("queue.kind", ("red", "codel", "fq_codel", "pie", "fq")),
    "queue.rate": ("queue.kind", ("htb", "tbf")),
    "queue.burst": ("queue.kind", ("htb", "tbf")),
    "queue.classes": ("queue.kind", ("htb",)),
    "nic.hidden_short": ("nic.adaptive", ("hidden",)),
    "nic.hidden_long": ("nic.adaptive", ("hidden",)),
    "nic.hidden_idle": ("nic.adaptive", ("hidden",)),
    "nic.hidden_frames": ("nic.adaptive", ("hidden",)),
    "nic.gro_max": ("nic.gro", ("on",)),
    "nic.gro_timeout": ("nic.gro", ("on",)),
    "nic.gso_max": ("nic.tso", ("on",)),
    "rack.hosts": ("topology", ("racks",)),
    "rack.fanout": ("topology", ("racks",)),
    "rack.uplink": ("topology", ("racks",)),
}
"""For a parameter: the other one, and its values with which it has an effect. Of a topology only the kind counts."""


def notes(spec: PlanFile, cases: Iterable[Case]) -> list[str]:
    """A note for each setting of a plan that has no effect in any case."""
    return list(without_effect(spec, cases).values())


def without_effect(spec: PlanFile, cases: Iterable[Case]) -> dict[str, str]:
    """The settings of a plan that have no effect in any case, each with a sentence."""
    given = dict.fromkeys(
        path
        for path in (
            *spec.fixed,
            *(path for among in factors(spec).values() for level in among for path in level.triples),
        )
        if path.rpartition("/")[2] in NEEDS
    )
    if not given:
        return {}
    waiting = set(given)
    for case in cases:
        if case.script is not None or case.expect != "done":
            continue
        waiting -= {path for path in waiting if path in case.triples and _counts(path, case)}
        if not waiting:
            return {}
    return {path: _note(path) for path in given if path in waiting}


def _counts(path: str, case: Case) -> bool:
    """Whether a setting has an effect in a case: on any host, since a link may serve those of another address."""
    plain = path.rpartition("/")[2]
    row = table.parameters()[plain]
    if show(case.triples[path]) == row.default:
        return True
    other, values = NEEDS[plain]
    said = [show(value) for name, value in case.triples.items() if name.rpartition("/")[2] == other]
    if not any(name == other for name in case.triples):
        said.append(table.parameters()[other].default)
    return any(value.partition(":")[0] in values for value in said)


def _note(path: str) -> str:
    other, values = NEEDS[path.rpartition("/")[2]]
    listed = " or ".join((", ".join(values[:-1]), values[-1]) if len(values) > 1 else values)
    return f"`{path}` has no effect in any case: it needs `{other}` = {listed}"
