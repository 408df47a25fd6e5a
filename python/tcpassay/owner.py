"""Ownership of a result folder: one process at a time may change it.

An owner holds two locks:

* `.NAME.lock` beside the folder: it remains valid if the folder is removed and created again under the same name;
* `.tcpassay.lock` in the folder: it remains valid if the folder is moved or accessed under another name.

The kernel releases the locks when the process ends for any reason, so that a lock file of a dead owner has no effect.
The locks are those of flock(2), which Linux forwards to the server for files on NFS (nfs(5), `local_lock`). If the
parent folder is not writable, there is no lock beside the folder; in this case the folder cannot be removed and created
again either.

The owner removes its lock files. After locking a file, a process therefore checks that the file still has its name.
"""

import contextlib
import errno
import fcntl
import os
from pathlib import Path
from typing import Final, Self

from tcpassay import seal
from tcpassay.errors import Place, UserError

INSIDE: Final = ".tcpassay.lock"
_LONGEST: Final = 200
"""Maximum length of a folder's name for which a lock file beside it is possible."""
_HELD: Final[set[tuple[int, int]]] = set()
"""Device and inode of the lock files that this process holds."""
_UNWRITABLE: Final = {errno.EACCES, errno.EPERM, errno.EROFS}


class BusyError(UserError):
    """Another process owns the folder."""


class LostError(UserError):
    """The folder was removed, or another folder has its name."""


class _Lock:
    """A locked file. Raises `BlockingIOError` if another process holds the lock, otherwise `OSError`."""

    def __init__(self, file: Path) -> None:
        self.file = file
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        while True:
            self._handle = os.open(file, flags, 0o666)
            try:
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self.holds():
                    _HELD.add(self._identity())
                    return
            except BaseException:
                os.close(self._handle)
                raise
            os.close(self._handle)  # the previous owner removed it meanwhile

    def holds(self) -> bool:
        """Whether the locked file still has its name."""
        try:
            return os.path.samestat(os.fstat(self._handle), self.file.lstat())
        except FileNotFoundError:
            return False

    def _identity(self) -> tuple[int, int]:
        status = os.fstat(self._handle)
        return status.st_dev, status.st_ino

    def release(self) -> None:
        """Removes the file and releases the lock."""
        _HELD.discard(self._identity())
        with contextlib.suppress(OSError):
            if self.holds():
                self.file.unlink()
        os.close(self._handle)


class Owner:
    """The right to change a result folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._process = os.getpid()
        self._locks: list[_Lock] = []
        self._folder: os.stat_result | None = None

    @classmethod
    def take(cls, path: Path) -> Self:
        """Takes ownership of `path`, which may not exist yet. Raises `BusyError` or `UserError`."""
        owner = cls(path)
        real = Path(os.path.realpath(path))
        try:
            if real.parent.is_dir() and real.name:
                owner._lock(real.parent / beside(real.name, "lock"))
        except OSError as error:
            if error.errno not in _UNWRITABLE:
                raise _unlockable(error, path) from error
        return owner

    @classmethod
    def of(cls, path: Path) -> Self:
        """Takes ownership of an existing folder."""
        owner = cls.take(path)
        try:
            owner.enter(path)
        except BaseException:
            owner.release()
            raise
        return owner

    def enter(self, folder: Path) -> None:
        """Locks the folder itself, which is `path` or is renamed to it later (`renamed`)."""
        try:
            self._lock(folder / INSIDE)
            self._folder = folder.stat()
        except OSError as error:
            raise _unlockable(error, folder) from error

    def renamed(self) -> None:
        """Records that the locked folder now has the name `path`."""
        self._locks[-1].file = self.path / INSIDE

    def _lock(self, file: Path) -> None:
        try:
            self._locks.append(_Lock(file))
        except BlockingIOError:
            message = "another process works on these results; wait for it, or end it"
            raise BusyError(message, Place(self.path)) from None

    def check(self) -> None:
        """Raises `LostError` if the folder is no longer the locked one."""
        try:
            same = self._folder is not None and os.path.samestat(self._folder, self.path.stat())
        except FileNotFoundError:
            same = False
        if not same or not all(lock.holds() for lock in self._locks):
            message = "the folder was removed or replaced while runs went on; nothing more is written there"
            raise LostError(message, Place(self.path))

    def release(self) -> None:
        """Releases the ownership."""
        if os.getpid() != self._process:
            return
        while self._locks:
            self._locks.pop().release()


def is_left(folder: Path) -> bool:
    """Whether the folder has a lock file of another process, which is most likely dead."""
    try:
        status = (folder / INSIDE).lstat()
    except OSError:
        return False
    return (status.st_dev, status.st_ino) not in _HELD


def beside(name: str, what: str) -> str:
    """The name of a related file or folder in the same parent folder."""
    raw = os.fsencode(name)
    return f".{name if len(raw) <= _LONGEST else seal.checksum(raw)}.{what}"


def _unlockable(error: OSError, path: Path) -> UserError:
    reason = (error.strerror or type(error).__name__).lower()
    return UserError(f"cannot write results there: {reason}; no lock can be taken", Place(path))
