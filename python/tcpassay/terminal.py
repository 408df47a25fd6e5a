"""What all commands print alike: a console, a table, a value as JSON. It knows nothing of the rest of the package."""

import json
import sys
from typing import Any

import typer
from rich.console import Console
from rich.table import Table


def console() -> Console:
    """Standard output; a file or a pipe has no width, and what is read there later should not be folded."""
    return Console() if sys.stdout.isatty() else Console(width=160)


def grid(*columns: str) -> Table:
    """A table without lines; long cells of these columns are folded."""
    made = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


def print_json(value: Any) -> None:
    """A value on standard output."""
    typer.echo(json.dumps(value, indent=2, allow_nan=False))
