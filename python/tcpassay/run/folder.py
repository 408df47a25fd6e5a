"""The result folder.

    plan.toml           the plan, merged with the plans that it extends
    inputs/             the files that its values name
    journal.sqlite      the list of runs and their results, from which `--resume` continues
    result.json         the environment and every check; the checksums of other files
    runs.parquet        one row per run: case, seed, settings, outcome
    metrics.parquet     one row per completed run: case, seed, varied parameters, metrics
    findings.json       the findings of the oracles
    recordings/<case>-<seed>/   the recording of a run
    figures/            SVG and PNG
    isolate/            the causes of findings, and the runs of isolations
    explain/            sequence diagrams of explained findings
    search/             plans of the best cases of a search
    coverage/           the counters of each kernel with counters: the meaning of `covered` in runs.parquet

Files are written under a temporary name and renamed when they are complete; recordings are written to `.work/` and
moved. A file with its final name is therefore always complete. A new folder is created as `.NAME.new` in the same
parent folder and renamed. In an existing folder, `.tcpassay.lock` is created first, then the copies of the inputs, then
the journal, so that an interrupted creation is recognised: without a journal nothing is recorded yet, with one the
folder can be resumed.

A process that writes to the folder owns it (`owner.py`). Only the files listed here are ever removed.
"""

import contextlib
import os
import re
import shutil
import stat
from pathlib import Path, PurePath
from typing import Final

from tcpassay import regular
from tcpassay.errors import Place, UserError
from tcpassay.output import write_whole
from tcpassay.owner import INSIDE, LostError, Owner, beside, is_left

JOURNAL: Final = "journal.sqlite"
RESULT: Final = "result.json"
RECORDINGS: Final = "recordings"
WORK: Final = ".work"
# All entries of a result folder in the order in which they are removed.
FILES: Final = (
    RESULT, JOURNAL, f"{JOURNAL}-wal", f"{JOURNAL}-shm", "plan.toml", "runs.parquet", "metrics.parquet",
    "findings.json", "report.html",
)  # fmt: skip
FOLDERS: Final = ("recordings", "inputs", "figures", "isolate", "explain", "search", "coverage", WORK)
_LEFT: Final = re.compile(
    r"\..+\.partial|\.journal-.+\.new(-\w+)?|\.tcpassay-.+|journal\.sqlite-owner-\d+|\.tcpassay\.lock"
)
"""Names of files that a killed process may leave."""
_OURS: Final = re.compile(rb'\{\s*"format": \d+,\s*"tcpassay": ')
_CASE: Final = re.compile(r"[0-9A-Za-z_][0-9A-Za-z_-]{0,63}")


class UnwritableError(UserError):
    """A file of the results cannot be written."""


