"""The command line: reads arguments, calls the package, turns errors into exit codes. No rule of its own.

Exit codes: 0 all is well, 1 a check or a run failed or something was found, 2 the user can put something right, 130
interrupted.
"""

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from tcpassay import (
    __version__,
    commands,
    doctor_commands,
    kernel_commands,
    limiter_commands,
    plan_commands,
    report_commands,
    run_commands,
    script_commands,
    terminal,
)
from tcpassay.errors import UserError
from tcpassay.plan import schema, table

USER = 2

app = typer.Typer(
    name="tcpassay",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

JsonOption = commands.JsonOption


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tcpassay {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Puts a TCP to the test in every environment that matters."""


@app.command()
def params(
    json_: JsonOption = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print docs/parameters.md.")] = False,
) -> None:
    """List the parameters: path, unit, what is allowed, default, who honours it; `--json` has all."""
    if markdown:
        typer.echo(table.markdown(), nl=False)
    elif json_:
        terminal.print_json([asdict(row) for row in table.parameters().values()])
    else:
        grid = terminal.grid("path", "unit", "allowed", "default", "substrates", "meaning")
        for row in table.parameters().values():
            meaning = f"{row.doc} ({row.constraints})" if row.constraints else row.doc
            grid.add_row(row.path, row.unit, row.allowed, row.default, ", ".join(row.substrates), meaning)
        terminal.console().print(grid)


@app.command()
def metrics(json_: JsonOption = False) -> None:
    """List the metrics: name, unit, meaning."""
    if json_:
        terminal.print_json([asdict(row) for row in table.metrics().values()])
        return
    grid = terminal.grid("name", "unit", "meaning")
    for row in table.metrics().values():
        grid.add_row(row.name, row.unit, row.doc)
    terminal.console().print(grid)


@app.command("schema")
def schema_() -> None:
    """Print the JSON schema of plan files, for editors."""
    terminal.print_json(schema.schema())


plan_commands.add(app)
run_commands.add(app)
commands.add(app)
script_commands.add(app)
app.add_typer(kernel_commands.app)
app.add_typer(limiter_commands.app)
report_commands.add(app)
doctor_commands.add(app)


def main() -> None:
    """The entry of the command `tcpassay`."""
    try:
        app()
    except UserError as error:
        for problem in error.problems:
            typer.echo(f"tcpassay: {problem}", err=True)
        sys.exit(USER)
