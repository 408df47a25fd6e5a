"""The tables of parameters and metrics as text, for any width of the terminal."""

import fnmatch
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding

from tcpassay import terminal
from tcpassay.errors import UserError
from tcpassay.interface import Metric
from tcpassay.plan import hints, table
from tcpassay.plan.document import suggest

Row = TypeVar("Row")

_TABLE: Final = 140
"""Minimum width of a table of parameters; on a narrower terminal each parameter is a paragraph."""
_INDENT: Final = 4


def chosen(known: Mapping[str, Row], names: Sequence[str] | None, what: str) -> list[Row]:
    """The rows that `names` select: by name, by pattern (`rtt_*`), or by a part of the name.

    Raises `UserError` for a name without a match.
    """
    if not names:
        return list(known.values())
    found: dict[str, Row] = {}
    for name in names:
        some = [one for one in known if one == name]
        some = some or [one for one in known if fnmatch.fnmatchcase(one, name)]
        some = some or [one for one in known if name.lower() in one.lower()]
        if not some:
            command = "params" if what == "parameter" else f"{what}s"
            hint = suggest(name, known) or f"; `tcpassay {command}` lists all"
            raise UserError(f"`{name}`: no such {what}{hint}")
        found |= {one: known[one] for one in some}
    return list(found.values())


def searched(known: Mapping[str, Row], words: Sequence[str] | None, what: str) -> list[Row]:
    """The rows that `words` select as in `chosen`, or otherwise those that contain every word.

    The words are searched in names, meanings and allowed values. A parameter is also found by its names elsewhere.
    Raises `UserError` if there is none.
    """
    try:
        return chosen(known, words, what)
    except UserError:
        wanted = [word.lower() for text in words or () for word in text.split()]
        meant = hints.searched(wanted) if what == "parameter" else []
        wanted = wanted if what == "parameter" else [hints.meant(word) for word in wanted]
        found = [
            name
            for name, row in known.items()
            if name in meant or all(word in _searchable(name, row) for word in wanted)
        ]
        if not found:
            raise
        return [known[name] for name in sorted(found, key=lambda name: name not in meant)]


def _searchable(name: str, row: object) -> str:
    """The name, the meaning, and the values of a parameter in lower case."""
    return f"{name} {getattr(row, 'doc', '')} {getattr(row, 'allowed', '')}".lower()


def parameters(rows: Sequence[table.Parameter], console: Console, *, full: bool) -> None:
    """A table, or a paragraph per parameter on a narrow terminal; `full` adds levels and controller parameters."""
    if console.width >= _TABLE and not full:
        grid = terminal.grid("path", "unit", "allowed", "default", "substrates", "meaning")
        for row in rows:
            grid.add_row(
                *map(escape, (row.path, row.unit, row.allowed, row.default, _substrates(row), _meaning(row)))
            )
        console.print(grid)
        return
    for row in rows:
        unit = f", unit {row.unit}" if row.unit else ""
        console.print(
            f"[bold]{escape(row.path)}[/]  default {escape(row.default)}{escape(unit)}  ({escape(_substrates(row))})",
            highlight=False,
        )
        _indented(console, _meaning(row))
        _indented(console, f"Allowed: {row.allowed}")
        if full and row.levels:
            _indented(console, f"Typical levels: {', '.join(row.levels)}")
        for name, own in row.controllers.items() if full else ():
            limits = f"{own['default']:g}, {own['min']:g} to {own['max']:g}"
            _indented(console, f"{name}: default {limits}; {own['doc']}")


def metrics(rows: Sequence[Metric], console: Console) -> None:
    """A table whose last column is wrapped."""
    grid = terminal.grid("name", "unit", "meaning")
    for row in rows:
        grid.add_row(*map(escape, (row.name, row.unit, row.doc)))
    console.print(grid)


def _indented(console: Console, text: str) -> None:
    console.print(Padding(escape(text), (0, 0, 0, _INDENT)), highlight=False)


def _substrates(row: table.Parameter) -> str:
    return ", ".join(row.substrates)


def _meaning(row: table.Parameter) -> str:
    return f"{row.doc} ({row.constraints})" if row.constraints else row.doc
