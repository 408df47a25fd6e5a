"""The genes of a search: one for each axis and group of a plan, with values in the form of the plan.

A gene draws a value, changes a value, and combines two values. All random numbers come from `Random.random`,
whose results are the same in every version of Python.
"""

from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Final, Protocol

from tcpassay.plan import axis, fields, model
from tcpassay.plan.ends import Ends
from tcpassay.plan.expand import show
from tcpassay.plan.quantity import quantity
from tcpassay.plan.sequence import Sequence, below, folded, near, sequence_of

FINEST: Final = 0.001
"""The smallest change of an amount, as a share of the distance between its ends."""
TO_AN_END: Final = 0.1
"""Probability that a changed amount becomes one of the ends, where many faults occur."""


class Gene(Protocol):
    """An axis or a group of a plan."""

    @property
    def name(self) -> str:
        """The name of the axis or the group."""

    @property
    def varies(self) -> bool:
        """Whether there is more than one value."""

    def draw(self, rng: Random) -> fields.Scalar:
        """Any value."""

    def mutate(self, value: fields.Scalar, rng: Random) -> fields.Scalar:
        """Another value; close to this one if values have an order. It may be equal after rounding."""

    def cross(self, first: fields.Scalar, second: fields.Scalar, rng: Random) -> fields.Scalar:
        """A value with parts of both values, or one of them."""


@dataclass(frozen=True, slots=True)
class Listed:
    """Values of a list, or names of a group's sets."""

    name: str
    values: tuple[fields.Scalar, ...]

    @property
    def varies(self) -> bool:
        """Whether there is more than one value."""
        return len(self.values) > 1

    def draw(self, rng: Random) -> fields.Scalar:
        """A value of the list, drawn with equal probability."""
        return self.values[below(rng, len(self.values))]

    def mutate(self, value: fields.Scalar, rng: Random) -> fields.Scalar:
        """Any other value."""
        others = [one for one in self.values if show(one) != show(value)]
        return others[below(rng, len(others))] if others else value

    def cross(self, first: fields.Scalar, second: fields.Scalar, rng: Random) -> fields.Scalar:
        """One of them."""
        return first if rng.random() < 0.5 else second  # noqa: PLR2004 - either


@dataclass(frozen=True, slots=True)
class Amounts:
    """Every amount between two ends."""

    name: str
    ends: Ends
    log: bool

    @property
    def varies(self) -> bool:
        """Always true, because the ends differ."""
        return True

    def draw(self, rng: Random) -> fields.Scalar:
        """An amount between the ends, drawn uniformly or log-uniformly."""
        return self._at(rng.random())

    def mutate(self, value: fields.Scalar, rng: Random) -> fields.Scalar:
        """A step whose order of magnitude is drawn (Muehlenbein and Schlierkamp-Voosen, 1993), or an end."""
        if rng.random() < TO_AN_END:
            return self._at(float(below(rng, 2)))
        return self._at(folded(self._share(value) + near(rng, 1.0, FINEST)))

    def cross(self, first: fields.Scalar, second: fields.Scalar, rng: Random) -> fields.Scalar:
        """One of them, or an amount between them."""
        kind = rng.random()
        if kind < 0.75:  # noqa: PLR2004 - shares of the ways
            return first if kind < 0.375 else second  # noqa: PLR2004
        a, b = self._share(first), self._share(second)
        return self._at(a + rng.random() * (b - a))

    def _at(self, share: float) -> fields.Scalar:
        return self.ends.written(self.ends.between(share, log=self.log))

    def _share(self, value: fields.Scalar) -> float:
        amount = quantity(value).amount
        return self.ends.share(amount, log=self.log) if isinstance(amount, Fraction) else 0.0


@dataclass(frozen=True, slots=True)
class Sequences:
    """Sequences of losses or rates."""

    name: str
    of: Sequence

    @property
    def varies(self) -> bool:
        """Always true, because there are at least two sequences."""
        return True

    def draw(self, rng: Random) -> fields.Scalar:
        """Any sequence."""
        return self.of.draw(rng)

    def mutate(self, value: fields.Scalar, rng: Random) -> fields.Scalar:
        """A sequence that is similar to this one."""
        return self.of.mutate(value, rng)

    def cross(self, first: fields.Scalar, second: fields.Scalar, rng: Random) -> fields.Scalar:
        """The beginning of one and the end of the other."""
        return self.of.cross(first, second, rng)


def genes(spec: model.PlanFile) -> list[Gene]:
    """The genes of a plan in its order: axes, then groups."""
    made: list[Gene] = [_gene(path, one) for path, one in spec.axes.items()]
    made += [Listed(name, tuple(sets)) for name, sets in spec.groups.items()]
    return [one for one in made if one.varies]


def _gene(path: str, one: model.Axis) -> Gene:
    if isinstance(one, model.Losses | model.Rates):
        return Sequences(path, sequence_of(path, one))
    if isinstance(one, model.Range) and one.steps is None:
        return Amounts(path, Ends.of(path, one.start, one.end), one.scale == "log")
    return Listed(path, tuple(axis.values(path, one)))
