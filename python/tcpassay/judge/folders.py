"""Judging all the recordings of a result folder, or one recording."""

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from tcpassay.errors import Place, UserError
from tcpassay.finding import Finding
from tcpassay.judge.registry import chosen
from tcpassay.judge.session import can_judge, judge_recording, unjudged
from tcpassay.judge.store import NAME as FINDINGS
from tcpassay.judge.store import read_findings, write_findings
from tcpassay.recording import DamagedError, Recording, understood
from tcpassay.results import Results, load
from tcpassay.run.folder import own


@dataclass(frozen=True, slots=True)
class UnjudgedEnd:
    """Oracles that do not judge one end of a connection of a capture, and why."""

    flow: str
    """The flow that the end sends."""
    why: str
    oracles: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        """For machines."""
        return {"flow": self.flow, "why": self.why, "oracles": self.oracles}


@dataclass(frozen=True, slots=True)
class Judged:
    """The result of judging a folder."""

    findings: list[Finding]
    judged: int
    """Number of recordings that the oracles evaluated."""
    silent: int
    """Number of recordings without an event log, which cannot be judged."""
    problems: list[str]
    """Files that could not be used."""
    unjudged: dict[str, str] = field(default_factory=dict)
    """Oracles that could not judge some of the recordings, and why."""
    notes: list[str] = field(default_factory=list)
    """Why the findings were not written; of a capture the notes of its analysis."""
    ends: list[UnjudgedEnd] = field(default_factory=list)
    """Of a capture: what was not judged of each end, because the capture does not show what an oracle needs."""

    def as_json(self) -> dict[str, object]:
        """For machines."""
        return {
            "judged": self.judged,
            "without_events": self.silent,
            "problems": self.problems,
            "unjudged": self.unjudged,
            "notes": self.notes,
            "unjudged_ends": [end.as_json() for end in self.ends],
            "findings": [one.as_json() for one in self.findings],
        }


def judge_folder(
    folder: Path, *, oracles: Iterable[str] | None = None, watch: Callable[[str], None] = lambda _: None
) -> Judged:
    """Judge a recording, or every recording of a result folder, in which `findings.json` is then replaced.

    `watch` is told how far the work is.

    Raises `UserError` for a folder that is neither, or for an unknown oracle. If the file cannot be written, a note of
    the result gives the reason.
    """
    names = [oracle.name for oracle in chosen(oracles)]
    if (folder / "recording.json").exists():
        recording = Recording.open(folder)
        if not can_judge(recording):
            message = (
                "the recording has no event log for the oracles to read; run with `[collect] events = true`"
            )
            raise UserError(message, Place(folder))
        with understood(folder / "recording.json"):
            return Judged(judge_recording(recording, oracles=names), 1, 0, [], unjudged(recording, names))
    results = load(folder)
    try:
        owner = own(folder)
    except UserError as error:
        return replace(_judge_all(results, names, watch), notes=[f"{FINDINGS} is not written: {error}"])
    try:
        judged = _judge_all(results, names, watch)
        note = _write(folder, judged)
    finally:
        owner.release()
    return replace(judged, notes=[note]) if note else judged


def _write(folder: Path, judged: Judged) -> str:
    """Writes the findings. If they cannot be written, the reason becomes a note."""
    if judged.problems and (folder / FINDINGS).exists():
        with contextlib.suppress(DamagedError):
            read_findings(folder)
            return f"{FINDINGS} is left as it was, because not all recordings can be judged"
    try:
        write_findings(folder, judged.findings)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        return f"{FINDINGS} is not written: {folder}: {reason}"
    return ""


def _judge_all(results: Results, names: list[str], watch: Callable[[str], None]) -> Judged:
    findings: list[Finding] = []
    problems = [str(problem) for problem in results.noted]
    unable: dict[str, str] = {}
    looked, silent = 0, 0
    kept = [run for run in results.runs if run.get("recording") is not None]
    for place, run in enumerate(kept, 1):
        watch(f"recording {place:,} of {len(kept):,}")
        case, seed = str(run["case"]), int(run["seed"])
        try:
            folder = results.place_of(run)
            recording = Recording.open(folder)
            if can_judge(recording):
                with understood(folder / "recording.json"):
                    found = judge_recording(recording, oracles=names)
                    unable |= unjudged(recording, names)
                findings += [one.of(case, seed) for one in found]
                looked += 1
            else:
                silent += 1
        except DamagedError as error:
            problems.append(str(error))
    problems += [str(problem) for problem in results.noted if str(problem) not in problems]
    return Judged(findings, looked, silent, problems, unable)