class Folder:
    """A result folder during writing, used by its owner."""

    def __init__(self, path: Path, owner: Owner, made: Path | None = None) -> None:
        self.path = path
        self.owner = owner
        self.is_new = made is not None
        """Whether this process makes the folder itself, not only its content."""
        self.made = made or path
        """The location of the folder before it is published."""

    @classmethod
    def create(cls, path: Path, *, replace: bool) -> "Folder":
        """Creates the folder. On an error nothing is left behind.

        The folder is not visible to others before `publish`. Incomplete files of the previous owner are removed.
        """
        try:
            str(path).encode()
        except UnicodeEncodeError:
            message = "the name of the folder is not UTF-8; choose another with --out"
            raise UserError(message, Place(path)) from None
        try:
            if path.exists() and not path.is_dir():
                raise UserError(
                    "not a folder; the results go into a folder of their own (--out)", Place(path)
                )
            Path(os.path.realpath(path)).parent.mkdir(parents=True, exist_ok=True)
            owner = Owner.take(path)
            try:
                return cls._create(path, owner, replace=replace)
            except BaseException:
                owner.release()
                raise
        except OSError as error:
            reason = (error.strerror or type(error).__name__).lower()
            raise UserError(
                f"cannot write results there: {reason}; choose another folder with --out", Place(path)
            ) from None

    @classmethod
    def _create(cls, path: Path, owner: Owner, *, replace: bool) -> "Folder":
        if path.exists():
            _refuse(path, replace=replace)
            if not os.access(path, os.W_OK | os.X_OK):
                raise PermissionError(13, "Permission denied")
            owner.enter(path)
            _refuse(path, replace=replace)  # another owner may have ended meanwhile
            _clear(path)
            folder = cls(path, owner)
        else:
            real = Path(os.path.realpath(path))
            made = real.with_name(beside(real.name, "new"))
            if made.is_dir() and (not any(made.iterdir()) or (made / INSIDE).exists()):
                shutil.rmtree(made)  # its creator is dead; otherwise this process could not own the place
            made.mkdir()
            owner.enter(made)
            folder = cls(path, owner, made)
        try:
            (folder.made / "recordings").mkdir(exist_ok=True)
        except BaseException:
            folder.abandon()
            raise
        return folder

    def publish(self) -> None:
        """Renames a complete folder to its final name."""
        if self.made != self.path:
            try:
                self.made.rename(self.path if not self.path.is_symlink() else os.path.realpath(self.path))
            except OSError as error:
                reason = (error.strerror or type(error).__name__).lower()
                message = f"cannot write results there: {reason}; choose another folder with --out"
                raise UserError(message, Place(self.path)) from None
            self.made = self.path
            self.owner.renamed()

    def abandon(self) -> None:
        """Removes a folder that could not be completed, and releases it."""
        with contextlib.suppress(OSError):
            if self.is_new:
                shutil.rmtree(self.made)
            else:
                _clear(self.made)
        self.close()

    @classmethod
    def existing(cls, path: Path) -> "Folder":
        """An existing folder with results, now owned by this process. Raises `UserError`."""
        if not any((path / mark).is_file() for mark in (RESULT, JOURNAL)):
            raise UserError(
                UNPLANNED if is_unplanned(path) else "there are no results to continue", Place(path)
            )
        folder = cls(path, own(path))
        try:
            with contextlib.suppress(OSError):  # they have no effect
                _sweep(path)
        except BaseException:
            folder.close()
            raise
        return folder

    def close(self) -> None:
        """Releases the folder."""
        self.owner.release()

    @property
    def work(self) -> Path:
        """The location of recordings during their creation."""
        return self.path / WORK

    def recording(self, case: str, seed: int) -> Path:
        """The location of the recording of a run."""
        return self.path / self.name(case, seed)

    @staticmethod
    def name(case: str, seed: int) -> str:
        """The same, relative to the folder. Raises `ValueError` for an invalid id or seed."""
        if not is_run(case, seed):
            raise ValueError(f"{case!r} with seed {seed!r} is no run")
        return f"{RECORDINGS}/{case}-{seed}"

    def begin_work(self) -> None:
        """Creates an empty folder for recordings; incomplete files of other processes are removed."""
        self.end_work()
        try:
            self.work.mkdir()
        except OSError as error:
            raise UnwritableError(f"it cannot be made: {_reason(error)}", Place(self.work)) from error

    def end_work(self) -> None:
        """Removes incomplete files."""
        shutil.rmtree(self.work, ignore_errors=True)

    def write(self, name: str, content: str | bytes) -> None:
        """Writes a file completely or not at all.

        Raises `UnwritableError`, and `LostError` if the folder was removed.
        """
        if self.made == self.path:
            self.owner.check()
        try:
            for within in [*PurePath(name).parents][:-1]:
                regular.no_link(self.made / within)
            write_whole(self.made / name, content)
        except OSError as error:
            raise UnwritableError(
                f"it cannot be written: {_reason(error)}", Place(self.path / name)
            ) from error

    def repair(self, name: str, content: str) -> None:
        """Writes a file again if its content is wrong."""
        try:
            if regular.read_bytes(self.path / name, links=False) == content.encode():
                return
        except OSError:
            pass
        self.write(name, content)


