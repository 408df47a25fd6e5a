"""The command `isolate`. As in `cli/__init__.py`, it contains no rules."""

import os
from pathlib import Path
from typing import Annotated

import typer

from tcpassay import terminal
from tcpassay.cli.options import AllowCodeOption, JobsOption, JsonOption, TestbedOption
from tcpassay.errors import UserError
from tcpassay.pace import Working

FAILED, INTERRUPTED = 1, 130


def isolate(
    folder: Annotated[Path, typer.Argument(help="Results of a plan.", metavar="DIR")],
    finding: Annotated[
        str | None,
        typer.Argument(
            help="CASE-SEED/ORACLE, its beginning, or an oracle, each also with `: TITLE`; check, check-2, ... "
            "that failed; best, best-2, ... of a search; by default all findings.",
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
    metric: Annotated[
        str | None,
        typer.Option(
            help="Find why this metric of --case is not that of --against, instead of a finding.",
            metavar="METRIC",
        ),
    ] = None,
    case: Annotated[
        str | None, typer.Option(help="The id of a case, or its beginning.", metavar="CASE")
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="The case with which it is compared.", metavar="CASE")
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            min=1,
            max=99,
            help="Runs whose metric differs from that of --case by at most this part of the difference of the two "
            "cases count as equal to it (50).",
            metavar="PERCENT",
        ),
    ] = None,
    json_: JsonOption = False,
    testbed: TestbedOption = None,
    allow_code: AllowCodeOption = False,
) -> None:
    """Find the smallest set of settings that causes a finding or the value of a metric, and verify it.

    Each candidate set is run and evaluated by the oracles, or by the metric. The runs are stored in DIR/isolate, so
    that the same command continues after an interrupt or after the budget was used up.

    Exit code 0: isolated and proven by resetting each setting. 1: a finding does not reproduce, occurs in every run,
    or is not proven. 2: an error in the input. 130: interrupted, the budget is used up, or a program was changed.

    Example: `tcpassay isolate results/demo late-ack`.
    """
    from tcpassay.isolate import Budget, Options, Question  # noqa: PLC0415 - start-up time
    from tcpassay.isolate import isolate as isolated  # noqa: PLC0415 - start-up time
    from tcpassay.isolate.show import show  # noqa: PLC0415 - start-up time
    from tcpassay.trust import ask  # noqa: PLC0415 - start-up time

    asked: str | Question | None = finding
    if metric is not None and case is not None and against is not None and finding is None:
        asked = (
            Question(metric, case, against)
            if tolerance is None
            else Question(metric, case, against, tolerance / 100)
        )
    elif any(one is not None for one in (metric, case, against, tolerance)):
        raise UserError("`--metric`, `--case` and `--against` are given together, without a finding")
    ask.testbeds(testbed or ())
    ask.folder(folder, allow=allow_code)
    limit = Budget() if budget is None else Budget.of(budget)
    options = Options(seeds, jobs or os.cpu_count() or 1, limit, force, reduce)
    with Working(terminal.console(stderr=True), "Isolating") as status:
        done = isolated(folder, asked, options, lambda said: status.update(f"Isolating: {said}"))
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
