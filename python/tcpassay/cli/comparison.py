"""What `kernel compare` and `stack compare` have in common: options, and how a comparison is told."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tcpassay import terminal
from tcpassay.errors import UserError

if TYPE_CHECKING:
    from tcpassay.trees import TreeComparison

DIFFERENT, INTERRUPTED = 1, 130

OutOption = Annotated[
    Path | None, typer.Option(help="Folder for the results.", show_default="results/BASE-HEAD")
]
CausesBudgetOption = Annotated[
    str,
    typer.Option(
        help="Time (60s) or runs (200) for the search of causes, and for the settings of each group; 0 omits it.",
        metavar="TIME|RUNS",
    ),
]
ResumeOption = Annotated[
    bool,
    typer.Option("--resume", help="Continue with the existing results of an interrupted comparison."),
]


def check_resume(
    resume: bool, *, force: bool, plan: Path | None, filter_: list[str] | None, seed: int | None
) -> None:
    """Raises `UserError` for options that would change the plan of the results."""
    if resume and (force or plan or filter_ or seed is not None):
        raise UserError(
            "`--resume` continues with the plan of the results, without --plan, --seed, --filter, --force"
        )


def tell(told: "TreeComparison", junit: Path | None, *, as_json: bool) -> None:
    """Writes a comparison to its folder and the JUnit file, prints it, and ends the command with its exit code."""
    from tcpassay import output  # noqa: PLC0415 - start-up time
    from tcpassay.trees import junit as xml  # noqa: PLC0415 - start-up time
    from tcpassay.trees.comparison import write  # noqa: PLC0415 - start-up time
    from tcpassay.trees.show import show  # noqa: PLC0415 - start-up time

    text = json.dumps(told.as_json(), indent=2, allow_nan=False)
    write(told, text)
    if junit is not None:
        output.write(junit, xml.junit(told), "the JUnit file")
    if as_json:
        typer.echo(text)
    else:
        show(told, terminal.console())
    if told.unfinished or told.interrupted:
        raise typer.Exit(INTERRUPTED)
    if told.different:
        raise typer.Exit(DIFFERENT)
