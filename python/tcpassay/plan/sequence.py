"""Values that are sequences (lists of lost packets, changing rates): drawing, changing and combining them.

A sequence is a value of a parameter in the format of the data plane, so that a case with it can be repeated
independently. All random numbers come from `Random.random`, whose results are the same in every version of Python.
"""

import math
from collections.abc import Sequence as List
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Final, Protocol

from tcpassay.plan import fields, model
from tcpassay.plan.ends import AxisError, Ends
from tcpassay.plan.quantity import quantity

NOTHING_LOST: Final = "bernoulli"
"""`link.loss_model` without a list: packets are lost with probability `link.loss`, which is 0 by default."""
LIST: Final = "list:"
STEPS: Final = "steps:"
_PATHS: Final = {"losses": "link.loss_model", "rates": "link.rate"}


def below(rng: Random, number: int) -> int:
    """A whole number from 0 to `number` - 1."""
    return min(int(rng.random() * number), number - 1)


def near(rng: Random, most: float, least: float) -> float:
    """A distance from `least` to `most` in either direction; each order of magnitude is equally likely."""
    distance = math.exp(math.log(least) + rng.random() * (math.log(most) - math.log(least)))
    return distance if rng.random() < 0.5 else -distance  # noqa: PLR2004 - half of them


def folded(share: float) -> float:
    """A share outside of the interval from 0 to 1, reflected at its ends."""
    share = abs(share) % 2
    return 2 - share if share > 1 else share


class Sequence(Protocol):
    """The values of an axis of sequences."""

    def levels(self) -> List[fields.Scalar]:
        """Representative values, the simplest first."""

    def draw(self, rng: Random) -> fields.Scalar:
        """Any value."""

    def mutate(self, value: fields.Scalar, rng: Random) -> fields.Scalar:
        """A value similar to this one."""

    def cross(self, first: fields.Scalar, second: fields.Scalar, rng: Random) -> fields.Scalar:
        """A value with the beginning of the first one and the end of the second one."""


def sequence_of(path: str, axis: model.Losses | model.Rates) -> Sequence:
    """The values of an axis. Raises `AxisError`."""
    if path.rpartition("/")[2] != _PATHS[axis.sequence]:
        raise AxisError(
            "sequence", f"`{axis.sequence}`: these are values of `{_PATHS[axis.sequence]}`, not of `{path}`"
        )
    if isinstance(axis, model.Losses):
        if axis.most > axis.among:
            raise AxisError("most", f"`{axis.most}` packets cannot be lost among `among` = `{axis.among}`")
        return Losses(path, axis.most, axis.among)
    interval = quantity(axis.interval).amount
    if not isinstance(interval, Fraction) or interval <= 0:
        raise AxisError("interval", f"`{axis.interval}` is not above 0")
    ends = Ends.of(path, axis.start, axis.end)
    if ends.kind != "a rate":
        raise AxisError("from", f"`{axis.start}` is {ends.kind}; a rate is needed, as in `10Mbit`")
    if axis.scale == "log":
        ends.between(0.0, log=True)
    return Rates(path, ends, interval, axis.count, axis.scale == "log")


