"""Checks of a process that implements the protocol of docs/stacks.md: `tcpassay stack check`."""

import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Final

from tcpassay import _native
from tcpassay.errors import UserError
from tcpassay.messages import Collect, Triples
from tcpassay.pcapng import packets
from tcpassay.stacks import proxy
from tcpassay.stacks.measure.segment import decode
from tcpassay.substrate.model import held
from tcpassay.trust import consent

_PATH: Final[Triples] = {
    "link.rate": "20Mbit",
    "link.delay": "5ms",
    "app.flow_size": "100KB",
    "app.duration": "120s",
}
_COLLECT: Final[Collect] = {
    "series": None,
    "warmup": "0s",
    "deliveries": False,
    "events": True,
    "packets": True,
}
_SCENES: Final[dict[str, Triples]] = {
    "it sends to the model": {"sender/stack.implementation": ""},
    "it receives from the model": {"receiver/stack.implementation": ""},
    "it sends to itself": {"stack.implementation": ""},
    "it sends, and packets are lost": {"sender/stack.implementation": "", "link.loss": "5%"},
    "it receives, and packets are lost": {"receiver/stack.implementation": "", "link.loss": "5%"},
    "it answers requests on new connections": {
        "receiver/stack.implementation": "",
        "app.workload": "rpc",
        "app.reuse": False,
        "app.duration": "2s",
    },
}
_SHOWN: Final = "shown "
"""The begin of the reason of a row about a state that segments contradict."""
_UNANSWERED: Final[Triples] = {
    "sender/stack.implementation": "",
    "link.loss": 1.0,
    "app.duration": "30s",
}


@dataclass(frozen=True, slots=True)
class Checked:
    """One property of a process."""

    what: str
    wrong: str
    """Why it does not have the property; empty if it does."""


class _FailedError(Exception):
    """A run with the process failed."""


def _run(scene: Triples, implementation: str) -> _native.Ran:
    command = consent.command(implementation) or ""
    consent.grant([consent.digest(consent.command_code(command))])
    triples = dict(_PATH) | {path: implementation if value == "" else value for path, value in scene.items()}
    try:
        return held(triples, 1, ".", _COLLECT)
    except _native.StackError as error:
        outcome, reason = error.args
        raise _FailedError(f"outcome `{outcome}`: {reason}") from error


def check(command: str) -> Iterator[Checked]:
    """Checks each property of the process that `command` starts; ends at the first scene that cannot be run.

    Raises `UserError` if there is no such program.
    """
    words = command.split()
    if not words:
        raise UserError("give the command of the process, as in `./my-stack --option`")
    if shutil.which(words[0]) is None:
        raise UserError(f"`{command}`: there is no program `{words[0]}` that can be executed")
    plain = f"exec:{command}"
    for what, scene in _SCENES.items():
        try:
            first = _run(scene, plain)
        except _FailedError as error:
            yield Checked(what, str(error))
            return
        yield Checked(what, _unfinished(first))
        yield Checked(f"{what}: a second run is the same", _differs(first, scene, plain))
        for mode, name in (
            ("slow", "the same with delayed answers and without batches"),
            ("again", "it is quiet when it answers"),
        ):
            between = f"exec:{sys.executable} -m tcpassay.stacks.proxy {mode} {command}"
            yield Checked(f"{what}: {name}", _differs(first, scene, between))
    yield Checked("it asks to be called again while nothing is acknowledged", _silent(plain))


def _unfinished(ran: _native.Ran) -> str:
    damaged = [row for row in _rows(ran) if row["kind"] == "damaged"]
    if damaged:
        times = "once" if len(damaged) == 1 else f"{len(damaged)} times"
        shown = [row for row in damaged if str(row["why"]).startswith(_SHOWN)]
        if shown:
            what = str(shown[0]["why"]).removeprefix(_SHOWN)
            return (
                f"it showed a state that the segments contradict, {times}; first: {what}: {_words(shown[0])}"
            )
        return f"it sent or delivered what nobody wrote, {times}; first: {_words(damaged[0])}"
    return "" if ran.metrics.get("goodput") else "no data were delivered within the time of the scene"


def _rows(ran: _native.Ran) -> list[dict[str, object]]:
    """The event log of a run."""
    rows: list[dict[str, object]] = json.loads(ran.rows(list(range(len(ran)))))
    return rows


def _differs(first: _native.Ran, scene: Triples, implementation: str) -> str:
    try:
        second = _run(scene, implementation)
    except _FailedError as error:
        # What the process between them says is about the stack, and no crash.
        _, found, why = str(error).partition(f"(exit status: {proxy.FOUND})\n")
        return why.strip() if found else str(error)
    if first.capture() == second.capture():
        return ""
    times = [_rows(ran) for ran in (first, second)]
    pairs = zip(*times, strict=False)
    at = next((row for row, (a, b) in enumerate(pairs) if a != b), min(map(len, times)))
    shown = [rows[at] if at < len(rows) else None for rows in times]
    if shown == [None, None]:
        return f"the event logs are the same, but {_packets_differ(first.capture(), second.capture())}"
    return f"row {at} of the event log is {_words(shown[0])} in one run, and {_words(shown[1])} in the other"


def _packets_differ(first: bytes, second: bytes) -> str:
    """The first packet that differs between two captures of the same length, and its fields that do."""
    for number, ((point, a), (_, b)) in enumerate(zip(packets(first), packets(second), strict=False), 1):
        if a != b:
            ours, theirs = asdict(decode(a)), asdict(decode(b))
            fields = ", ".join(
                f"{name} {ours[name]} and {theirs[name]}" for name in ours if ours[name] != theirs[name]
            )
            return f"packet {number} (at {point}) has {fields or 'other bytes'}"
    return "the numbers of packets differ"


def _words(row: dict[str, object] | None) -> str:
    if row is None:
        return "absent"
    return " ".join(f"{name}={value}" for name, value in row.items() if value not in {None, False, ""})


def _silent(implementation: str) -> str:
    try:
        ran = _run(_UNANSWERED, implementation)
    except _FailedError as error:
        return str(error)
    sent = [
        row for row in json.loads(ran.rows(list(range(len(ran))))) if row["kind"] in {"out", "retransmit"}
    ]
    if len(sent) > 1:
        return ""
    return f"it sent {len(sent)} packets in 30 s in which nothing arrived (RFC 9293 section 3.8.1)"
