"""Terminal output of a search: the best cases, the history of the best value, and the next commands."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from rich.console import Console
from rich.markup import escape

from tcpassay import terminal
from tcpassay.interface import METRICS
from tcpassay.plan.expand import Case
from tcpassay.result_format import BestRow, SearchRow
from tcpassay.search import files
from tcpassay.terminal import number

Step = TypeVar("Step")
STEPS: Final = 8
"""Maximum number of displayed values of the history; `result.json` contains all."""


def show(search: SearchRow, cases: Mapping[str, Case], folder: Path, console: Console) -> None:
    """Prints the result of a search; `search` is its part of `result.json`."""
    how = "random search" if search["method"] == "random" else "search"
    ended = f"; {search['ended']}" if search["ended"] else ""
    console.print(
        f"[bold]{how.capitalize()}[/] of {escape(_objective(search))}: {search['generations']} generations, "
        f"{search['runs']} runs{escape(ended)}",
        highlight=False,
    )
    if not search["best"]:
        console.print("[yellow]no case has the metric or finding[/]", highlight=False)
        return
    grid = terminal.grid()
    grid.add_column(search["metric"] or "found", justify="right")
    grid.add_column("case", no_wrap=True)
    grid.add_column("settings", overflow="fold", ratio=1)
    for one in search["best"]:
        case = cases[one["case"]]
        grid.add_row(value_text(search, one), case.id, escape(case.label))
    console.print(grid)
    path = [f"{value_text(search, one)} after {one['runs']}" for one in _some(search["path"])]
    console.print(f"History of the best value, by number of runs: {escape(', '.join(path))}", highlight=False)
    best = search["best"][0]
    file = shlex.quote(str(folder / files.name_of_best(1, best["case"])))
    console.print(f"Run the best case:    tcpassay run {escape(file)}", highlight=False, soft_wrap=True)
    where = escape(shlex.quote(str(folder)))
    wanted = "best" if search["metric"] else ""
    console.print(f"Isolate its cause:    tcpassay isolate {where} {wanted}", highlight=False, soft_wrap=True)


def value_text(search: SearchRow, one: BestRow) -> str:
    """The value of a case of the search with its unit, or the seed with which the finding showed."""
    if search["metric"] is None:
        return f"seed {one['found_with_seed']}"
    value = number(one["value"], METRICS[search["metric"]].unit)
    return value if one["found_with_seed"] is None else f"{value}, found with seed {one['found_with_seed']}"


def _objective(search: SearchRow) -> str:
    metric = f"the {search['worst']} `{search['metric']}`" if search["metric"] else ""
    found = f"a finding of `{search['finding']}`" if search["finding"] else ""
    return " and ".join(part for part in (found, metric) if part)


def _some(path: Sequence[Step]) -> Sequence[Step]:
    """The first, the last and some intermediate values of the history."""
    if len(path) <= STEPS:
        return path
    places = sorted({round(n * (len(path) - 1) / (STEPS - 1)) for n in range(STEPS)})
    return [path[n] for n in places]
