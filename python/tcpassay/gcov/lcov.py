"""Coverage in the format of lcov (`geninfo(1)`), for `genhtml` and editors.

A count is the number of runs that reached a function, line or branch.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tcpassay.gcov.catalogue import File, Kind
from tcpassay.gcov.reached import Reach


def lcov(reach: Reach, sources: Path | None = None) -> str:
    """The text of a file; `sources` is the folder that contains `net/ipv4/tcp.c`, if the names are to be absolute."""
    return "".join(f"{line}\n" for file in reach.catalogue.files for line in _lines(reach, file, sources))


def _lines(reach: Reach, file: File, sources: Path | None) -> Iterator[str]:
    functions, lines, branches = (_counts(reach, file, kind) for kind in ("functions", "lines", "branches"))
    yield "TN:"
    yield f"SF:{sources / file.name if sources else file.name}"
    for function in file.functions:
        yield f"FN:{function.first},{function.name}"
    for place, function in enumerate(file.functions):
        yield f"FNDA:{functions[place]},{function.name}"
    yield f"FNF:{len(file.functions)}"
    yield f"FNH:{len(functions)}"
    reached = {file.lines[place] for place in lines}
    for place, branch in enumerate(file.branches):
        # A branch of a line that was never executed has no count.
        taken = str(branches[place]) if branch.line in reached else "-"
        yield f"BRDA:{branch.line},0,{_number(file, place)},{taken}"
    yield f"BRF:{len(file.branches)}"
    yield f"BRH:{len(branches)}"
    for place, line in enumerate(file.lines):
        yield f"DA:{line},{lines[place]}"
    yield f"LF:{len(file.lines)}"
    yield f"LH:{len(lines)}"
    yield "end_of_record"


def _number(file: File, place: int) -> int:
    """The number of a branch on its line, among those of all functions that this line is a part of."""
    first = place
    while first > 0 and file.branches[first - 1].line == file.branches[place].line:
        first -= 1
    return place - first


def _counts(reach: Reach, file: File, kind: Kind) -> Counter[int]:
    """The number of runs by place."""
    return Counter(place for bits in reach.runs for place in reach.catalogue.numbers(bits, file, kind))
