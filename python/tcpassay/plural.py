"""Numbers with their nouns, for texts."""


def plural(number: int, noun: str) -> str:
    """A number with its noun, as in `1 run` or `12,000 runs`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
