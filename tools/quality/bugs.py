"""The real bugs of Linux's TCP in tests/quality/history: their headers, and kernels that contain them again.

The patches apply to the source of Debian's 6.1, before those of tcpassay.
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tcpassay.kernel import store
from tcpassay.kernel.series import Patch

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "quality" / "history"
VERSION = "6.1"
PLAIN = "plain"
"""The name of the kernel without a bug."""
TCPASSAY = [sys.executable, "-m", "tcpassay"]
FIELDS = ("Fixed-by", "Introduced-by", "Lived", "Verified", "Symptom")
_HASH = re.compile(r"[0-9a-f]{12} \S")
_YEARS = re.compile(r"(before )?(19|20)\d\d(-20\d\d)?")


@dataclass(frozen=True, slots=True)
class Bug:
    """A bug: the commit that fixed it, where it came from, the years in which it was there, and what it did."""

    id: str
    fixed_by: str
    introduced_by: str
    lived: str
    verified: str
    symptom: str
    patch: Patch
    cases: tuple[str, ...] = ()
    """Factors and values that select cases; several values of a factor are alternatives. Empty: all cases."""
    window_cases: tuple[str, ...] = ()
    """The same for plans/kernel-windows.toml; empty: as `cases`."""

    @property
    def title(self) -> str:
        """The title of the fixing commit."""
        return self.fixed_by.partition(" ")[2]


def read(file: Path) -> Bug:
    """A bug from its file. Raises `ValueError` if a field of the header is missing or has the wrong form."""
    text = file.read_text(encoding="utf-8")
    header = text.partition("\n--- a/")[0]
    joined = re.sub(r"\n +", " ", header)
    found = dict(line.split(": ", 1) for line in joined.splitlines() if ": " in line)
    if missing := [name for name in FIELDS if not found.get(name, "").strip()]:
        raise ValueError(f"{file.name}: its header has no `{missing[0]}:`")
    if not _HASH.match(found["Fixed-by"]):
        raise ValueError(f"{file.name}: `Fixed-by: {found['Fixed-by']}` is not twelve digits and a title")
    if not _YEARS.fullmatch(found["Lived"]):
        raise ValueError(f"{file.name}: `Lived: {found['Lived']}` is not `<year>-<year>`")
    return Bug(
        id=file.stem,
        fixed_by=found["Fixed-by"],
        introduced_by=found["Introduced-by"],
        lived=found["Lived"],
        verified=found["Verified"],
        symptom=found["Symptom"],
        patch=Patch(file.stem, text, file),
        cases=tuple(found.get("Cases", "").replace(",", " ").split()),
        window_cases=tuple(found.get("Window-cases", "").replace(",", " ").split()),
    )


def bugs(only: list[str] | None = None, folder: Path = DATA) -> list[Bug]:
    """All bugs of a folder by name, or those with these names in this order. Raises `ValueError` for others."""
    known = {file.stem: file for file in sorted(folder.glob("*.patch"))}
    if unknown := [name for name in only or [] if name not in known]:
        raise ValueError(f"there is no bug `{unknown[0]}` in {folder}")
    return [read(known[name]) for name in only or known]


class Kernels:
    """Kernels in a store of their own, built in one object tree: a bug changes one or two files."""

    def __init__(self, folder: Path, jobs: int) -> None:
        self.cache = folder / "cache"
        self.jobs = jobs
        self.cache.mkdir(parents=True, exist_ok=True)
        downloads = store.cache() / "downloads"
        downloads.mkdir(parents=True, exist_ok=True)
        if not (self.cache / "downloads").exists():
            (self.cache / "downloads").symlink_to(downloads)
        # The tree of a package is kept between builds if it is there before.
        (self.cache / "trees" / f"debian-{VERSION}").mkdir(parents=True, exist_ok=True)

    def environment(self) -> dict[str, str]:
        """The environment of commands that use these kernels."""
        return os.environ | {"TCPASSAY_CACHE": str(self.cache)}

    def source(self, name: str) -> Path:
        """The source of 6.1 from which the kernel with this name was built."""
        return self.cache / "kernels" / name / "tree" / "source"

    def image(self, bug: Bug | None) -> str:
        """Builds the kernel with a bug, or the plain one, unless it is there. Returns its name in the store."""
        name = bug.id if bug else PLAIN
        patch = ["--patch", str(bug.patch.file)] if bug else []
        command = [*TCPASSAY, "kernel", "build", "--debian", VERSION, "--name", name, *patch]
        ended = subprocess.run(  # noqa: S603
            [*command, "--jobs", str(self.jobs)],
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        if ended.returncode:
            sys.exit(f"error: {' '.join(command)}\n{ended.stdout}{ended.stderr}")
        return name
