"""The places in which the counted sources of two kernels differ, with the lines whose counters show that they ran.

A changed statement has the counters of its lines. A changed macro, constant or inline function of a header has no
counter of its own: it runs where it is used, so that its place has the lines that use its name. What is compiled out,
a comment or a declaration has none.
"""

import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tcpassay.errors import UserError
from tcpassay.gcov.catalogue import Bits, Catalogue

_HUNK: Final = re.compile(r"^(\d+)(?:,(\d+))?([acd])(\d+)(?:,(\d+))?$")
_COMMENT: Final = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_STRING: Final = re.compile(r'"(?:\\.|[^"\\\n])*"')
_DEFINE: Final = re.compile(r"^\s*#\s*define\s+(\w+)")
_VARIABLE: Final = re.compile(r"^[a-z][\w\s*]*?\b(\w+)(?:\s+__\w+)*\s*(?:\[[^\]]*\])*\s*=(?!=)")
_FUNCTION: Final = re.compile(r"^[a-z][^;=#]*?\b(\w+)\s*\(")
_ENDS: Final = (";", "{", "}", ":")
_MOST_NAMES: Final = 50
"""Names that follow from one changed definition; a name that everything uses says nothing."""

Line = tuple[str, int]
"""A line with a counter: file and number."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place in which two trees differ."""

    file: str
    first: int
    """First line, from 1, on HEAD; on BASE if HEAD has no such line."""
    last: int
    on: str
    """`head`, or `base` for lines that HEAD does not have."""
    base: frozenset[Line]
    """Lines of BASE with counters that run what was changed or removed."""
    head: frozenset[Line]
    uses: tuple[str, ...] = ()
    """The changed macros, constants and inline functions, whose uses are counted."""

    @property
    def counted(self) -> bool:
        """Whether a counter shows if it ran."""
        return bool(self.base or self.head)


class Tree:
    """The counted sources of a kernel, and which of their lines have counters."""

    def __init__(self, folder: Path, catalogue: Catalogue) -> None:
        self.folder = folder
        self.catalogue = catalogue
        self._text: dict[str, list[str]] = {}
        self._lines = {file.name: frozenset(file.lines) for file in catalogue.files}
        self._functions = {file.name: file.function_of for file in catalogue.files}

    def names(self) -> set[str]:
        """The files, relative to the root of the source."""
        return {str(one.relative_to(self.folder)) for one in self.folder.rglob("*.[ch]")}

    def text(self, name: str) -> list[str]:
        """The lines of a file without comments and strings; none if there is no such file."""
        if name not in self._text:
            try:
                said = (self.folder / name).read_text(encoding="utf-8", errors="replace")
            except FileNotFoundError:
                said = ""
            blank = _COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), said)
            self._text[name] = _STRING.sub('""', blank).splitlines()
        return self._text[name]

    def place(self, name: str, first: int, last: int) -> tuple[frozenset[Line], tuple[str, ...]]:
        """The counted lines that run the lines of a range, and the names through which they do."""
        text = self.text(name)
        found: set[Line] = set()
        names: dict[str, None] = {}
        for number in range(first, min(last, len(text)) + 1):
            if not text[number - 1].strip():
                continue
            if defined := self._defined(name, number):
                names.setdefault(defined)
            else:
                found |= self._statement(name, number)
        found |= self._used(name, list(names))
        return frozenset(found), tuple(names)

    def function(self, line: Line) -> str:
        """The function of a counted line."""
        return self._functions.get(line[0], {}).get(line[1], "")

    def executed(self, lines: Iterable[Line], bits: Bits) -> bool:
        """Whether a run that reached `bits` executed one of the lines."""
        return any(bits & self.bit(line) for line in lines)

    def bit(self, line: Line) -> Bits:
        """The bit of a counted line."""
        file = self.catalogue.named([line[0]])[0]
        return 1 << self.catalogue.start(file, "lines") + file.lines.index(line[1])

    def _statement(self, name: str, number: int) -> set[Line]:
        """The counted line of a statement, which may begin above; empty if it is not compiled."""
        text, counted = self.text(name), self._lines.get(name, frozenset())
        while number not in counted:
            above = text[number - 2].strip() if number > 1 else "#"
            if not above or above.startswith("#") or above.endswith(_ENDS):
                return set()
            number -= 1
        return {(name, number)}

    def _defined(self, name: str, number: int) -> str:
        """The macro, constant, or inline function without counters of its own that a line belongs to."""
        text = self.text(name)
        at = number
        while at > 1 and text[at - 2].rstrip().endswith("\\"):
            at -= 1
        if found := _DEFINE.match(text[at - 1]):
            return found[1]
        if not text[number - 1][:1].isspace() and (found := _VARIABLE.match(text[number - 1])):
            return found[1]
        if name.endswith(".h") and number not in self._lines.get(name, ()):
            # A function of a header has no counters; those of its callers tell.
            for line in reversed(text[:number]):
                if line[:1] == "}":
                    break
                if found := _FUNCTION.match(line):
                    return found[1]
        return ""

    def _used(self, name: str, names: list[str]) -> set[Line]:
        """The counted lines that use names, also through other definitions. A header is used by all files."""
        found: set[Line] = set()
        known = list(names)
        while names and len(known) <= _MOST_NAMES:
            one = re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b")
            names = []
            for file in sorted(self.names()) if name.endswith(".h") else [name]:
                for number, line in enumerate(self.text(file), 1):
                    if not one.search(line):
                        continue
                    if through := self._defined(file, number):
                        if through not in known:
                            known.append(through)
                            names.append(through)
                    else:
                        found |= self._statement(file, number)
        return found


