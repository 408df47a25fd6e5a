"""The event log as oracles read it: columns of numbers, and a few rows in full.

From a file, or from the memory in which the run was made: writing a long log and reading it back costs several times
what the run does.
"""

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from tcpassay import _native
from tcpassay.recording import KINDS, DamagedError, Recording

if TYPE_CHECKING:
    import polars as pl

    from tcpassay._native import Ran

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint8]

NUMBERS: Final = ["time_ns", "flow", "seq", "ack", "len", "flags", "value_ns", "cwnd_bytes"]
_CAPTURE: Final = "packets.pcapng"


class Log(Protocol):
    """An event log, in the order of its rows."""

    @property
    def kinds(self) -> Codes:
        """Of each row: the place of its kind in `KINDS`."""

    def numbers(self, name: str) -> Ints:
        """A column, one of `NUMBERS`; -1 where there is none."""

    def whys(self, rows: Ints) -> list[str]:
        """The reasons of some rows."""

    def rows(self, rows: list[int]) -> list[dict[str, Any]]:
        """Some rows in full, by the names of their columns; None where there is nothing."""

    def found(self, oracles: list[str]) -> str:
        """What the oracles of the data plane that are named find, a JSON list."""

    def capture(self) -> bytes:
        """`packets.pcapng`; empty when no packets were captured."""


class Filed:
    """The log in the folder of a recording."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._frame: pl.DataFrame = recording.table("events", [*NUMBERS, "kind", "why"])

    @cached_property
    def kinds(self) -> Codes:
        """See `Log`."""
        import polars as pl  # noqa: PLC0415 - start-up time

        codes = self._frame["kind"].cast(pl.Enum(KINDS), strict=False).to_physical()
        made: Codes = codes.fill_null(255).to_numpy()
        return made

    def numbers(self, name: str) -> Ints:
        """See `Log`."""
        made: Ints = self._frame[name].fill_null(-1).to_numpy()
        return made

    def whys(self, rows: Ints) -> list[str]:
        """See `Log`."""
        return [str(why) for why in self._frame["why"].gather(rows)]

    def rows(self, rows: list[int]) -> list[dict[str, Any]]:
        """See `Log`."""
        import polars as pl  # noqa: PLC0415 - start-up time

        raw = self._recording.content("events.parquet")
        lazy = pl.scan_parquet(raw).with_row_index("index")
        return lazy.filter(pl.col("index").is_in(rows)).drop("index").collect().to_dicts()

    def found(self, oracles: list[str]) -> str:
        """See `Log`."""
        try:
            return _native.judge_folder(str(self._recording.folder), oracles)
        except ValueError as error:
            raise DamagedError(self._recording.folder, str(error)) from error

    def capture(self) -> bytes:
        """See `Log`."""
        return self._recording.content(_CAPTURE) if _CAPTURE in self._recording.index["files"] else b""


class Held:
    """The log of a run whose recording is in memory."""

    def __init__(self, ran: "Ran") -> None:
        self._ran = ran
        self._columns = ran.numbers()

    @property
    def kinds(self) -> Codes:
        """See `Log`."""
        return np.frombuffer(self._columns["kind"], np.uint8)

    def numbers(self, name: str) -> Ints:
        """See `Log`."""
        return np.frombuffer(self._columns[name], "<i8")

    def whys(self, rows: Ints) -> list[str]:
        """See `Log`."""
        return self._ran.whys(rows.tolist())

    def rows(self, rows: list[int]) -> list[dict[str, Any]]:
        """See `Log`."""
        made: list[dict[str, Any]] = json.loads(self._ran.rows(rows))
        return made

    def found(self, oracles: list[str]) -> str:
        """See `Log`."""
        return self._ran.judged(oracles)

    def capture(self) -> bytes:
        """See `Log`."""
        return self._ran.capture()
