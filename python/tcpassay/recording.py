"""Reads the folder of a recording, as far as its parts are needed.

`recording.json` contains the header and the list of tables; tables are Parquet files. A missing or damaged file raises
`DamagedError` with the name of the file and does not affect the other files. The data plane documents the format
(`Recording::write`); the names of columns contain their units.
"""

import contextlib
import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from tcpassay import regular, seal
from tcpassay.errors import Place, UserError
from tcpassay.interface import TABLES, Table
from tcpassay.recording_format import Flow, Header, RecordingIndex

if (
    TYPE_CHECKING
):  # importing polars takes most of the start-up time; judging a run in memory does not need it
    import polars as pl

FORMAT: Final = 2


def schema(table: str, columns: Iterable[str] | None = None) -> "dict[str, pl.DataType]":
    """The polars types of a table, or of some of its columns."""
    import polars as pl  # noqa: PLC0415 - start-up time

    known = TABLES[Table(table)]
    return {name: getattr(pl, known.get(name, "Float64"))() for name in columns or known}


def carried(flow: Flow) -> int:
    """Payload sent by a flow's sender; without packet counters, the bytes that its receiver read."""
    counters = flow["counters"]
    sent = counters["sent_bytes"]
    return counters["read_bytes"] if sent is None else sent


class DamagedError(UserError):
    """A file of results that is missing, truncated or damaged."""

    def __init__(self, file: Path, why: str) -> None:
        super().__init__(why, Place(file))
        self.file = file


def read_json(file: Path, sealed: Container[object] = (FORMAT,)) -> dict[str, object]:
    """Reads a JSON object. Raises `DamagedError`, also for a wrong checksum.

    Only files of the formats `sealed` must have a checksum; the caller decides whether another format is accepted.
    """
    raw = read_bytes(file)
    whole = seal.is_whole(raw)
    if not whole and seal.has_seal(raw):
        raise DamagedError(file, WRONG)
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise DamagedError(file, f"it is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise DamagedError(file, "it does not contain a JSON object")
    if not whole and (value.get("format") is None or value["format"] in sealed):
        raise DamagedError(file, "it is damaged: it does not end with its checksum")
    return value


def read_bytes(file: Path, checksum: str | None = None) -> bytes:
    """Reads a file of results. Raises `DamagedError`, also for a wrong checksum."""
    try:
        raw = regular.read_bytes(file, links=False)
    except OSError as error:
        raise DamagedError(file, _reason(error)) from error
    if checksum is not None and seal.checksum(raw) != checksum:
        raise DamagedError(file, WRONG)
    return raw


@contextlib.contextmanager
def understood(file: Path) -> Iterator[None]:
    """Converts errors about inconsistent content of an undamaged file to `DamagedError`."""
    import polars as pl  # noqa: PLC0415 - start-up time

    try:
        yield
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
        pl.exceptions.PolarsError,
    ) as error:
        first = str(error).splitlines()[0] if str(error) else ""
        why = f"its content is inconsistent ({type(error).__name__}: {first})"
        raise DamagedError(file, why) from error


def read_table(
    file: Path, columns: Sequence[str] | None = None, needed: Iterable[str] = (), checksum: str | None = None
) -> "pl.DataFrame":
    """Reads a Parquet file. Raises `DamagedError`, also for missing columns or a wrong checksum."""
    return parsed(file, read_bytes(file, checksum), columns, needed)


def parsed(
    file: Path, raw: bytes, columns: Sequence[str] | None = None, needed: Iterable[str] = ()
) -> "pl.DataFrame":
    """The table in the bytes of a Parquet file. Raises `DamagedError`, also for missing columns.

    A few bytes may stand for many equal rows or texts; a table that is improbably large for its file is damaged.
    """
    import polars as pl  # noqa: PLC0415 - start-up time

    most = max(_LEAST_TABLE, _EXPANSION * len(raw))
    try:
        scanned = pl.scan_parquet(raw)
        rows, width = scanned.select(pl.len()).collect().item(), len(scanned.collect_schema())
        if rows * width * 8 > most:
            raise DamagedError(file, f"it is {len(raw)} bytes long and has {rows} rows of {width} columns")
        frame = pl.read_parquet(raw, columns=None if columns is None else list(columns))
        texts = frame.select(pl.col(pl.String).str.len_bytes().sum()).sum_horizontal()
        if texts.sum() > most:
            raise DamagedError(file, f"it is {len(raw)} bytes long and has {texts.sum()} bytes of text")
    except OSError as error:
        raise DamagedError(file, _reason(error)) from error
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DamagedError(file, f"it is not a readable table: {first}") from error
    if missing := [name for name in needed if name not in frame.columns]:
        raise DamagedError(file, f"it has no column `{missing[0]}`")
    return frame


_LEAST_TABLE: Final = 1 << 28
"""Bytes of values and of text that any table may have."""
_EXPANSION: Final = 1000
"""Maximum ratio of the bytes of a larger table to those of its file."""
WRONG: Final = "it is damaged: its checksum differs from the recorded one"


