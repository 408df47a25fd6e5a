"""Texts of findings."""

from dataclasses import replace

from tcpassay.finding import Found


def ms(ns: int) -> str:
    """A time in milliseconds, to the microsecond."""
    text = f"{ns / 1e6:.3f}".rstrip("0").rstrip(".")
    return f"{text} ms"


def repeated(first: Found, count: int, last_start: int, end: int) -> Found:
    """The first of `count` occurrences, the last of which begins at `last_start`."""
    if count == 1:
        return first
    text = f"{first.text} This is the first of {count} in this flow; the last begins at {ms(last_start)}."
    return replace(first, end_ns=end, text=text, count=count)
