"""Calls the oracles on a capture, each for the ends of connections of which the capture shows what it needs."""

from collections.abc import Iterable
from pathlib import Path

from tcpassay import _native
from tcpassay.captured.analyse import Limits, readable, unreadable
from tcpassay.captured.model import JUDGED, CaptureFinding, JudgedCapture
from tcpassay.errors import Place, UserError
from tcpassay.finding import Finding, Found, Severity
from tcpassay.judge.folders import Judged, UnjudgedEnd
from tcpassay.judge.registry import ORACLES, chosen
from tcpassay.judge.words import repeated

MOST_REASONS = 3
"""So many reasons are given for an oracle that judges no end."""


def judge_capture(
    file: Path,
    *,
    oracles: Iterable[str] | None = None,
    point: str | None = None,
    merge: bool = False,
    limits: Limits | None = None,
) -> Judged:
    """Judges a capture. Raises `UserError` for a file that is not a capture, or without a TCP connection."""
    wanted = chosen(oracles)
    limits = limits or Limits()
    try:
        text = _native.capture_judged(
            readable(file),
            point,
            merge,
            [oracle.name for oracle in wanted],
            (limits.connections, limits.expanded, limits.packets),
        )
    except (OSError, ValueError) as error:
        raise unreadable(file, error) from None
    made = JUDGED.validate_json(text)
    said = _unlogged(made, limits)
    if made.stalled and not made.findings:
        said.append(f"connections stalled: `tcpassay rtt {file} --summary` says what they waited for")
    if made.connections == 0:
        why = "".join(f": {one}" for one in said)
        raise UserError(f"the capture has no TCP connection to judge{why}", Place(file))
    ends = [UnjudgedEnd(flow, one.why, one.oracles) for one in made.unjudged for flow in one.flows]
    unable = {oracle.name: why for oracle in wanted if (why := oracle.lacks_setting("capture"))}
    return Judged(
        [_finding(one) for one in made.findings],
        1,
        0,
        [],
        unable | _nowhere(ends, 2 * made.connections),
        [*made.notes, *said],
        ends,
    )


def _unlogged(made: JudgedCapture, limits: Limits) -> list[str]:
    """What was not judged because of its number."""
    said = []
    if count := made.unlogged:
        connections = "1 connection" if count == 1 else f"{count} connections"
        said.append(f"{connections} not judged: of one packet, or no longer in memory (`--max-connections`)")
    if made.cut:
        said.append(
            f"only the first {limits.packets} packets are judged, which are in memory: `--max-packets` raises it"
        )
    return said


def _nowhere(ends: list[UnjudgedEnd], number: int) -> dict[str, str]:
    """The oracles that judge none of the ends, with the first reasons."""
    reasons: dict[str, list[str]] = {}
    for end in ends:
        for oracle in end.oracles:
            reasons.setdefault(oracle, []).append(end.why)
    nowhere = (oracle for oracle in ORACLES if len(reasons.get(oracle, ())) == number)
    return {oracle: "; or ".join([*dict.fromkeys(reasons[oracle])][:MOST_REASONS]) for oracle in nowhere}


def _finding(one: CaptureFinding) -> Finding:
    title = ORACLES[one.oracle].title
    title = f"{title}: {one.title}" if one.title else title
    first = Found(0, 0, one.start_ns, one.end_ns, Severity(one.severity), title, one.text, ())
    found = repeated(first, one.count, one.last_ns, one.end_ns)
    return Finding(
        one.oracle,
        found.severity,
        found.title,
        one.host,
        one.flow,
        found.start_ns,
        found.end_ns,
        found.count,
        found.text,
        (),
        tuple(one.frames),
    )