def _reason(error: OSError) -> str:
    if isinstance(error, regular.IrregularError):
        return str(error.strerror)
    if isinstance(error, FileNotFoundError):
        return "it is missing"
    return f"it cannot be read: {(error.strerror or type(error).__name__).lower()}"


def _is_entry(entry: object) -> bool:
    return (
        isinstance(entry, dict) and isinstance(entry.get("rows"), int) and isinstance(entry.get("xxh3"), str)
    )


class Recording:
    """The recording of one run of one case."""

    def __init__(self, folder: Path, read: Callable[[], RecordingIndex]) -> None:
        self.folder = folder
        self._read = read

    @cached_property
    def index(self) -> RecordingIndex:
        """`recording.json`."""
        return self._read()

    @classmethod
    def held(cls, folder: Path, index: Callable[[], str]) -> "Recording":
        """The recording of a run in memory. `index` makes the text of its `recording.json`.

        It is called only if something of the text is needed, because that takes long with many flows.
        """
        return cls(folder, lambda: cast("RecordingIndex", json.loads(index())))

    @classmethod
    def open(cls, folder: Path) -> "Recording":
        """Reads `recording.json`; tables are read when needed. Raises `DamagedError`."""
        file = folder / "recording.json"
        return cls.of(folder, read_json(file))

    @classmethod
    def of(cls, folder: Path, index: Mapping[str, object]) -> "Recording":
        """Creates a recording from `recording.json` that was read before. Raises `DamagedError`."""
        file = folder / "recording.json"
        if index.get("format") != FORMAT:
            raise DamagedError(file, f"its format is {index.get('format')}; this version reads {FORMAT}")
        for key, kind in (
            ("header", dict),
            ("files", dict),
            ("hosts", list),
            ("flows", list),
            ("devices", list),
        ):
            if not isinstance(index.get(key), kind):
                raise DamagedError(file, f"`{key}` is missing or has a wrong type")
        checked = cast("RecordingIndex", index)
        for name, entry in checked["files"].items():
            if not _is_entry(entry):
                raise DamagedError(file, f"the number of rows or the checksum of {name!r} is missing")
        return cls(folder, lambda: checked)

    @property
    def header(self) -> Header:
        """The case, the software versions, and how the run ended."""
        return self.index["header"]

    @property
    def hosts(self) -> list[str]:
        """Names of the hosts; tables refer to hosts by index."""
        return self.index["hosts"]

    @property
    def flows(self) -> list[Flow]:
        """The directions of all connections; tables refer to flows by index."""
        return self.index["flows"]

    @property
    def duration_ns(self) -> int:
        """Duration of the run."""
        return int(self.header["duration_ns"])

    @property
    def case(self) -> dict[str, str]:
        """The settings that differ from the defaults: the full path of a parameter, and its value as text."""
        return {
            "/".join(filter(None, (row["entity"], row["parameter"]))): row["value"]
            for row in self.header["case"]
        }

    def file(self, table: str) -> Path:
        """The path of a table, if the run has it."""
        return self.folder / f"{table}.parquet"

    def holds(self, file: str) -> bool:
        """Whether the recording contains this file."""
        return file in self.index["files"]

    def has(self, table: str) -> bool:
        """Whether the recording contains this table."""
        return f"{table}.parquet" in self.index["files"]

    def content(self, name: str) -> bytes:
        """The content of a file. Raises `DamagedError` for a wrong checksum."""
        return read_bytes(self.folder / name, self.index["files"][name]["xxh3"])

    def table(self, table: str, columns: Sequence[str] | None = None) -> "pl.DataFrame":
        """A table, or some of its columns; without rows if the run did not collect it. Raises `DamagedError`."""
        if not self.has(table):
            import polars as pl  # noqa: PLC0415 - start-up time

            return pl.DataFrame(schema=schema(table, columns))
        file = self.file(table)
        entry = self.index["files"][file.name]
        frame = read_table(file, columns, columns or TABLES[Table(table)], entry["xxh3"])
        rows = entry["rows"]
        if len(frame) != rows:
            raise DamagedError(file, f"it has {len(frame)} rows; recording.json says {rows}")
        return frame

    @cached_property
    def events(self) -> "pl.DataFrame":
        """The event log, one row per event."""
        return self.table(Table.EVENTS)

    @cached_property
    def series(self) -> "pl.DataFrame":
        """Time series: one row per interval and entity."""
        return self.table(Table.SERIES)

    @cached_property
    def deliveries(self) -> "pl.DataFrame":
        """The arrival of each packet at its receiver."""
        return self.table(Table.DELIVERIES)

    @cached_property
    def latency(self) -> "pl.DataFrame":
        """Distributions of latency."""
        return self.table(Table.LATENCY)

    @cached_property
    def completions(self) -> "pl.DataFrame":
        """Flows, requests and barrier rounds that ended."""
        return self.table(Table.COMPLETIONS)
