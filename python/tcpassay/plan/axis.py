"""The values of an axis: lists, ranges and distributions.

Values are rounded to four significant digits and written with a suitable unit, so that cases are readable and rounding
errors of logarithms do not appear. The drawn values depend only on the seed and on the path of the parameter; other
axes have no effect.
"""

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Final

from tcpassay.plan import model, table
from tcpassay.plan.quantity import Quantity, quantity

_DIGITS: Final = Context(prec=4, rounding=ROUND_HALF_EVEN)
_TRIES: Final = 100
"""Maximum number of draws per missing value, because a distribution may have few different values."""
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


def values(path: str, axis: model.Axis) -> list[model.Scalar]:
    """The values of the axis of the parameter `path`. Raises `AxisError`."""
    if isinstance(axis, list):
        return axis
    match axis:
        case model.Range():
            return [*_range(path, axis.start, axis.end, axis.steps, axis.scale)]
        case model.Uniform() | model.LogUniform():
            ends = _Ends.of(path, axis.start, axis.end)
            log = isinstance(axis, model.LogUniform)
            return _draw(path, axis, ends, lambda u: ends.between(u, log=log))
        case model.Normal():
            return _normal(path, axis)
        case model.Choice():
            return _choice(path, axis)


@dataclass(frozen=True, slots=True)
class _Ends:
    """Two amounts of one kind, and the format of values between them."""

    kind: str
    start: Fraction
    end: Fraction | None
    percent: bool
    whole: bool

    @classmethod
    def of(cls, path: str, start: model.Scalar, end: model.Scalar | None, key: str = "from") -> "_Ends":
        a = _amount(key, start)
        b = None if end is None else _amount("to", end)
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
                raise AxisError("from", "equal ratios begin above 0")
            low, high = math.log(self.start), math.log(self.end)
            return self.rounded(Fraction(math.exp(low + share * (high - low))))
        return self.rounded(self.start + Fraction(share) * (self.end - self.start))

    def rounded(self, amount: Fraction) -> Fraction:
        """Rounds to four significant digits and to an integer multiple of the smallest unit, within the ends."""
        decimal = _DIGITS.divide(Decimal(amount.numerator), Decimal(amount.denominator))
        made = Fraction(decimal)
        if self.whole:
            made = Fraction(round(made))
        made = max(made, self.start)
        return made if self.end is None else min(made, self.end)

    def written(self, amount: Fraction) -> model.Scalar:
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


def _amount(key: str, value: model.Scalar) -> Quantity:
    made = quantity(value)
    if not made.ordered:
        raise AxisError(key, f"`{value}`: a number is needed, with its unit where the parameter has one")
    return made


def _decimal(amount: Fraction) -> str:
    """Exact, without an exponent; a number with four digits and a power of ten is a finite decimal."""
    text = f"{Decimal(amount.numerator) / Decimal(amount.denominator):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


@lru_cache(maxsize=100, typed=True)  # the axes of a plan are read many times
def _range(
    path: str, start: model.Scalar, end: model.Scalar, steps: int, scale: str
) -> tuple[model.Scalar, ...]:
    ends = _Ends.of(path, start, end)
    log = scale == "log"
    inner = (ends.written(ends.between(step / (steps - 1), log=log)) for step in range(1, steps - 1))
    if log:
        ends.between(0.0, log=True)
    made = (start, *inner, end)
    meanings = set(map(quantity, made))
    if not all(meaning.ordered for meaning in meanings):
        raise AxisError("steps", f"`{steps}`: between these ends lie values of more than 30 decimals")
    different = len(meanings)
    if different < steps:
        raise AxisError("steps", f"`{steps}`: the range has only {different} different values")
    return made


def _normal(path: str, axis: model.Normal) -> list[model.Scalar]:
    mean, deviation = _amount("mean", axis.mean), _amount("deviation", axis.deviation)
    if mean.kind != deviation.kind:
        raise AxisError("deviation", f"`{axis.deviation}` is {deviation.kind}, and `mean` is {mean.kind}")
    if Fraction(deviation.amount) <= 0:
        raise AxisError("deviation", f"`{axis.deviation}` is not above 0")
    zero: model.Scalar = 0 if mean.kind == "a number" else f"0{_smallest(mean.kind)}"
    ends = _Ends.of(path, zero if axis.start is None else axis.start, axis.end)
    if ends.kind != mean.kind:
        raise AxisError("mean", f"`{axis.mean}` is {mean.kind}, and `from` or `to` is {ends.kind}")
    bell = NormalDist(float(mean.amount), float(deviation.amount))
    low = bell.cdf(float(ends.start))
    high = 1.0 if ends.end is None else bell.cdf(float(ends.end))

    def at(u: float) -> Fraction:
        share = low + u * (high - low)
        # Beyond sixteen digits the tails equal the ends.
        if not 0 < share < 1:
            return ends.start if share <= 0 else (ends.end or ends.rounded(Fraction(bell.mean)))
        return ends.rounded(Fraction(bell.inv_cdf(share)))

    return _draw(path, axis, ends, at)


def _smallest(kind: str) -> str:
    return _UNITS[kind][0] if kind in _UNITS else "p"


def _draw(path: str, axis: model.Drawn, ends: _Ends, at: Callable[[float], Fraction]) -> list[model.Scalar]:
    made: dict[Fraction, None] = {}
    for u in _uniform(path, axis.seed, axis.count * _TRIES):
        made.setdefault(at(u))
        if len(made) == axis.count:
            return [ends.written(amount) for amount in made]
    raise AxisError("count", f"`{axis.count}`: the distribution gives only {len(made)} different values")


def _choice(path: str, axis: model.Choice) -> list[model.Scalar]:
    weights = [Fraction(1)] * len(axis.values) if axis.weights is None else [*map(Fraction, axis.weights)]
    if len(weights) != len(axis.values):
        raise AxisError("weights", f"{len(weights)} weights for {len(axis.values)} values; one for each")
    if axis.count > len(axis.values):
        raise AxisError("count", f"`{axis.count}`: there are only {len(axis.values)} values to draw from")
    left = list(range(len(axis.values)))
    made = []
    for u in _uniform(path, axis.seed, axis.count):
        point, chosen = Fraction(u) * sum(weights[n] for n in left), left[-1]
        for n in left:
            point -= weights[n]
            if point < 0:
                chosen = n
                break
        left.remove(chosen)
        made.append(axis.values[chosen])
    return made


def _uniform(path: str, seed: int, count: int) -> Iterator[float]:
    """Numbers from 0 to 1 of the random stream named after the parameter."""
    # The sequence of `random()` for a text seed does not change between versions of Python.
    stream = random.Random(f"{seed} {path}")  # noqa: S311 - reproducible is the point
    for _ in range(count):
        yield stream.random()
