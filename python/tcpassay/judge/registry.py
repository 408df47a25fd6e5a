"""The table of the oracles. The data plane (`crates/judge`) declares and applies them."""

import json
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, TypedDict

from tcpassay import _native
from tcpassay.errors import UserError
from tcpassay.interface import EventKind
from tcpassay.recording import Recording
from tcpassay.recording_format import TripleRow

Setting = Literal["any", "case", "virtual-time", "kernel", "followed-kernel"]


class OracleData(TypedDict):
    """The description of an oracle."""

    name: str
    title: str
    asserts: str
    why: str
    evidence: str
    wrong_when: str
    needs: tuple[EventKind, ...]
    setting: Setting
    completeness: tuple[str, ...]
    packets: bool


@dataclass(frozen=True, slots=True)
class Oracle:
    """Rules whose violations are found in a recording without expected values."""

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
    setting: Setting
    """What it must know of a run besides its log."""
    completeness: tuple[str, ...]
    """What it requires of the log besides. A recording has it; a capture may lack it for an end of a connection."""
    packets: bool
    """Whether it reads the captured packets of a run (`collect.packets`)."""

    def as_json(self) -> OracleData:
        """Its description."""
        return OracleData(
            name=self.name,
            title=self.title,
            asserts=self.asserts,
            why=self.why,
            evidence=self.evidence,
            wrong_when=self.wrong_when,
            needs=self.needs,
            setting=self.setting,
            completeness=self.completeness,
            packets=self.packets,
        )

    def lacks(self, recording: Recording) -> str:
        """What the oracle needs and the log of a recording lacks; empty if it can judge the recording."""
        there = logged(recording)
        if EventKind.IN not in there:
            return "without taps (`collect.taps`) a log has no segments"
        substrate = recording.header.get("substrate", "model")
        follows = self.setting == "followed-kernel"
        why = self.lacks_setting(substrate) or self.lacks_path(recording.header.get("case", []))
        if recording.header.get("stacks") and self.setting != "any":
            why = _LACKS[self.setting] if follows else "the settings of a case are those of the model"
        if why := why or (_unfollowed(recording) if follows and substrate == "kernel" else ""):
            return why
        missing = [kind for kind in self.needs if kind not in there]
        if not missing:
            return ""
        return self._lacks_events(recording, missing, there)

    @staticmethod
    def _lacks_events(recording: Recording, missing: list[EventKind], there: frozenset[EventKind]) -> str:
        """That a log has no events of these kinds, and why."""
        names = " and ".join(f"`{kind}`" for kind in missing)
        if real := recording.header.get("stacks"):
            if missing == [EventKind.TIMER_SET] and EventKind.TIMER_FIRE in there:
                return f"{real[0]['name']} shows its retransmission timer, but not each of its timers"
            return f"the log of {real[0]['name']} has no {names}"
        unrecorded = recording.index.get("counters", {}).get("run", {}).get("trace_unrecorded")
        if unrecorded and frozenset().union(*_TRACED.values()).issuperset(missing):
            return f"the log has no {names}: the kernel has counted trace events that it did not record"
        return f"a kernel's log has no {names}"

    def lacks_path(self, case: Iterable[TripleRow]) -> str:
        """What the oracle supposes and a setting of the path changes; empty if there is nothing."""
        for row in case:
            if self.name in _OF_PATH.get(row["parameter"], frozenset()):
                return f"with `{row['parameter']}` the size of segments changes during a connection"
            if row["parameter"] == "link.rewrite":
                rules = [rule.partition(":")[0] for rule in row["value"].split("+")]
                if any(self.name in _OF_REWRITE.get(rule, frozenset()) for rule in rules):
                    return "with `link.rewrite` what arrives is not what was sent"
        return ""

    def lacks_setting(self, substrate: str) -> str:
        """What the oracle must know of a run and a run of a substrate lacks; empty if it lacks nothing."""
        if self.setting == "any" or substrate in _OF_SETTING[self.setting]:
            return ""
        return _LACKS[self.setting]


def of_no_capture(why: str) -> bool:
    """Whether the reason for which an oracle does not judge a capture holds for every capture."""
    return why.startswith("a capture has no events") or why in _LACKS.values()


def _unfollowed(recording: Recording) -> str:
    """Why the model does not follow the run of a kernel; empty if it does."""
    if not recording.holds("packets.pcapng"):
        return "the recording has no packets (`[collect] packets = true`)"
    return _native.follow_lacks(str(recording.folder), json.dumps(recording.header)) or ""


