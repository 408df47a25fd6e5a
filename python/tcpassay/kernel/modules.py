"""Congestion-control modules of a user, which are linked into a kernel.

A module is a folder with the C files of one or several controllers, or one file. Its files are built as those of
`net/ipv4`, so that it includes the headers there (`#include "tcp_vegas.h"`) and uses what the kernel exports. All C
files of the folder are linked together; its own makefile, which is for a loadable module, is not read.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tcpassay.errors import Place, UserError

OURS: Final = Path(__file__).with_name("controllers")
"""The modules of this package."""

_FOLDER: Final = "net/ipv4"
_MAKEFILE: Final = f"{_FOLDER}/Makefile"
_OPS: Final = re.compile(r"\bstruct\s+tcp_congestion_ops\s+\w+[^;{]*=\s*\{(.*?)\};", re.DOTALL)
_NAME: Final = re.compile(r'\.name\s*=\s*"([^"]*)"')
_COMMENT: Final = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_STEM: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_LARGEST: Final = 1 << 20
"""Maximum size of a file in bytes."""


@dataclass(frozen=True, slots=True)
class Module:
    """The C files and headers of one module."""

    name: str
    """The name of its folder or file, without `tcp_`."""
    files: dict[str, str]
    """The text of each file by its name."""
    controllers: list[str]
    """The names by which its controllers are registered."""
    place: Path

    @property
    def text(self) -> str:
        """All that a build depends on."""
        return "".join(f"{name}\n{text}\n" for name, text in self.files.items())

    @property
    def touches(self) -> list[str]:
        """Paths of the files of the tree that the module creates or changes."""
        return [*(f"{_FOLDER}/{name}" for name in self.files), _MAKEFILE]

    def apply(self, scratch: Path) -> None:
        """Adds the module to the files in `scratch`. Raises `UserError` for a file that the tree has already."""
        for name, text in self.files.items():
            file = scratch / _FOLDER / name
            if file.exists():
                raise UserError(
                    f"this kernel has a file `{_FOLDER}/{name}` itself: rename that of the module, or change the "
                    "kernel's with `--patch`",
                    Place(self.place),
                )
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8", errors="surrogateescape")
        objects = [name.removesuffix(".c") + ".o" for name in self.files if name.endswith(".c")]
        with (scratch / _MAKEFILE).open("a", encoding="utf-8") as makefile:
            makefile.write(f"\nobj-y += {' '.join(objects)}\n")


def read(given: list[Path]) -> list[Module]:
    """The modules of these folders and files; a bare name that is no path is a module of this package.

    Raises `UserError` for one without a controller, and for controllers or files of equal names.
    """
    modules = [_read(_ours(path)) for path in given]
    seen: dict[str, Path] = {}
    for module in modules:
        for name in (*module.files, *module.controllers):
            if name in seen:
                raise UserError(f"`{name}` is also in the module `{seen[name]}`", Place(module.place))
            seen[name] = module.place
    return modules


def _ours(given: Path) -> Path:
    ours = OURS / f"tcp_{given}.c"
    return ours if len(given.parts) == 1 and not given.exists() and ours.is_file() else given


def _read(place: Path) -> Module:
    found = sorted(file for end in ("*.c", "*.h") for file in place.glob(end)) if place.is_dir() else [place]
    # A build of the loadable module leaves this file beside its sources.
    sources = [file for file in found if not file.name.endswith(".mod.c")]
    if not any(file.suffix == ".c" for file in sources):
        known = ", ".join(file.stem.removeprefix("tcp_") for file in sorted(OURS.glob("*.c")))
        raise UserError(
            f"a module is a folder with C files, a file `.c`, or one of this package ({known})", Place(place)
        )
    files = {file.name: _text(file) for file in sources}
    controllers = [
        name[1]
        for text in files.values()
        for ops in _OPS.finditer(_COMMENT.sub(" ", text))
        if (name := _NAME.search(ops[1]))
    ]
    if not controllers:
        raise UserError(
            'it has no controller: no `struct tcp_congestion_ops x = { .name = "..." };`', Place(place)
        )
    return Module(place.resolve().name.removesuffix(".c").removeprefix("tcp_"), files, controllers, place)


def _text(file: Path) -> str:
    if not _STEM.fullmatch(file.stem):
        raise UserError("the name of a file of a module has only letters, digits, `_` and `-`", Place(file))
    try:
        with file.open("rb") as stream:
            content = stream.read(_LARGEST + 1)
    except OSError as error:
        reason = (error.strerror or "error").lower()
        raise UserError(f"the module cannot be read: {reason}", Place(file)) from None
    if len(content) > _LARGEST:
        raise UserError("a file of a module has at most 1 MB", Place(file))
    return content.decode("utf-8", "surrogateescape")
