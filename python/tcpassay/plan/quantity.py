"""The meaning of a value in a comparison: a number, a time, a number of bytes or packets, a rate or a text.

The suffixes are those of the data plane (`crates/units/src/parse.rs`, `p` and `%` in `crates/case/src/params`), so that
`"1500us"` and `"1.5ms"` are equal in a constraint if they are equal in a run. `true`, `"true"` and `"on"` are equal,
too. In other modules values stay as the user wrote them. No value is rounded.
"""

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tcpassay.errors import UserError

Value = bool | int | float | str
"""A level of a parameter, as in a plan file."""

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
    """The meaning of a value.

    Values are equal if kind and amount are equal; only amounts of the same kind are ordered.
    """

    kind: str
    """The kind, in words for error messages: `a length of time`, `a text`."""
    amount: Fraction | str
    """In the smallest unit of its kind (ns, bytes, packets, bit/s, 1); for a text the text itself."""

    @property
    def ordered(self) -> bool:
        """Whether values of this kind are ordered."""
        return isinstance(self.amount, Fraction)

    def comparable(self, other: "Quantity") -> bool:
        """Whether the two values are ordered relative to each other."""
        return self.ordered and self.kind == other.kind

    def less(self, other: "Quantity") -> bool:
        """Whether this value is less; false if the two are not ordered."""
        return (
            self.comparable(other)
            and isinstance(self.amount, Fraction)
            and isinstance(other.amount, Fraction)
            and self.amount < other.amount
        )


def quantity(value: Value) -> Quantity:
    """The meaning of `value`. A value that is not a number with a known suffix is a text; case matters.

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
