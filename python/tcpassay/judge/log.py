"""The event log of a run, in a file or in memory.

Oracles judge the log in the data plane; findings cite rows of it. Writing a long log and reading it again takes several
times as long as the run, so that a run is judged in memory.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, Protocol

from tcpassay import _native
from tcpassay.interface import EventKind, EventsColumn, Table
from tcpassay.recording import DamagedError, Recording

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import polars as pl

    from tcpassay._native import Ran

    Ints = npt.NDArray[np.int64]
    Codes = npt.NDArray[np.uint8]

NUMBERS: Final = [
    EventsColumn.TIME_NS, EventsColumn.FLOW, EventsColumn.SEQ, EventsColumn.ACK, EventsColumn.LEN, EventsColumn.FLAGS,
    EventsColumn.VALUE_NS, EventsColumn.CWND_BYTES,
]  # fmt: skip
"""The columns of `LogFile.numbers`."""
_CAPTURE: Final = "packets.pcapng"


@dataclass(frozen=True, slots=True)
class EventRow:
    """A row of `events.parquet`."""

    time_ns: int
    host: int
    """Its place in the recording."""
    flow: int | None
    """Its place in the recording; `None` where the event belongs to no connection."""
    kind: str
    """One of `EventKind`."""
    why: str
    values: dict[str, int | bool]
    """The other columns that have a value here, by name."""

    @classmethod
    def of(cls, columns: Mapping[str, int | str | bool | None]) -> "EventRow":
        """From the columns by name. Raises `KeyError` or `TypeError` for what is no row."""
        rest = dict(columns)
        time, host = (_whole(rest.pop(name)) for name in (EventsColumn.TIME_NS, EventsColumn.HOST))
        flow = rest.pop(EventsColumn.FLOW)
        kind, why = (str(rest.pop(name)) for name in (EventsColumn.KIND, EventsColumn.WHY))
        values = {
            name: _whole(value) for name, value in rest.items() if value is not None and value is not False
        }
        return cls(time, host, None if flow is None else _whole(flow), kind, why, values)


def _whole(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is not a number of the event log")
    return value


class Log(Protocol):
    """An event log, in the order of its rows."""

    @property
    def kinds(self) -> "Codes":
        """Of each row: the place of its kind in `EventKind`."""

    @property
    def times(self) -> "Ints":
        """Of each row: the time in nanoseconds."""

    def rows(self, rows: list[int]) -> list[EventRow]:
        """Some rows in full."""

    def found(self, oracles: list[str]) -> str:
        """What the oracles that are named find, a JSON list."""

    def capture(self) -> bytes:
        """`packets.pcapng`; empty when no packets were captured."""


class LogFile:
    """The log in the folder of a recording."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._frame: pl.DataFrame = recording.table(
            Table.EVENTS, [*NUMBERS, EventsColumn.KIND, EventsColumn.WHY]
        )

    @cached_property
    def kinds(self) -> "Codes":
        """See `Log`."""
        import polars as pl  # noqa: PLC0415 - start-up time

        codes = self._frame[EventsColumn.KIND].cast(pl.Enum(EventKind), strict=False).to_physical()
        made: Codes = codes.fill_null(255).to_numpy()
        return made

    @property
    def times(self) -> "Ints":
        """See `Log`."""
        return self.numbers(EventsColumn.TIME_NS)

    def numbers(self, name: EventsColumn) -> "Ints":
        """A column, one of `NUMBERS`; -1 where there is none."""
        made: Ints = self._frame[name].fill_null(-1).to_numpy()
        return made

    def rows(self, rows: list[int]) -> list[EventRow]:
        """See `Log`."""
        import polars as pl  # noqa: PLC0415 - start-up time

        raw = self._recording.content("events.parquet")
        lazy = pl.scan_parquet(raw).with_row_index("index")
        found = lazy.filter(pl.col("index").is_in(rows)).drop("index").collect()
        return [EventRow.of(row) for row in found.iter_rows(named=True)]

    def found(self, oracles: list[str]) -> str:
        """See `Log`."""
        try:
            return _native.judge_folder(str(self._recording.folder), oracles)
        except ValueError as error:
            raise DamagedError(self._recording.folder, str(error)) from error

    def capture(self) -> bytes:
        """See `Log`."""
        return self._recording.content(_CAPTURE) if _CAPTURE in self._recording.index["files"] else b""


class MemoryLog:
    """The log of a run whose recording is in memory."""

    def __init__(self, ran: "Ran") -> None:
        self._ran = ran

    @property
    def partly_judged(self) -> bool:
        """Whether some oracles cannot judge it: a host had another TCP than the model, or the path changed packets."""
        return self._ran.partly_judged

    @property
    def kinds(self) -> "Codes":
        """See `Log`."""
        import numpy as np  # noqa: PLC0415 - start-up time

        return np.frombuffer(self._ran.kinds(), np.uint8)

    @property
    def times(self) -> "Ints":
        """See `Log`."""
        import numpy as np  # noqa: PLC0415 - start-up time

        return np.frombuffer(self._ran.times(), "<i8")

    def rows(self, rows: list[int]) -> list[EventRow]:
        """See `Log`."""
        return [EventRow.of(row) for row in json.loads(self._ran.rows(rows))]

    def found(self, oracles: list[str]) -> str:
        """See `Log`."""
        return self._ran.judged(oracles)

    def capture(self) -> bytes:
        """See `Log`."""
        return self._ran.capture()
