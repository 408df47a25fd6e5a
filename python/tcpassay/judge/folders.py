"""Judging all the recordings of a result folder, or one recording."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tcpassay.errors import Place, UserError
from tcpassay.judge.finding import Finding
from tcpassay.judge.registry import chosen
from tcpassay.judge.session import can_judge, judge_recording, unjudged
from tcpassay.judge.store import write_findings
from tcpassay.recording import DamagedError, Recording
from tcpassay.results import Results, load


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of judging a folder."""

    findings: list[Finding]
    judged: int
    """Recordings that the oracles looked at."""
    silent: int
    """Recordings without an event log: nothing is known about them."""
    problems: list[str]
    """Files that could not be used."""
    unjudged: dict[str, str] = field(default_factory=dict)
    """Oracles that could not judge some of the recordings, and why."""

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "judged": self.judged,
            "without_events": self.silent,
            "problems": self.problems,
            "unjudged": self.unjudged,
            "findings": [one.as_json() for one in self.findings],
        }


Replay = Callable[[str, int], str]


def judge_folder(
    folder: Path, *, oracles: Iterable[str] | None = None, replay: Replay | None = None
) -> Judged:
    """Judge a recording, or every recording of a result folder, in which `findings.json` is then written anew.

    `replay` gives the command that repeats a run, from its case and seed. Raises `UserError` for a folder that is
    neither, or for an unknown oracle.
    """
    names = [oracle.name for oracle in chosen(oracles)]
    if (folder / "recording.json").exists():
        recording = Recording.open(folder)
        if not can_judge(recording):
            message = (
                "the recording has no event log for the oracles to read; run with `[collect] events = true`"
            )
            raise UserError(message, Place(folder))
        return Judged(judge_recording(recording, oracles=names), 1, 0, [], unjudged(recording, names))
    results = load(folder)
    judged = _judge_all(results, names, replay)
    write_findings(folder, judged.findings)
    return judged


def _judge_all(results: Results, names: list[str], replay: Replay | None) -> Judged:
    findings: list[Finding] = []
    problems: list[str] = []
    unable: dict[str, str] = {}
    looked, silent = 0, 0
    for run in results.runs:
        if run.get("recording") is None:
            continue
        case, seed = str(run["case"]), int(run["seed"])
        command = replay(case, seed) if replay else ""
        try:
            recording = Recording.open(results.folder / run["recording"])
            if can_judge(recording):
                found = judge_recording(recording, oracles=names, replay=command)
                findings += [one.of(case, seed) for one in found]
                unable |= unjudged(recording, names)
                looked += 1
            else:
                silent += 1
        except DamagedError as error:
            problems.append(str(error))
    return Judged(findings, looked, silent, problems, unable)
