"""Runs in real time, and an independent observation of the machine while they run.

What holds on every machine is asserted of every run. What holds only on a machine with time for the run (a rate is
reached, a queue stays short) is asserted too; a failure counts unless a control saw a disturbance. The control knows
nothing of the agent and of its recordings: a thread that only sleeps measures how late it wakes, and the CPU time of
other processes is measured. No test may be skipped because of what the tested program reports about itself.
"""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

ATTEMPTS: Final = 4
NAP_S: Final = 0.001
LATE_S: Final = 0.005
"""A sleep that ends later than this, in seconds, is a disturbance."""
OTHERS: Final = 0.25
"""A larger share of the CPU time used by other processes is a disturbance."""

Answer = dict[str, Any]
T = TypeVar("T")


def recording(folder: Path) -> dict[str, Any]:
    """The index of a recording."""
    read: dict[str, Any] = json.loads((folder / "recording.json").read_text(encoding="utf-8"))
    return read


def rows(folder: Path) -> dict[tuple[str, str], Any]:
    """The measured properties of the environment of a run, by entity and property."""
    return {(row["entity"], row["property"]): row["measured"] for row in recording(folder)["environment"]}


def ticks() -> tuple[int, int]:
    """All ticks of all processors, and the idle ones among them (proc(5))."""
    first = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0]
    every = [int(word) for word in first.split()[1:9]]
    return sum(every), every[3] + every[4]


def taken(pids: list[int]) -> int:
    """Ticks that this process, the processes `pids` and those children of them that have ended took."""
    total = 0
    for pid in ["self", *pids]:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            total += sum(map(int, fields[11:15]))
    return total


@dataclass
class Control:
    """The observation: the longest delay of a sleep in seconds, and the share of CPU time used by other processes."""

    late_s: float = 0.0
    others: float = 0.0

    @property
    def disturbed(self) -> bool:
        """Whether something outside of the test disturbed it."""
        return self.late_s > LATE_S or self.others > OTHERS

    def __str__(self) -> str:
        return f"a nap was {self.late_s * 1e3:.1f} ms late, others took {self.others:.0%} of the processors"

    def skip_if_disturbed(self, failed: str) -> None:
        """Skips a test that failed on a disturbed machine; on an undisturbed one it fails."""
        assert self.disturbed, f"the machine had time ({self}), but: {failed}"
        pytest.skip(f"the machine had no time ({self}): {failed}")


@contextlib.contextmanager
def control(ours: list[int]) -> Iterator[Control]:
    """Watches the machine; `ours` are running processes of the test, whose work is no disturbance."""
    seen = Control()
    ended = threading.Event()

    def nap() -> None:
        while not ended.is_set():
            before = time.monotonic()
            time.sleep(NAP_S)
            seen.late_s = max(seen.late_s, time.monotonic() - before - NAP_S)

    thread = threading.Thread(target=nap)
    all_before, idle_before = ticks()
    own_before = taken(ours)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()
        all_after, idle_after = ticks()
        every = max(1, all_after - all_before)
        seen.others = max(0.0, (every - (idle_after - idle_before) - (taken(ours) - own_before)) / every)


def passes(run: Callable[[int], T], expect: Callable[[T], None]) -> T:
    """Calls `run` with the number of the attempt, and then `expect` with its result, until `expect` holds.

    What `run` raises always fails the test. An assertion of `expect` that fails is repeated only if the control saw a
    disturbance during the run. After `ATTEMPTS` disturbed runs the test is skipped.
    """
    failures = []
    for attempt in range(ATTEMPTS):
        with control([]) as seen:
            made = run(attempt)
        try:
            expect(made)
        except AssertionError as error:
            if not seen.disturbed:
                raise
            failures.append(f"{str(error).splitlines()[0] if str(error) else 'an assertion'} ({seen})")
        else:
            return made
    pytest.skip(f"the machine had no time in {ATTEMPTS} attempts: {'; '.join(failures)}")


def run_passes(
    tmp_path: Path,
    go: Callable[[Path], Answer],
    expect: Callable[[Path, Answer], None],
    always: Callable[[Path, Answer], None] = lambda _folder, _answer: None,
) -> tuple[Path, Answer]:
    """Runs a case until `expect` holds of its folder and answer, as `passes` does; returns both.

    `always` must hold of every run that left a recording, on any machine.
    """

    def run(attempt: int) -> tuple[Path, Answer]:
        folder = tmp_path / f"attempt-{attempt}"
        answer = go(folder)
        # The outcome `path`: the probes of the path did not reach the rate of the case.
        assert answer["outcome"] in {"done", "path"}, answer["message"]
        if answer["outcome"] == "done":
            always(folder, answer)
        return folder, answer

    def holds(made: tuple[Path, Answer]) -> None:
        assert made[1]["outcome"] == "done", made[1]["message"]
        expect(*made)

    return passes(run, holds)
