"""The command `controller check`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tcpassay import terminal
from tcpassay.cli.options import JsonOption
from tcpassay.errors import UserError
from tcpassay.plural import plural

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
    histories: Annotated[
        int, typer.Option(help="Number of random sequences.", min=1, max=1_000_000, metavar="N")
    ] = 200,
    json_: JsonOption = False,
) -> None:
    """Check a controller against the contract between controllers and senders, in random valid sequences of events.

    Each violated clause is printed with its reason and the shortest sequence that violates it
    (docs/controllers-python.md lists the clauses). Exit code 0: no sequence violates one. 1: one does, or the
    controller raises an exception. 2: an error in the input.

    Example: `tcpassay controller check mine.py:Mine`.
    """
    from tcpassay.controllers import check as kit  # noqa: PLC0415 - start-up time

    file, colon, class_name = name.removeprefix("python:").rpartition(":")
    if not (file and colon and class_name):
        raise UserError(f"`{name}`: name a file and a class, as in `reno.py:Reno`")
    found = kit.checked(Path(file), class_name, contract, histories)
    if json_:
        terminal.print_json({"controller": name, "contract": contract, **asdict(found)})
    elif found.raised is not None:
        typer.echo(f"{name} raises an exception:\n{found.raised}")
    elif found.kept:
        typer.echo(f"{name} satisfies the contract `{contract}` in {found.events:,} events")
    else:
        clauses = plural(len(found.violated), "clause")
        typer.echo(f"{name} violates {clauses} of the contract `{contract}`:")
        for one in found.violated:
            steps = "".join(f"\n    {step}" for step in one.history)
            typer.echo(
                f"\n{one.clause}: {one.rule}\n  Why: {one.reason}\n  Found: {one.found}\n  After:{steps}"
            )
        typer.echo("\nSegments of these sequences have 1 KB, and the initial window 10 KB.")
    if not found.kept:
        raise typer.Exit(BROKEN)
