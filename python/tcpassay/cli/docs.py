"""The command `docs`. As in `cli/__init__.py`, it contains no rules."""

import webbrowser
from typing import Annotated

import typer


def docs(
    page: Annotated[
        str, typer.Argument(help="A page, as in `plan` or `plan#constraints`.", metavar="[PAGE]")
    ] = "index",
    address: Annotated[
        bool, typer.Option("--address", help="Print the address of the page instead of opening it.")
    ] = False,
) -> None:
    """Open the documentation in a browser. The pages are part of tcpassay and need no network.

    Without a browser, the address of the page is printed.

    Example: `tcpassay docs plan`.
    """
    from tcpassay import docs as documentation  # noqa: PLC0415 - start-up time

    found = documentation.address(page)
    if address or not webbrowser.open(found):
        typer.echo(found)


def add(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command()(docs)
