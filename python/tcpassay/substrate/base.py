"""The interface of a substrate, and a recording that a substrate wrote itself."""

import hashlib
import json
import re
from pathlib import Path
from typing import Final, Protocol

from tcpassay import _native, seal
from tcpassay.messages import Answer, CaseRequest, Triples

_EVENTS: Final = re.compile(r'"events\.parquet":\{[^{}]*\},|,?"events\.parquet":\{[^{}]*\}')
_PACKETS: Final = re.compile(r'"packets\.pcapng":\{[^{}]*\},|,?"packets\.pcapng":\{[^{}]*\}')
_INTERFACES: Final = re.compile(r'"interfaces":\[[^][]*\]')


def without_events(index: str) -> str:
    """`recording.json` without the event log; only the entry of the event log differs."""
    lean, found = _EVENTS.subn("", index, count=1)
    return seal.seal(seal.unseal(lean)) if found else index


def _without_packets(index: str) -> str:
    """`recording.json` as if no packets had been collected."""
    lean, found = _PACKETS.subn("", index, count=1)
    return seal.seal(seal.unseal(_INTERFACES.sub('"interfaces":[]', lean, count=1))) if found else index


class Folder:
    """A recording in the requested folder with all collected data; interface as `_native.Ran`."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._text = (self._folder / "recording.json").read_text(encoding="utf-8")

    def __len__(self) -> int:
        """Number of rows of the event log."""
        log = json.loads(self._text)["files"].get("events.parquet", {"rows": 0})
        return int(log["rows"])

    def digest(self) -> str:
        """The digest of `recording.json` without the event log; it contains the checksums of all tables."""
        return hashlib.sha256(without_events(self._text).encode()).hexdigest()[:16]

    def drop_packets(self) -> None:
        """Removes the packets, which were collected for an oracle only."""
        lean = _without_packets(self._text)
        if lean != self._text:
            (self._folder / "recording.json").write_text(lean, encoding="utf-8")
            (self._folder / "packets.pcapng").unlink()
            self._text = lean

    def write(self, folder: str, events: bool) -> None:  # noqa: ARG002, FBT001 - as `_native.Ran`
        """Removes the event log unless `events`."""
        lean = without_events(self._text)
        if not events and lean != self._text:
            (self._folder / "recording.json").write_text(lean, encoding="utf-8")
            (self._folder / "events.parquet").unlink()


RunArtifacts = _native.Ran | Folder
"""The artifacts of a run: in memory, or in the requested folder."""


class Substrate(Protocol):
    """The interface of a substrate."""

    real_time: bool
    """Runs take real time: only one run at a time, and runs are not repeatable."""

    def check(self, triples: Triples, base: str) -> dict[str, str]:
        """The settings of a case that differ from the defaults.

        Raises `CaseError` if the substrate does not support them.
        """

    def ready(self) -> None:
        """Raises `UserError` with instructions if the substrate cannot run here."""

    def run(self, request: CaseRequest) -> tuple[Answer, RunArtifacts | None]:
        """Runs a case; the recording exists afterwards if the outcome is `done`.

        The answer has the outcome and a message, for `done` also the trace and the metrics.
        """
