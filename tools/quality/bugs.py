"""The real bugs of Linux's TCP in tests/quality/history: their headers, and kernels into which they are put back.

The kernels are built in a folder of their own: one source tree and one object tree, in which a bug changes one or two
files, and a store with one image for each bug.
"""

import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from tcpassay.kernel import build as kernel_build
from tcpassay.kernel import shadow, store
from tcpassay.kernel.shadow import Patch
from tcpassay.kernel.source import Debian

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "quality" / "history"
VERSION = "6.1"
PLAIN = "plain"
"""The name of the kernel without a bug."""
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
        patch=Patch(file.stem, text),
    )


def bugs(only: list[str] | None = None) -> list[Bug]:
    """All bugs by name, or those with these names."""
    found = [read(file) for file in sorted(DATA.glob("*.patch"))]
    if unknown := set(only or []) - {bug.id for bug in found}:
        raise ValueError(f"there is no bug `{min(unknown)}` in {DATA}")
    return [bug for bug in found if not only or bug.id in only]


class Kernels:
    """The kernels of a folder: `tree` is built incrementally, `cache` is the store of images."""

    def __init__(self, folder: Path, jobs: int) -> None:
        self.tree = folder / "tree"
        self.cache = folder / "cache"
        self.jobs = jobs
        self.source = Debian(VERSION, store.cache() / "downloads")
        self.tree.mkdir(parents=True, exist_ok=True)

    def environment(self) -> dict[str, str]:
        """The environment of commands that use these kernels."""
        return os.environ | {"TCPASSAY_CACHE": str(self.cache)}

    def image(self, bug: Bug | None) -> str:
        """Builds the kernel with a bug, or the plain one, unless it is there. Returns its name in the store."""
        name = bug.id if bug else PLAIN
        place = self.cache / "kernels" / name
        state = place / "patch"
        text = bug.patch.text if bug else ""
        if (place / "kernel.json").is_file() and state.read_text(encoding="utf-8") == text:
            return name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        wanted = shadow.patches() + ([bug.patch] if bug else [])
        with kernel_build.alone(self.tree):
            copy = shadow.refresh(self.source, self.tree, wanted, say=lambda _: None)
            if not (self.tree / "build" / ".config").is_file():
                kernel_build._configure(copy.tree, self.tree, lambda _: None)  # noqa: SLF001 - see `make`
            kernel_build._make(copy.tree, self.tree, self.jobs, lambda _: None, lambda _: None)
            shutil.copy2(self.tree / "build" / "linux", place / "linux")
        state.write_text(text, encoding="utf-8")
        release = (self.tree / "build/include/config/kernel.release").read_text(encoding="utf-8").strip()
        described = {
            "name": name,
            "release": release,
            "source": self.source.words,
            "key": copy.digest,
            "built": "",
            "seconds": 0.0,
            "patches": copy.patches,
            "absent": [],
        }
        (place / "kernel.json").write_text(json.dumps(described), encoding="utf-8")
        return name
