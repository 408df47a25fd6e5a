"""The journal: which cases a run has, which were begun, and what came of each, safe against `kill -9`.

One SQLite file in WAL mode. A case is recorded before it runs (`claim`) and after (`finish`), each in a
transaction of its own, so a process that dies at any moment leaves every case either finished, with outcome
and payload, or not: then it is claimed again, from the start. A finished case is never claimed again.

Several processes may work on one journal. Each holds a lock on a file of its own while it lives; the kernel
drops it when the process ends, however it ends, and the next `open` or `claim` returns the cases of the dead
to those that wait. (A process id would not do: ids are reused, and say nothing across containers.)

`synchronous=NORMAL`: a commit survives the death of the process at once, and a power failure once the WAL has
been synchronised, at the latest at the next checkpoint. After a power failure the last finished cases may run
again; the file is whole either way (sqlite.org/wal.html). It must stand on a local file system, as WAL needs
shared memory.

Every row carries checksums of what it says, and the journal says how many cases there are, so that accidental damage
is noticed: `open` and `peek` refuse a journal whose cases are damaged; an outcome that is damaged is told by `entries`
and can be forgotten (`forget`), so that its case runs again.

The journal does not know how a case is run, nor what the payload means.
"""

import contextlib
import fcntl
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from pydantic_core import from_json, to_json

from tcpassay.errors import Place, UserError
from tcpassay.run.folder import JOURNAL
from tcpassay.seal import checksum

NAME: Final = JOURNAL
_VERSION: Final = "2"
_CASES: Final = "cases"
"""The key under which the number of cases is kept."""
_BUSY_SECONDS: Final = 60.0
_BATCH: Final = 500
_NO_SPACE: Final = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE}
_DAMAGED: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}

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


