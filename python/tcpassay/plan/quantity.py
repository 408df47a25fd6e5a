"""What a value means in a comparison: a number, a time, a number of bytes or packets, a rate or a text.

The suffixes are those of the data plane (`crates/units/src/parse.rs`, `p` and `%` in
`crates/case/src/params`), so that `"1500us"` and `"1.5ms"` are equal in a constraint when they are equal in a
run; likewise `true`, `"true"` and `"on"` are one switch position. Values stay as the user wrote them
everywhere else; nothing here rounds.
"""

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tcpassay.errors import UserError

Value = bool | int | float | str
"""One level of a parameter, as a plan file gives it."""

_SUFFIXES: Final[dict[str, tuple[str, Fraction]]] = {
    "": ("a number", Fraction(1)),
    "%": ("a number", Fraction(1, 100)),
    "p": ("a number of packets", Fraction(1)),
    "ns": ("a length of time", Fraction(1)),
    "us": ("a length of time", Fraction(10**3)),
    "ms": ("a length of time", Fraction(10**6)),
    "s": ("a length of time", Fraction(10**9)),
    "min": ("a length of time", Fraction(60 * 10**9)),
    "h": ("a length of time", Fraction(3600 * 10**9)),
    "B": ("a number of bytes", Fraction(1)),
    "KB": ("a number of bytes", Fraction(10**3)),
    "MB": ("a number of bytes", Fraction(10**6)),
    "GB": ("a number of bytes", Fraction(10**9)),
    "KiB": ("a number of bytes", Fraction(2**10)),
    "MiB": ("a number of bytes", Fraction(2**20)),
    "GiB": ("a number of bytes", Fraction(2**30)),
    "bit": ("a rate", Fraction(1)),
    "Kbit": ("a rate", Fraction(10**3)),
    "Mbit": ("a rate", Fraction(10**6)),
    "Gbit": ("a rate", Fraction(10**9)),
}
_SWITCH: Final = {"true": "on", "false": "off"}
_NUMBER_AND_SUFFIX: Final = re.compile(r"(-?[0-9]{1,30}(?:\.[0-9]{1,30})?)([A-Za-z%]*)")


@dataclass(frozen=True, slots=True)
class Quantity:
    """The meaning of a value: equal when kind and amount are; only amounts of the same kind have an order."""

    kind: str
    """What it is, in words that fit an error message: `a length of time`, `a text`."""
    amount: Fraction | str
    """In the smallest unit of its kind (ns, bytes, packets, bit/s, 1); the text itself for a text."""

    @property
    def ordered(self) -> bool:
        """Whether it can be less than another of its kind."""
        return isinstance(self.amount, Fraction)

    def comparable(self, other: "Quantity") -> bool:
        """Whether one of the two can be less than the other."""
        return self.ordered and self.kind == other.kind

    def less(self, other: "Quantity") -> bool:
        """Whether this is less; false when the two have no order."""
        return (
            self.comparable(other)
            and isinstance(self.amount, Fraction)
            and isinstance(other.amount, Fraction)
            and self.amount < other.amount
        )


def quantity(value: Value) -> Quantity:
    """What `value` means. What is not a number with a known suffix is a text; upper and lower case differ.

    Raises `UserError` for a number that is not finite.
    """
    if isinstance(value, bool):
        return Quantity("a text", "on" if value else "off")
    if isinstance(value, int):
        return Quantity("a number", Fraction(value))
    if isinstance(value, float):
        if not math.isfinite(value):
            raise UserError(f"`{value}` is not a number; a level must be finite")
        return Quantity("a number", Fraction(repr(value)))
    match = _NUMBER_AND_SUFFIX.fullmatch(value)
    if match and match[2] in _SUFFIXES:
        kind, scale = _SUFFIXES[match[2]]
        return Quantity(kind, Fraction(match[1]) * scale)
    return Quantity("a text", _SWITCH.get(value, value))
