"""A range between two amounts: rounding and format of its values.

Values are rounded to four significant digits and written with a suitable unit, so that cases are readable and rounding
errors of logarithms do not appear.
"""

import math
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from typing import Final

from tcpassay.plan import fields, table
from tcpassay.plan.quantity import Quantity, quantity

_DIGITS: Final = Context(prec=4, rounding=ROUND_HALF_EVEN)
_UNITS: Final = {
    "a length of time": ("ns", "us", "ms", "s"),
    "a number of bytes": ("B", "KB", "MB", "GB"),
    "a rate": ("bit", "Kbit", "Mbit", "Gbit"),
}


class AxisError(Exception):
    """An invalid axis: the error, and the key that causes it."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key
        self.message = message


@dataclass(frozen=True, slots=True)
class Ends:
    """Two amounts of one kind, and the format of values between them; `of` raises `AxisError`."""

    kind: str
    start: Fraction
    end: Fraction | None
    percent: bool
    whole: bool

    @classmethod
    def of(cls, path: str, start: fields.Scalar, end: fields.Scalar | None, key: str = "from") -> "Ends":
        """The ends of values of the parameter `path`; `key` is named in an error of the start."""
        a = amount_of(key, start)
        b = None if end is None else amount_of("to", end)
        if b is not None and a.kind != b.kind:
            raise AxisError("to", f"`{end}` is {b.kind}, and `{key}` is {a.kind}; they must be of one kind")
        row = table.parameters().get(path.rpartition("/")[2])
        number = a.kind == "a number"
        made = cls(
            a.kind,
            Fraction(a.amount),
            None if b is None else Fraction(b.amount),
            percent=number and isinstance(start, str) and start.endswith("%"),
            whole=not number or (row is not None and row.kind == "integer"),
        )
        if made.end is not None and made.start >= made.end:
            raise AxisError("to", f"`{end}` is not more than `{key}` = `{start}`")
        return made

    def between(self, share: float, *, log: bool) -> Fraction:
        """The value at `share` of the distance, rounded."""
        assert self.end is not None  # noqa: S101 - for the type checker; all that ask have both ends
        if log:
            if self.start <= 0:
                raise AxisError("from", "a range with equal ratios (`log`) must begin above 0")
            low, high = math.log(self.start), math.log(self.end)
            return self.rounded(Fraction(math.exp(low + share * (high - low))))
        return self.rounded(self.start + Fraction(share) * (self.end - self.start))

    def share(self, amount: Fraction, *, log: bool) -> float:
        """Where an amount lies between the ends, from 0 to 1: the inverse of `between`."""
        assert self.end is not None  # noqa: S101 - as above
        amount = min(max(amount, self.start), self.end)
        if log:
            low, high = math.log(self.start), math.log(self.end)
            return (math.log(amount) - low) / (high - low)
        return float((amount - self.start) / (self.end - self.start))

    def rounded(self, amount: Fraction) -> Fraction:
        """Rounds to four significant digits and to an integer multiple of the smallest unit, within the ends."""
        decimal = _DIGITS.divide(Decimal(amount.numerator), Decimal(amount.denominator))
        made = Fraction(decimal)
        if self.whole:
            made = Fraction(round(made))
        made = max(made, self.start)
        return made if self.end is None else min(made, self.end)

    def written(self, amount: Fraction) -> fields.Scalar:
        """The amount in the format of a plan."""
        if self.kind == "a number":
            if self.percent:
                return f"{_decimal(amount * 100)}%"
            return int(amount) if self.whole else float(amount)
        if self.kind not in _UNITS:
            return f"{_decimal(amount)}p"
        unit, scale = _UNITS[self.kind][0], 1
        for n, larger in enumerate(_UNITS[self.kind]):
            if amount >= 1000**n:
                unit, scale = larger, 1000**n
        return f"{_decimal(amount / scale)}{unit}"


def amount_of(key: str, value: fields.Scalar) -> Quantity:
    """The meaning of a value that must be an amount; `key` is named in the error. Raises `AxisError`."""
    made = quantity(value)
    if not made.ordered:
        raise AxisError(key, f"`{value}`: a number is needed, with its unit where the parameter has one")
    return made


def _decimal(amount: Fraction) -> str:
    """Exact, without an exponent; a number with four digits and a power of ten is a finite decimal."""
    text = f"{Decimal(amount.numerator) / Decimal(amount.denominator):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def smallest(kind: str) -> str:
    """The smallest unit of a kind of amounts that have units."""
    return _UNITS[kind][0] if kind in _UNITS else "p"
