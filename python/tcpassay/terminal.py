"""Common output functions of all commands: a console, tables, values with units, JSON."""

import contextlib
import json
import math
import os
import re
import sys
from typing import Any, Final

import typer
from rich.console import (
    Console,
    ConsoleOptions,
    ConsoleRenderable,
    RenderableType,
    RenderHook,
    RenderResult,
)
from rich.control import Control
from rich.segment import Segment
from rich.table import Table

from tcpassay.guard import clean

_PREFIXES: Final = ((1e9, "G"), (1e6, "M"), (1e3, "K"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
WIDE: Final = 160
NARROWEST: Final = 40
_TRAILING: Final = re.compile(" +\n")
_SCALED: Final = {"s", "bit/s", "B"}


class _Clean:
    """Removes control characters of plans, scripts and result folders from terminal output."""

    def __init__(self, shown: RenderableType) -> None:
        self._shown = shown

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._shown, options):
            yield segment if segment.control else Segment(clean(segment.text), segment.style)


class _Hook(RenderHook):
    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [one if isinstance(one, Control) else _Clean(one) for one in renderables]


def console(*, stderr: bool = False) -> Console:
    """Standard output or standard error with the width of the terminal.

    A pipe (`tcpassay params | less`) has the width of the terminal of standard error; without one, lines are not
    wrapped.
    """
    stream: Any = sys.stderr if stderr else sys.stdout
    # Rich resolves one replaced stream; during progress display there are two, and rich's own control characters
    # would not pass through `guard.Clean`.
    while (within := getattr(stream, "rich_proxied_file", None)) is not None:
        stream = within
    file: Any = stream if stream.isatty() else _Trimmed(stream)
    made = Console(file=file, width=None if stderr or stream.isatty() else _width())
    made.push_render_hook(_Hook())
    return made


class _Trimmed:
    """A stream that is no terminal, without the blanks with which rich fills lines."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(_TRAILING.sub("\n", text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _width() -> int:
    with contextlib.suppress(OSError, ValueError):
        return max(os.get_terminal_size(sys.stderr.fileno()).columns, NARROWEST)
    return WIDE


def grid(*columns: str) -> Table:
    """A table without lines; long cells of these columns are wrapped."""
    made = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


def print_json(value: object) -> None:
    """Prints a value to standard output."""
    typer.echo(json_text(value), nl=False)


def json_text(value: object) -> str:
    """A value as JSON."""
    return json.dumps(value, indent=2, allow_nan=False) + "\n"


def interval(mean: float, half: float, unit: str) -> str:
    """A mean with half the width of its interval, both with the prefix of the mean: `96.5 ± 1.2 Mbit/s`."""
    if unit not in _SCALED or mean == 0:
        return _both(mean, half)
    scale, prefix = prefixed(mean, unit)
    return f"{_both(mean / scale, half / scale)} {prefix}{unit}"


def _both(mean: float, half: float) -> str:
    """The mean with up to four digits, of which those at the end that the interval has are kept: `6.00 ± 0.79`."""
    text, beside = f"{mean:.4g}", _short(half)
    whole, _, decimals = text.partition(".")
    wanted = min(len(beside.partition(".")[2]), 4 - len(whole.lstrip("-")))
    if len(decimals) < wanted and "e" not in text + beside:
        text = f"{mean:.{wanted}f}"
    return f"{text} ± {beside}"


def _short(value: float) -> str:
    """Two significant digits, without an exponent below a million."""
    return f"{value:.2g}" if abs(value) < 99.5 or abs(value) >= 1e6 else f"{value:.0f}"  # noqa: PLR2004


def prefixed(value: float, unit: str) -> tuple[float, str]:
    """The scale and the prefix of the unit with which a value has one to three digits before the point."""
    if unit not in _SCALED or value == 0:
        return 1.0, ""
    scale, prefix = next((p for p in _PREFIXES if abs(value) >= p[0]), _PREFIXES[-1])
    # Kiloseconds are not in use, nor parts of a bit or a byte: `mbit/s` would read as Mbit/s.
    return (1.0, "") if (scale > 1) == (unit == "s") else (scale, prefix)


def number(value: float | None, unit: str) -> str:
    """A value with three or four significant digits and a prefix, as in `198 ms`."""
    if value is None or not math.isfinite(value):
        return "-"
    if unit not in _SCALED or value == 0:
        return f"{value:.4g}"
    scale, prefix = prefixed(value, unit)
    return f"{value / scale:.4g} {prefix}{unit}"
