"""Scratch folders that do not stay behind when the process that made them is killed.

All of a user's lie in one folder, `tcpassay-<uid>` of the system's folder for temporary files, each with a lock that
its process holds; the kernel lets go of a lock when its process ends, however that comes about. Whoever makes a
scratch folder first removes those whose lock nobody holds.
"""

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_OWNER: Final = "owner.lock"


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A folder of its own, which is removed at the end, or by the next process when this one is killed."""
    home = _home()
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


def _home() -> Path | None:
    """The folder of this user's; `None` when somebody else has made it, or others may write to it."""
    home = Path(tempfile.gettempdir()) / f"tcpassay-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        home.mkdir(mode=0o700)
    found = home.lstat()
    own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
    return home if own else None


def _sweep(home: Path) -> None:
    """Removes what nobody owns; the caller holds the lock of the whole, so that nothing is only half made."""
    for entry in os.scandir(home):
        if not entry.is_dir(follow_symlinks=False):
            continue
        owner = _lock(Path(entry.path) / _OWNER)
        if owner is not None:
            shutil.rmtree(entry.path, ignore_errors=True)
            os.close(owner)


def _lock(file: Path) -> int | None:
    """The open file with its lock, which is made when it is not there; `None` when somebody holds it."""
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
