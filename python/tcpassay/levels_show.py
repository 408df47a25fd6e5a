"""Tables of metrics by parameter and by case, as text."""

from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.markup import escape

from tcpassay import levels, terminal
from tcpassay.interface import METRICS
from tcpassay.levels import Grid, Mean, Measured

CONTROLLER: Final = "stack.cc"
"""The parameter of the columns if it varies, because most plans compare controllers."""
_SHARE: Final = 0.01
"""A parameter that explains a smaller share of the variance of a metric gets no table."""


def choose(runs: Sequence[Measured], metric: str) -> tuple[str, str | None] | None:
    """The parameters of a table: the controller as columns, and the one with the largest effect as rows."""
    ranked = [name for name, share in levels.telling(runs, metric) if share >= _SHARE]
    if not ranked:
        return None
    across = CONTROLLER if CONTROLLER in levels.factors(runs) else ranked[1] if len(ranked) > 1 else None
    down = next((name for name in ranked if name != across), None)
    return (down, across) if down else (ranked[0], None)


def grid(one: Grid, console: Console) -> None:
    """One row per level of one parameter, one column per level of the other; each cell with its interval."""
    unit = METRICS[one.metric].unit if one.metric in METRICS else ""
    beside = f" and {one.across}" if one.across else ""
    console.print(
        f"[bold]{escape(one.metric)}[/] by {escape(one.down)}{escape(beside)}: mean and 95 % confidence interval",
        highlight=False,
    )
    drawn = terminal.grid()
    drawn.add_column(one.down.rpartition(".")[2], overflow="fold")
    for level in one.columns:
        drawn.add_column(level or "mean", justify="right", overflow="fold")
    for row in one.rows:
        cells = [one.cells.get((row, column)) for column in one.columns]
        drawn.add_row(row, *(cell(value, unit) if value else "" for value in cells))
    console.print(drawn)


def cell(value: Mean, unit: str) -> str:
    """As in `96.5 ± 1.2 Mbit/s`, in one unit."""
    if value.half is None:
        return terminal.number(value.mean, unit)
    return terminal.interval(value.mean, value.half, unit)


def cases(runs: Sequence[Measured], metrics: Sequence[str], console: Console) -> None:
    """One row per case: the varied parameters, and each metric averaged over its seeds."""
    known = METRICS
    names = levels.factors(runs)
    drawn = terminal.grid()
    for name in ("case", *names):
        drawn.add_column(name.rpartition(".")[2], overflow="fold")
    drawn.add_column("seeds", justify="right")
    for metric in metrics:
        drawn.add_column(metric, justify="right", overflow="fold")
    for case, of in levels.by_case(runs).items():
        different = levels.distinct(of)
        row = [case, *(of[0].varied.get(name, "") for name in names), str(len(of))]
        for metric in metrics:
            values = [value for run in different if (value := run.metrics.get(metric)) is not None]
            row.append(
                cell(levels.mean(values), known[metric].unit if metric in known else "") if values else "-"
            )
        drawn.add_row(*row)
    console.print(drawn)
