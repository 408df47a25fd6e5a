"""Input files of values, as in `link.rate = "trace:uplink.txt"`; the result folder contains a copy of each.

File names in cases are relative to the plan. The copies in `inputs/` have the same relative names; if a name leaves the
plan's folder (`../uplink.txt`), the base folder is placed at a sufficient depth. A file with an absolute name is not
copied.
"""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath
from typing import Final

from tcpassay import regular
from tcpassay.errors import UserError
from tcpassay.output import write_whole
from tcpassay.plan.expand import factors
from tcpassay.plan.model import Search
from tcpassay.plan.read import Plan
from tcpassay.run.journal import Journal
from tcpassay.script.files import shell_files
from tcpassay.seal import checksum

FOLDER: Final = "inputs"
_DEEPER: Final = "below"
# For a value that is a file name itself: `stack.cc_engine = "mine.o"`.
_OBJECT: Final = ".o"
_BASE: Final = re.compile(rf"{FOLDER}(/{_DEEPER})*")


def names(plan: Plan, base: Path) -> list[str]:
    """The relative names of the files that the plan's cases read."""
    values = {value for case in plan.cases for value in case.triples.values() if isinstance(value, str)}
    if isinstance(plan.spec.strategy, Search):  # later cases may have values that the first ones do not have
        levels = (level for among in factors(plan.spec).values() for level in among)
        values |= {value for level in levels for value in level.triples.values() if isinstance(value, str)}
    named = {named_in(value) for value in values}
    for case in plan.cases:
        if case.script:
            named |= {case.script.file, *_called(case.script.file, base)}
    return sorted(
        name for name in named if name and not PurePath(name).is_absolute() and _is_file(base / name)
    )


def named_in(value: str) -> str:
    """The file that a value names, if it names one."""
    if value.endswith(_OBJECT):
        return value
    kind, _, rest = value.partition(":")
    return rest.rpartition(":")[0] if kind == "python" else rest


def _called(script: str, base: Path) -> set[str]:
    """The shell scripts that a packetdrill script calls, relative to the plan."""
    try:
        text = (base / script).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return set()
    parent = PurePath(script).parent
    return {os.path.normpath(parent / name) for name in shell_files(text, base / script)}


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # the value is not a file name
        return False


def base_of(folder: Path) -> Path:
    """The base of the file names in the cases of a result folder."""
    try:
        with Journal.peek(folder) as journal:
            base = journal.notes.get("base", "")
            return folder / (base if is_base(base) else FOLDER)
    except UserError:
        return folder / FOLDER


def is_base(text: str) -> bool:
    """Whether this is a base in the format of `copy`."""
    return _BASE.fullmatch(text) is not None


def are_sums(value: object) -> bool:
    """Whether these are checksums in the format of `copy`: names below `inputs/`, each with a checksum."""
    return isinstance(value, dict) and all(
        isinstance(said, str) and name == os.path.normpath(name) and name.startswith(f"{FOLDER}/")
        for name, said in value.items()
    )


def copy(plan: Plan, source: Path, folder: Path) -> tuple[Path, dict[str, str]]:
    """Copies the files that the plan's cases name relative to `source`.

    Returns the new base, and the checksum of each copy by name, both relative to `folder`. Raises `OSError`.
    """
    found = names(plan, source)
    base = Path(FOLDER, *[_DEEPER] * _climbs(found))
    sums = {}
    for name in found:
        content = regular.read_bytes(source / name)
        place = os.path.normpath(base / name)
        write_whole(folder / place, content)
        sums[place] = checksum(content)
    if found:
        (folder / base).mkdir(parents=True, exist_ok=True)
    return base, sums


def damaged(sums: dict[str, str], folder: Path) -> Iterator[str]:
    """The names of copies in `folder` with a different checksum."""
    for name, said in sums.items():
        try:
            if checksum(regular.read_bytes(folder / name, links=False)) != said:
                yield name
        except OSError:
            yield name


def _climbs(found: Iterable[str]) -> int:
    parts = [PurePath(os.path.normpath(name)).parts for name in found]
    return max((each.count("..") for each in parts), default=0)
