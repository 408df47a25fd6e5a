"""The commands `params`, `metrics`, `completion` and `schema`."""

from dataclasses import asdict
from typing import Annotated

import typer

from tcpassay import listing, terminal
from tcpassay.cli.options import JsonOption
from tcpassay.errors import UserError
from tcpassay.interface import METRICS
from tcpassay.overview import COMPLETE
from tcpassay.plan import schema
from tcpassay.plan import table as tables

SHELLS = ("bash", "zsh", "fish")


def params(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Only these parameters: a path, a part of one, a pattern with `*`, or words of the meaning.",
            metavar="NAME",
        ),
    ] = None,
    json_: JsonOption = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print docs/parameters.md.")] = False,
) -> None:
    """List the parameters: path, unit, allowed values, default, substrates. `--json` prints all fields.

    Example: `tcpassay params congestion window`.
    """
    if markdown:
        typer.echo(tables.markdown(), nl=False)
    elif json_:
        terminal.print_json(
            [asdict(row) for row in listing.searched(tables.parameters(), names, "parameter")]
        )
    else:
        rows = listing.searched(tables.parameters(), names, "parameter")
        listing.parameters(rows, terminal.console(), full=bool(names))


def metrics(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Only these metrics: a name, a part of one, a pattern with `*`, or words of the meaning.",
            metavar="NAME",
        ),
    ] = None,
    json_: JsonOption = False,
) -> None:
    """List the metrics: name, unit, meaning.

    Example: `tcpassay metrics fairness`.
    """
    rows = listing.searched(METRICS, names, "metric")
    if json_:
        terminal.print_json([asdict(row) for row in rows])
    else:
        listing.metrics(rows, terminal.console())


def completion(
    shell: Annotated[str, typer.Argument(help="bash, zsh or fish.", metavar="SHELL")],
) -> None:
    """Print the completion script for a shell: `source <(tcpassay completion bash)`.

    Example: `source <(tcpassay completion bash)`.
    """
    from typer._completion_shared import get_completion_script  # noqa: PLC0415 - there is no public name

    if shell not in SHELLS:
        raise UserError(f"`completion {shell}`: allowed are {', '.join(SHELLS)}")
    typer.echo(get_completion_script(prog_name="tcpassay", complete_var=COMPLETE, shell=shell))


def schema_() -> None:
    """Print the JSON schema of plan files, for editors.

    Example: `tcpassay schema > plan.schema.json`.
    """
    terminal.print_json(schema.schema())


def add(app: typer.Typer) -> None:
    """Adds the commands to `app`."""
    for command in (params, metrics, completion):
        app.command()(command)
    app.command("schema")(schema_)
