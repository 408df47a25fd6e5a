"""Builds the adapters of other TCPs into the user's cache: `tcpassay stack build`.

An adapter appears in the cache completely or not at all. Its sources and the versions of what it is built from are part
of this package; the toolchain downloads them from its registry and verifies their checksums.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tcpassay.errors import UserError
from tcpassay.kernel.store import cache
from tcpassay.scratch import folder as scratch_folder

PROGRAM: Final = "adapter"


@dataclass(frozen=True, slots=True)
class Recipe:
    """How an adapter is built."""

    tools: dict[str, str]
    """The programs that build it, and how to install each."""
    command: tuple[str, ...]
    """Run in a copy of the recipe's folder. `PROGRAM` stands for the place of the result, `PYTHON` for this Python."""


RECIPES: Final = {
    "gvisor": Recipe(
        {"go": "install Go 1.26 or newer (https://go.dev/dl)"},
        ("go", "build", "-trimpath", "-mod=readonly", "-o", "PROGRAM", "."),
    ),
    "lwip": Recipe(
        {"cargo": "install Rust (https://rustup.rs)", "gcc": "install the package `gcc`"},
        ("sh", "build.sh", "PROGRAM"),
    ),
    "pytcp": Recipe({}, ("sh", "build.sh", "PROGRAM", "PYTHON")),
}
"""By the value of `stack.implementation`."""


def place(name: str) -> Path:
    """The program of an adapter, existing or not; the data plane looks for it there, too."""
    return cache() / "stacks" / name / PROGRAM


def build(name: str) -> Path:
    """Builds an adapter, and replaces an older one. Raises `UserError` with the reason and the place of the log."""
    recipe = RECIPES.get(name)
    if recipe is None:
        raise UserError(f"`{name}` is not a stack that is built; there are {', '.join(RECIPES)}")
    for tool, missing in recipe.tools.items():
        if shutil.which(tool) is None:
            raise UserError(f"`{name}` needs `{tool}`: {missing}")
    target = place(name)
    folder = target.parent
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "build.log"
    with scratch_folder(folder) as scratch:
        sources, made = scratch / "sources", scratch / "made"
        shutil.copytree(Path(__file__).parent / name, sources, ignore=shutil.ignore_patterns("__pycache__"))
        words = {"PROGRAM": str(made), "PYTHON": sys.executable}
        command = [words.get(word, word) for word in recipe.command]
        with log.open("w", encoding="utf-8") as output:
            ran = subprocess.run(  # noqa: S603 - an argument list of our own
                command, cwd=sources, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False
            )
        if ran.returncode:
            said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            last = said[-1] if said else f"exit code {ran.returncode}"
            raise UserError(f"`{name}` cannot be built: {last}; the log is {log}")
        made.replace(target)
    return target


def is_built(name: str) -> bool:
    """Whether the adapter is in the cache."""
    return os.access(place(name), os.X_OK)
