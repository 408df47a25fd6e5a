"""Coverage as tables for a terminal of 80 columns."""

from typing import Final

from rich.console import Console
from rich.markup import escape

from tcpassay import terminal
from tcpassay.gcov.catalogue import KINDS
from tcpassay.gcov.reached import Reach, groups, sums

_LABEL: Final = 38


def show(reach: Reach, release: str, console: Console, *, cases: bool) -> None:
    """Prints the table of files, and with `cases` that of cases."""
    of = f"Linux {release}" if release else reach.substrate
    console.print(
        escape(
            f"{reach.name}: {len(reach.runs):,} runs of {len(reach.cases):,} cases on {reach.substrate} ({of})"
        ),
        highlight=False,
        soft_wrap=True,
    )
    if reach.uncounted:
        console.print(f"{reach.uncounted} runs did not end, so that nothing was counted", style="yellow")
    grid = terminal.grid("reached", *KINDS)
    for column in grid.columns[1:]:
        column.justify = "right"
        column.no_wrap = True
    for name, files in groups(reach.catalogue):
        grid.add_row(escape(name), *(cell(*sums(reach, files, kind)) for kind in KINDS))
    console.print(grid)
    if cases:
        _cases(reach, console)


def cell(some: int, all_: int) -> str:
    """A number, the number of all, and the share."""
    return f"{some} of {all_} {share(some, all_)}"


def share(some: int, all_: int) -> str:
    """A share in percent, rounded down so that 100 % means all."""
    return f"{100 * some // all_:3} %" if all_ else "  - "


def _cases(reach: Reach, console: Console) -> None:
    grid = terminal.grid("case", "lines", "new", "branches", "new", "values")
    for column in grid.columns[1:-1]:
        column.justify = "right"
    for one in reach.cases:
        label = one.label if len(one.label) <= _LABEL else f"{one.label[: _LABEL - 3]}..."
        numbers = [
            str(reach.total(kind, bits)) for kind in ("lines", "branches") for bits in (one.bits, one.new)
        ]
        grid.add_row(one.case, *numbers, escape(label))
    console.print(grid)
