"""The rows of a journal: schema, content, and checksums that detect damage.

The payload of a run is JSON, compressed with a dictionary that the journal stores: the payload of one of its runs. The
names of a hundred metrics are most of it. In journals of version 2 it is plain JSON.
"""

import sqlite3
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic_core import from_json, to_json

from tcpassay.errors import UserError
from tcpassay.messages import Outcome
from tcpassay.seal import checksum

CASES: Final = "cases"
"""The key of the number of cases."""
DICTIONARY: Final = "dictionary"
"""The key of the dictionary with which payloads are compressed."""
Json = Mapping[str, object]
Payload = bytes | str | None
"""A stored payload: compressed, or plain in journals of version 2."""
_LONGEST: Final = 1 << 28
"""Maximum length of the JSON of a payload in bytes."""


SCHEMA: Final = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL, checksum TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE owners (id INTEGER PRIMARY KEY AUTOINCREMENT, pid INTEGER NOT NULL);
CREATE TABLE cases (
    number INTEGER PRIMARY KEY,
    position INTEGER NOT NULL,
    content TEXT NOT NULL,
    content_checksum TEXT NOT NULL,
    owner INTEGER REFERENCES owners (id),
    attempts INTEGER NOT NULL DEFAULT 0,
    outcome TEXT CHECK (outcome IN ({", ".join(f"'{outcome}'" for outcome in Outcome)})),
    payload TEXT,
    outcome_checksum TEXT,
    started REAL,
    finished REAL
);
CREATE INDEX waiting ON cases (position, number) WHERE outcome IS NULL AND owner IS NULL;
CREATE INDEX running ON cases (owner) WHERE owner IS NOT NULL;
"""


class JournalError(UserError):
    """The journal cannot be used: it is missing, damaged, of another plan, or not writable."""


class NoSpaceError(JournalError):
    """No disk space is left. Recorded data is kept; the run can be resumed."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A case that this process has claimed."""

    number: int
    case: Json
    attempt: int
    """From 1; greater if a process with the case died."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The entry of a case."""

    number: int
    """From 0, in the order of the plan."""
    case: Json
    outcome: Outcome | None
    """`None` for a pending or running case."""
    payload: Json | None
    running: bool
    attempts: int
    """Number of claims."""
    seconds: float | None
    """Real time from claim to finish; it may include waiting for the previous case."""
    damaged: bool = False
    """Whether it had ended and its result is damaged; `outcome` is then `None`."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The numbers of cases by state."""

    waiting: int
    running: int
    finished: dict[Outcome, int]
    """By outcome, without zeros."""

    @property
    def total(self) -> int:
        """All cases."""
        return self.waiting + self.running + sum(self.finished.values())


def insert(
    database: sqlite3.Connection, cases: Iterable[Json], order: Sequence[int] | None, start: int = 0
) -> None:
    """Adds cases in the order in which they are claimed, numbered from `start`, and stores the number of all."""
    positions = None if order is None else {number: position for position, number in enumerate(order)}
    count = start
    for number, case in enumerate(cases, start):
        position, content = number if positions is None else positions[number], dumps(case)
        database.execute(
            "INSERT INTO cases (number, position, content, content_checksum) VALUES (?, ?, ?, ?)",
            (number, position, content, checksum_of(number, position, content)),
        )
        count += 1
    set_values(database, {CASES: str(count)})


def set_notes(database: sqlite3.Connection, notes: Mapping[str, str]) -> None:
    """Stores notes, replacing those with the same names."""
    set_values(database, {f"note.{name}": value for name, value in notes.items()})


def set_values(database: sqlite3.Connection, values: Mapping[str, str]) -> None:
    """Stores values in the table `meta`, each with its checksum."""
    rows = [(key, value, checksum_of(key, value)) for key, value in values.items()]
    database.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?, ?)", rows)


FORGET: Final = (
    "UPDATE cases SET outcome = NULL, payload = NULL, outcome_checksum = NULL, finished = NULL WHERE"
)


def checksum_of(*parts: object) -> str:
    """The checksum of a row."""
    return checksum("\0".join(map(str, parts)).encode(errors="surrogateescape"))


def outcome_checksum(number: int, outcome: str, payload: Payload) -> str:
    """The checksum of the result of a case."""
    if isinstance(payload, bytes):
        return checksum(f"{number}\0{outcome}\0".encode() + payload)
    return checksum_of(number, outcome, "none" if payload is None else payload)


def packed(text: str, dictionary: bytes) -> bytes:
    """The JSON of a payload, compressed."""
    # Level 1: higher ones take more time than the shorter file is worth.
    packer = zlib.compressobj(1, zdict=dictionary)
    return packer.compress(text.encode()) + packer.flush()


def unpacked(payload: Payload, dictionary: bytes) -> Json | None:
    """The inverse of `packed`; raises `ValueError` for a payload that is none or too long."""
    if payload is None:
        return None
    if isinstance(payload, bytes):
        unpacker = zlib.decompressobj(zdict=dictionary)
        try:
            payload = unpacker.decompress(payload, _LONGEST).decode()
        except zlib.error as error:
            raise ValueError(str(error)) from error
        if not unpacker.eof:
            raise ValueError("it is too long or incomplete")
    value: Json = from_json(payload)
    return value


def read_text(raw: bytes) -> str:
    """A text of the database, which damage may have made invalid UTF-8; the checksum detects this."""
    return raw.decode(errors="surrogateescape")


def dumps(value: Json) -> str:
    """A value as JSON."""
    # Four times as fast as the standard library, and this code is executed several times per run.
    return to_json(value).decode()
