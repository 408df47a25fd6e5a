"""The command `init`. As in `cli/__init__.py`, it contains no rules."""

from pathlib import Path
from typing import Annotated

import typer

from tcpassay.cli.options import pairs


def init(
    start: Annotated[str, typer.Argument(help="rack, wan, patch, controller, stack or ci.", metavar="START")],
    folder: Annotated[Path, typer.Argument(help="The folder for the files.", metavar="[DIR]")] = Path(),
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Another value of a setting of the plan; may be given several times.",
            metavar="PATH=VALUE",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
) -> None:
    """Write a commented plan to start from, which runs as it is.

    rack: which controller and ECN threshold for short requests beside long ones; wan: which controller on a long path
    with losses; patch: what a patch to the kernel's TCP changes; controller: your own controller in Python; stack: your
    own TCP; ci: a plan for continuous integration.

    Example: `tcpassay init rack --set link.rate=25Gbit`.
    """
    from tcpassay import starting  # noqa: PLC0415 - start-up time

    made = starting.written(start, folder, pairs("--set", setting, example="link.rate=25Gbit"), replace=force)
    for file in made:
        typer.echo(f"{file}")
    typer.echo(f"Next: tcpassay run {made[0]}")


def add(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command()(init)
