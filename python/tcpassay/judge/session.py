"""One recording, judged by some oracles."""

import json
from collections.abc import Iterable
from pathlib import Path

from tcpassay.finding import Finding, Found, Row, Severity
from tcpassay.judge.frames import frames
from tcpassay.judge.log import Log, LogFile, MemoryLog
from tcpassay.judge.registry import Oracle, chosen
from tcpassay.judge.words import repeated
from tcpassay.recording import Recording


def can_judge(recording: Recording) -> bool:
    """Whether the recording has an event log."""
    return recording.has("events")


def judge(folder: Path, *, oracles: Iterable[str] | None = None, replay: str = "") -> list[Finding]:
    """The findings of all oracles, or of the given ones, in the recording in `folder`.

    `replay` is the command that repeats the run; by default that of the recording. Raises
    `DamagedError` when the recording cannot be read, and `UserError` for an unknown oracle.
    """
    return judge_recording(Recording.open(folder), oracles=oracles, replay=replay)


def unjudged(recording: Recording, oracles: Iterable[str] | None = None) -> dict[str, str]:
    """The oracles that cannot judge a recording, with the reason."""
    return {oracle.name: lack for oracle in chosen(oracles) if (lack := oracle.lacks(recording))}


def judge_recording(
    recording: Recording, *, oracles: Iterable[str] | None = None, replay: str = "", log: Log | None = None
) -> list[Finding]:
    """`judge` for an open recording; `log` is its event log if it is not in the folder."""
    # The log of the model in memory has all events: the recording is not read before something is found.
    held = isinstance(log, MemoryLog) and not log.partly_judged
    wanted = [oracle for oracle in chosen(oracles) if held or not oracle.lacks(recording)]
    if log is None:
        if not can_judge(recording):
            return []
        log = LogFile(recording)
    found = _found(log, wanted)
    if not found:
        return []
    rows = _rows(recording, log, sorted({row for _, one in found for row in one.rows}))
    packets = frames(recording, log, rows)
    replay = replay or recording.header.get("replay") or ""
    return [
        Finding(
            oracle.name,
            one.severity,
            one.title,
            recording.hosts[one.host],
            str(recording.flows[one.flow]["name"]),
            one.start_ns,
            one.end_ns,
            one.count,
            one.text,
            tuple(rows[row] for row in sorted(set(one.rows))),
            tuple(sorted({packets[row] for row in one.rows if row in packets})),
            replay,
        )
        for oracle, one in found
    ]


def _found(log: Log, oracles: list[Oracle]) -> list[tuple[Oracle, Found]]:
    """What the oracles find in a log."""
    by_name = {oracle.name: oracle for oracle in oracles}
    made = []
    for one in json.loads(log.found(list(by_name)) if by_name else "[]"):
        oracle = by_name[one["oracle"]]
        found = Found(
            one["flow"],
            one["host"],
            one["start_ns"],
            one["end_ns"],
            Severity(one["severity"]),
            f"{oracle.title}: {one['title']}" if one["title"] else oracle.title,
            one["text"],
            tuple(one["rows"]),
        )
        made.append((oracle, repeated(found, one["count"], one["last_ns"], one["end_ns"])))
    return made


def _rows(recording: Recording, log: Log, wanted: list[int]) -> dict[int, Row]:
    """Rows of the event log in full."""
    made = {}
    for index, row in zip(wanted, log.rows(wanted), strict=True):
        host = recording.hosts[row.host]
        flow = "" if row.flow is None else str(recording.flows[row.flow]["name"])
        made[index] = Row(index, row.time_ns, host, flow, row.kind, row.why, row.values)
    return made
