"""The effect on a metric: the shift of its paired values, its interval, and a verdict that is corrected for all tests.

A test that is not significant does not show that two sides are equal. "No relevant difference" is said only if the
interval excludes a relevant one; otherwise the metric is undecided, with the number of seeds that would decide.

The statistical unit is the seed (`units.py`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Literal, Self

import numpy as np

from tcpassay.compare.correction import Method, adjust
from tcpassay.compare.direction import direction
from tcpassay.compare.pairing import Pair
from tcpassay.compare.power import deciding, detectable, deviation, together
from tcpassay.compare.signedrank import Reals, Shift, shift
from tcpassay.compare.units import Kind, Places, Units, places, units
from tcpassay.interface import Direction
from tcpassay.plan.enough import fewest
from tcpassay.plural import plural
from tcpassay.terminal import number

_ROUNDING: Final = 1e-12
"""Relative difference that is attributed to the order of additions."""
_LARGEST: Final = 3
_FACTOR: Final = 2
"""A larger ratio is written as a factor instead of a percentage."""


class Verdict(StrEnum):
    """The result for a metric."""

    IDENTICAL = "identical"
    """Every pair is equal."""
    ALIKE = "no relevant difference"
    """The interval is within the threshold of relevance."""
    UNDECIDED = "undecided"
    """The pairs differ, and they neither show a direction nor exclude a relevant difference."""
    DIFFERS = "differs"
    """Deterministic runs of one seed, whose difference is a fact and needs no test."""
    BETTER = "better"
    WORSE = "worse"
    HIGHER = "higher"
    """Higher, for a metric without a preferred direction."""
    LOWER = "lower"


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a comparison."""

    confidence: float = 0.95
    correction: Method = "holm"
    threshold: float = 0.05
    """A metric is a regression if it is significantly worse by at least this share."""
    each: float | None = None
    """If set, a single run that is worse by at least this share is a regression."""
    metrics: tuple[str, ...] | None = None
    """The compared metrics; by default those of `family`, or all."""
    everything: bool = False
    """Whether all metrics are compared."""
    relevant: float = 0.01
    """A change by less than this share is not relevant."""
    beside: int = 1
    """Number of comparisons that are made together; the correction covers all of them."""
    identical: bool = False
    """Whether deterministic runs with the same parameters that differ are a regression in any case."""

    @property
    def alpha(self) -> float:
        """The level of the tests before the correction."""
        return 1 - self.confidence


@dataclass(frozen=True, slots=True)
class Moved:
    """A run and its change."""

    case: str
    seed: int
    a: float
    b: float
    change: float
    """On the scale of the effect: a ratio or a difference."""


@dataclass(frozen=True, slots=True)
class Effect:
    """The change of a metric from the first side to the second."""

    metric: str
    good: Direction
    verdict: Verdict
    unit: Kind
    """The statistical unit."""
    pairs: int
    """Number of units, of which each is a pair."""
    cases: int
    """Number of cases over which the value of each seed is the mean."""
    same_cases: int
    """Number of cases that are equal in every seed, and have no part in the effect."""
    up: int
    down: int
    """Among the units; the others are equal."""
    missing: int
    """Number of pairs of runs of which one side has no value."""
    median_a: float | None
    median_b: float | None
    """Over the units, of an even number the mean of the two in the middle.

    A unit of several runs has their geometric mean, or the mean if a value is not positive."""
    scale: Literal["ratio", "difference"]
    estimate: float | None
    """Over the units that differ: the ratio b / a, or the difference b - a."""
    low: float | None
    high: float | None
    p: float | None
    p_adjusted: float | None
    detectable: float | None
    """The change that the test finds with a probability of 80 %: a ratio above 1, or a difference; `None` if none."""
    needed: int | None
    """For an undecided metric about the number of units that decide; `None` if it cannot be stated."""
    regressed: bool
    largest: tuple[Moved, ...]
    """Runs with the largest changes, in the bad direction first if there is one."""


def effects(  # noqa: PLR0913 - what is compared, and how
    left: Mapping[str, Reals],
    right: Mapping[str, Reals],
    pairs: list[Pair],
    options: Options,
    *,
    deterministic: bool,
    sampled: bool,
) -> list[Effect]:
    """The effect of each metric, with verdicts that are corrected for the number of those that differ.

    `left` and `right` have the values of the pairs, NaN where there is none. `deterministic` says that each run is the
    same in each repetition, `sampled` that the cases are a sample (`units.py`).
    """
    where = places(pairs)
    series = [_Series.of(name, left[name], right[name], pairs, where) for name in left]
    tests = max(1, options.beside * sum(bool(one.moved.any()) for one in series))
    level = options.alpha / (1 if options.correction == "none" else tests)
    tested = [one.tested(options, level, sampled=sampled) for one in series]
    return corrected(
        [_judged(one, tests, options, level, deterministic=deterministic) for one in tested], options, tests
    )


