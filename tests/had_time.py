"""Runs in real time, and whether the machine had time for them.

What always holds is asserted of every run. What holds only where the machine has time (a rate is reached, a queue stays
short) is asserted of a run during which the agent was never late for long, as its recording says; where none of some
attempts is such a run, the test is skipped and says how late they were.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

ATTEMPTS: Final = 4
LATE_S: Final = 0.005

Answer = dict[str, Any]


def recording(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / "recording.json").read_text(encoding="utf-8"))
    return read


def rows(folder: Path) -> dict[tuple[str, str], Any]:
    return {(row["entity"], row["property"]): row["measured"] for row in recording(folder)["environment"]}


def when_quiet(
    tmp_path: Path,
    go: Callable[[Path], Answer],
    always: Callable[[Path, Answer], None] = lambda _folder, _answer: None,
) -> tuple[Path, Answer]:
    """The folder and the answer of the first run that had time; `always` is asked about each that ran."""
    late = []
    for attempt in range(ATTEMPTS):
        folder = tmp_path / f"attempt-{attempt}"
        answer = go(folder)
        # A machine that is busy enough cannot send as fast as the case wants, and the run says so.
        assert answer["outcome"] in {"done", "path"}, answer["message"]
        if answer["outcome"] == "path":
            late.append(answer["message"])
            continue
        always(folder, answer)
        seconds = rows(folder)["machine", "late"]
        if seconds <= LATE_S:
            return folder, answer
        late.append(f"the agent was {seconds * 1e3:.1f} ms late")
    pytest.skip(f"this machine had no time in {ATTEMPTS} attempts: {'; '.join(late)}")
