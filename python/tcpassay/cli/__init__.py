"""The command line: reads arguments, calls the package, turns errors into exit codes. It contains no rules.

Exit codes: 0 success, 1 a check or a run failed or there is a finding, 2 an error in the input, 70 a bug of
tcpassay, 130 interrupted.
"""

import os
import sys
from typing import TYPE_CHECKING

import typer

from tcpassay.cli.assemble import COMPLETE, MODULES, assembled
from tcpassay.errors import UserError

if TYPE_CHECKING:
    app: typer.Typer

USER = 2


def __getattr__(name: str) -> typer.Typer:
    """Assembles the application with all commands when it is used."""
    if name == "app":
        globals()[name] = made = assembled()
        return made
    raise AttributeError(f"module `{__name__}` has no attribute `{name}`")


def main() -> None:
    """The entry point of the command `tcpassay`."""
    # With another first argument than a command (an option, a misspelt name) all commands are needed.
    called = [argument for argument in sys.argv[1:2] if argument in MODULES]
    if COMPLETE in os.environ:
        from typer._completion_classes import completion_init  # noqa: PLC0415 - there is no public name

        completion_init()
        called = []
    app = assembled(called or MODULES)
    try:
        app()
    except UserError as error:
        for problem in error.problems:
            typer.echo(f"tcpassay: {problem}", err=True)
        sys.exit(USER)
