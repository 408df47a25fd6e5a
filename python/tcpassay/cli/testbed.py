"""The command `testbed check`. It contains no rules."""

import sys
from typing import Annotated

import typer

from tcpassay import terminal
from tcpassay.cli.options import JsonOption

app = typer.Typer(
    name="testbed",
    no_args_is_help=True,
    help="Hosts on which the substrate `remote` runs cases.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _group() -> None:
    """Lets typer require the name of the command, although the group has only one."""


@app.command()
def check(
    testbed: Annotated[
        str, typer.Argument(help="The testbed file, or the name of a testbed.", metavar="FILE")
    ],
    json_: JsonOption = False,
) -> None:
    """Connect to all hosts; show what they can do, their clocks, and RTT, rate and MTU of all paths.

    Example: `tcpassay testbed check lab.toml`.
    """
    from rich.markup import escape  # noqa: PLC0415 - start-up time

    from tcpassay.testbed import check as checks  # noqa: PLC0415 - start-up time
    from tcpassay.testbed.file import load_given  # noqa: PLC0415 - start-up time

    console = terminal.console()
    found = []
    for one in checks.check(load_given(testbed)):
        found.append(one)
        if not json_:
            mark = "[green]ok[/]" if one.ok else "[red]wrong[/]"
            console.print(
                f"{mark} [bold]{escape(one.where)}[/], {escape(one.what)}: {escape(one.found)}",
                highlight=False,
            )
    if json_:
        terminal.print_json([one.as_json() for one in found])
    if not all(one.ok for one in found):
        sys.exit(1)
