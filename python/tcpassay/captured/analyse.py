"""Analysis of a capture: its rounds in the order of their ends, and the summary."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tcpassay import _native, regular
from tcpassay.captured.model import SIFTR, SUMMARY, SiftrLog, Summary
from tcpassay.errors import Place, UserError


@dataclass(frozen=True, slots=True)
class Wanted:
    """The analysed part of a capture."""

    flow: int | None = None
    """Only the rounds of this flow."""
    point: str | None = None
    """Only packets of the interface with this name."""
    merge: bool = False
    """All interfaces are one capture point."""


class Analysis:
    """The analysis of a capture; its memory does not depend on the size of the file. Raises `UserError`."""

    def __init__(self, file: Path, wanted: Wanted) -> None:
        self._file, self._wanted = file, wanted
        try:
            self._native = _native.CaptureAnalysis(readable(file), wanted.point, wanted.merge)
        except (OSError, ValueError) as error:
            raise unreadable(file, error) from None

    def rounds(self, *, json: bool) -> Iterator[bytes]:
        """The rounds as text in parts, one line per round. Exhausting the iterator reads the whole capture."""
        while (part := self._native.rounds(self._wanted.flow, json)) is not None:
            if part:
                yield part

    def summary(self) -> Summary:
        """The summary of the wanted flows in the part of the capture that was read.

        Raises `UserError` for a flow or a capture point that does not exist.
        """
        made = SUMMARY.validate_json(self._native.summary())
        point, flow = self._wanted.point, self._wanted.flow
        if point is not None and point not in made.interfaces:
            there = ", ".join(name for name in made.interfaces if name) or "none has a name"
            raise UserError(
                f"`--point {point}`: the capture has no such point; there are: {there}", Place(self._file)
            )
        if flow is not None and not any(one.flow == flow for one in made.flows):
            there = f"flows 1 to {len(made.flows)} carry data" if made.flows else "no flow carries data"
            raise UserError(f"`--flow {flow}`: the capture has no such flow; {there}", Place(self._file))
        return replace(made, flows=[one for one in made.flows if flow in {None, one.flow}])


def siftr_log(file: Path) -> SiftrLog | None:
    """A log of FreeBSD's siftr; `None` for another file. Raises `UserError`."""
    try:
        text = _native.siftr_summary(readable(file))
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
