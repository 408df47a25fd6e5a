"""The command `pairs`. As in `cli/__init__.py`, it contains no rules."""

from pathlib import Path
from typing import Annotated

import typer

from tcpassay import terminal
from tcpassay.cli.options import AllowCodeOption, JsonOption
from tcpassay.guard import took_all
from tcpassay.pace import Working

FAILED, INTERRUPTED = 1, 130


def pairs(
    folder: Annotated[Path, typer.Argument(help="Results of a plan.", metavar="DIR")],
    make: Annotated[
        int,
        typer.Option(
            min=0,
            help="Number of cases for which partners are run on the model: half the delay, no loss, four times the "
            "buffer.",
            metavar="N",
        ),
    ] = 0,
    seeds: Annotated[
        int, typer.Option(min=1, max=100, help="Number of seeds of each of these partners.", metavar="N")
    ] = 3,
    allow_code: AllowCodeOption = False,
    json_: JsonOption = False,
) -> None:
    """Compare runs that differ in one setting with a known effect: delay, loss, buffer or substrate.

    A shorter delay, no loss or a larger buffer must not lower goodput by a quarter unless a counter of the run explains
    it, and a case must have similar results on the model and on a kernel.

    Exit code 1: a pair has no explanation. 130: interrupted; the pairs so far are printed.

    Example: `tcpassay pairs results/two-controllers`.
    """
    from tcpassay.pairs import among, made  # noqa: PLC0415 - polars is most of the start-up time
    from tcpassay.pairs.show import show  # noqa: PLC0415 - start-up time
    from tcpassay.results import load  # noqa: PLC0415 - start-up time
    from tcpassay.trust import ask  # noqa: PLC0415 - start-up time

    if make:
        ask.folder(folder, allow=allow_code)
    results = load(folder)
    verdicts = among(results)
    with Working(terminal.console(stderr=True), "Running partners") as working:
        complete = took_all(made(results, make, seeds, working.update), verdicts.append)
    if json_:
        terminal.print_json([one.as_json() for one in verdicts])
    else:
        show(verdicts, terminal.console())
    if not complete:
        typer.echo("interrupted: further partners were not run", err=True)
        raise typer.Exit(INTERRUPTED)
    if any(one.unexplained for one in verdicts):
        raise typer.Exit(FAILED)


def add(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command()(pairs)
