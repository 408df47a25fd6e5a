"""The command line: reads arguments, calls the package, turns errors into exit codes. It contains no rules.

Exit codes: 0 success, 1 a check or a run failed or a finding is an error, 2 an error in the input,
70 a bug of tcpassay, 130 interrupted.
"""

import os
import sys
from typing import TYPE_CHECKING

import typer

from tcpassay.cli.assemble import MODULES, assembled
from tcpassay.errors import UserError
from tcpassay.overview import COMPLETE

if TYPE_CHECKING:
    app: typer.Typer

USER = 2


def __getattr__(name: str) -> typer.Typer:
    """Assembles the application with all commands when it is used."""
    if name == "app":
        globals()[name] = made = assembled()
        return made
    raise AttributeError(f"module `{__name__}` has no attribute `{name}`")


def _completed() -> list[str]:
    """The command of the line that a shell completes, if the line has another word after it."""
    words = (os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or "").split(" ")
    return [word for word in words[1:2] if word in MODULES and len(words) > 2]  # noqa: PLR2004 - program, command


def main() -> None:
    """The entry point of the command `tcpassay`."""
    # With another first argument than a command (an option, a misspelt name) all commands are needed.
    called = [argument for argument in sys.argv[1:2] if argument in MODULES]
    if COMPLETE in os.environ:
        from typer._completion_classes import completion_init  # noqa: PLC0415 - there is no public name

        completion_init()
        called = _completed()
    app = assembled(called or MODULES)
    if COMPLETE in os.environ:
        from tcpassay.cli import complete  # noqa: PLC0415 - only shells ask for completions

        complete.attach(app)
    try:
        app(prog_name="tcpassay")
    except UserError as error:
        for problem in error.problems:
            typer.echo(f"tcpassay: {problem}", err=True)
        sys.exit(USER)
