"""The command `controller check`."""

from pathlib import Path
from typing import Annotated

import typer

from tcpassay import terminal
from tcpassay.cli.options import JsonOption
from tcpassay.errors import UserError

BROKEN = 1

app = typer.Typer(
    name="controller",
    no_args_is_help=True,
    help="Check congestion controllers that are written in Python.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _group() -> None:
    """Check congestion controllers that are written in Python."""


@app.command()
def check(
    name: Annotated[
        str, typer.Argument(help="The class, as in `python:reno.py:Reno`.", metavar="FILE.py:CLASS")
    ],
    contract: Annotated[
        str,
        typer.Option(
            help="The contract: `window` for window-based controllers, `rate` for controllers that govern recovery, "
            "`any` for the rules that hold for all controllers.",
            metavar="NAME",
        ),
    ] = "window",
    json_: JsonOption = False,
) -> None:
    """Check a controller against the contract between controllers and senders, in random valid sequences of events.

    The shortest sequence that violates the contract is printed. Exit code 0: no sequence violates it. 1: one does, or
    the controller raises an exception. 2: an error in the input.
    """
    from tcpassay.controllers import check as kit  # noqa: PLC0415 - start-up time

    file, colon, class_name = name.removeprefix("python:").rpartition(":")
    if not (file and colon and class_name):
        raise UserError(f"`{name}`: name a file and a class, as in `reno.py:Reno`")
    found = kit.checked(Path(file), class_name, contract)
    if json_:
        terminal.print_json(
            {"controller": name, "contract": contract, "events": found.events, "broken": found.broken}
        )
    elif found.broken is None:
        typer.echo(f"{name} satisfies the contract `{contract}` in {found.events:,} events")
    else:
        typer.echo(f"{name} violates the contract `{contract}`:\n{found.broken}")
    if found.broken is not None:
        raise typer.Exit(BROKEN)
