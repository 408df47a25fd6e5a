"""A control of this machine while a run in real time goes on: it knows nothing of the agent and of its recordings.

A test that needs a machine with time for it may be skipped only if this control saw a disturbance: a thread of the
test that only sleeps woke up late, or other processes took much of the processors.
"""

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

NAP_S: Final = 0.001
LATE_S: Final = 0.005
"""A nap that ends later than this is a disturbance."""
OTHERS: Final = 0.25
"""A larger share of all processors that other processes took is a disturbance."""


def ticks() -> tuple[int, int]:
    """All ticks of all processors, and those of them in which nothing ran (proc(5))."""
    first = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0]
    every = [int(word) for word in first.split()[1:9]]
    return sum(every), every[3] + every[4]


def taken(pids: list[int]) -> int:
    """Ticks that these processes, and children of theirs that have ended, took; of this process the same."""
    total = 0
    for pid in ["self", *pids]:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            total += sum(map(int, fields[11:15]))
    return total


@dataclass
class Control:
    """What the control saw."""

    late_s: float = 0.0
    others: float = 0.0

    @property
    def disturbed(self) -> bool:
        """Whether the machine had no time, as the control saw it."""
        return self.late_s > LATE_S or self.others > OTHERS

    def skip_if_disturbed(self, failed: str) -> None:
        """Skips a test that failed on a disturbed machine; on an undisturbed one it fails."""
        seen = f"a nap was {self.late_s * 1e3:.1f} ms late, others took {self.others:.0%} of the processors"
        assert self.disturbed, f"the machine had time ({seen}), but: {failed}"
        pytest.skip(f"the machine had no time ({seen}): {failed}")


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
