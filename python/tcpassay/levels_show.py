"""Tables of metrics by parameter and by case, for people."""

from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.markup import escape

from tcpassay import levels, terminal
from tcpassay.levels import Grid, Mean, Measured
from tcpassay.plan import table

CONTROLLER: Final = "stack.cc"
"""The parameter across, where it varies: what most plans compare."""
_SHARE: Final = 0.01
"""Share of a metric's variance below which no parameter is worth a table."""


def choose(runs: Sequence[Measured], metric: str) -> tuple[str, str | None] | None:
    """The two parameters by which a metric is best read: the controller across, and down what explains most."""
    ranked = [name for name, share in levels.telling(runs, metric) if share >= _SHARE]
    if not ranked:
        return None
    across = CONTROLLER if CONTROLLER in levels.factors(runs) else ranked[1] if len(ranked) > 1 else None
    down = next((name for name in ranked if name != across), None)
    return (down, across) if down else (ranked[0], None)


def grid(one: Grid, console: Console) -> None:
    """A row for each level of one parameter, a column for each of the other; each cell with its interval."""
    unit = table.metrics()[one.metric].unit if one.metric in table.metrics() else ""
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
    """`96.5 ± 1.2 Mbit/s`, in one unit."""
    if value.half is None:
        return terminal.number(value.mean, unit)
    return terminal.interval(value.mean, value.half, unit)


def cases(runs: Sequence[Measured], metrics: Sequence[str], console: Console) -> None:
    """A row for each case: what varies, and each metric over its seeds."""
    known = table.metrics()
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
