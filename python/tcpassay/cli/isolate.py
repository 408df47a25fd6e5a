"""The command `isolate`. As in `cli/__init__.py`, no rule of its own."""

import os
from pathlib import Path
from typing import Annotated

import typer

from tcpassay import terminal
from tcpassay.cli.options import JsonOption

FAILED, INTERRUPTED = 1, 130


def isolate(
    folder: Annotated[Path, typer.Argument(help="Results of a plan.", metavar="DIR")],
    finding: Annotated[
        str | None,
        typer.Argument(
            help="CASE-SEED/ORACLE, its beginning, or an oracle; by default all.", metavar="FINDING"
        ),
    ] = None,
    seeds: Annotated[
        int,
        typer.Option(
            min=1, max=1000, help="Runs of each case: seeds, or on `host` repetitions.", metavar="N"
        ),
    ] = 3,
    jobs: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Runs at a time; by default one a core.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="Stop after a time (60s) or so many runs (200).", metavar="TIME|RUNS")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Isolate also what every run of the plan has.")
    ] = False,
    json_: JsonOption = False,
) -> None:
    """Find the smallest set of settings that causes a finding, and prove it.

    Every set that is tried is a run, judged by the oracles. Runs are remembered in DIR/isolate: the same command goes
    on where an interrupt or the budget ended it.

    Exit code 0: isolated, and proven by resets; 1: a finding does not reproduce, is in every run, or is not proven;
    2: something to put right; 130: interrupted, or the budget is used up.
    """
    from tcpassay.isolate import Budget, Options  # noqa: PLC0415 - start-up time
    from tcpassay.isolate import isolate as isolated  # noqa: PLC0415 - start-up time
    from tcpassay.isolate.show import show  # noqa: PLC0415 - start-up time

    options = Options(
        seeds, jobs or os.cpu_count() or 1, Budget() if budget is None else Budget.of(budget), force
    )
    with terminal.console(stderr=True).status("Isolating") as status:
        done = isolated(folder, finding, options, lambda said: status.update(f"Isolating: {said}"))
    if json_:
        terminal.print_json(done.as_json())
    else:
        show(done, terminal.console())
    if done.stopped:
        raise typer.Exit(INTERRUPTED)
    if done.unreproduced or done.everywhere or not all(cause.proven for cause in done.causes):
        raise typer.Exit(FAILED)


def add(app: typer.Typer) -> None:
    """Make it a command of `app`."""
    app.command()(isolate)
