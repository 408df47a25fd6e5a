"""The command line: reads arguments, calls the package, turns errors into exit codes. No rule of its own.

Exit codes: 0 all checks hold, 1 a check failed, 2 the user can put something right, 130 interrupted.
"""

import sys
from typing import Annotated

import typer

from tcpassay import __version__
from tcpassay.errors import UserError

app = typer.Typer(
    name="tcpassay",
    help="Puts a TCP to the test in every environment that matters.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


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
def about() -> None:
    """What this is."""
    typer.echo(f"tcpassay {__version__}")


def main() -> None:
    """The entry of the command `tcpassay`."""
    try:
        app()
    except UserError as error:
        typer.echo(f"tcpassay: {error}", err=True)
        sys.exit(2)
