"""The sources of a kernel: Debian's package of a version, or a source tree of the user.

A source updates a copy that is then patched; the user's tree is not modified.
"""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, Protocol

from tcpassay.errors import UserError
from tcpassay.scratch import folder as scratch_folder

Stat = tuple[int, int]
"""Size and modification time of a file in ns."""
Say = Callable[[str], None]

# Folders that a build of User-Mode Linux does not read, a quarter of the tree. Kconfig files in them are needed.
UNREAD: Final = ("Documentation/", "drivers/gpu/drm/amd/include/", "tools/testing/")


ARCHIVE: Final = "http://deb.debian.org/debian"
KEYRING: Final = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
SUITES: Final = ("trixie-backports", "stable-backports", "unstable", "experimental")
"""Suites of Debian with later versions of Linux, which are asked in this order if apt's own sources lack a version."""

FULL_DISK: Final = re.compile(r"No space left on device|Disk quota exceeded", re.IGNORECASE)
"""What programs say when they cannot write any more."""
REQUIRED: Final = ("Kconfig", "arch/um/Makefile", "net/ipv4/tcp.c")
"""Files by which a Linux tree is recognized."""


_MOST_COPIES: Final = 10
"""How often a file that changes is copied before it is given up."""


class UnavailableError(UserError):
    """This machine has no programs for a build, or the source cannot be fetched: no build was begun."""


class Source(Protocol):
    """A kernel's source."""

    name: str
    """The default name of the kernel."""

    @property
    def identity(self) -> str:
        """The name of the folder with the copy of this source, which all kernels of the source share."""

    @property
    def words(self) -> str:
        """The description for users and for `kernel.json`."""

    def files(self, say: Say) -> dict[str, Stat]:
        """All files that a build may read, by path."""

    def copy(self, names: list[str], into: Path, say: Say) -> dict[str, Stat]:
        """Copies these files of `files` to a folder, with their modes; they are newer than anything built before.

        Returns what `files` would have said of the content that was copied, as far as it can be another one.
        """


def read_by_a_build(name: str) -> bool:
    """Whether a build may need this file."""
    return not name.startswith(UNREAD) or name.rsplit("/", 1)[-1].startswith("Kconfig")


