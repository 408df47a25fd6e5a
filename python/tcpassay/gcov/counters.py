"""Counters of gcov that a guest wrote at its end, as functions, lines and branches.

`gcov --json-format` of the compiler that built the kernel reads the counters (`.gcda`) with the notes that the compiler
wrote (`.gcno`).
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NotRequired, TypedDict

from tcpassay.errors import UserError
from tcpassay.gcov.catalogue import Bits, Branch, Catalogue, File, Function
from tcpassay.scratch import folder as scratch_folder

NOTES: Final = ".gcno"
COUNTERS: Final = ".gcda"
ROOT: Final = "net/"
"""Sources in this folder are counted; functions of headers are counted only if the header is there, too."""


class _Branch(TypedDict):
    count: int


class _Line(TypedDict):
    line_number: int
    function_name: NotRequired[str]
    count: int
    branches: list[_Branch]


class _Function(TypedDict):
    name: str
    start_line: int
    end_line: int
    execution_count: int


class _Source(TypedDict):
    file: str
    functions: list[_Function]
    lines: list[_Line]


@dataclass
class _Counts:
    """The output of gcov for a source file."""

    functions: dict[Function, int] = field(default_factory=dict)
    lines: dict[int, int] = field(default_factory=dict)
    branches: dict[Branch, int] = field(default_factory=dict)

    def add(self, source: _Source) -> None:
        for one in source["functions"]:
            key = Function(one["name"], one["start_line"], one["end_line"])
            self.functions[key] = self.functions.get(key, 0) + one["execution_count"]
        for line in source["lines"]:
            number, name = line["line_number"], line.get("function_name", "")
            self.lines[number] = self.lines.get(number, 0) + line["count"]
            for place, branch in enumerate(line["branches"]):
                way = Branch(number, name, place)
                self.branches[way] = self.branches.get(way, 0) + branch["count"]


def catalogue_of(notes: Path) -> Catalogue:
    """All functions, lines and branches in the notes of a folder. Raises `UserError` if gcov cannot read them."""
    found = _counts(notes, [file.name for file in sorted(notes.glob(f"*{NOTES}"))])
    files = [
        File(
            name,
            tuple(sorted(counts.functions, key=lambda one: (one.first, one.name, one.last))),
            tuple(sorted(counts.lines)),
            tuple(sorted(counts.branches)),
        )
        for name, counts in sorted(found.items())
    ]
    if not any(file.lines for file in files):
        raise UserError("the kernel was compiled without counters: gcov finds no lines in its notes")
    return Catalogue(tuple(files))


def reached(catalogue: Catalogue, notes: Path, written: bytes) -> Bits:
    """The code that a guest reached, from its counters. Raises `UserError`."""
    with scratch_folder() as place:
        names = []
        for name, content in _files(written):
            (place / name).write_bytes(content)
            note = Path(name).with_suffix(NOTES).name
            (place / note).symlink_to(notes.resolve() / note)
            names.append(name)
        found = _counts(place, sorted(names))
    bits = 0
    for file in catalogue.files:
        counts = found.get(file.name)
        if counts is None:
            continue
        at = catalogue.start(file, "functions")
        bits |= sum(1 << at + n for n, one in enumerate(file.functions) if counts.functions.get(one))
        at = catalogue.start(file, "lines")
        bits |= sum(1 << at + n for n, line in enumerate(file.lines) if counts.lines.get(line))
        at = catalogue.start(file, "branches")
        bits |= sum(1 << at + n for n, branch in enumerate(file.branches) if counts.branches.get(branch))
    return bits


def _files(written: bytes) -> Iterator[tuple[str, bytes]]:
    """The files of counters in a guest's output: for each a line with its path and size, and its content."""
    at = 0
    while at < len(written):
        end = written.find(b"\n", at)
        path, _, size = written[at : max(end, at)].rpartition(b" ")
        if end < 0 or not size.isdigit() or end + 1 + int(size) > len(written):
            raise UserError("the counters of a guest are damaged")
        at = end + 1 + int(size)
        name = path.rpartition(b"/")[2].decode(errors="replace")
        if name.endswith(COUNTERS):
            yield name, written[end + 1 : at]


def _counts(folder: Path, names: list[str]) -> dict[str, _Counts]:
    found: dict[str, _Counts] = {}
    for source in _sources(folder, names):
        name = _name(source["file"])
        if name is not None:
            found.setdefault(name, _Counts()).add(source)
    return found


def _sources(folder: Path, names: list[str]) -> Iterator[_Source]:
    """The answers of gcov for files in a folder."""
    program = shutil.which("gcov")
    if program is None:
        raise UserError("coverage needs `gcov` (Debian: apt-get install gcc)")
    ran = subprocess.run(  # noqa: S603 - our own files
        [program, "--json-format", "--branch-probabilities", "--stdout", *names],
        cwd=folder,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        stdin=subprocess.DEVNULL,
    )
    try:
        answers = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    except ValueError:
        answers = []
    if ran.returncode != 0 or not answers or "version" in ran.stderr:
        said = ran.stderr.strip().splitlines()
        raise UserError(
            f"gcov cannot read the counters of a guest: {said[0] if said else 'without a message'}"
        )
    for answer in answers:
        yield from answer["files"]


def _name(path: str) -> str | None:
    """The name of a source in the tree; `None` for a source outside of `net/`."""
    _, found, rest = f"/{path}".rpartition(f"/{ROOT}")
    # `include/net/tcp.h` is in another folder of this name.
    return f"{ROOT}{rest}" if found and not f"/{path}".endswith(f"/include/{ROOT}{rest}") else None
