"""The store of built kernels: one folder per kernel in the user's cache, with the description of its source.

A kernel is complete if `kernel.json` exists, which is written last. A folder without it is an interrupted build, which
continues when the same kernel is built again.

The patched copy of a source with its object files is in a folder of its own (`tree`), which all kernels of the same
source share: building another series of patches recompiles only what differs.
"""

import contextlib
import json
import os
import re
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from tcpassay.errors import UserError

COVERAGE: Final = "coverage"
"""The variant with counters of code coverage, and the folder of a kernel with the files that gcov needs."""
CATALOGUE: Final = "catalogue.json"
"""The file in this folder with the list of counted places."""
DEFAULT: Final = "TCPASSAY_KERNEL"
"""The environment variable with the name of the kernel of the substrate `kernel`."""
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")


@dataclass(frozen=True, slots=True)
class Kernel:
    """A complete kernel."""

    name: str
    release: str
    """The release according to `uname -r`."""
    source: str
    """The description of the source."""
    key: str
    """Hash of source, configuration, patches and compiler."""
    built: str
    """Time of the build, UTC."""
    seconds: float
    """Duration of the build in real time."""
    patches: list[str]
    absent: list[str]
    """Configuration symbols that this version does not have."""
    series: list[str] = field(default_factory=list)
    """Names of the user's patches, in their order."""
    contained: list[str] = field(default_factory=list)
    """Names of the patches of this package that the source does not need."""
    variant: str = ""
    """The variant (`variant.py`); empty for a plain kernel."""
    modules: list[str] = field(default_factory=list)
    """Names of the controllers of the user's modules."""

    @property
    def substrate(self) -> str:
        """The substrate of plans."""
        return f"kernel:{self.name}"

    @property
    def words(self) -> str:
        """The kernel in words."""
        with_ = f", with {', '.join(self.series)}" if self.series else ""
        return f"{self.name} (Linux {self.release}, {self.source}{with_})"

    @property
    def folder(self) -> Path:
        """The folder that `remove` deletes."""
        return folder(self.name)

    @property
    def image(self) -> Path:
        """The executable."""
        return self.folder / "linux"

    @property
    def notes(self) -> Path | None:
        """The folder with the files that gcov needs to read the counters of a guest; `None` without counters."""
        return self.folder / COVERAGE if self.variant == COVERAGE else None

    def as_json(self) -> dict[str, object]:
        """The form for `--json`."""
        return asdict(self) | {"image": str(self.image)}


def cache() -> Path:
    """`$TCPASSAY_CACHE`, or `tcpassay` in the user's cache folder."""
    if given := os.environ.get("TCPASSAY_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tcpassay"


def folder(name: str) -> Path:
    """The folder of the kernel with this name, existing or not. Raises `UserError` for an invalid name."""
    if not NAME.fullmatch(name):
        raise UserError(
            f"`{name}`: a kernel's name has at most 64 letters, digits and `.`, `_`, `+`, `-`, "
            "and begins with a letter or digit"
        )
    return cache() / "kernels" / name


def tree(identity: str) -> Path:
    """The folder with the copy and the object files of a source, existing or not."""
    return cache() / "trees" / identity


def uses(name: str, identity: str) -> None:
    """Records that a kernel is built from a tree, so that the tree is removed with the last of its kernels."""
    link = folder(name) / "tree"
    link.unlink(missing_ok=True)
    link.symlink_to(tree(identity))


def kernels() -> list[Kernel]:
    """All complete kernels by name."""
    home = cache() / "kernels"
    names = sorted(entry.name for entry in home.iterdir()) if home.is_dir() else []
    return [kernel for name in names if NAME.fullmatch(name) and (kernel := read(name))]


def read(name: str) -> Kernel | None:
    """The kernel with this name, if it is complete."""
    place = folder(name)
    try:
        kernel = Kernel(**json.loads((place / "kernel.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return kernel if (place / "linux").is_file() else None


def find(name: str | None = None) -> Kernel:
    """The kernel with this name, or that of `$TCPASSAY_KERNEL`, or the only one, or Debian's 6.1.

    Raises `UserError` with the list of kernels.
    """
    known = kernels()
    name = name or os.environ.get(DEFAULT)
    for kernel in known:
        if kernel.name == (name or ("6.1" if len(known) > 1 else known[0].name)):
            return kernel
    there = ", ".join(f"`{kernel.name}`" for kernel in known) or "none"
    wanted = f"there is no kernel `{name}`" if name else "no kernel was named"
    how = "--help` says how others are built" if known else "--debian 6.1` builds one"
    raise UserError(f"{wanted}; built are: {there}. `tcpassay kernel build {how}")


def write(kernel: Kernel) -> None:
    """Marks the kernel in its folder as complete."""
    file = kernel.folder / "kernel.json"
    draft = file.with_suffix(".new")
    draft.write_text(json.dumps(asdict(kernel), indent=2) + "\n", encoding="utf-8")
    draft.replace(file)


def remove(name: str) -> None:
    """Removes a kernel, complete or not, and its tree if no other kernel uses it.

    Raises `UserError` if there is no kernel with this name.
    """
    place = folder(name)
    if not place.is_dir():
        find(name)
    (place / "kernel.json").unlink(missing_ok=True)
    built_from = _tree_of(place)
    shutil.rmtree(place)
    others = {_tree_of(other) for other in place.parent.iterdir() if other.is_dir()}
    if built_from is not None and built_from not in others:
        drop(built_from)


def drop(path: Path) -> None:
    """Removes a file or a folder, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _tree_of(place: Path) -> Path | None:
    with contextlib.suppress(OSError):
        return (place / "tree").readlink()
    return None
