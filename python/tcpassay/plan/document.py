"""TOML documents with the position of every key, so that each error can contain `file:line`."""

import difflib
import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tcpassay import _native, regular
from tcpassay.errors import Place, UserError

Step = str | int
Table = dict[str, object]
"""A table of a TOML file, before the model of plans checks it."""

# A plan is written by hand or by a script; a larger file is not a plan.
LARGEST = 16 * 1024 * 1024
_SEPARATORS = re.compile(r"[._/]")
_MOST_SUGGESTED = 4
MOST_KEYS = 20_000
"""Maximum number of keys in all tables of a plan; ten times as many take minutes to check."""


@dataclass(frozen=True, slots=True)
class Document:
    """The content of a TOML file with positions."""

    file: Path
    data: Table
    places: dict[tuple[Step, ...], Place]
    """The position of every key and element; keys of a base plan have positions in another file."""

    def at(self, *path: Step) -> Any:
        """The value at `path`, of any type that TOML has. Raises `LookupError`."""
        value: Any = self.data
        for step in path:
            value = value[step]
        return value

    def place(self, *path: Step) -> Place:
        """The position of `path`, or of the closest enclosing element that has one."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places[path] if path else Place(self.file)


def read_text(file: Path) -> str:
    """The text of a file that the user named."""
    try:
        return regular.read_bytes(file, largest=LARGEST).decode()
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise UserError(f"cannot read the file: {reason}", Place(file)) from None
    except UnicodeDecodeError as error:
        raise UserError(
            f"not UTF-8 text (byte {error.start}); a plan is a TOML file, which is UTF-8", Place(file)
        ) from None
    except ValueError:  # a NUL in the file name
        raise UserError("cannot read the file: the name is not valid", Place(file)) from None


def parse(text: str, file: Path) -> Document:
    """Parses TOML text; `file` is used in errors only."""
    try:
        data, places = _native.read_toml(text)
    except _native.TomlError as error:
        # The line is not quoted, because the content of a file that was named by mistake must not appear in logs.
        message, line, column = error.args
        raise UserError(
            f"not TOML: {' '.join(message.split())} (column {column})", Place(file, line)
        ) from None
    keys = sum(isinstance(path[-1], str) for path in places)
    if keys > MOST_KEYS:
        raise UserError(f"{keys} keys; a plan has at most {MOST_KEYS}", Place(file))
    return Document(file, data, {path: Place(file, line) for path, (line, _) in places.items()})


def flatten(document: Document, section: tuple[Step, ...], leaf_keys: Container[str] = ()) -> None:
    """Joins the dotted keys of a section: `stack.cc = 1` and `"stack.cc" = 1` are equivalent.

    A table with one of `leaf_keys` is a value.
    """
    try:
        outer, table = document.at(*section[:-1]), document.at(*section)
    except (LookupError, TypeError):
        return
    if not isinstance(table, dict):
        return
    flat: Table = {}
    places = document.places

    def walk(node: Mapping[str, object], steps: tuple[str, ...]) -> None:
        for key, value in node.items():
            path = (*steps, key)
            if isinstance(value, dict) and value and not any(inner in leaf_keys for inner in value):
                walk(value, path)
                continue
            name = ".".join(path)
            if name in flat:
                first = document.place(*section, name)
                message = f"`{name}` is set here and in line {first.line}; keep one"
                raise UserError(message, document.place(*section, *path))
            flat[name] = value
            places[*section, name] = places[*section, *path]
            for inside in value if isinstance(value, dict) else ():
                places[*section, name, inside] = places[*section, *path, inside]
            for index in range(len(value) if isinstance(value, list) else 0):
                places[*section, name, index] = places[*section, *path, index]

    walk(table, ())
    outer[section[-1]] = flat


def suggest(word: str, known: Iterable[str]) -> str:
    """`; did you mean ...?` if known words are similar, otherwise an empty text.

    Similar are a word in another case, those that have `word` as a part (`p99` of `rtt_p99`), and one with few other
    letters.
    """
    listed = list(known)
    close = [one for one in listed if one.lower() == word.lower()]
    close = close or [one for one in listed if word in _SEPARATORS.split(one)]
    close = close or difflib.get_close_matches(word.lower(), listed, n=1, cutoff=0.6)
    if not close:
        return ""
    more = f" or {len(close) - _MOST_SUGGESTED} others" if len(close) > _MOST_SUGGESTED else ""
    return f"; did you mean {', '.join(f'`{one}`' for one in close[:_MOST_SUGGESTED])}{more}?"
