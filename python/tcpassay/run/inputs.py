"""Files that values name, as in `link.rate = "trace:uplink.txt"`, or are: the result folder keeps a copy of each.

A case names a file relative to the plan. The copies stand in `inputs/` so that the same names find them; where a name
climbs out of the plan's folder (`../uplink.txt`), the base lies as deep as is needed. A file with an absolute name
stays where it is.
"""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path, PurePath
from typing import Final

from tcpassay.plan.read import Plan

FOLDER: Final = "inputs"
_DEEPER: Final = "below"
# Of a value that is a file: `stack.cc_engine = "mine.o"`.
_OBJECT: Final = ".o"


def names(plan: Plan, base: Path) -> list[str]:
    """The relative names of the files that the plan's cases read."""
    values = {value for case in plan.cases for value in case.triples.values() if isinstance(value, str)}
    named = {value if value.endswith(_OBJECT) else value.partition(":")[2] for value in values}
    named |= {case.script.file for case in plan.cases if case.script}
    return sorted(
        name for name in named if name and not PurePath(name).is_absolute() and _is_file(base / name)
    )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # the value is no name of a file
        return False


def copy(plan: Plan, source: Path, folder: Path) -> Path:
    """Copies the files that the plan's cases name relative to `source`; the new base, relative to `folder`."""
    found = names(plan, source)
    base = Path(FOLDER, *[_DEEPER] * _climbs(found))
    for name in found:
        target = Path(os.path.normpath(folder / base / name))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, target)
    if found:
        (folder / base).mkdir(parents=True, exist_ok=True)
    return base


def _climbs(found: Iterable[str]) -> int:
    parts = [PurePath(os.path.normpath(name)).parts for name in found]
    return max((each.count("..") for each in parts), default=0)
