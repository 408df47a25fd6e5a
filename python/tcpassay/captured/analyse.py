"""Analysis of a capture: its rounds in the order of their ends, and the summary."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tcpassay import _native, regular
from tcpassay.captured.model import FLOWS, SIFTR, SUMMARY, FlowSummary, SiftrLog, Summary
from tcpassay.errors import Place, UserError

PART = 1000
"""Number of flows that are described at once."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a capture may take of memory and time."""

    connections: int = 100_000
    """Connections whose state is in memory, about 4 KB each."""
    expanded: int = 4 * 10**9
    """Bytes to which a compressed file may expand, if they are more than fifty times its size."""
    packets: int = 4_000_000
    """Packets in the event log for the oracles, about 400 B each."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The analysed part of a capture."""

    flow: int | None = None
    """Only the rounds of this flow."""
    point: str | None = None
    """Only packets of the interface with this name."""
    merge: bool = False
    """All interfaces are one capture point."""
    limits: Limits = Limits()


class Analysis:
    """The analysis of a capture; its memory does not depend on the size of the file. Raises `UserError`."""

    def __init__(self, file: Path, wanted: Wanted) -> None:
        self._file, self._wanted = file, wanted
        try:
            self._native = _native.CaptureAnalysis(
                readable(file), wanted.point, wanted.merge, wanted.limits.connections, wanted.limits.expanded
            )
        except (OSError, ValueError) as error:
            raise unreadable(file, error) from None

    def rounds(self, *, json: bool) -> Iterator[bytes]:
        """The rounds as text in parts, one line per round. Exhausting the iterator reads the whole capture."""
        while (part := self._native.rounds(self._wanted.flow, json)) is not None:
            if part:
                yield part

    def summary(self, most: int | None = None) -> Summary:
        """The summary of the wanted flows in the part of the capture that was read; of at most `most` flows.

        Raises `UserError` for a flow or a capture point that does not exist.
        """
        made = self.without_flows()
        flows = [one for part in self.flows(made, most) for one in part]
        return replace(made, flows=flows)

    def without_flows(self) -> Summary:
        """The summary without flows. Raises `UserError` as `summary`."""
        made = SUMMARY.validate_json(self._native.summary())
        point, flow, count = self._wanted.point, self._wanted.flow, made.flows_with_data
        if point is not None and point not in made.interfaces:
            there = ", ".join(name for name in made.interfaces if name) or "none has a name"
            raise UserError(
                f"`--point {point}`: the capture has no such point; there are: {there}", Place(self._file)
            )
        if flow is not None and flow > count:
            there = f"flows 1 to {count} carry data" if count else "no flow carries data"
            raise UserError(f"`--flow {flow}`: the capture has no such flow; {there}", Place(self._file))
        return made if flow is None else replace(made, unopened_connections=0, unopened=[])

    def flows(self, summary: Summary, most: int | None = None) -> Iterator[list[FlowSummary]]:
        """The wanted flows of `summary` in parts; at most `most`."""
        if self._wanted.flow is not None:
            yield FLOWS.validate_json(self._native.flows(self._wanted.flow - 1, 1))
            return
        count = summary.flows_with_data if most is None else min(most, summary.flows_with_data)
        for after in range(0, count, PART):
            yield FLOWS.validate_json(self._native.flows(after, min(PART, count - after)))


def siftr_log(file: Path, limits: Limits) -> SiftrLog | None:
    """A log of FreeBSD's siftr; `None` for another file. Raises `UserError`."""
    try:
        text = _native.siftr_summary(readable(file), limits.connections, limits.expanded)
    except OSError as error:
        raise unreadable(file, error) from None
    return None if text is None else SIFTR.validate_json(text)


def readable(file: Path) -> str:
    """The name of a regular file, which is read more than once. Raises `UserError`."""
    try:
        regular.check(file.stat().st_mode)
        with file.open("rb"):
            pass
    except OSError as error:
        raise unreadable(file, error) from None
    return str(file)


def unreadable(file: Path, error: OSError | ValueError) -> UserError:
    """The message for a file that cannot be read as a capture."""
    reason = (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)
    return UserError(f"it cannot be analysed: {reason}", Place(file))