_SCHEMA: Final = f"""
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


class Journal:
    """An open journal, for one thread of the process that opened it."""

    def __init__(self, folder: Path, database: sqlite3.Connection, clock: Callable[[], float]) -> None:
        self._folder = folder
        self._database = database
        self._clock = clock
        self._process = os.getpid()
        self._owner = 0
        self._lock = -1

    @staticmethod
    def create(
        folder: Path,
        plan: str,
        cases: Iterable[Json],
        order: Sequence[int] | None = None,
        notes: Mapping[str, str] | None = None,
    ) -> None:
        """Make the journal of a run of the plan with digest `plan`, whole or not at all.

        `order` gives the numbers of the cases in the order in which they are to run; `notes` are kept with the
        journal as they are. Raises `JournalError` when the folder has a journal already or cannot be written.
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
        # As any other file that this user makes.
        os.fchmod(handle, 0o666 & ~_umask())
        os.close(handle)
        try:
            with _translated(path), contextlib.closing(_connect(Path(name))) as database:
                # Not in WAL mode yet: there, what does not fit on the disk when the connection is closed stays in the
                # WAL, without an error.
                database.executescript("BEGIN;" + _SCHEMA)
                _set(database, {"version": _VERSION, "plan": plan})
                _note(database, notes or {})
                _insert(database, cases, order)
                database.execute("COMMIT")
                database.execute("PRAGMA journal_mode = WAL")
            _no_wal(Path(name), path)
            _synchronise(Path(name))
            _publish(Path(name), path)
            _synchronise(folder)
        except OSError as error:
            raise NoSpaceError(f"the journal cannot be written: {error.strerror}", Place(path)) from error
        finally:
            for suffix in ("", "-wal", "-shm", "-journal"):
                Path(name + suffix).unlink(missing_ok=True)

    @classmethod
    def open(cls, folder: Path, plan: str | None = None, clock: Callable[[], float] = time.time) -> Self:
        """Open the journal of a run, and return the cases of processes that died to those that wait.

        With `plan`, the run must be of the plan with this digest. Raises `JournalError`.
        """
        path = folder / NAME
        _there(path)
        with _translated(path):
            journal = cls(folder, _connect(path), clock)
            try:
                journal._check(plan)
                journal._register()
                journal._release_dead()
            except BaseException:
                journal.close()
                raise
            return journal

    @classmethod
    def peek(cls, folder: Path) -> Self:
        """Open the journal to read it only; whoever works on it is not disturbed. Raises `JournalError`."""
        path = folder / NAME
        _there(path)
        with _translated(path):
            journal = cls(folder, _connect(path, read_only=not os.access(folder, os.W_OK)), time.time)
            try:
                journal._check(None)
            except BaseException:
                journal.close()
                raise
            return journal

    def claim(self) -> Claim | None:
        """The next case to run, recorded as begun; `None` when no case waits.

        When others still run some, they may come back later if their process dies.
        """
        return next(iter(self.exchange([], claims=1)), None)

    def finish(self, claim: Claim, outcome: Outcome, payload: Json | None = None) -> None:
        """Record what came of a claimed case. It will never be claimed again."""
        self.exchange([(claim, outcome, payload)], claims=0)

    def exchange(
        self, ended: Sequence[tuple[Claim, Outcome, Json | None]], claims: int | None = None
    ) -> list[Claim]:
        """`finish` for each, and `claim` for as many or `claims`, in one transaction: most of its cost is its own."""
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
        texts = [None if payload is None else _dumps(payload) for _, _, payload in ended]
        rows = [
            (
                outcome,
                text,
                _outcome_checksum(claim.number, outcome, text),
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

    def release(self, claim: Claim) -> None:
        """Give a claimed case back unfinished, as when the user stops the run."""
        with self._transaction() as database:
            database.execute(
                "UPDATE cases SET owner = NULL WHERE number = ? AND owner = ? AND outcome IS NULL",
                (claim.number, self._owner),
            )

    def reopen(self, outcomes: Iterable[Outcome]) -> int:
        """Forget what came of the cases that ended so: they wait again. How many they are."""
        with self._transaction() as database:
            return sum(
                database.execute(f"{_FORGET} outcome = ?", (outcome,)).rowcount for outcome in outcomes
            )

    def forget(self, numbers: Iterable[int]) -> None:
        """Forget what came of these cases: they wait again."""
        with self._transaction() as database:
            database.executemany(f"{_FORGET} number = ?", [(number,) for number in numbers])

    def replan(
        self,
        plan: str,
        cases: Iterable[Json],
        order: Sequence[int] | None = None,
        notes: Mapping[str, str] | None = None,
    ) -> int:
        """Put these cases in the place of those there are, and keep what came of the ones that are in both.

        All at once or not at all. `plan` is the digest of the plan that now holds. How many finished cases are no
        longer among them is returned; what came of those is forgotten.
        """
        with self._transaction() as database:
            database.execute("CREATE TEMP TABLE old AS SELECT * FROM cases WHERE outcome IS NOT NULL")
            database.execute("CREATE INDEX temp.old_content ON old (content)")
            database.execute("DELETE FROM cases")
            _insert(database, cases, order)
            database.execute(
                "UPDATE cases SET (attempts, outcome, payload, started, finished) = "
                "(SELECT attempts, outcome, payload, started, finished FROM old WHERE old.content = cases.content) "
                "WHERE content IN (SELECT content FROM old)"
            )
            kept = database.execute("SELECT number, outcome, payload FROM cases WHERE outcome IS NOT NULL")
            database.executemany(
                "UPDATE cases SET outcome_checksum = ? WHERE number = ?",
                [(_outcome_checksum(*row), row[0]) for row in kept.fetchall()],
            )
            (gone,) = database.execute(
                "SELECT count(*) FROM old WHERE content NOT IN (SELECT content FROM cases)"
            ).fetchone()
            database.execute("DROP TABLE old")
            _set(database, {"plan": plan})
            _note(database, notes or {})
        return int(gone)

    def note(self, **notes: str) -> None:
        """Keep something with the journal, in the place of what had its name."""
        with self._transaction() as database:
            _note(database, notes)

    @property
    def notes(self) -> dict[str, str]:
        """What was kept with the journal."""
        with _translated(self._folder / NAME):
            rows = self._database.execute("SELECT key, value FROM meta WHERE key LIKE 'note.%'").fetchall()
        return {key.removeprefix("note."): value for key, value in rows}

    def others(self) -> int:
        """How many other living processes have the journal open."""
        with self._transaction() as database:
            self._release_dead_in(database)
            return int(database.execute("SELECT count(*) - 1 FROM owners").fetchone()[0])

    def entries(self) -> Iterator[Entry]:
        """All cases in the order of the plan, read in batches: what ends meanwhile may show or not."""
        last = -1
        while True:
            with _translated(self._folder / NAME):
                rows = self._database.execute(
                    "SELECT number, content, outcome, payload, outcome_checksum, owner IS NOT NULL, attempts, "
                    "finished - started FROM cases WHERE number > ? ORDER BY number LIMIT ?",
                    (last, _BATCH),
                ).fetchall()
            for number, content, outcome, payload, said, running, attempts, seconds in rows:
                last = number
                right = None if outcome is None else _outcome_checksum(number, outcome, payload)
                if said != right:
                    case = from_json(content)
                    yield Entry(number, case, None, None, bool(running), attempts, None, damaged=True)
                    continue
                yield Entry(
                    number,
                    from_json(content),
                    None if outcome is None else Outcome(outcome),
                    None if payload is None else from_json(payload),
                    bool(running),
                    attempts,
                    seconds,
                )
            if len(rows) < _BATCH:
                return

    def counts(self) -> Counts:
        """How many cases wait, run, and have ended in which way."""
        with _translated(self._folder / NAME):
            rows = self._database.execute(
                "SELECT outcome, owner IS NOT NULL, count(*) FROM cases GROUP BY 1, 2"
            ).fetchall()
        waiting = sum(n for outcome, running, n in rows if outcome is None and not running)
        active = sum(n for outcome, running, n in rows if outcome is None and running)
        return Counts(waiting, active, {Outcome(o): n for o, _, n in rows if o is not None})

    @property
    def plan(self) -> str:
        """The digest of the plan that the run is of."""
        with _translated(self._folder / NAME):
            return str(self._database.execute("SELECT value FROM meta WHERE key = 'plan'").fetchone()[0])

    def close(self) -> None:
        """Give back what is claimed and let go of the file."""
        if os.getpid() != self._process:
            return
        with contextlib.suppress(sqlite3.Error):
            if self._owner:
                self._database.execute("UPDATE cases SET owner = NULL WHERE owner = ?", (self._owner,))
                self._database.execute("DELETE FROM owners WHERE id = ?", (self._owner,))
        with contextlib.suppress(sqlite3.Error):
            self._database.close()
        if self._lock >= 0:
            _MINE.discard(self._lock_path(self._owner))
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
        self._database.text_factory = _text
        # With its indices: what is missing there would never be claimed.
        problem = self._database.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if problem != "ok":
            raise _damaged(path, " ".join(problem.split()))
        version = self._database.execute("SELECT value FROM meta WHERE key = 'version'").fetchone()
        if version is None:
            raise _damaged(path, "it does not say its version")
        if version[0] != _VERSION and _is_version(version[0]):
            raise JournalError(
                f"the journal is of version {version[0]}; this program reads version {_VERSION}", Place(path)
            )
        meta = self._meta(path)
        rows = self._database.execute(
            "SELECT number, position, content, content_checksum FROM cases"
        ).fetchall()
        if str(len(rows)) != meta[_CASES]:
            raise _damaged(path, f"it has {len(rows)} cases and says {meta[_CASES]}")
        for number, position, content, said in rows:
            if said != _checksum(number, position, content):
                raise _damaged(path, f"the checksum of its case {number} is wrong")
        if plan is not None and meta["plan"] != plan:
            raise JournalError(
                f"the run in this folder is of another plan (digest {meta['plan']}, not {plan})", Place(path)
            )

    def _meta(self, path: Path) -> dict[str, str]:
        """What the journal says of itself. Raises `JournalError` when it is damaged."""
        meta = {}
        for key, value, said in self._database.execute("SELECT key, value, checksum FROM meta"):
            if said != _checksum(key, value):
                raise _damaged(path, f"the checksum of its entry `{key}` is wrong")
            meta[key] = value
        if missing := {"version", "plan", _CASES} - set(meta):
            raise _damaged(path, f"its entry `{min(missing)}` is missing")
        return meta

    def _lock_path(self, owner: int) -> Path:
        return self._folder / f"{NAME}-owner-{owner}"

    def _register(self) -> None:
        """Become an owner: locked before anyone can see it, or it would look dead."""
        with self._transaction() as database:
            cursor = database.execute("INSERT INTO owners (pid) VALUES (?)", (self._process,))
            self._owner = int(cursor.lastrowid or 0)
            path = self._lock_path(self._owner)
            try:
                self._lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
                fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise JournalError(f"a lock cannot be taken: {error.strerror}", Place(path)) from error
            _MINE.add(path)

    def _release_dead(self) -> None:
        with self._transaction() as database:
            self._release_dead_in(database)

    def _release_dead_in(self, database: sqlite3.Connection) -> None:
        for (owner,) in database.execute("SELECT id FROM owners").fetchall():
            if owner != self._owner and not _alive(self._lock_path(owner)):
                database.execute("UPDATE cases SET owner = NULL WHERE owner = ?", (owner,))
                database.execute("DELETE FROM owners WHERE id = ?", (owner,))
                self._lock_path(owner).unlink(missing_ok=True)
        # An owner that nobody knows is nobody: only damage leaves such a one.
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
        with _translated(self._folder / NAME):
            try:
                # In here, because an interrupt may come right after it.
                self._database.execute("BEGIN IMMEDIATE")
                yield self._database
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise


_MINE: Final[set[Path]] = set()
"""Lock files that this process holds: its own locks do not stop it, so it would take itself for dead."""


def _alive(path: Path) -> bool:
    """Whether some process holds the lock."""
    if path in _MINE:
        return True
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _insert(database: sqlite3.Connection, cases: Iterable[Json], order: Sequence[int] | None) -> None:
    positions = None if order is None else {number: position for position, number in enumerate(order)}
    count = 0
    for number, case in enumerate(cases):
        position, content = number if positions is None else positions[number], _dumps(case)
        database.execute(
            "INSERT INTO cases (number, position, content, content_checksum) VALUES (?, ?, ?, ?)",
            (number, position, content, _checksum(number, position, content)),
        )
        count += 1
    _set(database, {_CASES: str(count)})


def _note(database: sqlite3.Connection, notes: Mapping[str, str]) -> None:
    _set(database, {f"note.{name}": value for name, value in notes.items()})


def _set(database: sqlite3.Connection, values: Mapping[str, str]) -> None:
    rows = [(key, value, _checksum(key, value)) for key, value in values.items()]
    database.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?, ?)", rows)


_FORGET: Final = (
    "UPDATE cases SET outcome = NULL, payload = NULL, outcome_checksum = NULL, finished = NULL WHERE"
)


def _checksum(*parts: object) -> str:
    return checksum("\0".join(map(str, parts)).encode(errors="surrogateescape"))


def _outcome_checksum(number: int, outcome: str, payload: str | None) -> str:
    return _checksum(number, outcome, "none" if payload is None else payload)


def _text(raw: bytes) -> str:
    """A text of the database, also one that damage has made no UTF-8: its checksum tells it."""
    return raw.decode(errors="surrogateescape")


def _is_version(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _damaged(path: Path, why: str) -> JournalError:
    message = (
        f"the journal is damaged: {why}; what result.json says can still be read (load, report, compare), but the run "
        "cannot go on: start it anew with --force or into another folder"
    )
    return JournalError(message, Place(path))


def _there(path: Path) -> None:
    """Raises `JournalError` unless the journal is a file, and its companions are where SQLite expects them."""
    for file in (path, path.with_name(f"{NAME}-wal"), path.with_name(f"{NAME}-shm")):
        if file.is_symlink():
            raise JournalError("it is a symbolic link, which is not followed here", Place(file))
        if file.exists() and not file.is_file():
            raise JournalError("it is not a regular file", Place(file))
    if not path.is_file():
        raise JournalError("there is no journal, so no run to resume; start it anew", Place(path))


def _no_wal(made: Path, path: Path) -> None:
    """Raises `NoSpaceError` when closing a database did not bring all of it into its file."""
    wal = made.with_name(f"{made.name}-wal")
    if wal.exists() and wal.stat().st_size:
        raise NoSpaceError("the journal cannot be written, so the disk is most likely full", Place(path))


def _dumps(value: Json) -> str:
    # Four times as quick as the standard library's, and every run passes here several times.
    return to_json(value).decode()


def _connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection; `read_only` where the folder cannot be written, so that nobody else changes the file either."""
    how = "immutable=1" if read_only else "mode=rw"
    database = sqlite3.connect(
        f"{path.absolute().as_uri()}?{how}", uri=True, isolation_level=None, timeout=_BUSY_SECONDS
    )
    database.execute("PRAGMA synchronous = NORMAL")
    return database


def _umask() -> int:
    """The mask for new files, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _publish(made: Path, path: Path) -> None:
    """Give a file its name, unless another took it meanwhile (a rename would replace that)."""
    try:
        path.hardlink_to(made)
    except FileExistsError as error:
        raise JournalError("another process has just begun a run in this folder", Place(path)) from error
    except OSError:  # a file system without hard links
        made.rename(path)


def _synchronise(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _translated(path: Path) -> Iterator[None]:
    """What SQLite says, in the user's words."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0)
        if code in _NO_SPACE:
            raise NoSpaceError(
                f"the journal cannot be written, so the disk is most likely full ({error}); what is recorded "
                "is safe: make space and resume the run",
                Place(path),
            ) from error
        if code & 0xFF in _DAMAGED:
            raise _damaged(path, str(error)) from error
        raise JournalError(f"the journal cannot be used: {error}", Place(path)) from error
