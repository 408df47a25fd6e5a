"""The journal: the cases of a run, their state, and their results. It survives `kill -9`.

It is one SQLite file in WAL mode. A case is recorded before it runs (`claim`) and after (`finish`), each in a separate
transaction. If a process dies at any time, every case is therefore either finished, with outcome and payload, or it is
claimed again from its start. A finished case is never claimed again.

Several processes may use one journal. Each holds a lock on its own file while it is alive; the kernel releases the lock
when the process ends for any reason, and the next `open` or `claim` makes the cases of dead processes pending again.
(Process ids are not suitable: they are reused, and they are not valid across containers.)

`synchronous=NORMAL`: a commit survives the death of the process immediately, and a power failure once the WAL has been
synchronised, at the latest at the next checkpoint. After a power failure the last finished cases may run again; the
file is consistent in any case (sqlite.org/wal.html). It must be on a local file system, because WAL needs shared
memory.

Every row has checksums of its content, and the journal contains the number of cases, so that accidental damage is
detected: `open` and `peek` reject a journal with damaged cases; `entries` reports a damaged outcome, which can be
removed (`forget`) so that its case runs again.

The journal does not depend on how a case is run or on the meaning of the payload.
"""

import contextlib
import fcntl
import os
import sqlite3
import tempfile  # noqa: TID251 - a draft is beside its target
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pydantic_core import from_json

from tcpassay.errors import Place
from tcpassay.messages import Outcome
from tcpassay.run.journal_file import (
    MINE,
    NAME,
    alive,
    check_closed,
    check_files,
    connect,
    damaged,
    publish,
    synchronise,
    translated,
    umask,
)  # fmt: skip
from tcpassay.run.journal_rows import (
    CASES,
    DICTIONARY,
    FORGET,
    SCHEMA,
    Claim,
    Counts,
    Entry,
    JournalError,
    Json,
    NoSpaceError,
    checksum_of,
    dumps,
    insert,
    outcome_checksum,
    packed,
    read_text,
    set_notes,
    set_values,
    unpacked,
)  # fmt: skip

__all__ = ["NAME", "Claim", "Counts", "Entry", "Journal", "JournalError", "NoSpaceError"]
_VERSION: Final = "3"
_READ: Final = ("2", _VERSION)
"""The versions that are read; a journal that is opened for writing gets the current one."""
_BATCH: Final = 500