def is_run(case: object, seed: object) -> bool:
    """Whether these are a valid id and a valid seed, which may become part of a folder name."""
    named = isinstance(case, str) and _CASE.fullmatch(case) is not None
    return named and isinstance(seed, int) and not isinstance(seed, bool) and 0 <= seed < 2**64


def _reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()


def _refuse(path: Path, *, replace: bool) -> None:
    """Raises `UserError` for a folder whose content must not be replaced."""
    if not path.is_dir() or _is_unfinished(path):
        return
    if not _is_ours(path):
        message = (
            "the folder is not empty and holds no results, so nothing in it is removed; choose another with --out, or "
            "empty it"
        )
        raise UserError(message, Place(path))
    if not replace:
        message = (
            "the folder already has results; replace them with --force, or choose another with --out (`tcpassay run` "
            "continues them with --resume or --extend)"
        )
        raise UserError(message, Place(path))


def _is_ours(path: Path) -> bool:
    """Whether the folder contains results, complete or damaged."""
    if (path / JOURNAL).is_file():
        return True
    try:
        return _OURS.match(regular.read_bytes(path / RESULT, links=False)[:256]) is not None
    except OSError:
        return False


UNPLANNED: Final = (
    "its creation was interrupted, or has not ended, before its plan was recorded; run the plan again"
)


def is_unplanned(path: Path) -> bool:
    """Whether the creation of the folder was interrupted before the journal existed: only the lock shows it."""
    return is_left(path) and not any((path / mark).exists() for mark in (RESULT, JOURNAL))


def _is_unfinished(path: Path) -> bool:
    """Whether the folder is empty or contains only an interrupted start."""
    if any((path / mark).exists() for mark in (RESULT, JOURNAL)):
        return False
    if (path / INSIDE).exists():
        return True
    # Folders without files: earlier versions left them, and they contain no data.
    return all(
        entry.name in FOLDERS and not entry.is_symlink() and entry.is_dir() and _is_bare(entry)
        for entry in path.iterdir()
    )


def _is_bare(folder: Path) -> bool:
    return all(not files for _, _, files in os.walk(folder))


def _clear(path: Path) -> None:
    """Removes the files of tcpassay, the journal and the result first. Raises `OSError`."""
    for name in FILES:
        (path / name).unlink(missing_ok=True)
    for name in FOLDERS:
        _remove(path / name)
    _sweep(path)


def _sweep(path: Path) -> None:
    """Removes files that killed owners left. Raises `OSError`."""
    for entry in list(path.iterdir()):
        if entry.name != INSIDE and _LEFT.fullmatch(entry.name) and not entry.is_dir():
            entry.unlink(missing_ok=True)


def _remove(folder: Path) -> None:
    try:
        mode = folder.lstat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        shutil.rmtree(folder)
    else:
        folder.unlink()  # a link is removed, not its target


def own(path: Path) -> Owner:
    """Takes ownership of an existing folder to write to it.

    Raises `UserError` if an entry is a link, because writing through it would change another file.
    """
    owner = Owner.of(path)
    try:
        _no_links(path)
    except BaseException:
        owner.release()
        raise
    return owner


def _no_links(path: Path) -> None:
    inner = (f"isolate/{WORK}", "differences")
    for name in (*FILES, *FOLDERS, *inner):
        if (path / name).is_symlink():
            message = "it is a symbolic link; results are not written through links"
            raise UserError(message, Place(path / name))
    for folder, below, files in os.walk(path / "inputs"):
        for name in (*below, *files):
            if (Path(folder) / name).is_symlink():
                message = "it is a symbolic link; results are not written through links"
                raise UserError(message, Place(Path(folder) / name))


__all__ = ["Folder", "LostError", "UnwritableError", "is_run"]
