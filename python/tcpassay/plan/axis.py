"""The values of an axis: lists, ranges and distributions.

Values are rounded to four significant digits and written with a suitable unit, so that cases are readable and rounding
errors of logarithms do not appear. The drawn values depend only on the seed and on the path of the parameter; other
axes have no effect.
"""

import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Final

from tcpassay.plan import fields, model
from tcpassay.plan.ends import AxisError, Ends, amount_of, smallest
from tcpassay.plan.quantity import quantity
from tcpassay.plan.sequence import sequence_of

__all__ = ["AxisError", "values"]
_TRIES: Final = 100
"""Maximum number of draws per missing value, because a distribution may have few different values."""


def values(path: str, axis: model.Axis) -> list[fields.Scalar]:
    """The values of the axis of the parameter `path`. Raises `AxisError`."""
    if isinstance(axis, list):
        return axis
    match axis:
        case model.Range():
            # All values between the ends are represented by the ends and the middle.
            return [*_range(path, axis.start, axis.end, axis.steps or 3, axis.scale)]
        case model.Losses() | model.Rates():
            return [*sequence_of(path, axis).levels()]
        case model.Uniform() | model.LogUniform():
            ends = Ends.of(path, axis.start, axis.end)
            log = isinstance(axis, model.LogUniform)
            return _draw(path, axis, ends, lambda u: ends.between(u, log=log))
        case model.Normal():
            return _normal(path, axis)
        case model.Choice():
            return _choice(path, axis)


@lru_cache(maxsize=100, typed=True)  # the axes of a plan are read many times
def _range(
    path: str, start: fields.Scalar, end: fields.Scalar, steps: int, scale: str
) -> tuple[fields.Scalar, ...]:
    ends = Ends.of(path, start, end)
    log = scale == "log"
    inner = (ends.written(ends.between(step / (steps - 1), log=log)) for step in range(1, steps - 1))
    if log:
        ends.between(0.0, log=True)
    made = (start, *inner, end)
    meanings = set(map(quantity, made))
    if not all(meaning.ordered for meaning in meanings):
        raise AxisError("steps", f"`{steps}`: values between these ends have more than 30 decimals")
    different = len(meanings)
    if different < steps:
        raise AxisError("steps", f"`{steps}`: the range has only {different} different values")
    return made


def _normal(path: str, axis: model.Normal) -> list[fields.Scalar]:
    mean, deviation = amount_of("mean", axis.mean), amount_of("deviation", axis.deviation)
    if mean.kind != deviation.kind:
        raise AxisError("deviation", f"`{axis.deviation}` is {deviation.kind}, and `mean` is {mean.kind}")
    if Fraction(deviation.amount) <= 0:
        raise AxisError("deviation", f"`{axis.deviation}` is not above 0")
    zero: fields.Scalar = 0 if mean.kind == "a number" else f"0{smallest(mean.kind)}"
    ends = Ends.of(path, zero if axis.start is None else axis.start, axis.end)
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


def _draw(path: str, axis: model.Drawn, ends: Ends, at: Callable[[float], Fraction]) -> list[fields.Scalar]:
    made: dict[Fraction, None] = {}
    for u in _uniform(path, axis.seed, axis.count * _TRIES):
        made.setdefault(at(u))
        if len(made) == axis.count:
            return [ends.written(amount) for amount in made]
    raise AxisError("count", f"`{axis.count}`: the distribution gives only {len(made)} different values")


def _choice(path: str, axis: model.Choice) -> list[fields.Scalar]:
    weights = [Fraction(1)] * len(axis.values) if axis.weights is None else [*map(Fraction, axis.weights)]
    if len(weights) != len(axis.values):
        raise AxisError(
            "weights", f"{len(weights)} weights for {len(axis.values)} values; one weight per value is needed"
        )
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
