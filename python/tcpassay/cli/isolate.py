"""The command `isolate`. As in `cli/__init__.py`, it contains no rules."""

import os
from pathlib import Path
from typing import Annotated

import typer

from tcpassay import terminal
from tcpassay.cli.options import JobsOption, JsonOption

FAILED, INTERRUPTED = 1, 130


def isolate(
    folder: Annotated[Path, typer.Argument(help="Results of a plan.", metavar="DIR")],
    finding: Annotated[
        str | None,
        typer.Argument(
            help="CASE-SEED/ORACLE, its beginning, or an oracle, each also with `: TITLE`; best, best-2, ... "
            "of a search; by default all.",
            metavar="FINDING",
        ),
    ] = None,
    seeds: Annotated[
        int,
        typer.Option(
            min=1, max=1000, help="Number of runs per case: seeds, or repetitions on `host`.", metavar="N"
        ),
    ] = 3,
    jobs: JobsOption = None,
    budget: Annotated[
        str | None,
        typer.Option(help="Stop after this time (60s) or number of runs (200).", metavar="TIME|RUNS"),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also isolate findings that every run of the plan has.")
    ] = False,
    reduce: Annotated[
        bool,
        typer.Option("--reduce/--no-reduce", help="Reduce the run of a cause, and simplify its values."),
    ] = True,
    json_: JsonOption = False,
) -> None:
    """Find the smallest set of settings that causes a finding, and verify it.

    Each candidate set is run and evaluated by the oracles. The runs are stored in DIR/isolate, so that the same
    command continues after an interrupt or after the budget was used up.

    Exit code 0: isolated and proven by resetting each setting. 1: a finding does not reproduce, occurs in every run,
    or is not proven. 2: an error in the input. 130: interrupted, or the budget is used up.
    """
    from tcpassay.isolate import Budget, Options  # noqa: PLC0415 - start-up time
    from tcpassay.isolate import isolate as isolated  # noqa: PLC0415 - start-up time
    from tcpassay.isolate.show import show  # noqa: PLC0415 - start-up time

    limit = Budget() if budget is None else Budget.of(budget)
    options = Options(seeds, jobs or os.cpu_count() or 1, limit, force, reduce)
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
    """Adds the command to `app`."""
    app.command()(isolate)
