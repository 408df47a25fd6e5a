"""What all commands print alike: a console, a table, a value with its unit, JSON. It knows nothing of the rest."""

import json
import math
import sys
from typing import Any, Final

import typer
from rich.console import Console
from rich.table import Table

_PREFIXES: Final = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
_SCALED: Final = {"s", "bit/s", "B"}


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


def number(value: float | None, unit: str) -> str:
    """A value with three or four significant digits and a prefix, `198 ms`."""
    if value is None or not math.isfinite(value):
        return "-"
    if unit not in _SCALED or value == 0:
        return f"{value:.4g}"
    scale, prefix = next((p for p in _PREFIXES if abs(value) >= p[0]), _PREFIXES[-1])
    if unit == "s" and scale > 1:
        scale, prefix = 1.0, ""
    return f"{value / scale:.4g} {prefix}{unit}"