def corrected(made: Sequence[Effect], options: Options, tests: int) -> list[Effect]:
    """Effects with p values that are corrected for this number of tests, of which those of `made` are some or all.

    A metric whose direction the corrected value shows is no longer undecided.
    """
    known = [one.p for one in made if one.p is not None]
    adjusted = iter(adjust(known, options.correction, tests))
    return [one if one.p is None else _decided(one, next(adjusted), options) for one in made]


def _decided(effect: Effect, p: float, options: Options) -> Effect:
    effect = replace(effect, p_adjusted=p)
    if effect.verdict is not Verdict.UNDECIDED or p > options.alpha or effect.estimate is None:
        return effect
    verdict = _direction(effect.good, higher=effect.estimate > (1 if effect.scale == "ratio" else 0))
    regressed = effect.regressed or (verdict is Verdict.WORSE and _beyond(effect, options.threshold))
    return replace(effect, verdict=verdict, needed=None, regressed=regressed)


@dataclass(frozen=True, slots=True)
class _Series:
    """The values of a metric on both sides, where both have one."""

    name: str
    a: Reals
    b: Reals
    pairs: list[Pair]
    places: Places
    moved: Reals
    """Differences, of logarithms if all values are positive."""
    positive: bool
    missing: int

    @classmethod
    def of(cls, name: str, a: Reals, b: Reals, pairs: list[Pair], where: Places) -> Self:
        both = np.isfinite(a) & np.isfinite(b)
        missing = int((np.isfinite(a) != np.isfinite(b)).sum())
        if not both.all():
            pairs = [pairs[n] for n in np.flatnonzero(both)]
            a, b, where = a[both], b[both], where.of(both)
        positive = bool((a > 0).all() and (b > 0).all())
        moved = np.log(b) - np.log(a) if positive else b - a
        moved[np.abs(b - a) <= _ROUNDING * np.maximum(np.abs(a), np.abs(b))] = 0.0
        return cls(name, a, b, pairs, where, moved, positive, missing)

    def tested(self, options: Options, level: float, *, sampled: bool) -> "_Tested":
        """With the test of its statistical units."""
        made = units(self.places, self.moved, fewest(level) if sampled else None)
        changed = made.moved[made.moved != 0]
        if not len(changed):
            return _Tested(self, made, changed, None, None)
        return _Tested(self, made, changed, shift(changed, options.confidence), shift(changed, 1 - level))


@dataclass(frozen=True, slots=True)
class _Tested:
    """A metric with the shift of its units."""

    series: _Series
    units: Units
    changed: Reals
    """The units that differ."""
    shift: Shift | None
    together: Shift | None
    """With an interval that holds for all compared metrics together."""

    @property
    def p(self) -> float | None:
        """Before the correction; `None` if all pairs are equal."""
        return None if self.shift is None else self.shift.p

    def middle(self, values: Reals) -> float | None:
        """The median over the units of the values of one side; `None` if there are none."""
        if not len(values):
            return None
        return float(np.median(self.units.means(values, positive=self.series.positive)))

    def relevance(self, share: float) -> float:
        """The smallest relevant shift, on the scale of the differences."""
        if self.series.positive:
            return math.log1p(share)
        return share * abs(self.middle(self.series.a) or 0.0)

    def alike(self, share: float) -> bool:
        """Whether a relevant difference is excluded: by the interval, or because no pair has one."""
        least, wide = self.relevance(share), self.together
        if float(np.abs(self.series.moved).max()) <= least:
            return True
        return (
            wide is not None
            and wide.low is not None
            and wide.high is not None
            and max(-wide.low, wide.high) <= least
        )


def _one_regressed(good: Direction, a: Reals, b: Reals, options: Options) -> bool:
    if options.each is None or good is Direction.NEITHER or len(a) == 0:
        return False
    return any(_worse(good, float(x), float(y)) >= options.each for x, y in zip(a, b, strict=True))


def _worse(good: Direction, a: float, b: float) -> float:
    """The share by which `b` is worse than `a`; negative if it is better, infinite from or to zero."""
    if good is Direction.HIGHER:
        a, b = b, a
    if a == b:
        return 0.0
    return b / a - 1 if a > 0 else math.copysign(math.inf, b - a)


def _largest(
    moved: Reals, values: tuple[Reals, Reals], pairs: list[Pair], good: Direction, *, positive: bool
) -> tuple[Moved, ...]:
    a, b = values
    sizes = {Direction.HIGHER: -moved, Direction.LOWER: moved, Direction.NEITHER: np.abs(moved)}[good]
    order = [int(i) for i in np.argsort(-sizes, kind="stable")[:_LARGEST] if moved[i] != 0]
    return tuple(
        Moved(
            pairs[i].b["case"],
            int(pairs[i].b["seed"]),
            float(a[i]),
            float(b[i]),
            math.exp(moved[i]) if positive else float(moved[i]),
        )
        for i in order
    )


