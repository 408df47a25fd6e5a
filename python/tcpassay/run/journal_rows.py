"""The rows of a journal: their schema, what they say of cases, and the checksums that tell damage."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from pydantic_core import to_json

from tcpassay.errors import UserError
from tcpassay.seal import checksum

CASES: Final = "cases"
"""The key under which the number of cases is kept."""
Json = Mapping[str, Any]


class Outcome(StrEnum):
    """What came of a case."""

    DONE = "done"
    """It ran to its end."""
    FAILED = "failed"
    """It ended with an error of its own."""
    CRASHED = "crashed"
    """Its process died."""
    TIMEOUT = "timeout"
    """It took longer than its limit."""
    MEMORY = "memory"
    """It ran out of memory."""
    PATH = "path"
    """The path was not what the case asks for, so that nothing was sent over it."""
    UNSUPPORTED = "unsupported"
    """A script that needs what the model or the runner lacks."""
    REFUSED = "refused"
    """Its values were refused, as they are for a case with an invalid value."""


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
    """The journal cannot be used: it is missing, damaged, of another plan, or cannot be written."""


class NoSpaceError(JournalError):
    """There is no space left. What was recorded before stays; the run can be resumed."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A case that this process is to run."""

    number: int
    case: dict[str, Any]
    attempt: int
    """From 1; more when a process died while it had the case."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What the journal knows of a case."""

    number: int
    """From 0, in the order of the plan."""
    case: dict[str, Any]
    outcome: Outcome | None
    """`None` for a case that waits or runs."""
    payload: dict[str, Any] | None
    running: bool
    attempts: int
    """How often it was claimed."""
    seconds: float | None
    """Wall time from claim to finish; the case may have waited for the one before it."""
    damaged: bool = False
    """Whether it had ended, and what came of it cannot be read any more; then `outcome` is `None`."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How many cases are where."""

    waiting: int
    running: int
    finished: dict[Outcome, int]
    """By outcome, those that occur."""

    @property
    def total(self) -> int:
        """All cases."""
        return self.waiting + self.running + sum(self.finished.values())


def insert(database: sqlite3.Connection, cases: Iterable[Json], order: Sequence[int] | None) -> None:
    """Adds the cases of a plan, to be claimed in this order, and notes how many there are."""
    positions = None if order is None else {number: position for position, number in enumerate(order)}
    count = 0
    for number, case in enumerate(cases):
        position, content = number if positions is None else positions[number], dumps(case)
        database.execute(
            "INSERT INTO cases (number, position, content, content_checksum) VALUES (?, ?, ?, ?)",
            (number, position, content, checksum_of(number, position, content)),
        )
        count += 1
    set_values(database, {CASES: str(count)})


def set_notes(database: sqlite3.Connection, notes: Mapping[str, str]) -> None:
    """Keeps notes of the run, in the place of those of the same names."""
    set_values(database, {f"note.{name}": value for name, value in notes.items()})


def set_values(database: sqlite3.Connection, values: Mapping[str, str]) -> None:
    """Keeps values of the table `meta`, each with its checksum."""
    rows = [(key, value, checksum_of(key, value)) for key, value in values.items()]
    database.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?, ?)", rows)


FORGET: Final = (
    "UPDATE cases SET outcome = NULL, payload = NULL, outcome_checksum = NULL, finished = NULL WHERE"
)


def checksum_of(*parts: object) -> str:
    """The checksum of what a row says."""
    return checksum("\0".join(map(str, parts)).encode(errors="surrogateescape"))


def outcome_checksum(number: int, outcome: str, payload: str | None) -> str:
    """The checksum of what came of a case."""
    return checksum_of(number, outcome, "none" if payload is None else payload)


def read_text(raw: bytes) -> str:
    """A text of the database, also one that damage has made no UTF-8: its checksum tells it."""
    return raw.decode(errors="surrogateescape")


def dumps(value: Json) -> str:
    """A value as JSON."""
    # Four times as quick as the standard library's, and every run passes here several times.
    return to_json(value).decode()
