"""The command `inspect`. As in `cli/__init__.py`, it contains no rules."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tcpassay import terminal
from tcpassay.cli.options import JsonOption

if TYPE_CHECKING:
    from tcpassay.trust.listing import Listed


def inspect(
    path: Annotated[Path, typer.Argument(help="A plan, or results of a plan.", metavar="DIR|PLAN")],
    json_: JsonOption = False,
) -> None:
    """List what a plan or result folder needs and would execute: code files, testbeds, kernels, versions.

    The command only reads. `accepted` means that you have accepted or run a file with this content before; any other
    code of a folder needs --allow-code (docs/strangers.md).

    Example: `tcpassay inspect results/of-a-stranger`.
    """
    from tcpassay.trust.listing import listed  # noqa: PLC0415 - start-up time

    found = listed(path)
    if json_:
        terminal.print_json(found.as_json())
        return
    for line in _lines(found):
        typer.echo(line)


def _lines(found: "Listed") -> list[str]:
    made = [f"made by: {name} {version}" for name, version in found.made_by.items()]
    made.append(f"substrates: {', '.join(found.needs.substrates) or 'none'}")
    for title, files in (("executes", found.needs.code), ("reads from outside", found.needs.outside)):
        made += [f"{title}: nothing"] if not files else []
        for one in files:
            said = "accepted" if found.is_accepted(one) else "not accepted"
            made.append(f"{title}: {one.file}, {one.words}")
            made.append("  it cannot be read" if one.sha256 is None else f"  SHA-256 {one.sha256}, {said}")
    for name, there in found.testbeds.items():
        made.append(f"testbed {name}: {'in' if there else 'not in'} your settings")
    for name, there in found.kernels.items():
        made.append(f"kernel {name}: {'built' if there else 'not built'}")
    return [*made, *(f"note: {note}" for note in found.notes)]


def add(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command()(inspect)
