"""The result folder.

    plan.toml           the plan, with all that it extends
    inputs/             the files that its values name
    journal.sqlite      which runs there are, and what came of each: what `--resume` works from
    result.json         what was run on what, every outcome, every check
    metrics.parquet     a row a run: case, seed, what the plan varies, metrics
    findings.json       what the oracles found
    recordings/<case>-<seed>/   what the run of a case left behind
    figures/            SVG and PNG

Files are written under another name and renamed when they are whole; recordings are made in `.work/` and moved: at any
moment what has its name can be read.
"""

import contextlib
import os
import shutil
from pathlib import Path

from tcpassay.errors import Place, UserError

# What tells a result folder from somebody's own; only such a folder is ever replaced.
MARKS = ("result.json", "journal.sqlite")
WORK = ".work"


class UnwritableError(UserError):
    """A file of the results cannot be written."""


class Folder:
    """A result folder that is being written."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path, *, replace: bool) -> "Folder":
        """Makes the folder, or says why it cannot be; on an error nothing is left behind."""
        place = Place(path)
        try:
            if path.is_dir() and any(path.iterdir()):
                cls._clear(path, replace=replace)
            elif path.exists() and not path.is_dir():
                raise UserError("not a folder; the results go into a folder of their own (--out)", place)
            path.mkdir(parents=True, exist_ok=True)
            if not os.access(path, os.W_OK | os.X_OK):
                raise PermissionError(13, "Permission denied")
            (path / "recordings").mkdir()
        except OSError as error:
            reason = (error.strerror or type(error).__name__).lower()
            raise UserError(
                f"cannot write results there: {reason}; choose another folder with --out", place
            ) from None
        return cls(path)

    @classmethod
    def existing(cls, path: Path) -> "Folder":
        """A folder that has results already."""
        if not any((path / mark).is_file() for mark in MARKS):
            raise UserError("there are no results to go on with", Place(path))
        return cls(path)

    @staticmethod
    def _clear(path: Path, *, replace: bool) -> None:
        if not any((path / mark).is_file() for mark in MARKS):
            message = "the folder is not empty and holds no results; choose another with --out"
            raise UserError(message, Place(path))
        if not replace:
            message = (
                "the folder already has results; go on with them by --resume or --extend, replace them with --force, "
                "or choose another with --out"
            )
            raise UserError(message, Place(path))
        shutil.rmtree(path)

    @property
    def work(self) -> Path:
        """Where recordings are made."""
        return self.path / WORK

    def recording(self, case: str, seed: int) -> Path:
        """Where the recording of a run stands."""
        return self.path / self.name(case, seed)

    @staticmethod
    def name(case: str, seed: int) -> str:
        """The same, as it is named in the folder."""
        return f"recordings/{case}-{seed}"

    def begin_work(self) -> None:
        """An empty place for recordings to be made; what another process did not finish goes."""
        self.end_work()
        self.work.mkdir()

    def end_work(self) -> None:
        """Removes what was not finished."""
        shutil.rmtree(self.work, ignore_errors=True)

    def write(self, name: str, content: str | bytes) -> None:
        """Writes a file whole or not at all. Raises `UnwritableError`."""
        target = self.path / name
        draft = target.with_name(f".{target.name}.partial")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            draft.write_bytes(content if isinstance(content, bytes) else content.encode())
            draft.replace(target)
        except OSError as error:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
            reason = (error.strerror or type(error).__name__).lower()
            raise UnwritableError(f"it cannot be written: {reason}", Place(target)) from error
