"""Tables of metrics by parameter and by case, as text."""

from collections.abc import Sequence
from typing import Final

from rich.console import Console

from tcpassay import levels, sheets, terminal
from tcpassay.levels import Grid, Mean, Measured, unit_of
from tcpassay.plural import few
from tcpassay.sheets import Sheet

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
    sheets.show(of_grid(one), console)


def of_grid(one: Grid) -> Sheet:
    """One row per level of one parameter, one column per level of the other; each cell with its interval."""
    unit = unit_of(one.metric)
    beside = f" and {one.across}" if one.across else ""
    over = f", over all values of {few(one.over)}" if one.over else ""
    without = f"; no value where {few(one.without)}" if one.without else ""
    rows = [
        (
            row,
            *(
                cell(value, unit) if value else ""
                for value in (one.cells.get((row, column)) for column in one.columns)
            ),
        )
        for row in one.rows
    ]
    records = [
        {"metric": one.metric, "unit": unit, one.down: row}
        | ({one.across: column} if one.across else {})
        | {"mean": value.mean, "half_width": value.half, "runs": value.count}
        for row in one.rows
        for column in one.columns
        if (value := one.cells.get((row, column)))
    ]
    return Sheet(
        f"{one.metric} by {one.down}{beside}: mean and 95 % confidence interval{over}{without}",
        (one.down.rpartition(".")[2], *(level or "mean" for level in one.columns)),
        tuple(rows),
        1,
        tuple(records),
    )


def cell(value: Mean, unit: str) -> str:
    """As in `96.5 ± 1.2 Mbit/s`, in one unit; without an interval for a single run, and for runs with one value."""
    if not value.half:
        return terminal.number(value.mean, unit)
    return terminal.interval(value.mean, value.half, unit)


def cases(runs: Sequence[Measured], metrics: Sequence[str], console: Console) -> None:
    """One row per case: the varied parameters, and each metric averaged over its seeds."""
    sheets.show(of_cases(runs, metrics), console)


def of_cases(runs: Sequence[Measured], metrics: Sequence[str], always: Sequence[str] = ()) -> Sheet:
    """One row per case: the varied parameters and those of `always`, and each metric averaged over its seeds."""
    names = list(dict.fromkeys([*levels.factors(runs), *always]))
    rows, records = [], []
    for case, of in levels.by_case(runs).items():
        different = levels.distinct(of)
        settings = {name: of[0].varied.get(name, "") for name in names}
        row = [case.partition(" ")[0], *settings.values(), str(len(of))]
        record: dict[str, object] = {"case": row[0], **settings, "seeds": len(of), "runs": len(different)}
        for metric in metrics:
            unit = unit_of(metric)
            values = [value for run in different if (value := run.metrics.get(metric)) is not None]
            mean = levels.mean(values) if values else None
            row.append(cell(mean, unit) if mean else "-")
            record[metric if unit == "1" else f"{metric} ({unit})"] = mean and mean.mean
            record[f"{metric} half_width"] = mean and mean.half
        rows.append(tuple(row))
        records.append(record)
    header = (*(name.rpartition(".")[2] for name in ("case", *names)), "seeds", *metrics)
    return Sheet("", header, tuple(rows), len(names) + 1, tuple(records))