@dataclass
class Debian:
    """`linux-source-<version>`: installed, or downloaded by apt into the cache without root.

    A version that apt's own sources lack is taken from Debian's backports, unstable or experimental.
    """

    version: str
    downloads: Path

    def __post_init__(self) -> None:
        self.name = self.version

    @property
    def identity(self) -> str:
        """See `Source`."""
        return f"debian-{self.version}"

    @property
    def words(self) -> str:
        """See `Source`."""
        return f"Debian linux-source-{self.version} ({self._digest[:12]})"

    @cached_property
    def _digest(self) -> str:
        with self._tarball.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()

    @cached_property
    def _tarball(self) -> Path:
        name = f"linux-source-{self.version}.tar.xz"
        for place in (Path("/usr/src") / name, self.downloads / name):
            if place.is_file():
                return place
        self._fetch(self.downloads / name)
        return self.downloads / name

    def _fetch(self, target: Path) -> None:
        package = f"linux-source-{self.version}"
        instead = "install it, or give a tree by `--source DIR`"
        if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
            raise UnavailableError(
                f"`{package}` is not installed, and there is no apt to fetch it with: {instead}"
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        with scratch_folder(target.parent) as scratch:
            problem = _downloaded(package, scratch, [])
            if problem and KEYRING.is_file():
                problem = _from_other_suites(package, scratch) and problem
            if problem:
                raise UnavailableError(f"`{package}` cannot be fetched: {problem}; {instead}")
            packages = list(scratch.glob("*.deb"))
            inside = f"./usr/src/{target.name}"
            unpacked = scratch / "unpacked"
            unpacked.mkdir()
            filesystem = scratch / "filesystem.tar"
            with filesystem.open("wb") as stream:
                subprocess.run(  # noqa: S603
                    ["dpkg-deb", "--fsys-tarfile", str(packages[0])],  # noqa: S607
                    stdout=stream,
                    check=True,
                )
            subprocess.run(  # noqa: S603
                ["tar", "-xf", str(filesystem), "-C", str(unpacked), inside],  # noqa: S607
                check=True,
            )
            (unpacked / inside).replace(target)

    def files(self, say: Say) -> dict[str, Stat]:
        """A single pseudo file, because an archive changes as a whole."""
        say(f"reading {self._tarball}")
        return {"": (self._tarball.stat().st_size, int(self._digest[:15], 16))}

    def copy(self, names: list[str], into: Path, say: Say) -> dict[str, Stat]:
        """Unpacks the archive."""
        if not names:
            return {}
        say(f"unpacking {self._tarball}")
        shutil.rmtree(into, ignore_errors=True)
        into.mkdir(parents=True)
        excluded = [
            f"--exclude=*/{prefix}*.{end}" for prefix in UNREAD for end in ("c", "h", "rst", "txt", "yaml")
        ]
        command = ["tar", "-xf", str(self._tarball), "-C", str(into), "--strip-components=1", *excluded]
        got = run(command)
        if got.returncode != 0:
            raise UserError(f"`{self._tarball}` cannot be unpacked: {cause(got.stderr)}")
        return {}


def _downloaded(package: str, into: Path, options: list[str]) -> str:
    """Lets apt download a package; why it cannot, or nothing."""
    got = run(["apt-get", "download", "-qq", *options, package], cwd=into)
    there = got.returncode == 0 and any(into.glob("*.deb"))
    return "" if there else last_line(got.stderr)


def _from_other_suites(package: str, into: Path) -> str:
    """Downloads a package from the first of `SUITES` that has it; why it cannot, or nothing.

    apt verifies the signatures with Debian's keys. Its lists are in `into`: the settings of the machine do not change.
    """
    problem = ""
    for suite in SUITES:
        home = into / suite
        for name in ("lists/partial", "cache/archives/partial"):
            (home / name).mkdir(parents=True)
        sources = home / "sources.list"
        sources.write_text(f"deb [signed-by={KEYRING}] {ARCHIVE} {suite} main\n", encoding="utf-8")
        options = [
            "-o", f"Dir::State::lists={home}/lists",
            "-o", f"Dir::Cache={home}/cache",
            "-o", f"Dir::Etc::sourcelist={sources}",
            "-o", "Dir::Etc::sourceparts=-",
        ]  # fmt: skip
        updated = run(["apt-get", "update", "-qq", *options])
        problem = last_line(updated.stderr) if updated.returncode else _downloaded(package, into, options)
        if not problem:
            break
    return problem


@dataclass
class Tree:
    """A Linux source tree of the user.

    The files known to git with their changes; without git, all files except build products.
    """

    path: Path

    def __post_init__(self) -> None:
        if not self.path.is_dir():
            raise UserError(f"`--source {self.path}`: there is no such folder")
        missing = [name for name in REQUIRED if not (self.path / name).is_file()]
        if missing:
            raise UserError(f"`--source {self.path}`: it is not a Linux tree, `{missing[0]}` is not there")
        self.path = self.path.resolve()
        self.name = name_of(self.path)

    @property
    def identity(self) -> str:
        """See `Source`."""
        return f"{self.name[:40]}-{hashlib.sha256(str(self.path).encode()).hexdigest()[:12]}"

    @property
    def words(self) -> str:
        """See `Source`."""
        described = (
            run(["git", "-C", str(self.path), "describe", "--always", "--dirty"]) if self._in_git else None
        )
        return str(self.path) + (
            f" ({described.stdout.strip()})" if described and described.returncode == 0 else ""
        )

    @cached_property
    def _in_git(self) -> bool:
        return (self.path / ".git").exists() and shutil.which("git") is not None

    def files(self, say: Say) -> dict[str, Stat]:
        """Size and modification time of each file."""
        say(f"reading {self.path}")
        found: dict[str, Stat] = {}
        for name in self._names():
            try:
                stat = os.lstat(self.path / name)
            except FileNotFoundError:
                continue  # listed by git and deleted
            found[name] = (stat.st_size, stat.st_mtime_ns)
        return found

    def _names(self) -> Iterator[str]:
        if self._in_git:
            command = [
                "git",
                "-C",
                str(self.path),
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ]
            listed = run(command)
            if listed.returncode != 0:
                raise UserError(f"`--source {self.path}`: git does not list it: {last_line(listed.stderr)}")
            yield from (name for name in listed.stdout.split("\0") if name and read_by_a_build(name))
            return
        for folder, _, files in os.walk(self.path):
            inside = os.path.relpath(folder, self.path)
            for file in files:
                name = file if inside == "." else f"{inside}/{file}"
                if not file.endswith((".o", ".a", ".cmd", ".ko", ".mod")) and read_by_a_build(name):
                    yield name

    def copy(self, names: list[str], into: Path, say: Say) -> dict[str, Stat]:
        """Copies the files one by one; a file that changes meanwhile is copied again."""
        if names:
            say(f"copying {len(names)} files of {self.path}")
        copied = {}
        for name in names:
            target = into / name
            target.parent.mkdir(parents=True, exist_ok=True)
            for _ in range(_MOST_COPIES):
                before = self._state(name)
                target.unlink(missing_ok=True)
                # Not with the time of the original: make compares it with the time at which the older one was compiled.
                shutil.copy(self.path / name, target, follow_symlinks=False)
                if self._state(name) == before:
                    break
            else:
                raise UserError(f"`{self.path / name}` changes while it is copied")
            copied[name] = before[:2]
        return copied

    def _state(self, name: str) -> tuple[int, int, int, int]:
        """Size, time of modification, and what a program cannot set back."""
        try:
            stat = os.lstat(self.path / name)
        except FileNotFoundError:
            raise UserError(f"`{self.path / name}` was removed while the tree was copied") from None
        return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino


def name_of(path: Path) -> str:
    """The name of a folder as the name of a kernel."""
    return "".join(c if c.isalnum() or c in "._+-" else "-" for c in path.name).strip("._+-") or "tree"


def run(command: list[str], cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a program without a shell and returns its output."""
    return subprocess.run(  # noqa: S603
        command,
        cwd=cwd,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        stdin=subprocess.DEVNULL,
        env=os.environ | {"LC_ALL": "C"},
    )


def cause(text: str) -> str:
    """The line of tar's errors that tells why: tar goes on after an error, and its last line tells nothing."""
    lines = [line for line in text.splitlines() if line.strip()] or ["no message"]
    return next((line for line in lines if FULL_DISK.search(line)), lines[0])


def last_line(text: str) -> str:
    """The last line of a program's output."""
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no message"
