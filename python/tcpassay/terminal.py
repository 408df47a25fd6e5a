"""What all commands print alike: a console, a table, a value with its unit, JSON. It knows nothing of the rest."""

import contextlib
import json
import math
import os
import sys
from typing import Any, Final

import typer
from rich.console import Console
from rich.table import Table

_PREFIXES: Final = ((1e9, "G"), (1e6, "M"), (1e3, "K"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
WIDE: Final = 160
NARROWEST: Final = 40
_SCALED: Final = {"s", "bit/s", "B"}


def console() -> Console:
    """Standard output, as wide as the terminal.

    A pipe (`tcpassay params | less`) is as wide as the terminal that standard error goes to; where there is none, what
    is read later should not be folded.
    """
    return Console() if sys.stdout.isatty() else Console(width=_width())


def _width() -> int:
    with contextlib.suppress(OSError, ValueError):
        return max(os.get_terminal_size(sys.stderr.fileno()).columns, NARROWEST)
    return WIDE


def grid(*columns: str) -> Table:
    """A table without lines; long cells of these columns are folded."""
    made = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


def print_json(value: Any) -> None:
    """A value on standard output."""
    typer.echo(json.dumps(value, indent=2, allow_nan=False))


def interval(mean: float, half: float, unit: str) -> str:
    """A mean with half the width of its interval, both with the prefix of the mean: `96.5 ± 1.2 Mbit/s`."""
    if unit not in _SCALED or mean == 0:
        return f"{mean:.4g} ± {half:.2g}"
    scale, prefix = _prefix(mean, unit)
    return f"{mean / scale:.4g} ± {half / scale:.2g} {prefix}{unit}"


def _prefix(value: float, unit: str) -> tuple[float, str]:
    scale, prefix = next((p for p in _PREFIXES if abs(value) >= p[0]), _PREFIXES[-1])
    return (1.0, "") if unit == "s" and scale > 1 else (scale, prefix)


def number(value: float | None, unit: str) -> str:
    """A value with three or four significant digits and a prefix, `198 ms`."""
    if value is None or not math.isfinite(value):
        return "-"
    if unit not in _SCALED or value == 0:
        return f"{value:.4g}"
    scale, prefix = _prefix(value, unit)
    return f"{value / scale:.4g} {prefix}{unit}"
