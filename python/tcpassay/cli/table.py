"""The command `table`: prints metrics by parameter or by case. It contains no rules."""

from pathlib import Path
from typing import Annotated

import typer

from tcpassay import levels, levels_show, listing, terminal
from tcpassay.cli.options import JsonOption
from tcpassay.errors import Place, UserError
from tcpassay.interface import METRICS
from tcpassay.messages import Outcome
from tcpassay.plan.document import suggest

MOST = 2
DEFAULT = ("goodput", "rtt_p99")


def table(
    folder: Annotated[Path, typer.Argument(help="Results of a plan.", metavar="DIR")],
    metric: Annotated[
        list[str] | None, typer.Option(help="Show this metric; may be given several times.", metavar="NAME")
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="Parameter of the rows; a second one for the columns. Default: that with the largest effect.",
            metavar="PATH",
        ),
    ] = None,
    cases: Annotated[
        bool, typer.Option("--cases", help="One row per case, averaged over its seeds.")
    ] = False,
    json_: JsonOption = False,
) -> None:
    """Print metrics by the values of one or two parameters, with 95 % confidence intervals, or by case."""
    from tcpassay.results import load  # noqa: PLC0415 - polars is most of the start-up time

    results = load(folder)
    runs = [
        levels.Measured(
            str(run["case"]),
            int(run["seed"]),
            {name: _text(value) for name, value in (run.get("varied") or {}).items()},
            run.get("metrics") or {},
            str(run.get("trace") or ""),
        )
        for run in results.runs
        if run.get("outcome") == Outcome.DONE and run.get("metrics")
    ]
    if not runs:
        raise UserError("no run in this folder has metrics", Place(folder))
    wanted = [str(row.name) for name in metric or () for row in listing.chosen(METRICS, [name], "metric")]
    shown = wanted or [name for name in DEFAULT if any(run.metrics.get(name) is not None for run in runs)]
    varies = levels.factors(runs)
    chosen = [_parameter(name, varies) for name in by or ()]
    if len(chosen) > MOST:
        raise UserError("`--by`: give one or two parameters")
    console = terminal.console()
    if cases:
        if json_:
            terminal.print_json(_cases(runs, shown))
        else:
            levels_show.cases(runs, shown, console)
        return
    grids = []
    for name in shown:
        pair = (
            (chosen[0], chosen[1] if len(chosen) > 1 else None) if chosen else levels_show.choose(runs, name)
        )
        if pair is not None:
            grids.append(levels.grid(runs, name, *pair))
    if json_:
        terminal.print_json([_grid(one) for one in grids])
        return
    if not grids:
        typer.echo("no parameter of this plan explains a difference; select one with --by, or use --cases")
    for one in grids:
        levels_show.grid(one, console)


def _parameter(name: str, varies: list[str]) -> str:
    """The varied parameter with this name; the last part of its path is enough."""
    meant = [path for path in varies if name in {path, path.rpartition(".")[2]}]
    if len(meant) == 1:
        return meant[0]
    listed = ", ".join(f"`{path}`" for path in varies) or "nothing"
    raise UserError(f"`--by {name}`: the plan varies {listed}{suggest(name, varies)}")


def _text(value: object) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def _mean(value: levels.Mean) -> dict[str, object]:
    return {"mean": value.mean, "half_width": value.half, "runs": value.count}


def _grid(one: levels.Grid) -> dict[str, object]:
    cells = [{"row": row, "column": column, **_mean(value)} for (row, column), value in one.cells.items()]
    return {"metric": one.metric, "by": [name for name in (one.down, one.across) if name], "cells": cells}


def _cases(runs: list[levels.Measured], metrics: list[str]) -> list[dict[str, object]]:
    made: list[dict[str, object]] = []
    for case, of in levels.by_case(runs).items():
        row: dict[str, object] = {
            "case": case,
            "seeds": [run.seed for run in of],
            "varied": dict(of[0].varied),
        }
        for metric in metrics:
            values = [value for run in levels.distinct(of) if (value := run.metrics.get(metric)) is not None]
            row[metric] = _mean(levels.mean(values)) if values else None
        made.append(row)
    return made


def add(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command()(table)