def _judged(tested: _Tested, tests: int, options: Options, level: float, *, deterministic: bool) -> Effect:
    """The effect of a metric. Where a test must decide, its verdict is undecided until `corrected`."""
    series, found, made_of = tested.series, tested.shift, tested.units
    good = direction(series.name)
    spread = deviation(tested.changed)
    values: list[float | None] = [None, None, None]
    if found is not None:
        values = [found.estimate, found.low, found.high]
    estimate, low, high = (math.exp(x) if series.positive and x is not None else x for x in values)
    least = detectable(len(tested.changed), level) if spread else None
    size = None if least is None or spread is None else least * spread
    made = Effect(
        series.name,
        good,
        Verdict.IDENTICAL,
        made_of.kind,
        len(made_of.moved),
        made_of.cases,
        made_of.same,
        int((made_of.moved > 0).sum()),
        int((made_of.moved < 0).sum()),
        series.missing,
        tested.middle(series.a),
        tested.middle(series.b),
        "ratio" if series.positive else "difference",
        estimate,
        low,
        high,
        tested.p,
        None,
        math.exp(size) if series.positive and size is not None else size,
        None,
        _one_regressed(good, series.a, series.b, options),
        _largest(series.moved, (series.a, series.b), series.pairs, good, positive=series.positive),
    )
    if found is None:
        return made
    if deterministic and made_of.kind == "seed" and len(made_of.moved) == 1:
        worse = good is not Direction.NEITHER and (found.estimate > 0) == (good is Direction.LOWER)
        regressed = made.regressed or (worse and _beyond(made, options.threshold))
        return replace(made, verdict=Verdict.DIFFERS, p=None, regressed=regressed)
    if tested.alike(options.relevant):
        return replace(made, verdict=Verdict.ALIKE)
    made = replace(made, verdict=Verdict.UNDECIDED)
    if found.p * (1 if options.correction == "none" else tests) <= options.alpha:
        return made
    size, least = abs(found.estimate), tested.relevance(options.relevant)
    # For a smaller shift the seeds must exclude a relevant one, instead of finding the shift itself.
    agreeing = together(tested.changed) if size >= least else 0.5
    return replace(made, needed=deciding(len(tested.changed), spread, max(size, least), level, agreeing))


def _direction(good: Direction, *, higher: bool) -> Verdict:
    """The verdict about a metric that a test shows to be higher or lower."""
    if good is Direction.NEITHER:
        return Verdict.HIGHER if higher else Verdict.LOWER
    return Verdict.BETTER if higher == (good is Direction.HIGHER) else Verdict.WORSE


def _beyond(effect: Effect, threshold: float) -> bool:
    """Whether a worse effect reaches the threshold."""
    if effect.estimate is None or effect.median_a is None:
        return False
    if effect.scale == "ratio":
        return _worse(effect.good, 1.0, effect.estimate) >= threshold
    # Any difference exceeds a share of zero.
    return abs(effect.estimate) >= threshold * abs(effect.median_a)


def reversed_(effect: Effect) -> Effect:
    """The effect from the second side to the first."""
    turn = {Verdict.BETTER: Verdict.WORSE, Verdict.WORSE: Verdict.BETTER}
    turn |= {Verdict.HIGHER: Verdict.LOWER, Verdict.LOWER: Verdict.HIGHER}

    def turned(value: float | None) -> float | None:
        if value is None:
            return None
        return 1 / value if effect.scale == "ratio" else -value

    return replace(
        effect,
        verdict=turn.get(effect.verdict, effect.verdict),
        up=effect.down,
        down=effect.up,
        median_a=effect.median_b,
        median_b=effect.median_a,
        estimate=turned(effect.estimate),
        low=turned(effect.high),
        high=turned(effect.low),
    )


def undecided(effect: Effect) -> str:
    """Why these runs cannot decide about a metric, in words."""
    differing = effect.up + effect.down
    needed = "more than can be stated" if effect.needed is None else f"about {effect.needed}"
    differ = "differs" if differing == 1 else "differ"
    return f"{effect.metric}: {plural(differing, effect.unit)} {differ}, {needed} are needed"


def describe(effect: Effect, unit: str = "") -> str:
    """An effect in words: `+3.2 % (+1.1 % to +5.0 %)`, `x 2.1 (x 1.9 to x 2.3)`; a difference has its unit."""
    if effect.estimate is None:
        return "equal in every pair"
    values = [value for value in (effect.estimate, effect.low, effect.high) if value is not None]
    factors = effect.scale == "ratio" and any(max(value, 1 / value) >= _FACTOR for value in values)
    said = [_amount(value, effect.scale, unit, factors=factors) for value in values]
    if effect.low is None or effect.high is None:
        return said[0]
    return f"{said[0]} ({said[1]} to {said[2]})"


def _amount(value: float, scale: str, unit: str, *, factors: bool) -> str:
    if scale == "difference":
        return f"{'+' if value > 0 else ''}{number(value, unit)}"
    return f"x {value:.3g}" if factors else f"{100 * (value - 1):+.2f} %"
