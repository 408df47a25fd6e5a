"""Temporary folders that are removed even if their process was killed.

All temporary folders of a user are in `tcpassay-<uid>` in the system's folder for temporary files, or in the one that
must be on the same disk. Each has a lock file
that its process holds; the kernel releases the lock when the process ends. A process that creates a temporary folder
first removes those without a held lock.
"""

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile  # noqa: TID251 - the only place that makes temporary folders
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_OWNER: Final = "owner.lock"


def parent() -> Path:
    """The system's folder for temporary files."""
    return Path(tempfile.gettempdir())


@contextlib.contextmanager
def folder(near: Path | None = None) -> Iterator[Path]:
    """A temporary folder that is removed at the end, or by the next process if this one is killed.

    With `near` it is in a folder of that folder, so that its files can be renamed to places there.
    """
    home = _home(parent(), "tcpassay") if near is None else _home(near, ".tcpassay")
    if home is None:
        with tempfile.TemporaryDirectory(prefix="tcpassay-") as lone:
            yield Path(lone)
        return
    with _locked(home / ".lock"):
        _sweep(home)
        made = Path(tempfile.mkdtemp(dir=home))
        owner = _lock(made / _OWNER)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        if owner is not None:
            os.close(owner)


def _home(place: Path, name: str) -> Path | None:
    """The folder of this user; `None` if another user created it or can write to it."""
    home = place / f"{name}-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        home.mkdir(mode=0o700)
    found = home.lstat()
    own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
    return home if own else None


def _sweep(home: Path) -> None:
    """Removes folders without an owner; the caller holds the global lock, so that no folder is incomplete."""
    for entry in os.scandir(home):
        if not entry.is_dir(follow_symlinks=False):
            continue
        try:
            owner = _lock(Path(entry.path) / _OWNER)
        except FileNotFoundError:  # its process has just removed it, which needs no global lock
            continue
        if owner is not None:
            shutil.rmtree(entry.path, ignore_errors=True)
            os.close(owner)


def _lock(file: Path) -> int | None:
    """The open and locked file, which is created if missing; `None` if another process holds the lock."""
    handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


@contextlib.contextmanager
def _locked(file: Path) -> Iterator[None]:
    handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
