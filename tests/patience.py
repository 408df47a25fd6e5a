"""Waiting for events, independently of the speed of the machine."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

SAFETY_NET_S: Final = 600.0
"""Seconds after which a test is considered to hang."""

T = TypeVar("T")


def until(condition: Callable[[], T], what: str) -> T:
    """The first answer of `condition` that counts as true."""
    now = time.monotonic()
    ends = now + SAFETY_NET_S
    while not (answer := condition()):
        took = time.monotonic() - now
        assert now + took < ends, f"ten minutes were not enough for this: {what}"
        # What it waits for needs the processor more than the question, which may be expensive (all processes).
        time.sleep(max(0.005, 4 * took))
        now = time.monotonic()
    return answer


def parent(pid: int | str) -> int | None:
    """The parent of a process that lives; nothing of one that has ended, also when nobody has waited for it yet."""
    with contextlib.suppress(OSError):
        state, before, *_ = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return None if state in "ZX" else int(before)
    return None


def children(pid: int) -> list[int]:
    """The living processes that this one has started."""
    every = (int(path.name) for path in Path("/proc").glob("[0-9]*"))
    return [one for one in every if parent(one) == pid]
