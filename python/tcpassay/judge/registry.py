"""The table of the oracles.

A new oracle needs a module in `oracles` with the docstring that `oracles/__init__.py` describes, `NAME`, `TITLE` and
`look`; an entry below; and tests with a planted fault, and with a recording without the fault.
"""

import json
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType, ModuleType
from typing import Final, TypedDict

from tcpassay import _native
from tcpassay.errors import UserError
from tcpassay.finding import Found
from tcpassay.interface import EventKind
from tcpassay.judge.oracles import (
    delivery,
    late_ack,
    loss_response,
    mutual_silence,
    needless_fast_retransmit,
    small_window_after_recovery,
    timeout_without_loss,
)
from tcpassay.judge.trace import Trace
from tcpassay.recording import Recording

_PARTS: Final = ("Asserts", "Why", "Evidence", "Wrong when")


class OracleData(TypedDict):
    """The description of an oracle."""

    name: str
    title: str
    asserts: str
    why: str
    evidence: str
    wrong_when: str
    needs: tuple[EventKind, ...]


@dataclass(frozen=True, slots=True)
class Oracle:
    """A function that finds violations in a recording; it needs no expected values."""

    name: str
    title: str
    """The meaning of its findings, in a few words."""
    asserts: str
    why: str
    """The reason, with the section of the RFC."""
    evidence: str
    wrong_when: str
    """The cases in which its findings are wrong."""
    needs: tuple[EventKind, ...]
    """Kinds of events that it requires in addition to segments."""
    look: Callable[[Trace], Iterator[Found]] | None
    """None for an oracle of the data plane (`crates/judge`)."""

    def as_json(self) -> OracleData:
        """Its description."""
        return {
            "name": self.name,
            "title": self.title,
            "asserts": self.asserts,
            "why": self.why,
            "evidence": self.evidence,
            "wrong_when": self.wrong_when,
            "needs": self.needs,
        }

    def lacks(self, recording: Recording) -> str:
        """What the oracle needs and the log of a recording lacks; empty if it can judge the recording."""
        there = logged(recording)
        if EventKind.IN not in there:
            return "without taps (`collect.taps`) a log has no segments"
        missing = [f"`{kind}`" for kind in self.needs if kind not in there]
        return f"a kernel's log has no {' and '.join(missing)}" if missing else ""


_ALL: Final = frozenset(EventKind)
# The log of a real kernel contains segments at the hosts' devices, and events from its trace events.
_OF_A_KERNEL: Final = frozenset({EventKind.IN, EventKind.OUT, EventKind.RETRANSMIT, EventKind.SACK})
_TRACED: Final = MappingProxyType(
    {
        "traced_congestion": frozenset({EventKind.TIMER_FIRE, EventKind.CONGESTION}),
        "traced_windows": frozenset({EventKind.WINDOW}),
        "traced_states": frozenset({EventKind.STATE}),
    }
)


def logged(recording: Recording) -> frozenset[EventKind]:
    """The kinds of events that the stacks of a recording log when they happen."""
    if recording.header.get("substrate", "model") == "model":
        return _ALL
    counters = recording.index.get("counters", {}).get("run", {})
    told = (kinds for counter, kinds in _TRACED.items() if counters.get(counter))
    # A recording with captured packets has a counter of the packets that were missed.
    seen = _OF_A_KERNEL if "tap_lost" in counters else frozenset[EventKind]()
    return seen.union(*told)


def _oracle(module: ModuleType) -> Oracle:
    asserts, why, evidence, wrong_when = (_part(module, name) for name in _PARTS)
    return Oracle(module.NAME, module.TITLE, asserts, why, evidence, wrong_when, module.NEEDS, module.look)


def _part(module: ModuleType, name: str) -> str:
    match = re.search(rf"^{name}: (.+?)(?:\n\n|\n?\Z)", module.__doc__ or "", re.MULTILINE | re.DOTALL)
    if match is None:
        raise AssertionError(f"the docstring of {module.__name__} does not say `{name}:`")
    return " ".join(match[1].split())


def _native_oracles() -> Iterator[Oracle]:
    """Those of the data plane."""
    for said in json.loads(_native.oracles_json()):
        yield Oracle(**said | {"needs": tuple(said["needs"]), "look": None})


ORACLES: Final[Mapping[str, Oracle]] = MappingProxyType(
    {
        module.NAME: _oracle(module)
        for module in (
            timeout_without_loss,
            mutual_silence,
            late_ack,
            small_window_after_recovery,
            needless_fast_retransmit,
            loss_response,
            delivery,
        )
    }
    | {oracle.name: oracle for oracle in _native_oracles()}
)
"""Every oracle by its name, in the order in which they are called."""


def chosen(names: Iterable[str] | None) -> list[Oracle]:
    """The oracles with these names, in the order of the registry; all when `None`. Raises `UserError`."""
    if names is None:
        return list(ORACLES.values())
    wanted = set(names)
    if unknown := sorted(wanted - set(ORACLES)):
        raise UserError(f"`{unknown[0]}` is not an oracle; allowed are {', '.join(ORACLES)}")
    return [oracle for name, oracle in ORACLES.items() if name in wanted]


def markdown() -> str:
    """`docs/oracles.md`."""
    lines = [
        "# Oracles",
        "",
        "Generated from the oracles themselves by `tcpassay oracles --markdown`; a test compares the two.",
        "",
        "An oracle needs no expected values. It reads the event log of a run (`[collect] events = true` in the",
        "plan) and asserts rules that hold for every TCP on every path. A finding contains rows of",
        "`events.parquet`, frames of `packets.pcapng` if packets were captured, and the command that repeats",
        "the run.",
        "",
        "The log of a real kernel contains segments with their SACK blocks, writes of applications and, if the",
        "kernel has the trace events, windows and changes of the congestion state. An oracle that needs other events",
        "does not evaluate these runs, and the result of a run lists it (`unjudged`).",
    ]
    for one in ORACLES.values():
        needs = ", ".join(f"`{kind}`" for kind in one.needs)
        lines += ["", f"## `{one.name}`: {one.title}", ""]
        for label, text in zip(_PARTS, (one.asserts, one.why, one.evidence, one.wrong_when), strict=True):
            lines += textwrap.wrap(
                f"* **{label}:** {text}", 118, subsequent_indent="  ", break_on_hyphens=False
            )
        lines += [f"* **Needs:** segments{' and the events ' + needs if needs else ''}"]
    return "\n".join(lines) + "\n"
