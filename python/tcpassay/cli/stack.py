"""The commands `stack list`, `stack build` and `stack check`."""

from typing import Annotated

import typer

from tcpassay import terminal
from tcpassay.cli.options import JsonOption

BROKEN = 1

app = typer.Typer(
    name="stack",
    no_args_is_help=True,
    help="Other TCPs than the model, and processes that connect them (docs/stacks.md).",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command("list")
def list_(json_: JsonOption = False) -> None:
    """List the values of `stack.implementation`, with their versions.

    Example: `tcpassay stack list`.
    """
    from tcpassay.stacks.catalogue import listed  # noqa: PLC0415 - start-up time

    rows = listed()
    if json_:
        terminal.print_json([row.as_json() for row in rows])
        return
    for row in rows:
        typer.echo(f"{row.implementation:<14}  {row.version}  ({row.where})")


@app.command()
def build(
    names: Annotated[
        list[str],
        typer.Argument(
            help="Values of `stack.implementation` that are built: gvisor, lwip, pytcp.", metavar="NAME..."
        ),
    ],
) -> None:
    """Build the process of a TCP into the user's cache, from a pinned version of its registry.

    A process that was built before is replaced. A build that fails leaves it as it was.

    Example: `tcpassay stack build smoltcp`.
    """
    from tcpassay.stacks.build import build as built  # noqa: PLC0415 - start-up time

    for name in names:
        typer.echo(f"{name}: {built(name)}")


@app.command()
def check(
    command: Annotated[
        str, typer.Argument(help="The command of the process, with its arguments in one argument.")
    ],
    json_: JsonOption = False,
) -> None:
    """Check a process that implements the protocol of docs/stacks.md.

    It runs scenes with the process twice, with delayed answers and with further requests, and compares the packets.
    Exit code 0: nothing is wrong. 1: something is. 2: an error in the input.

    Example: `tcpassay stack check exec:./my-stack`.
    """
    from tcpassay.stacks.check import check as checked  # noqa: PLC0415 - start-up time

    found = []
    for one in checked(command):
        found.append(one)
        if not json_:
            typer.echo(
                f"{'wrong' if one.wrong else 'ok':<5}  {one.what}{': ' if one.wrong else ''}{one.wrong}"
            )
    if json_:
        terminal.print_json([{"what": one.what, "wrong": one.wrong} for one in found])
    if any(one.wrong for one in found):
        raise typer.Exit(BROKEN)