class Journal:
    """An open journal, for one thread of the process that opened it."""

    def __init__(self, folder: Path, database: sqlite3.Connection, clock: Callable[[], float]) -> None:
        self._folder = folder
        self._database = database
        self._clock = clock
        self._process = os.getpid()
        self._owner = 0
        self._lock = -1
        self._dictionary = b""

    @staticmethod
    def create(
        folder: Path,
        plan: str,
        cases: Iterable[Json],
        order: Sequence[int] | None = None,
        notes: Mapping[str, str] | None = None,
    ) -> None:
        """Creates the journal of a run of the plan with digest `plan`, completely or not at all.

        `order` contains the numbers of the cases in the order of execution; `notes` are stored unchanged. Raises
        `JournalError` if the folder has a journal already or cannot be written.
        """
        path = folder / NAME
        if path.exists():
            raise JournalError(
                "there is a run in this folder already; resume it or choose another", Place(path)
            )
        try:
            handle, name = tempfile.mkstemp(prefix=".journal-", suffix=".new", dir=folder)
        except OSError as error:
            raise JournalError(f"a journal cannot be written: {error.strerror}", Place(path)) from error
        # With the permissions of other files of this user.
        os.fchmod(handle, 0o666 & ~umask())
        os.close(handle)
        try:
            with translated(path), contextlib.closing(connect(Path(name))) as database:
                # Not in WAL mode yet: in WAL mode, data that does not fit on the disk when the connection is closed
                # stays in the WAL without an error.
                database.executescript("BEGIN;" + SCHEMA)
                set_values(database, {"version": _VERSION, "plan": plan})
                set_notes(database, notes or {})
                insert(database, cases, order)
                database.execute("COMMIT")
                database.execute("PRAGMA journal_mode = WAL")
            check_closed(Path(name), path)
            synchronise(Path(name))
            publish(Path(name), path)
            synchronise(folder)
        except OSError as error:
            raise NoSpaceError(f"the journal cannot be written: {error.strerror}", Place(path)) from error
        finally:
            for suffix in ("", "-wal", "-shm", "-journal"):
                Path(name + suffix).unlink(missing_ok=True)

    @classmethod
    def open(cls, folder: Path, plan: str | None = None, clock: Callable[[], float] = time.time) -> Self:
        """Opens the journal of a run, and makes the cases of dead processes pending again.

        With `plan`, the run must be of the plan with this digest. Raises `JournalError`.
        """
        path = folder / NAME
        check_files(path)
        with translated(path):
            journal = cls(folder, connect(path), clock)
            try:
                journal._check(plan)
                journal._upgrade()
                journal._register()
                journal._release_dead()
            except BaseException:
                journal.close()
                raise
            return journal

    @classmethod
    def peek(cls, folder: Path) -> Self:
        """Opens the journal read-only, without effect on processes that use it. Raises `JournalError`."""
        path = folder / NAME
        check_files(path)
        with translated(path):
            journal = cls(folder, connect(path, read_only=not os.access(folder, os.W_OK)), time.time)
            try:
                journal._check(None)
            except BaseException:
                journal.close()
                raise
            return journal

    def claim(self) -> Claim | None:
        """Claims the next case and records its start; `None` if no case is pending.

        Cases of other processes may become pending again if these processes die.
        """
        return next(iter(self.exchange([], claims=1)), None)

    def finish(self, claim: Claim, outcome: Outcome, payload: Json | None = None) -> None:
        """Records the result of a claimed case, which is never claimed again."""
        self.exchange([(claim, outcome, payload)], claims=0)

    def exchange(
        self, ended: Sequence[tuple[Claim, Outcome, Json | None]], claims: int | None = None
    ) -> list[Claim]:
        """`finish` for each case, and `claim` for as many or `claims`, in one transaction, whose cost dominates."""
        with self._transaction() as database:
            now = self._clock()
            self._finish(database, ended, now)
            return self._claim(database, len(ended) if claims is None else claims, now)

    def _claim(self, database: sqlite3.Connection, most: int, now: float) -> list[Claim]:
        rows = self._next(database, most)
        if len(rows) < most:
            self._release_dead_in(database)
            rows = self._next(database, most)
        database.executemany(
            "UPDATE cases SET owner = ?, attempts = attempts + 1, started = ? WHERE number = ?",
            [(self._owner, now, number) for number, _, _ in rows],
        )
        return [Claim(number, from_json(content), attempts + 1) for number, content, attempts in rows]

    def _finish(
        self, database: sqlite3.Connection, ended: Sequence[tuple[Claim, Outcome, Json | None]], now: float
    ) -> None:
        texts = [
            None if payload is None else self._packed(database, dumps(payload)) for _, _, payload in ended
        ]
        rows = [
            (
                outcome,
                text,
                outcome_checksum(claim.number, outcome, text),
                now,
                claim.number,
                self._owner,
                claim.attempt,
            )
            for (claim, outcome, _), text in zip(ended, texts, strict=True)
        ]
        changed = database.executemany(
            "UPDATE cases SET outcome = ?, payload = ?, outcome_checksum = ?, finished = ?, owner = NULL "
            "WHERE number = ? AND owner = ? AND attempts = ? AND outcome IS NULL",
            rows,
        )
        if ended and changed.rowcount != len(ended):
            numbers = ", ".join(str(claim.number) for claim, _, _ in ended)
            raise AssertionError(f"one of the cases {numbers} is finished by a process that does not run it")

    def _packed(self, database: sqlite3.Connection, text: str) -> bytes:
        """A payload, compressed; the first one of a journal becomes the dictionary of all."""
        if not self._known_dictionary(database):
            set_values(database, {DICTIONARY: text})
        return packed(text, self._known_dictionary(database))

    def _known_dictionary(self, database: sqlite3.Connection) -> bytes:
        """The dictionary of payloads, which another process may have stored; empty if there is none yet."""
        if not self._dictionary:
            row = database.execute("SELECT value FROM meta WHERE key = ?", (DICTIONARY,)).fetchone()
            self._dictionary = row[0].encode(errors="surrogateescape") if row else b""
        return self._dictionary

    def release(self, claim: Claim) -> None:
        """Returns a claimed case unfinished, for example when the user stops the run."""
        with self._transaction() as database:
            database.execute(
                "UPDATE cases SET owner = NULL WHERE number = ? AND owner = ? AND outcome IS NULL",
                (claim.number, self._owner),
            )

    def reopen(self, outcomes: Iterable[Outcome]) -> int:
        """Removes the results of the cases with these outcomes, so that they are pending again.

        Returns their number.
        """
        with self._transaction() as database:
            return sum(database.execute(f"{FORGET} outcome = ?", (outcome,)).rowcount for outcome in outcomes)

    def forget(self, numbers: Iterable[int]) -> None:
        """Removes the results of these cases, so that they are pending again."""
        with self._transaction() as database:
            database.executemany(f"{FORGET} number = ?", [(number,) for number in numbers])

    def replan(
        self,
        plan: str,
        cases: Iterable[Json],
        order: Sequence[int] | None = None,
        notes: Mapping[str, str] | None = None,
    ) -> int:
        """Replaces the cases by these, and keeps the results of cases that are in both sets.

        The change is atomic. `plan` is the digest of the new plan. Returns the number of finished cases that are not in
        the new set; their results are removed.
        """
        with self._transaction() as database:
            database.execute("CREATE TEMP TABLE old AS SELECT * FROM cases WHERE outcome IS NOT NULL")
            database.execute("CREATE INDEX temp.old_content ON old (content)")
            database.execute("DELETE FROM cases")
            insert(database, cases, order)
            database.execute(
                "UPDATE cases SET (attempts, outcome, payload, started, finished) = "
                "(SELECT attempts, outcome, payload, started, finished FROM old WHERE old.content = cases.content) "
                "WHERE content IN (SELECT content FROM old)"
            )
            kept = database.execute("SELECT number, outcome, payload FROM cases WHERE outcome IS NOT NULL")
            database.executemany(
                "UPDATE cases SET outcome_checksum = ? WHERE number = ?",
                [(outcome_checksum(*row), row[0]) for row in kept.fetchall()],
            )
            (gone,) = database.execute(
                "SELECT count(*) FROM old WHERE content NOT IN (SELECT content FROM cases)"
            ).fetchone()
            database.execute("DROP TABLE old")
            set_values(database, {"plan": plan})
            set_notes(database, notes or {})
        return int(gone)

    def append(
        self, cases: Iterable[Json], notes: Mapping[str, str], order: Sequence[int] | None = None
    ) -> None:
        """Adds cases after the existing ones, and stores notes about them, in one transaction.

        `order` is that of `create`; it is allowed if there were no cases.
        """
        with self._transaction() as database:
            (count,) = database.execute("SELECT count(*) FROM cases").fetchone()
            insert(database, cases, order, count)
            set_notes(database, notes)

    def note(self, **notes: str) -> None:
        """Stores a note in the journal, replacing one with the same name."""
        with self._transaction() as database:
            set_notes(database, notes)

    @property
    def notes(self) -> dict[str, str]:
        """The stored notes."""
        with translated(self._folder / NAME):
            rows = self._database.execute("SELECT key, value FROM meta WHERE key LIKE 'note.%'").fetchall()
        return {key.removeprefix("note."): value for key, value in rows}

    def others(self) -> int:
        """The number of other living processes that have the journal open."""
        with self._transaction() as database:
            self._release_dead_in(database)
            return int(database.execute("SELECT count(*) - 1 FROM owners").fetchone()[0])

    def entries(self, start: int = 0) -> Iterator[Entry]:
        """The cases from number `start` on in the order of the plan, read in batches.

        Cases that end meanwhile may or may not be included.
        """
        last = start - 1
        while True:
            with translated(self._folder / NAME):
                rows = self._database.execute(
                    "SELECT number, content, outcome, payload, outcome_checksum, owner IS NOT NULL, attempts, "
                    "finished - started FROM cases WHERE number > ? ORDER BY number LIMIT ?",
                    (last, _BATCH),
                ).fetchall()
            for number, content, outcome, payload, said, running, attempts, seconds in rows:
                last = number
                right = None if outcome is None else outcome_checksum(number, outcome, payload)
                try:
                    told = (
                        unpacked(payload, self._known_dictionary(self._database)) if said == right else None
                    )
                except ValueError:
                    right = None
                if said != right:
                    case = from_json(content)
                    yield Entry(number, case, None, None, bool(running), attempts, None, damaged=True)
                    continue
                yield Entry(
                    number,
                    from_json(content),
                    None if outcome is None else Outcome(outcome),
                    told,
                    bool(running),
                    attempts,
                    seconds,
                )
            if len(rows) < _BATCH:
                return

    def counts(self) -> Counts:
        """The numbers of pending, running and finished cases by outcome."""
        with translated(self._folder / NAME):
            rows = self._database.execute(
                "SELECT outcome, owner IS NOT NULL, count(*) FROM cases GROUP BY 1, 2"
            ).fetchall()
        waiting = sum(n for outcome, running, n in rows if outcome is None and not running)
        active = sum(n for outcome, running, n in rows if outcome is None and running)
        return Counts(waiting, active, {Outcome(o): n for o, _, n in rows if o is not None})

    @property
    def plan(self) -> str:
        """The digest of the plan."""
        with translated(self._folder / NAME):
            return str(self._database.execute("SELECT value FROM meta WHERE key = 'plan'").fetchone()[0])

    def close(self) -> None:
        """Returns claimed cases and closes the file."""
        if os.getpid() != self._process:
            return
        with contextlib.suppress(sqlite3.Error):
            if self._owner:
                self._database.execute("UPDATE cases SET owner = NULL WHERE owner = ?", (self._owner,))
                self._database.execute("DELETE FROM owners WHERE id = ?", (self._owner,))
        with contextlib.suppress(sqlite3.Error):
            self._database.close()
        if self._lock >= 0:
            MINE.discard(self._lock_path(self._owner))
            self._lock_path(self._owner).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check(self, plan: str | None) -> None:
        path = self._folder / NAME
        self._database.text_factory = read_text
        # With its indices, without which cases might never be claimed.
        problem = self._database.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if problem != "ok":
            raise damaged(path, " ".join(problem.split()))
        version = self._database.execute("SELECT value FROM meta WHERE key = 'version'").fetchone()
        if version is None:
            raise damaged(path, "its version is missing")
        if version[0] not in _READ and _is_version(version[0]):
            raise JournalError(
                f"the journal is of version {version[0]}; this program reads version {_VERSION}", Place(path)
            )
        meta = self._meta(path)
        rows = self._database.execute(
            "SELECT number, position, content, content_checksum FROM cases"
        ).fetchall()
        if str(len(rows)) != meta[CASES]:
            raise damaged(path, f"it has {len(rows)} cases; the recorded number is {meta[CASES]}")
        for number, position, content, said in rows:
            if said != checksum_of(number, position, content):
                raise damaged(path, f"the checksum of its case {number} is wrong")
        if plan is not None and meta["plan"] != plan:
            raise JournalError(
                f"the run in this folder is of another plan (digest {meta['plan']}, not {plan})", Place(path)
            )

    def _meta(self, path: Path) -> dict[str, str]:
        """The metadata of the journal. Raises `JournalError` if it is damaged."""
        meta = {}
        for key, value, said in self._database.execute("SELECT key, value, checksum FROM meta"):
            if said != checksum_of(key, value):
                raise damaged(path, f"the checksum of its entry `{key}` is wrong")
            meta[key] = value
        if missing := {"version", "plan", CASES} - set(meta):
            raise damaged(path, f"its entry `{min(missing)}` is missing")
        return meta

    def _upgrade(self) -> None:
        """Gives a journal of an earlier version the current one, because earlier programs do not read new payloads."""
        (version,) = self._database.execute("SELECT value FROM meta WHERE key = 'version'").fetchone()
        if version != _VERSION:
            with self._transaction() as database:
                set_values(database, {"version": _VERSION})

    def _lock_path(self, owner: int) -> Path:
        return self._folder / f"{NAME}-owner-{owner}"

    def _register(self) -> None:
        """Registers this process as an owner.

        Its file is locked before it is visible; otherwise it would appear dead.
        """
        with self._transaction() as database:
            cursor = database.execute("INSERT INTO owners (pid) VALUES (?)", (self._process,))
            self._owner = int(cursor.lastrowid or 0)
            path = self._lock_path(self._owner)
            try:
                self._lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
                fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise JournalError(f"a lock cannot be taken: {error.strerror}", Place(path)) from error
            MINE.add(path)

    def _release_dead(self) -> None:
        with self._transaction() as database:
            self._release_dead_in(database)

    def _release_dead_in(self, database: sqlite3.Connection) -> None:
        for (owner,) in database.execute("SELECT id FROM owners").fetchall():
            if owner != self._owner and not alive(self._lock_path(owner)):
                database.execute("UPDATE cases SET owner = NULL WHERE owner = ?", (owner,))
                database.execute("DELETE FROM owners WHERE id = ?", (owner,))
                self._lock_path(owner).unlink(missing_ok=True)
        # An unknown owner exists only in a damaged journal.
        database.execute(
            "UPDATE cases SET owner = NULL WHERE owner IS NOT NULL AND owner NOT IN (SELECT id FROM owners)"
        )

    @staticmethod
    def _next(database: sqlite3.Connection, most: int) -> list[tuple[int, str, int]]:
        return database.execute(
            "SELECT number, content, attempts FROM cases WHERE outcome IS NULL AND owner IS NULL "
            "ORDER BY position, number LIMIT ?",
            (most,),
        ).fetchall()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        if os.getpid() != self._process:
            raise AssertionError("a journal was used in a fork of the process that opened it")
        with translated(self._folder / NAME):
            try:
                # Inside the block, because an interrupt may occur immediately afterwards.
                self._database.execute("BEGIN IMMEDIATE")
                yield self._database
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                self._dictionary = b""  # it may have been stored in this transaction
                raise


def _is_version(text: str) -> bool:
    return text.isascii() and text.isdigit()
