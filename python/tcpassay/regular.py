"""Reading of regular files only, because a pipe or a device could block or never end."""

import errno
import os
import stat
from pathlib import Path
from typing import Final

_KINDS: Final = (
    (stat.S_ISDIR, "it is a folder"),
    (stat.S_ISFIFO, "it is a pipe"),
    (stat.S_ISCHR, "it is a device"),
    (stat.S_ISBLK, "it is a device"),
    (stat.S_ISSOCK, "it is a socket"),
)


class IrregularError(OSError):
    """A file that is not regular, or that is larger than allowed."""

    def __init__(self, why: str) -> None:
        super().__init__(0, why)


def read_bytes(file: Path, *, largest: int | None = None, links: bool = True) -> bytes:
    """The content of a regular file of at most `largest` bytes.

    Without `links`, a symbolic link is refused, because it leads out of a result folder. Raises `OSError`;
    `IrregularError` contains the type of the file.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    status = file.stat() if links else file.lstat()
    check(status.st_mode, links=links)
    handle = os.open(file, flags if links else flags | os.O_NOFOLLOW)
    with os.fdopen(handle, "rb") as opened:
        status = os.fstat(handle)
        check(status.st_mode)
        if largest is not None and status.st_size > largest:
            raise IrregularError(f"it has {status.st_size} bytes; allowed are {largest}")
        # A file of /proc reports a size of zero but may have content.
        content = opened.read(-1 if largest is None else largest + 1)
    if largest is not None and len(content) > largest:
        raise IrregularError(f"it has more than the {largest} bytes that are allowed")
    return content


def check(mode: int, *, links: bool = True) -> None:
    """Raises `IrregularError` unless this is the mode of a regular file."""
    if not links and stat.S_ISLNK(mode):
        raise IrregularError("it is a symbolic link, which is not followed here")
    for is_kind, why in _KINDS:
        if is_kind(mode):
            raise IrregularError(f"{why}, not a regular file")


def no_link(folder: Path) -> None:
    """Raises `OSError` if a folder in which files are to be written is a symbolic link."""
    if folder.is_symlink():
        raise OSError(errno.ELOOP, "it is a symbolic link, through which nothing is written", str(folder))
