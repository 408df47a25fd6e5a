"""Replaces the expectations of a script by the behaviour of the stack that runs it; injected packets do not change.

A connection in a script is shorter than in the run, so that its receive buffer and its number of quick ACKs differ.
Where the stack therefore behaves differently than in the run, the script expects its behaviour in the script.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

from tcpassay.explain.packetdrill import TOLERANCE_US
from tcpassay.script.report import Report

_ROUNDS: Final = 300
"""Largest number of corrections."""
_LIVE: Final = re.compile(r"live:\s+(?P<time>\d+\.\d+)\s+(?P<packet>.+)$")
_CALL: Final = re.compile(r"(?:read|write): expected -?\d+, got (\d+)")
_ARRIVES: Final = re.compile(r" < (?:\[\w+\] )?[A-Z.]+ \d+:(?P<stop>\d+)\(\d+\)")
_LEAVES: Final = re.compile(r" > (?:\[\w+\] )?[A-Z.]+ \d+:(?P<stop>\d+)\(\d+\)")
_TIMED: Final = re.compile(r"(?P<time>\d+\.\d+) ")


def adapted(text: str, run: Callable[[str], Report], rounds: int = _ROUNDS) -> str | None:
    """The corrected script, which passes with `run`; `None` if it fails after `rounds` corrections."""
    for _ in range(rounds):
        report = run(text)
        if report["status"] == "pass":
            return text
        if report["status"] not in {"fail", "time"} or report["line"] is None:
            return None
        changed = _corrected(text.split("\n"), report["line"] - 1, report)
        if changed is None or changed == text:
            return None
        text = changed
    return None


def _corrected(lines: list[str], place: int, report: Report) -> str | None:
    line = lines[place]
    if call := _CALL.search(report["reason"]):
        if call[1] == "0":
            return None
        numbers = re.sub(r"\b\d+\) = \d+$", f"{call[1]}) = {call[1]}", line)
        return "\n".join([*lines[:place], numbers, *lines[place + 1 :]])
    if " > " not in line:
        return None
    without = "\n".join([*lines[:place], *lines[place + 1 :]])
    live = next((found for one in report["details"] if (found := _LIVE.search(one))), None)
    if live is None:
        return without if "sent nothing" in report["reason"] else None
    return _as_sent(lines, place, live, without)


def _as_sent(lines: list[str], place: int, live: re.Match[str], without: str) -> str:
    """The script with the packet that the stack sent; `without` is the script without the expectation at `place`."""
    line = lines[place]
    packet = re.sub(r" win \d+", "", live["packet"].strip())
    said = f"{live['time'][:-3]} > {packet}"
    expected = line.split(" > ", 1)[1]
    meant = _TIMED.match(line)
    near = meant is not None and abs(float(meant["time"]) - float(live["time"])) * 1e6 <= TOLERANCE_US
    if near and _numbers(packet) == _numbers(expected):
        return "\n".join([*lines[:place], said, *lines[place + 1 :]])
    if meant is not None and _waited(lines[place + 1 :], float(meant["time"]), float(live["time"])):
        # The stack did not send it then: it sent something because the script waited for it.
        return without
    before = place
    while (
        before > 0
        and (timed := _TIMED.match(lines[before - 1]))
        and float(timed["time"]) > float(live["time"])
    ):
        before -= 1
    return "\n".join([*lines[:before], said, *lines[before:]])


def _waited(rest: Sequence[str], meant: float, live: float) -> bool:
    """Whether the packet was sent so late that the next line of the script precedes it."""
    following = next((found for one in rest if (found := _TIMED.match(one))), None)
    late = (live - meant) * 1e6 > TOLERANCE_US
    return late and following is not None and float(following["time"]) < live


def _numbers(packet: str) -> list[str]:
    """Sequence numbers, length and acknowledgement of a packet."""
    return re.findall(r"\d+:\d+\(\d+\)(?: ack \d+)?", packet)


def cut(text: str, line: int, silence_us: int) -> str | None:
    """The script up to the last injected packet before a line (from 1), then silence and a segment that elicits an ACK.

    That segment is an old one without data, which every TCP answers at once (RFC 9293 section 3.10.7.4). Linux accepts
    segments that are newer than its last ACK; therefore the sequence number is the lowest one. A stack that sends
    something during the silence fails at this line. `None` if nothing arrives before the line.
    """
    lines = text.split("\n")
    places = [
        place for place, one in enumerate(lines[: line - 1]) if _ARRIVES.search(one) and _TIMED.match(one)
    ]
    if not places:
        return None
    kept = lines[: places[-1]]
    timed = [float(found["time"]) for one in kept if (found := _TIMED.match(one))]
    theirs = max((int(found["stop"]) for one in kept if (found := _ARRIVES.search(one))), default=1)
    ours = max((int(found["stop"]) for one in kept if (found := _LEAVES.search(one))), default=1)
    asked = [
        f"// Nothing is sent for {silence_us / 1e6:g} s. Then an old segment elicits an ACK with the state of the end.",
        f"{max(timed) + silence_us / 1e6:.6f} < . 1:1(0) ack {ours} win 64",
        f"+0 > . {ours}:{ours}(0) ack {theirs}",
    ]
    return "\n".join([*kept, *asked, ""])
