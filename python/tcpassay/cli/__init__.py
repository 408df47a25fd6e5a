"""The command line: reads arguments, calls the package, turns errors into exit codes. It contains no rules.

Exit codes: 0 success, 1 a check or a run failed or there is a finding, 2 an error in the input, 130 interrupted.
"""

import inspect
import os
import sys
from dataclasses import asdict
from typing import Annotated

import typer

from tcpassay import listing, terminal
from tcpassay._native import __version__
from tcpassay.cli import (
    capture,
    doctor,
    experiments,
    explain,
    isolate,
    kernel,
    limiter,
    pairs,
    plan,
    recording,
    report,
    results,
    run,
    script,
    table,
    testbed,
)
from tcpassay.cli.options import JsonOption
from tcpassay.errors import UserError
from tcpassay.interface import METRICS
from tcpassay.plan import schema
from tcpassay.plan import table as tables

USER = 2
SHELLS = ("bash", "zsh", "fish")
COMPLETE = "_TCPASSAY_COMPLETE"
"""The environment variable with which a shell requests completions."""

app = typer.Typer(
    name="tcpassay",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tcpassay {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Test TCP implementations: run plans, evaluate the results with checks and oracles, and compare them."""


@app.command()
def params(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Only these parameters: a path, a part of a path, or a pattern with `*`.", metavar="NAME"
        ),
    ] = None,
    json_: JsonOption = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print docs/parameters.md.")] = False,
) -> None:
    """List the parameters: path, unit, allowed values, default, substrates. `--json` prints all fields."""
    if markdown:
        typer.echo(tables.markdown(), nl=False)
    elif json_:
        terminal.print_json([asdict(row) for row in listing.chosen(tables.parameters(), names, "parameter")])
    else:
        rows = listing.chosen(tables.parameters(), names, "parameter")
        listing.parameters(rows, terminal.console(), full=bool(names))


@app.command()
def metrics(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Only these metrics: a name, a part of a name, or a pattern with `*`.", metavar="NAME"
        ),
    ] = None,
    json_: JsonOption = False,
) -> None:
    """List the metrics: name, unit, meaning."""
    rows = listing.chosen(METRICS, names, "metric")
    if json_:
        terminal.print_json([asdict(row) for row in rows])
    else:
        listing.metrics(rows, terminal.console())


@app.command()
def completion(
    shell: Annotated[str, typer.Argument(help="bash, zsh or fish.", metavar="SHELL")],
) -> None:
    """Print the completion script for a shell: `source <(tcpassay completion bash)`."""
    from typer._completion_shared import get_completion_script  # noqa: PLC0415 - there is no public name

    if shell not in SHELLS:
        raise UserError(f"`completion {shell}`: allowed are {', '.join(SHELLS)}")
    typer.echo(get_completion_script(prog_name="tcpassay", complete_var=COMPLETE, shell=shell))


@app.command("schema")
def schema_() -> None:
    """Print the JSON schema of plan files, for editors."""
    terminal.print_json(schema.schema())


plan.add(app)
run.add(app)
results.add(app)
isolate.add(app)
pairs.add(app)
explain.add(app)
script.add(app)
app.add_typer(kernel.app)
app.add_typer(experiments.app)
app.add_typer(limiter.app)
app.add_typer(testbed.app)
report.add(app)
table.add(app)
recording.add(app)
capture.add(app)
doctor.add(app)


def _join_lines(commands: typer.Typer) -> None:
    """Makes each paragraph of the help texts one line, which is then wrapped at the width of the terminal."""
    for command in commands.registered_commands:
        paragraphs = (inspect.getdoc(command.callback) or "").split("\n\n")
        command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    for group in commands.registered_groups:
        if group.typer_instance is not None:
            _join_lines(group.typer_instance)


_join_lines(app)


def main() -> None:
    """The entry point of the command `tcpassay`."""
    if COMPLETE in os.environ:
        from typer._completion_classes import completion_init  # noqa: PLC0415 - there is no public name

        completion_init()
    try:
        app()
    except UserError as error:
        for problem in error.problems:
            typer.echo(f"tcpassay: {problem}", err=True)
        sys.exit(USER)
