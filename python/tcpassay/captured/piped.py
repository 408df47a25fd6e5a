"""Captures from a pipe: they are copied to a temporary file, because a file is read more than once."""

import contextlib
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tcpassay import scratch
from tcpassay.errors import Place, Problem, UserError

STANDARD_INPUT: Final = Path("-")


@contextlib.contextmanager
def whole(file: Path) -> Iterator[Path]:
    """The file, or a copy of what comes from a pipe (`-`: standard input). Raises `UserError`, which names the pipe."""
    if not _is_pipe(file):
        yield file
        return
    with scratch.folder() as folder:
        copy = folder / "capture"
        try:
            with copy.open("wb") as written:
                if file == STANDARD_INPUT:
                    shutil.copyfileobj(sys.stdin.buffer, written)
                else:
                    with file.open("rb") as pipe:
                        shutil.copyfileobj(pipe, written)
        except OSError as error:
            raise UserError(
                f"it cannot be read: {(error.strerror or str(error)).lower()}", Place(file)
            ) from None
        try:
            yield copy
        except UserError as error:
            own = (Problem(one.message, Place(file) if one.place else None) for one in error.problems)
            raise UserError.several(own) from None


def _is_pipe(file: Path) -> bool:
    if file == STANDARD_INPUT:
        return True
    try:
        return stat.S_ISFIFO(file.stat().st_mode)
    except OSError:
        return False
