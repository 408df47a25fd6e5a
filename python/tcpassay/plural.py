"""Numbers with their nouns, for texts."""

from collections.abc import Sequence


def plural(number: int, noun: str) -> str:
    """A number with its noun, as in `1 run` or `12,000 runs`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def few(names: Sequence[str], most: int = 3) -> str:
    """The first names of a list, and how many others there are: `a, b, c and 2 others`."""
    more = f" and {plural(len(names) - most, 'other')}" if len(names) > most else ""
    return ", ".join(names[:most]) + more
