"""Builds the adapters of other TCPs into the user's cache: `tcpassay stack build`.

An adapter appears in the cache completely or not at all. Its sources and the versions of what it is built from are part
of this package; the toolchain downloads them from its registry and verifies their checksums.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tcpassay import _native
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
    another: tuple[str, ...] = ()
    """Run before it for another version than the pinned one, `VERSION`; empty if there is no other."""


_CARGO: Final = "install Rust (https://rustup.rs)"
RECIPES: Final = {
    "gvisor": Recipe(
        {"go": "install Go 1.26 or newer (https://go.dev/dl)"},
        ("go", "build", "-trimpath", "-mod=readonly", "-o", "PROGRAM", "."),
        ("sh", "version.sh", "VERSION"),
    ),
    "lwip": Recipe(
        {"cargo": _CARGO, "gcc": "install the package `gcc`"},
        ("sh", "build.sh", "PROGRAM"),
        ("PYTHON", "version.py", "VERSION"),
    ),
    "pytcp": Recipe({}, ("sh", "build.sh", "PROGRAM", "PYTHON"), ("sh", "version.sh", "PYTHON", "VERSION")),
}
"""By the value of `stack.implementation`."""
SMOLTCP: Final = "smoltcp"
"""It is in this program; another version is a process."""
_SMOLTCP: Final = Recipe({"cargo": _CARGO}, ("sh", "build.sh", "PROGRAM", "VERSION"), ("true",))

_VERSION: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+-]{0,99}")


def place(name: str) -> Path:
    """The program of an adapter, existing or not; the data plane looks for it there, too."""
    return cache() / "stacks" / name / PROGRAM


def command(implementation: str) -> str | None:
    """The command of the process of an implementation; `None` for smoltcp."""
    plain, at, _ = implementation.partition("@")
    if plain in RECIPES or (plain == SMOLTCP and at):
        return str(place(implementation))
    return None if implementation == SMOLTCP else implementation.removeprefix("exec:").strip()


def recipe_of(name: str) -> tuple[Recipe, str]:
    """The recipe of `NAME` or `NAME@VERSION`, and the version if there is one. Raises `UserError`."""
    plain, at, version = name.partition("@")
    recipe = _SMOLTCP if plain == SMOLTCP and at else RECIPES.get(plain)
    if recipe is None:
        there = ", ".join([*RECIPES, *(f"{one}@VERSION" for one in [SMOLTCP, *RECIPES])])
        raise UserError(f"`{name}` is not a stack that is built; there are {there}")
    if at and not _VERSION.fullmatch(version):
        raise UserError(f"`{name}`: a version has letters, digits, `.`, `-` and `+`, as in `pytcp@0.3.7`")
    return recipe, version


def build(name: str) -> Path:
    """Builds an adapter, `NAME` or `NAME@VERSION`, and replaces an older one.

    Raises `UserError` with the reason and the place of the log.
    """
    recipe, version = recipe_of(name)
    plain = name.partition("@")[0]
    for tool, missing in recipe.tools.items():
        if shutil.which(tool) is None:
            raise UserError(f"`{name}` needs `{tool}`: {missing}")
    target = place(name)
    folder = target.parent
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "build.log"
    with scratch_folder(folder) as scratch:
        sources, made = scratch / "sources", scratch / "made"
        shutil.copytree(
            Path(__file__).parent / plain,
            sources,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
        if plain == SMOLTCP:
            for path, text in _native.adapter_sources().items():
                (sources / path).parent.mkdir(parents=True, exist_ok=True)
                (sources / path).write_text(text, encoding="utf-8")
        words = {"PROGRAM": str(made), "PYTHON": sys.executable, "VERSION": version}
        steps = [recipe.another, recipe.command] if version else [recipe.command]
        code = 0
        with log.open("w", encoding="utf-8") as output:
            for step in steps:
                code = (
                    code
                    or subprocess.run(  # noqa: S603 - an argument list of our own
                        [words.get(word, word) for word in step],
                        cwd=sources,
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=output,
                        check=False,
                    ).returncode
                )
        if code:
            said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            last = said[-1] if said else f"exit code {code}"
            raise UserError(f"`{name}` cannot be built: {last}; the log is {log}")
        made.replace(target)
    return target


def others() -> list[str]:
    """The versions beside the pinned ones that are in the cache."""
    found = sorted((cache() / "stacks").glob(f"*@*/{PROGRAM}"))
    return [one.parent.name for one in found if os.access(one, os.X_OK)]


def is_built(name: str) -> bool:
    """Whether the adapter is in the cache."""
    return os.access(place(name), os.X_OK)
