"""The file of a journal: creation, publication, locks, opening, and messages for errors of SQLite."""

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tcpassay.errors import Place
from tcpassay.run.folder import JOURNAL
from tcpassay.run.journal_rows import JournalError, NoSpaceError

NAME: Final = JOURNAL
_BUSY_SECONDS: Final = 60.0
_NO_SPACE: Final = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE}
_DAMAGED: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}

MINE: Final[set[Path]] = set()
"""Lock files of this process. Its own locks do not block it, so that it would consider itself dead."""


def alive(path: Path) -> bool:
    """Whether a process holds the lock."""
    if path in MINE:
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


def damaged(path: Path, why: str) -> JournalError:
    """The error for a journal that cannot be read."""
    message = (
        f"the journal is damaged: {why}; what result.json says can still be read (load, report, compare), but the run "
        "cannot continue: start it again with --force or into another folder"
    )
    return JournalError(message, Place(path))


def check_files(path: Path) -> None:
    """Raises `JournalError` unless the journal and SQLite's additional files are regular files in their place."""
    for file in (path, path.with_name(f"{NAME}-wal"), path.with_name(f"{NAME}-shm")):
        if file.is_symlink():
            raise JournalError("it is a symbolic link, which is not followed here", Place(file))
        if file.exists() and not file.is_file():
            raise JournalError("it is not a regular file", Place(file))
    if not path.is_file():
        raise JournalError("there is no journal, so no run to resume; start it again", Place(path))


def check_closed(made: Path, path: Path) -> None:
    """Raises `NoSpaceError` if closing a database did not write all its data to the file."""
    wal = made.with_name(f"{made.name}-wal")
    if wal.exists() and wal.stat().st_size:
        raise NoSpaceError("the journal cannot be written, so the disk is most likely full", Place(path))


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Opens a connection; with `read_only` if the folder is not writable, so that no other process changes the file."""
    how = "immutable=1" if read_only else "mode=rw"
    database = sqlite3.connect(
        f"{path.absolute().as_uri()}?{how}", uri=True, isolation_level=None, timeout=_BUSY_SECONDS
    )
    database.execute("PRAGMA synchronous = NORMAL")
    return database


def umask() -> int:
    """The umask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def publish(made: Path, path: Path) -> None:
    """Gives a file its name unless another file has it (a rename would replace that file)."""
    try:
        path.hardlink_to(made)
    except FileExistsError as error:
        raise JournalError("another process has just begun a run in this folder", Place(path)) from error
    except OSError:  # a file system without hard links
        made.rename(path)


def synchronise(path: Path) -> None:
    """Synchronises a file or a folder with the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def translated(path: Path) -> Iterator[None]:
    """Converts an error of SQLite to a message for users."""
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
            raise damaged(path, str(error)) from error
        raise JournalError(f"the journal cannot be used: {error}", Place(path)) from error
