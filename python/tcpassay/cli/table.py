"""The command `table`: prints metrics by parameter or by case. It contains no rules."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from tcpassay import levels, levels_show, listing, output, samples, sheets, terminal
from tcpassay.cli.options import JsonOption, WhereOption, pairs
from tcpassay.errors import Place, UserError
from tcpassay.interface import METRICS
from tcpassay.plan.document import suggest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tcpassay.results import Results

MOST = 2
DEFAULT = ("goodput", "rtt_p99")


def table(
    folder: Annotated[Path, typer.Argument(help="Results of a plan.", metavar="DIR")],
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="Show this metric; may be given several times. By default those that the plan names.",
            metavar="NAME",
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="Parameter of the rows; a second one for the columns. Of more the last has the columns, the rows are "
            "combinations. Default: that with the largest effect.",
            metavar="PATH[,PATH]",
        ),
    ] = None,
    cases: Annotated[
        bool, typer.Option("--cases", help="One row per case, averaged over its seeds.")
    ] = False,
    per: Annotated[
        str | None,
        typer.Option(
            help="host, flow or cc: the results of each sending host, flow or controller, from the recordings of runs.",
            metavar="host|flow|cc",
        ),
    ] = None,
    where: WhereOption = None,
    format_: Annotated[
        str | None,
        typer.Option("--format", help="text, csv, markdown or latex.", metavar="FORMAT", show_default="text"),
    ] = None,
    json_: JsonOption = False,
    out: Annotated[Path | None, typer.Option(help="Write to this file.", metavar="FILE")] = None,
) -> None:
    """Print metrics by the values of one or two parameters, with 95 % confidence intervals, or by case.

    With `--per host`, `flow` or `cc` also `host`, `flow`, `from`, `to` and `cc` are parameters, and the metrics are
    goodput, share, retransmitted, timeouts, min_rtt and srtt of the whole run.

    Examples: `tcpassay table DIR --metric rtt_p99 --by queue.limit --by stack.cc --format latex`;
    `tcpassay table DIR --by link.loss,queue.limit,stack.cc`; `tcpassay table DIR --per host`.
    """
    from tcpassay.compare.family import of_plan  # noqa: PLC0415 - start-up time
    from tcpassay.results import load  # noqa: PLC0415 - polars is most of the start-up time

    form = _format(format_, out, json_=json_)
    results = load(folder)
    runs, known = runs_of(results, per)
    for problem in results.noted:
        typer.echo(f"tcpassay: damaged: {problem}", err=True)
    if not runs:
        raise UserError("no run in this folder has metrics", Place(folder))
    runs = levels.selected(runs, pairs("--where", where))
    wanted = [str(name) for one in metric or () for name in listing.chosen(known, [one], "metric")]
    default = list(known) if per else of_plan(results) or DEFAULT
    shown = wanted or [name for name in default if any(run.metrics.get(name) is not None for run in runs)]
    named = [name.strip() for option in by or () for name in option.split(",")]
    chosen = list(dict.fromkeys(levels.parameter("--by", name, runs) for name in named))
    if len(chosen) > MOST:
        *rows, column = chosen
        joined, runs = levels.combined(runs, rows)
        chosen = [joined, column]
    few = [few for name in shown if (few := samples.few(runs, name))]
    if cases or (per and not chosen):
        if json_:
            _print(terminal.json_text(_cases(runs, shown)), out)
        else:
            _tables([levels_show.of_cases(runs, shown, (per, "cc") if per else ())], form, out)
            _noted(few)
        return
    grids = _grids(runs, shown, chosen)
    if not grids:
        typer.echo(
            "no parameter of this plan explains a difference; select one with --by, or use --cases", err=json_
        )
    if json_:
        _print(terminal.json_text([_grid(one, few) for one in grids]), out)
    elif grids:
        _tables([levels_show.of_grid(one) for one in grids], form, out)
        _noted(few)


def _grids(runs: list[levels.Measured], metrics: list[str], by: list[str]) -> list[levels.Grid]:
    """Each metric by the parameters, or by those that tell most."""
    made = []
    for name in metrics:
        pair = (by[0], by[1] if len(by) > 1 else None) if by else levels_show.choose(runs, name)
        if pair is not None:
            made.append(levels.grid(runs, name, *pair))
    return made


def runs_of(results: "Results", per: str | None) -> "tuple[list[levels.Measured], Mapping[str, str]]":
    """The runs, or those of each host or flow, and the known metrics: each name with itself."""
    if per is None:
        return levels.measured(results.runs), {name: name for name in METRICS}
    from tcpassay import entities  # noqa: PLC0415 - start-up time

    of = entities.results_of(results, per)
    for note in of.notes:
        typer.echo(f"tcpassay: {note}", err=True)
    return of.measured, {name: name for name in levels.OF_ENTITIES}


def _format(given: str | None, out: Path | None, *, json_: bool) -> sheets.Format:
    """The format of a table, by default that of the name of the file."""
    by_name: dict[str, sheets.Format] = {".csv": "csv", ".md": "markdown", ".tex": "latex"}
    if given is None:
        return by_name.get(out.suffix, "text") if out else "text"
    if json_:
        raise UserError("`--json` and `--format` exclude each other")
    if given not in sheets.FORMATS:
        raise UserError(
            f"`--format {given}`: allowed are {', '.join(sheets.FORMATS)}{suggest(given, sheets.FORMATS)}"
        )
    return cast("sheets.Format", given)


def _tables(made: list[sheets.Sheet], form: sheets.Format, out: Path | None) -> None:
    if form != "text":
        _print(sheets.written(made, form), out)
        return
    if out is not None:
        raise UserError(
            f"`--out {out}`: give a format with --format, or a name that ends with .csv, .md or .tex"
        )
    for one in made:
        sheets.show(one, terminal.console())


def _print(text: str, out: Path | None) -> None:
    if out is None:
        typer.echo(text, nl=False)
    else:
        output.write(out, text, "the table")


def _mean(value: levels.Mean) -> dict[str, object]:
    return {"mean": value.mean, "half_width": value.half, "runs": value.count}


def _noted(few: list[samples.Few]) -> None:
    """Says on standard error which percentiles are of few samples."""
    for one in few:
        typer.echo(f"note: {one}", err=True)


def _grid(one: levels.Grid, few: list[samples.Few]) -> dict[str, object]:
    cells = [{"row": row, "column": column, **_mean(value)} for (row, column), value in one.cells.items()]
    grid = {"metric": one.metric, "by": [name for name in (one.down, one.across) if name], "cells": cells}
    found = next((found for found in few if found.metric == one.metric), None)
    return grid | ({"few_samples": found._asdict()} if found else {})


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
