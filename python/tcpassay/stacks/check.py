"""Checks of a process that implements the protocol of docs/stacks.md: `tcpassay stack check`."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tcpassay import _native
from tcpassay.messages import Collect, Triples
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
    """Checks each property of the process that `command` starts; ends at the first scene that cannot be run."""
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
            ("slow", "the same with delayed answers"),
            ("again", "it is quiet when it answers"),
        ):
            proxy = f"exec:{sys.executable} -m tcpassay.stacks.proxy {mode} {command}"
            yield Checked(f"{what}: {name}", _differs(first, scene, proxy))
    yield Checked("it asks to be called again while nothing is acknowledged", _silent(plain))


def _unfinished(ran: _native.Ran) -> str:
    return "" if ran.metrics.get("goodput") else "no data were delivered within the time of the scene"


def _differs(first: _native.Ran, scene: Triples, implementation: str) -> str:
    try:
        second = _run(scene, implementation)
    except _FailedError as error:
        return str(error)
    if first.capture() == second.capture():
        return ""
    times = [json.loads(ran.rows(list(range(len(ran))))) for ran in (first, second)]
    pairs = zip(*times, strict=False)
    at = next((row for row, (a, b) in enumerate(pairs) if a != b), min(map(len, times)))
    shown = [rows[at] if at < len(rows) else None for rows in times]
    return f"row {at} of the event log is {_words(shown[0])} in one run, and {_words(shown[1])} in the other"


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
