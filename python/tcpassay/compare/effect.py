"""The effect on a metric: the shift of its paired values, its interval, and a verdict that is corrected for all tests.

A test that is not significant does not show that two sides are equal. "No relevant difference" is said only if the
interval excludes a relevant one; otherwise the metric is undecided, with the number of pairs that would decide.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Literal, Self

import numpy as np

from tcpassay.compare.correction import Method, adjust
from tcpassay.compare.direction import direction
from tcpassay.compare.pairing import Pair
from tcpassay.compare.power import deciding, detectable, deviation, together
from tcpassay.compare.signedrank import Reals, Shift, shift
from tcpassay.interface import Direction
from tcpassay.plan.enough import fewest
from tcpassay.quantile import median
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
    """One run on each side, whose difference is a fact and needs no test."""
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
    unit: Literal["case", "run"]
    """The statistical unit."""
    pairs: int
    up: int
    down: int
    """Among the pairs; the others are equal."""
    missing: int
    """Number of pairs of which one side has no value."""
    median_a: float | None
    median_b: float | None
    scale: Literal["ratio", "difference"]
    estimate: float | None
    """Over the pairs that differ: the ratio b / a, or the difference b - a."""
    low: float | None
    high: float | None
    p: float | None
    p_adjusted: float | None
    detectable: float | None
    """The change that the test finds with a probability of 80 %: a ratio above 1, or a difference; `None` if none."""
    needed: int | None
    """For an undecided metric about the number of pairs that decide; `None` if it cannot be stated."""
    regressed: bool
    largest: tuple[Moved, ...]
    """Runs with the largest changes, in the bad direction first if there is one."""


def effects(
    left: Mapping[str, Reals], right: Mapping[str, Reals], pairs: list[Pair], options: Options, *, alone: bool
) -> list[Effect]:
    """The effect of each metric, with verdicts that are corrected for the number of those that differ.

    `left` and `right` have the values of the pairs, NaN where there is none; `alone` is one run on each side.
    """
    series = [_Series.of(name, left[name], right[name], pairs) for name in left]
    tests = max(1, options.beside * sum(bool(one.moved.any()) for one in series))
    level = options.alpha / (1 if options.correction == "none" else tests)
    # With one run in each case, which is usual in a large plan, cases need not be averaged for each metric.
    single = len({two.a["case"] for two in pairs}) == len(pairs)
    tested = [one.tested(options, level, single=single) for one in series]
    p_values = [one.p for one in tested if one.p is not None]
    # Of comparisons that are made together only these p values are known here: Bonferroni covers the others.
    factor = 1 if options.correction == "none" else options.beside
    adjusted = iter([min(1.0, factor * p) for p in adjust(p_values, options.correction)])
    return [
        _judged(one, None if one.p is None else next(adjusted), options, level, alone=alone) for one in tested
    ]


@dataclass(frozen=True, slots=True)
class _Series:
    """The values of a metric on both sides, where both have one."""

    name: str
    a: Reals
    b: Reals
    pairs: list[Pair]
    moved: Reals
    """Differences, of logarithms if all values are positive."""
    positive: bool
    missing: int

    @classmethod
    def of(cls, name: str, a: Reals, b: Reals, pairs: list[Pair]) -> Self:
        both = np.isfinite(a) & np.isfinite(b)
        missing = int((np.isfinite(a) != np.isfinite(b)).sum())
        if not both.all():
            pairs = [pairs[n] for n in np.flatnonzero(both)]
            a, b = a[both], b[both]
        positive = bool((a > 0).all() and (b > 0).all())
        moved = np.log(b) - np.log(a) if positive else b - a
        moved[np.abs(b - a) <= _ROUNDING * np.maximum(np.abs(a), np.abs(b))] = 0.0
        return cls(name, a, b, pairs, moved, positive, missing)

    def tested(self, options: Options, level: float, *, single: bool) -> "_Tested":
        """With the test of its statistical units; `single` says that each case has one run."""
        unit: Literal["case", "run"]
        unit, units = ("case", self.moved) if single else _units(self.moved, self.pairs, fewest(level))
        changed = units[units != 0]
        if not len(changed):
            return _Tested(self, unit, units, changed, None, None)
        return _Tested(
            self, unit, units, changed, shift(changed, options.confidence), shift(changed, 1 - level)
        )


@dataclass(frozen=True, slots=True)
class _Tested:
    """A metric with the shift of its units."""

    series: _Series
    unit: Literal["case", "run"]
    units: Reals
    changed: Reals
    """The units that differ."""
    shift: Shift | None
    together: Shift | None
    """With an interval that holds for all compared metrics together."""

    @property
    def p(self) -> float | None:
        """Before the correction; `None` if all pairs are equal."""
        return None if self.shift is None else self.shift.p

    def relevance(self, share: float) -> float:
        """The smallest relevant shift, on the scale of the differences."""
        if self.series.positive:
            return math.log1p(share)
        return share * abs(median(np.sort(self.series.a).tolist()))

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


def _units(moved: Reals, pairs: list[Pair], enough: int) -> tuple[Literal["case", "run"], Reals]:
    """The statistical units: cases averaged over their seeds, or runs if there are too few cases."""
    cases: dict[str, list[float]] = {}
    for two, x in zip(pairs, moved, strict=True):
        cases.setdefault(two.a["case"], []).append(float(x))
    if len(cases) < enough:
        return ("case" if len(cases) == len(moved) else "run"), moved
    return "case", np.array([math.fsum(each) / len(each) for each in cases.values()])


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


def _judged(tested: _Tested, p: float | None, options: Options, level: float, *, alone: bool) -> Effect:
    """The effect of a metric with its verdict; with `alone` there is one run on each side."""
    series, found = tested.series, tested.shift
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
        tested.unit,
        len(tested.units),
        int((tested.units > 0).sum()),
        int((tested.units < 0).sum()),
        series.missing,
        median(np.sort(series.a).tolist()) if len(series.a) else None,
        median(np.sort(series.b).tolist()) if len(series.b) else None,
        "ratio" if series.positive else "difference",
        estimate,
        low,
        high,
        tested.p,
        p,
        math.exp(size) if series.positive and size is not None else size,
        None,
        _one_regressed(good, series.a, series.b, options),
        _largest(series.moved, (series.a, series.b), series.pairs, good, positive=series.positive),
    )
    if found is None or p is None:
        return made
    worse = good is not Direction.NEITHER and (found.estimate > 0) == (good is Direction.LOWER)
    regressed = made.regressed or (worse and _beyond(made, options.threshold))
    if alone:
        return replace(made, verdict=Verdict.DIFFERS, p=None, p_adjusted=None, regressed=regressed)
    verdict = _verdict(tested, p, options)
    if verdict is Verdict.UNDECIDED:
        size, least = abs(found.estimate), tested.relevance(options.relevant)
        # For a smaller shift the pairs must exclude a relevant one, instead of finding the shift itself.
        agreeing = together(tested.changed) if size >= least else 0.5
        needed = deciding(len(tested.changed), spread, max(size, least), level, agreeing)
        made = replace(made, needed=needed)
    return replace(made, verdict=verdict, regressed=regressed if verdict is Verdict.WORSE else made.regressed)


def _verdict(tested: _Tested, p: float, options: Options) -> Verdict:
    """The verdict about a metric of which some pairs differ, for its corrected p value."""
    if tested.alike(options.relevant):
        return Verdict.ALIKE
    if p > options.alpha or tested.shift is None:
        return Verdict.UNDECIDED
    higher = tested.shift.estimate > 0
    good = direction(tested.series.name)
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
    """Why these pairs cannot decide about a metric, in words."""
    differing = effect.up + effect.down
    units = f"{effect.unit}s" if effect.unit == "case" else "pairs"
    needed = "more than can be stated" if effect.needed is None else f"about {effect.needed}"
    return f"{effect.metric}: {differing} {units} differ, {needed} are needed"


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