def places(base: Tree, head: Tree) -> list[Place]:
    """The places in which two trees differ, apart from comments and blank lines. Raises `UserError` without `diff`."""
    made = []
    for name in sorted(base.names() | head.names()):
        if not (name.endswith(".h") and name not in base.names() & head.names()):
            made += [one for hunk in _hunks(base, head, name) if (one := _place(base, head, name, hunk))]
    return made


_Hunk = tuple[tuple[int, int], tuple[int, int]]
"""First and last line on BASE and on HEAD; the last is before the first if there is none."""


def _place(base: Tree, head: Tree, name: str, hunk: _Hunk) -> Place | None:
    of_base, of_head = hunk
    if not any(
        text.strip()
        for tree, (first, last) in ((base, of_base), (head, of_head))
        for text in tree.text(name)[first - 1 : last]
    ):
        return None
    before, through = base.place(name, *of_base)
    after, now = head.place(name, *of_head)
    on, shown = ("head", of_head) if of_head[0] <= of_head[1] else ("base", of_base)
    return Place(name, *shown, on, before, after, tuple(dict.fromkeys((*now, *through))))


def _hunks(base: Tree, head: Tree, name: str) -> Iterator[_Hunk]:
    files = [tree.folder / name for tree in (base, head)]
    if not all(file.exists() for file in files):
        yield (1, len(base.text(name))), (1, len(head.text(name)))
        return
    program = shutil.which("diff")
    if program is None:
        raise UserError("the changed lines of two kernels need `diff` (Debian: apt-get install diffutils)")
    said = subprocess.run(  # noqa: S603 - our own files
        [program, "--text", *map(str, files)],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        stdin=subprocess.DEVNULL,
    ).stdout
    for line in said.splitlines():
        if found := _HUNK.match(line):
            a, b = (
                _range(found[1], found[2], empty=found[3] == "a"),
                _range(found[4], found[5], empty=found[3] == "d"),
            )
            yield a, b


def _range(first: str, last: str | None, *, empty: bool) -> tuple[int, int]:
    start = int(first)
    return (start + 1, start) if empty else (start, int(last or first))


def functions(tree: Tree, lines: Sequence[Line] | frozenset[Line]) -> list[str]:
    """The functions of counted lines."""
    return sorted({name for line in lines if (name := tree.function(line))})
