"""The functions, lines and branches of a kernel that are counted, in a fixed order.

What a run reached is a set of numbers in this order (`Bits`).
"""

import base64
import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, Literal, NamedTuple, Self, TypedDict

from tcpassay.errors import Place, UserError

Bits = int
"""A set of numbers: bit n is set if the n-th function, line or branch was reached."""
Kind = Literal["functions", "lines", "branches"]
KINDS: Final[tuple[Kind, ...]] = ("lines", "branches", "functions")
_FORMAT: Final = 1


class Function(NamedTuple):
    """A function of a source file."""

    name: str
    first: int
    """Its first line, from 1."""
    last: int


class Branch(NamedTuple):
    """One way out of a condition."""

    line: int
    function: str
    number: int
    """From 0, in the order of gcov, among the branches of this line in this function."""


@dataclass(frozen=True)
class File:
    """A source file."""

    name: str
    """Relative to the root of the source tree, such as `net/ipv4/tcp_input.c`."""
    functions: tuple[Function, ...]
    lines: tuple[int, ...]
    """Lines with code, ascending, from 1."""
    branches: tuple[Branch, ...]

    def amount(self, kind: Kind) -> int:
        """The number of functions, lines or branches."""
        return len(
            self.functions if kind == "functions" else self.lines if kind == "lines" else self.branches
        )

    @cached_property
    def function_of(self) -> dict[int, str]:
        """The function of each line with code; of nested ones the innermost."""
        widest = sorted(self.functions, key=lambda one: (one.first - one.last, one.name))
        return {line: one.name for one in widest for line in self.lines if one.first <= line <= one.last}


@dataclass(frozen=True)
class Catalogue:
    """Everything that is counted."""

    files: tuple[File, ...]

    @cached_property
    def digest(self) -> str:
        """A digest of eight digits; catalogues with different meanings of numbers have different digests."""
        return hashlib.sha256(self.as_text().encode()).hexdigest()[:8]

    @cached_property
    def _starts(self) -> dict[tuple[str, Kind], int]:
        made: dict[tuple[str, Kind], int] = {}
        at = 0
        for file in self.files:
            for kind in KINDS:
                made[file.name, kind] = at
                at += file.amount(kind)
        return made

    def start(self, file: File, kind: Kind) -> int:
        """The number of the first function, line or branch of a file."""
        return self._starts[file.name, kind]

    def mask(self, file: File, kind: Kind) -> Bits:
        """All functions, lines or branches of a file."""
        return ((1 << file.amount(kind)) - 1) << self.start(file, kind)

    def of_kind(self, kind: Kind) -> Bits:
        """All functions, lines or branches."""
        return sum(self.mask(file, kind) for file in self.files)

    def numbers(self, bits: Bits, file: File, kind: Kind) -> Iterator[int]:
        """The indices, from 0, of the functions, lines or branches of a file that are in `bits`."""
        own = (bits >> self.start(file, kind)) & ((1 << file.amount(kind)) - 1)
        return (place for place, digit in enumerate(reversed(f"{own:b}")) if digit == "1")

    def encode(self, bits: Bits) -> str:
        """A set as text, with the digest of the catalogue."""
        content = bits.to_bytes((bits.bit_length() + 7) // 8, "little")
        return f"{self.digest}:{base64.b64encode(zlib.compress(content, 9)).decode()}"

    def decode(self, text: str) -> Bits:
        """A set from text. Raises `UserError` if it was made with another catalogue or is damaged."""
        digest, _, content = text.partition(":")
        if digest != self.digest:
            raise UserError("the coverage of a run was counted by another build of the kernel")
        try:
            return int.from_bytes(zlib.decompress(base64.b64decode(content, validate=True)), "little")
        except (ValueError, zlib.error):
            raise UserError("the coverage of a run is damaged") from None

    def as_text(self) -> str:
        """The content of a file, which `read` reads."""
        files = {
            file.name: {"functions": file.functions, "lines": file.lines, "branches": file.branches}
            for file in self.files
        }
        return json.dumps({"format": _FORMAT, "files": files}, separators=(",", ":")) + "\n"

    @classmethod
    def read(cls, file: Path) -> Self:
        """Reads a file. Raises `UserError`."""
        try:
            said = json.loads(file.read_text(encoding="utf-8"))
            return cls(tuple(_file(name, parts) for name, parts in said["files"].items()))
        except OSError as error:
            why = (error.strerror or "error").lower()
            raise UserError(f"the catalogue of the coverage cannot be read: {why}", Place(file)) from None
        except (ValueError, KeyError, TypeError):
            raise UserError("this is no catalogue of the coverage of a kernel", Place(file)) from None

    def named(self, names: Iterable[str]) -> list[File]:
        """The files with these names, without those that do not exist."""
        wanted = frozenset(names)
        return [file for file in self.files if file.name in wanted]


class _Parts(TypedDict):
    """A file as JSON."""

    functions: list[tuple[str, int, int]]
    lines: list[int]
    branches: list[tuple[int, str, int]]


def _file(name: str, parts: _Parts) -> File:
    return File(
        name,
        tuple(Function(str(function), int(first), int(last)) for function, first, last in parts["functions"]),
        tuple(map(int, parts["lines"])),
        tuple(Branch(int(line), str(function), int(number)) for line, function, number in parts["branches"]),
    )