@dataclass(frozen=True, slots=True)
class Losses:
    """Lists of at most `most` lost packets among the first `among`."""

    path: str
    most: int
    among: int

    def levels(self) -> list[fields.Scalar]:
        """No losses, and one list."""
        rng = Random(f"levels {self.path}")  # noqa: S311 - reproducible is the point
        drawn = self.draw(rng)
        return [NOTHING_LOST, drawn if drawn != NOTHING_LOST else self._written({1})]

    def draw(self, rng: Random) -> fields.Scalar:
        """A list of random length, each length with equal probability."""
        wanted = below(rng, self.most + 1)
        lost: set[int] = set()
        while len(lost) < wanted:
            lost.add(1 + below(rng, self.among))
        return self._written(lost)

    def mutate(self, value: fields.Scalar, rng: Random) -> fields.Scalar:
        """One or several packets added, spared or moved, or everything after a packet moved."""
        lost = sorted(self._read(value))
        kind = rng.random()
        if not lost or (kind < 0.3 and len(lost) < self.most):  # noqa: PLR2004 - shares of the kinds of changes
            beside = bool(lost) and rng.random() < 0.5  # noqa: PLR2004 - half of them
            after = lost[below(rng, len(lost))] + 1 if beside else 1 + below(rng, self.among)
            lost += [after + n for n in range(1 + below(rng, 3))]
        elif kind < 0.5:  # noqa: PLR2004
            del lost[below(rng, len(lost))]
        else:
            start = below(rng, len(lost))
            end = start + 1 if kind < 0.8 else len(lost)  # noqa: PLR2004
            by = round(near(rng, max(1, self.among / 2), 0.6)) or 1
            lost[start:end] = [packet + by for packet in lost[start:end]]
        return self._written(lost)

    def cross(self, first: fields.Scalar, second: fields.Scalar, rng: Random) -> fields.Scalar:
        """The losses of the first up to a packet, and those of the second after it."""
        at = 1 + below(rng, self.among)
        return self._written(
            {n for n in self._read(first) if n <= at} | {n for n in self._read(second) if n > at}
        )

    def _read(self, value: fields.Scalar) -> list[int]:
        text = str(value)
        return [int(n) for n in text.removeprefix(LIST).split(",")] if text.startswith(LIST) else []

    def _written(self, lost: set[int] | list[int]) -> str:
        """The valid packets of a list; if there are too many, the first ones."""
        allowed = sorted({n for n in lost if 1 <= n <= self.among})[: self.most]
        return f"{LIST}{','.join(map(str, allowed))}" if allowed else NOTHING_LOST


@dataclass(frozen=True, slots=True)
class Rates:
    """`count` rates, each of which holds for `interval` nanoseconds."""

    path: str
    ends: Ends
    interval: Fraction
    count: int
    log: bool

    def levels(self) -> list[fields.Scalar]:
        """The constant highest rate, the constant lowest rate, and rates that alternate between them."""
        high, low = self.ends.between(1.0, log=self.log), self.ends.between(0.0, log=self.log)
        return [
            self._written([high] * self.count),
            self._written([low] * self.count),
            self._written([high if n % 2 else low for n in range(self.count)]),
        ]

    def draw(self, rng: Random) -> fields.Scalar:
        """Rates drawn independently of each other."""
        return self._written([self._rate(rng.random()) for _ in range(self.count)])

    def mutate(self, value: fields.Scalar, rng: Random) -> fields.Scalar:
        """The rates of an interval or of several in a row changed, or moved in time."""
        rates = self._read(value)
        start = below(rng, self.count)
        end = min(self.count, start + 1 + below(rng, max(1, self.count // 3)))
        kind = rng.random()
        if kind < 0.4:  # noqa: PLR2004 - shares of the kinds of changes
            by = near(rng, 1.0, 0.01)
            rates[start:end] = [self._rate(folded(self._share(one) + by)) for one in rates[start:end]]
        elif kind < 0.7:  # noqa: PLR2004
            rates[start:end] = [self._rate(rng.random())] * (end - start)
        elif kind < 0.9:  # noqa: PLR2004
            rates.insert(below(rng, self.count), rates.pop(start))
        else:
            rates = rates[start:] + rates[:start]
        return self._written(rates)

    def cross(self, first: fields.Scalar, second: fields.Scalar, rng: Random) -> fields.Scalar:
        """The first rates of one and the last ones of the other."""
        at = below(rng, self.count)
        return self._written(self._read(first)[:at] + self._read(second)[at:])

    def _rate(self, share: float) -> Fraction:
        return self.ends.between(share, log=self.log)

    def _share(self, rate: Fraction) -> float:
        return self.ends.share(rate, log=self.log)

    def _read(self, value: fields.Scalar) -> list[Fraction]:
        steps = str(value).removeprefix(STEPS).split(";")[:-1]
        amounts = (quantity(step.partition(",")[2]).amount for step in steps)
        return [amount for amount in amounts if isinstance(amount, Fraction)]

    def _written(self, rates: List[Fraction]) -> str:
        """The rates in the format of the data plane; the last step ends the cycle."""
        times = [_seconds(self.interval * n) for n in range(self.count + 1)]
        said = [str(self.ends.written(rate)) for rate in rates]
        return STEPS + ";".join(f"{time},{rate}" for time, rate in zip(times, [*said, said[-1]], strict=True))


def _seconds(ns: Fraction) -> str:
    """A time in seconds, exact."""
    whole, rest = divmod(int(ns), 10**9)
    return f"{whole}.{rest:09}".rstrip("0").rstrip(".")
