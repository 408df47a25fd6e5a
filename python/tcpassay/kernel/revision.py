"""A revision of a git repository as the source of a kernel.

The working tree of the repository is neither read nor changed: files are taken from git's objects. Successive revisions
of one repository share a copy, in which only the files that differ are replaced.
"""

import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tcpassay.errors import UserError
from tcpassay.kernel.source import REQUIRED, Say, Stat, cause, last_line, name_of, read_by_a_build, run

_AT_ONCE: Final = 500
"""Maximum number of paths in one command."""


@dataclass
class Revision:
    """A commit of a git repository with Linux."""

    path: Path
    revision: str

    def __post_init__(self) -> None:
        given = f"`--source {self.path} --revision {self.revision}`"
        if shutil.which("git") is None:
            raise UserError(f"{given}: this needs git (Debian: apt-get install git)")
        found = self._git(
            "rev-parse", "--verify", "--quiet", "--end-of-options", f"{self.revision}^{{commit}}"
        )
        if found.returncode != 0:
            known = self._git("rev-parse", "--git-dir")
            why = "the repository has no such revision" if known.returncode == 0 else last_line(known.stderr)
            raise UserError(f"{given}: {why}")
        self.path = self.path.resolve()
        self.commit = found.stdout.strip()
        there = self._git("ls-tree", "--name-only", self.commit, "--", *REQUIRED).stdout.split("\n")
        if missing := [name for name in REQUIRED if name not in there]:
            raise UserError(f"{given}: it is not a Linux tree, `{missing[0]}` is not there")
        short = self.revision if self.revision != self.commit else self.commit[:12]
        self.name = name_of(Path(f"{name_of(self.path)}-{short.replace('/', '-')}"))[:64]

    @property
    def identity(self) -> str:
        """See `Source`."""
        return f"{name_of(self.path)[:40]}-git-{hashlib.sha256(str(self.path).encode()).hexdigest()[:12]}"

    @property
    def words(self) -> str:
        """See `Source`."""
        described = self._git("describe", "--tags", "--always", self.commit)
        return f"{self.path} at {described.stdout.strip() or self.commit[:12]} ({self.commit[:12]})"

    def files(self, say: Say) -> dict[str, Stat]:
        """Mode and object of each file."""
        say(f"reading {self.path} at {self.commit[:12]}")
        listed = self._git("ls-tree", "-r", "-z", self.commit)
        found: dict[str, Stat] = {}
        for entry in listed.stdout.split("\0"):
            about, tab, name = entry.partition("\t")
            mode, _, rest = about.partition(" ")
            kind, _, blob = rest.partition(" ")
            if tab and kind == "blob" and read_by_a_build(name):
                found[name] = (int(mode, 8), int(blob[:15], 16))
        return found

    def copy(self, names: list[str], into: Path, say: Say) -> dict[str, Stat]:
        """Unpacks the files from the commit; their time is the current one."""
        if names:
            say(f"copying {len(names)} files of {self.commit[:12]}")
        into.mkdir(parents=True, exist_ok=True)
        for start in range(0, len(names), _AT_ONCE):
            self._unpack(names[start : start + _AT_ONCE], into)
        return {}

    def _unpack(self, names: list[str], into: Path) -> None:
        archive = [
            "git",
            "--literal-pathspecs",
            "-C",
            str(self.path),
            "archive",
            "--format=tar",
            self.commit,
            "--",
        ]
        with subprocess.Popen([*archive, *names], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as packing:  # noqa: S603
            unpacking = subprocess.run(  # noqa: S603
                ["tar", "-x", "-m", "-f", "-", "-C", str(into)],  # noqa: S607
                stdin=packing.stdout,
                capture_output=True,
                text=True,
                check=False,
                env=os.environ | {"LC_ALL": "C"},
            )
            said = packing.communicate()[1].decode(errors="replace")
        if packing.returncode != 0 or unpacking.returncode != 0:
            raise UserError(f"files of `{self.path}` cannot be copied: {cause(unpacking.stderr or said)}")

    def _git(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run(["git", "-C", str(self.path), *arguments])
