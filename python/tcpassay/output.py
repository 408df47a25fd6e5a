"""Output files of options such as `--out` and `--junit`: written completely or not at all, never replacing a device.

A regular file is written under a temporary name in the same folder and renamed, so that a failure preserves the old
content. A device or a pipe has no content to preserve and must not be replaced by a file: it is opened and written.
Symbolic links are followed. Block devices, sockets and folders are refused.
"""

import contextlib
import errno
import os
import stat
import sys
import tempfile  # noqa: TID251 - a draft is beside its target
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from tcpassay.errors import Place, UserError

_REFUSED: Final = (
    (stat.S_ISDIR, "it is a folder; name a file in it"),
    (stat.S_ISBLK, "it is a block device; name a file"),
    (stat.S_ISSOCK, "it is a socket; name a file"),
)


def write(target: Path, content: str | bytes, what: str = "the file") -> None:
    """Writes `content` to `target` and creates missing parent folders. Raises `UserError`.

    `what` is the name of the content in error messages, as in "cannot write the report".
    """
    with opened(target, what) as file:
        file.write(content if isinstance(content, bytes) else content.encode())


def write_whole(target: Path, content: str | bytes) -> None:
    """Writes a file of a result folder completely or not at all. Raises `OSError`."""
    draft = target.with_name(f".{target.name}.partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        draft.unlink(missing_ok=True)  # Otherwise a link that another user created would be followed.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(draft, flags, 0o666), "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        draft.replace(target)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def opened(target: Path, what: str = "the file") -> Iterator[IO[bytes]]:
    """Opens a file for writing in parts; it becomes `target` if the block ends without an error. Raises `UserError`.

    Only errors of the operating system while writing become a `UserError`. After other exceptions `target` is
    unchanged.
    """
    try:
        with _opened(target) as file:
            yield file
    except OSError as error:
        raise UserError(f"cannot write {what}: {reason(error)}", Place(target)) from None


def reason(error: OSError) -> str:
    """The error message of the operating system in lower case, for use in a sentence."""
    if error.errno == errno.ENXIO:
        return "nothing reads from this pipe"
    return (error.strerror or type(error).__name__).lower()


def check(target: Path | None, what: str = "the file") -> None:
    """Raises the `UserError` of a `target` that cannot be written, before its content is computed.

    A folder that will be created is named on standard error. `None`, an option that was not given, is accepted.
    """
    if target is None:
        return
    try:
        _direct(target)
        if not target.exists():
            above = next(folder for folder in (target.parent, *target.parent.parents) if folder.exists())
            if not above.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            if not os.access(above, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            if above != target.parent:
                sys.stderr.write(f"tcpassay: the folder {target.parent} does not exist and is created\n")
    except OSError as error:
        raise UserError(f"cannot write {what}: {reason(error)}", Place(target)) from None


@contextlib.contextmanager
def _opened(target: Path) -> Iterator[IO[bytes]]:
    if _direct(target):
        with _device(target) as file:
            yield file
        return
    real = Path(os.path.realpath(target))
    real.parent.mkdir(parents=True, exist_ok=True)
    # The prefix is constant, because the name of the target may already have the maximum length.
    handle, draft = tempfile.mkstemp(prefix=".tcpassay-", dir=real.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fchmod(file.fileno(), _mode(real))
        Path(draft).replace(real)
    finally:
        with contextlib.suppress(OSError):
            Path(draft).unlink(missing_ok=True)


def _direct(target: Path) -> bool:
    """Whether `target` is written directly instead of being replaced. Raises `OSError`."""
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return False
    for is_kind, why in _REFUSED:
        if is_kind(mode):
            raise OSError(errno.EINVAL, why)
    return not stat.S_ISREG(mode)


def _device(target: Path) -> IO[bytes]:
    # Without O_NONBLOCK, opening a pipe without a reader would block forever.
    handle = os.open(target, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    os.set_blocking(handle, True)
    return os.fdopen(handle, "wb")


def _mode(file: Path) -> int:
    """The permissions of the replaced file; for a new file those of the umask."""
    try:
        return stat.S_IMODE(file.stat().st_mode)
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