_OF_PATH: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "link.mtu": frozenset({"segment-contents", "window-growth", "window-reduction", "loss-detection"}),
        "stack.mtu_probing": frozenset(
            {
                "window-growth",
                "window-reduction",
                "small-window-after-recovery",
                "flow-control",
                "loss-detection",
                "ack-timing",
            }
        ),
    }
)
"""The oracles that suppose segments of one size, which a setting of the path changes."""
_OF_REWRITE: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "no-sack": frozenset({"segment-contents", "retransmission-timer"}),
        "no-timestamps": frozenset({"segment-contents"}),
        "no-window-scale": frozenset({"segment-contents"}),
        "window-scale": frozenset({"segment-contents"}),
        "mss": frozenset({"segment-contents"}),
        "no-ect": frozenset({"ecn"}),
    }
)
"""The oracles that suppose that what one end sends arrives at the other, by what `link.rewrite` changes."""
_RUNS: Final = frozenset({"model", "kernel", "host", "remote"})
_OF_SETTING: Final[Mapping[Setting, frozenset[str]]] = MappingProxyType(
    {
        "case": _RUNS,
        "virtual-time": frozenset({"model", "kernel"}),
        "kernel": frozenset({"kernel"}),
        # The model follows its own runs by construction, which a test of `crates/follow` verifies.
        "followed-kernel": frozenset({"model", "kernel"}),
    }
)
"""The substrates whose logs have what an oracle must know."""
_NEEDS: Final[Mapping[Setting, str]] = MappingProxyType(
    {
        "case": "the settings of a run",
        "virtual-time": "a run in virtual time (`model` or `kernel`)",
        "kernel": "a run on `kernel`",
        "followed-kernel": "a run on `kernel` with packets, of whose kernel the model has a profile",
    }
)
_LACKS: Final[Mapping[Setting, str]] = MappingProxyType(
    {
        "case": "a capture has no settings to compare with",
        "virtual-time": "only the times of a run in virtual time are those of the stack",
        "kernel": "it judges kernels in virtual time",
        "followed-kernel": "the model follows kernels in virtual time",
    }
)
_ALL: Final = frozenset(EventKind)
# The log of a real kernel contains segments at the hosts' devices, and events from its trace events.
_OF_A_KERNEL: Final = frozenset({EventKind.IN, EventKind.OUT, EventKind.RETRANSMIT, EventKind.SACK})
# The log of a real stack on the model has what its segments show, and the calls of its applications.
_OF_SEGMENTS: Final = _OF_A_KERNEL | {EventKind.APP, EventKind.DAMAGED}
_SHOWN: Final = MappingProxyType(
    {
        "cwnd": frozenset({EventKind.WINDOW}),
        "timer": frozenset({EventKind.TIMER_FIRE}),
    }
)
"""The events that a stack logs which shows these variables. It does not show when each of its timers is set."""
_TRACED: Final = MappingProxyType(
    {
        "traced_congestion": frozenset({EventKind.TIMER_FIRE, EventKind.CONGESTION}),
        "traced_windows": frozenset({EventKind.WINDOW}),
        "traced_states": frozenset({EventKind.STATE}),
    }
)


def logged(recording: Recording) -> frozenset[EventKind]:
    """The kinds of events that the stacks of a recording log when they happen."""
    if stacks := recording.header.get("stacks"):
        shown = frozenset(name for stack in stacks for name in stack.get("shows", []))
        return _OF_SEGMENTS.union(*(kinds for name, kinds in _SHOWN.items() if name in shown))
    if recording.header.get("substrate", "model") == "model":
        return _ALL
    counters = recording.index.get("counters", {}).get("run", {})
    told = (kinds for counter, kinds in _TRACED.items() if counters.get(counter))
    # A recording with captured packets has a counter of the packets that were missed.
    seen = _OF_A_KERNEL if "tap_lost" in counters else frozenset[EventKind]()
    return seen.union(*told)


ORACLES: Final[Mapping[str, Oracle]] = MappingProxyType(
    {
        said["name"]: Oracle(
            **said
            | {"needs": tuple(map(EventKind, said["needs"])), "completeness": tuple(said["completeness"])}
        )
        for said in json.loads(_native.oracles_json())
    }
)
"""Every oracle by its name, in the order of the documentation."""


def chosen(names: Iterable[str] | None) -> list[Oracle]:
    """The oracles with these names, in the order of the registry; all when `None`. Raises `UserError`."""
    if names is None:
        return list(ORACLES.values())
    wanted = set(names)
    if unknown := sorted(wanted - set(ORACLES)):
        raise UserError(f"`{unknown[0]}` is not an oracle; allowed are {', '.join(ORACLES)}")
    return [oracle for name, oracle in ORACLES.items() if name in wanted]


def reads_packets(names: Iterable[str]) -> bool:
    """Whether one of the oracles with these names reads the captured packets of a run."""
    return any(ORACLES[name].packets for name in names if name in ORACLES)


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
        "",
        "A capture (`tcpassay judge FILE`) may lack what an oracle needs besides segments: packets that were missed,",
        "one of the directions, the handshake, the place of an end. Then the oracle does not judge this end of the",
        "connection, and the result lists it with the reason (`unjudged_ends`). Findings name frames of the capture",
        "and times since its first packet.",
    ]
    for one in ORACLES.values():
        needs = ", ".join(f"`{kind}`" for kind in one.needs)
        lines += ["", f"## `{one.name}`: {one.title}", ""]
        parts = {
            "Asserts": one.asserts,
            "Why": one.why,
            "Evidence": one.evidence,
            "Wrong when": one.wrong_when,
        }
        for label, text in parts.items():
            lines += textwrap.wrap(
                f"* **{label}:** {text}", 118, subsequent_indent="  ", break_on_hyphens=False
            )
        said = [f"segments{' and the events ' + needs if needs else ''}", *one.completeness]
        if one.setting in _NEEDS:
            said.append(_NEEDS[one.setting])
        lines += textwrap.wrap(
            f"* **Needs:** {'; '.join(said)}", 118, subsequent_indent="  ", break_on_hyphens=False
        )
    return "\n".join(lines) + "\n"
