"""The result of one run of an isolation, and the file that stores such results, so that no case runs twice."""

import contextlib
import json
import re
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self

from tcpassay.errors import Place, UserError
from tcpassay.messages import Answer, Outcome
from tcpassay.seal import checksum

NAME: Final = "runs.sqlite"
# The numbers of RFCs belong to the rule, not to its occurrence.
_NUMBER: Final = re.compile(r"(?<!RFC )\b\d+(\.\d+)?")
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS runs (key TEXT PRIMARY KEY, answer TEXT NOT NULL, checksum TEXT NOT NULL) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True, order=True)
class Effect:
    """A finding without place and number of occurrences: runs with the same effect have the same finding."""

    oracle: str
    severity: str
    title: str
    """The title of the finding, without numbers."""

    @classmethod
    def of(cls, oracle: str, severity: str, title: str) -> Self:
        """The effect that a finding shows."""
        return cls(oracle, severity, _NUMBER.sub("#", title))


@dataclass(frozen=True, slots=True)
class Ran:
    """The result of a run."""

    outcome: str
    message: str
    trace: str
    """Digest of the event sequence; equal for identical runs."""
    effects: frozenset[Effect]
    cpu_s: float

    @property
    def resolved(self) -> bool:
        """Whether the run completed and was evaluated by the oracles."""
        return self.outcome == Outcome.DONE

    @classmethod
    def of(cls, answer: Answer, more: Iterable[Effect] = ()) -> Self:
        """From a worker's answer, with effects that no oracle reports."""
        found = frozenset(Effect.of(one.oracle, str(one.severity), one.title) for one in answer.findings)
        found |= frozenset(more)
        return cls(answer.outcome, answer.message, answer.trace, found, answer.cpu_s)

    def as_text(self) -> str:
        """For the file."""
        effects = [asdict(one) for one in sorted(self.effects)]
        return json.dumps(
            {"outcome": self.outcome, "message": self.message, "trace": self.trace, "cpu_s": self.cpu_s}
            | {"effects": effects}
        )

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The inverse of `as_text`. Raises `KeyError`, `TypeError` or `ValueError` for anything else."""
        value = json.loads(text)
        effects = frozenset(Effect(**one) for one in value.pop("effects"))
        return cls(**value, effects=effects)


class Runs:
    """The runs on disk: a completed run is not repeated, even if the isolation was interrupted."""

    def __init__(self, folder: Path, meaning: Mapping[str, object], name: str = NAME) -> None:
        """`name` is the file; `meaning` is the digest of all inputs of the results besides the case.

        Runs that were made under another meaning are forgotten. Raises `UserError` when the file cannot be had.
        """
        self.notes: list[str] = []
        """Why stored runs are not used; empty if they are."""
        self._file = folder / name
        said = json.dumps(meaning, sort_keys=True)
        try:
            folder.mkdir(exist_ok=True)
            self._open(said)
        except (OSError, sqlite3.Error) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise UserError(
                f"the runs of an isolation cannot be recorded: {reason}", Place(self._file)
            ) from None

    def _open(self, meaning: str) -> None:
        if self._file.is_symlink():
            raise OSError(0, "it is a symbolic link, which is not followed here")
        try:
            self._database = self._connected()
        except sqlite3.DatabaseError as error:
            self.notes.append(f"{self._file}: damaged ({error}); its runs are repeated")
            for suffix in ("", "-wal", "-shm"):
                self._file.with_name(self._file.name + suffix).unlink(missing_ok=True)
            self._database = self._connected()
        (before,) = self._database.execute("SELECT value FROM meta WHERE key = 'meaning'").fetchone() or (
            meaning,
        )
        if before != meaning:
            self.notes.append(
                "runs of an earlier isolation are not used: another version, program, kernel or oracles made them"
            )
            self._database.execute("DELETE FROM runs")
        self._database.execute("INSERT OR REPLACE INTO meta VALUES ('meaning', ?)", (meaning,))

    def _connected(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._file, isolation_level=None, timeout=60)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        database.executescript(_SCHEMA)
        database.execute("SELECT count(*) FROM runs").fetchone()
        return database

    def get(self, key: str) -> Ran | None:
        """The result of a run; `None` if it is not stored, or its row is damaged."""
        row = self._database.execute("SELECT answer, checksum FROM runs WHERE key = ?", (key,)).fetchone()
        if row is None or checksum(f"{key} {row[0]}".encode()) != row[1]:
            return None
        with contextlib.suppress(KeyError, TypeError, ValueError):
            return Ran.from_text(row[0])
        return None

    def put(self, key: str, ran: Ran) -> None:
        """Stores the result of a run. Raises `UserError` if it cannot be written."""
        text = ran.as_text()
        row = (key, text, checksum(f"{key} {text}".encode()))
        try:
            self._database.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?)", row)
        except sqlite3.Error as error:
            message = (
                f"a run cannot be recorded: {error}; what was recorded is safe: make space, and isolate again"
            )
            raise UserError(message, Place(self._file)) from None

    def close(self) -> None:
        """Closes the file."""
        self._database.close()
