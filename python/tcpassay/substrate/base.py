"""What a substrate is, and a recording that it wrote itself."""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from tcpassay import _native, seal

Triples = Mapping[str, Any]
_EVENTS: Final = re.compile(r'"events\.parquet":\{[^{}]*\},|,?"events\.parquet":\{[^{}]*\}')


def without_events(index: str) -> str:
    """`recording.json` as it is when the event log is not collected; nothing else depends on that."""
    lean, found = _EVENTS.subn("", index, count=1)
    return seal.seal(seal.unseal(lean)) if found else index


class Folder:
    """A recording that was written where the request wanted it, with all that was collected; as `_native.Ran`."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._text = (self._folder / "recording.json").read_text(encoding="utf-8")

    def __len__(self) -> int:
        """Rows of its event log."""
        log = json.loads(self._text)["files"].get("events.parquet", {"rows": 0})
        return int(log["rows"])

    def digest(self) -> str:
        """Of `recording.json` without the event log; it holds the checksums of all tables."""
        return hashlib.sha256(without_events(self._text).encode()).hexdigest()[:16]

    def write(self, folder: str, events: bool) -> None:  # noqa: ARG002, FBT001 - as `_native.Ran`
        """Removes the event log unless `events`."""
        lean = without_events(self._text)
        if not events and lean != self._text:
            (self._folder / "recording.json").write_text(lean, encoding="utf-8")
            (self._folder / "events.parquet").unlink()


Left = _native.Ran | Folder
"""What a run left: in memory, or where the request wanted it."""
Answer = dict[str, Any]


class Substrate(Protocol):
    """Where a case runs."""

    real_time: bool
    """Time is the machine's: one run at a time, and none is like another."""

    def check(self, triples: Triples, base: str) -> dict[str, str]:
        """What the case sets beyond the defaults. Raises `CaseError` for what cannot be done there."""

    def ready(self) -> None:
        """Raises `UserError` when nothing can be run there, with what to do."""

    def run(self, request: dict[str, Any]) -> tuple[Answer, Left | None]:
        """Runs the case of a worker's request; a recording is there when it is done.

        The answer has `outcome` and `message`, `trace` and `metrics` when it is done, and `elsewhere_s`, the CPU
        seconds that other processes than this one took.
        """
