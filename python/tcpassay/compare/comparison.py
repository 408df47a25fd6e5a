"""The comparison of two results: each metric over all pairs of runs.

Runs on the model and on kernels are deterministic, so that the difference within a pair is exact and has no measurement
error. The interval describes the variation of the effect between cases (and seeds), that is, the effect to be expected
for similar cases. The statistical unit is therefore the case, averaged over its seeds, if there are enough cases for a
test, and otherwise the run.

For each metric, equal pairs are counted and excluded. For the others the test is whether they changed in one direction
(Wilcoxon's signed ranks) and by how much (Hodges and Lehmann's shift, with its interval). If all values are positive,
logarithms are used, so that the effect is a ratio and a case at 1 Mbit/s has the same weight as one at 10 Gbit/s;
otherwise the effect is a difference. Swapping the sides inverts every effect and changes nothing else.
"""

import math
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Final, Literal

import numpy as np
import polars as pl

from tcpassay import interface
from tcpassay.compare.correction import Method, adjust
from tcpassay.compare.definitions import Skipped, skipped, versions
from tcpassay.compare.direction import direction
from tcpassay.compare.exact import Exact, exact
from tcpassay.compare.pairing import Pair, Pairing, Sides, pair
from tcpassay.compare.power import detectable, standard_error
from tcpassay.compare.signedrank import Reals, fewest, shift
from tcpassay.errors import Place, Problem, UserError
from tcpassay.interface import Direction
from tcpassay.messages import Outcome
from tcpassay.plan.document import suggest
from tcpassay.plural import plural
from tcpassay.quantile import median
from tcpassay.result_format import RunRow
from tcpassay.results import METRICS, RESULT, Results
from tcpassay.run_table import NAME as RUNS

_ROUNDING: Final = 1e-12
"""Relative difference that is attributed to the order of additions."""
_LARGEST: Final = 3
_FACTOR: Final = 2
"""A larger ratio is written as a factor instead of a percentage."""


class Verdict(StrEnum):
    """The result for a metric."""

    IDENTICAL = "identical"
    """Every pair is equal."""
    SAME = "no significant difference"
    BETTER = "better"
    WORSE = "worse"
    HIGHER = "higher"
    """Higher, for a metric without a preferred direction."""
    LOWER = "lower"
    FEW = "too few pairs"
    """The pairs differ, but there are too few of them for a test."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a comparison."""

    confidence: float = 0.95
    correction: Method = "holm"
    threshold: float = 0.05
    """A metric is a regression if it is significantly worse by at least this share."""
    each: float | None = None
    """If set, a single run that is worse by at least this share is a regression."""
    metrics: frozenset[str] | None = None
    """The compared metrics; all by default."""


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
    error: float | None
    """The standard error of the estimate, of its logarithm if it is a ratio."""
    detectable: float | None
    """The change that the test would have found with a probability of 80 %: a ratio above 1, or a difference."""
    regressed: bool
    largest: tuple[Moved, ...]
    """Runs with the largest changes, in the bad direction first if there is one."""


@dataclass(frozen=True, slots=True)
class Change:
    """Findings of one oracle that only one side has, in paired runs."""

    oracle: str
    new: tuple[tuple[str, int], ...]
    """Runs (case and seed of the second side) that have them only on the second side."""
    gone: tuple[tuple[str, int], ...]
    """Runs (case and seed of the first side) that have them only on the first side."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of two results."""

    a: str
    b: str
    options: Options
    pairing: Pairing
    effects: tuple[Effect, ...]
    findings: tuple[Change, ...]
    broken: tuple[tuple[str, int, str], ...]
    """Runs that completed on the first side and not on the second: case, seed, outcome."""
    problems: tuple[str, ...] = field(default=())
    """Files that could not be used."""
    exact: Exact | None = None
    """The identical pairs, if both sides are deterministic."""
    skipped: tuple[Skipped, ...] = ()
    """Metrics with different definitions on the two sides."""
    versions: tuple[str, ...] = ()
    """Differences between the versions and the plans of the two results."""
    unfinished: int = 0
    """Number of pairs whose run on the first side has no metrics."""
    repeated: int = 0
    """Number of pairs that repeat the runs of another seed because the case has no random events."""

    @property
    def regressions(self) -> list[str]:
        """The regressions in words; empty if there are none."""
        said = [f"{effect.metric}: {describe(effect)}" for effect in self.effects if effect.regressed]
        said += [
            f"{change.oracle}: new in {plural(len(change.new), 'run')}"
            for change in self.findings
            if change.new
        ]
        said += [f"case {case}, seed {seed}: {outcome}" for case, seed, outcome in self.broken]
        if self.exact and self.exact.failed:
            said.append(
                f"{len(self.exact.different)} of {plural(len(self.pairing.pairs), 'pair')} of deterministic runs "
                f"{'differs' if len(self.exact.different) == 1 else 'differ'}"
            )
        return said

    @property
    def incomplete(self) -> list[str]:
        """The reasons why the comparison does not include all runs of both sides, each as a sentence."""
        said = [f"damaged: {problem}" for problem in self.problems]
        for side, runs, other in (("a", self.pairing.only_a, "b"), ("b", self.pairing.only_b, "a")):
            if runs:
                said.append(
                    f"{plural(len(runs), 'run')} of {side} without a partner in {other}{_seeds(self, side)}"
                )
        if self.unfinished:
            said.append(
                f"{plural(self.unfinished, 'pair')} without metrics, because the run of a was not done"
            )
        return said

    @property
    def same(self) -> bool:
        """Whether no metric differs significantly, findings are equal, and all runs completed and were compared."""
        calm = {Verdict.IDENTICAL, Verdict.SAME}
        changed = any(change.new or change.gone for change in self.findings)
        exact = self.exact is not None and self.exact.failed
        quiet = not changed and not self.broken and not exact and not self.incomplete
        return quiet and all(effect.verdict in calm for effect in self.effects)

    def as_json(self) -> dict[str, object]:
        """The comparison as a JSON object."""
        options = asdict(self.options)
        options["metrics"] = None if self.options.metrics is None else sorted(self.options.metrics)
        return {
            "format": 1,
            "a": self.a,
            "b": self.b,
            "options": options,
            "compared": {name: list(values) for name, values in self.pairing.compared.items()},
            "pairs": len(self.pairing.pairs),
            "exact": None if self.exact is None else asdict(self.exact),
            "skipped": [asdict(one) for one in self.skipped],
            "versions": list(self.versions),
            "incomplete": self.incomplete,
            "repeated": self.repeated,
            "only_a": [[run["case"], run["seed"]] for run in self.pairing.only_a],
            "only_b": [[run["case"], run["seed"]] for run in self.pairing.only_b],
            "same": self.same,
            "effects": [asdict(effect) for effect in self.effects],
            "findings": [asdict(change) for change in self.findings],
            "broken": [list(run) for run in self.broken],
            "regressions": self.regressions,
            "problems": list(self.problems),
        }


def compare(a: Results, b: Results, options: Options | None = None, sides: Sides | None = None) -> Comparison:
    """Compares two results, or two parts of one selected by `sides`.

    Raises `UserError` if nothing can be compared: unreadable results, no pairs, an unknown metric.
    """
    chosen = options or Options()
    for side in (a, b):
        _readable(side)
    pairing = pair(a, b, sides or Sides())
    done = [two for two in pairing.pairs if two.a.get("outcome") == two.b.get("outcome") == Outcome.DONE]
    broken = tuple(
        (str(two.b["case"]), int(two.b["seed"]), str(two.b.get("outcome")))
        for two in pairing.pairs
        if two.a.get("outcome") == Outcome.DONE and two.b.get("outcome") != Outcome.DONE
    )
    skipped, names = _names(a, b, chosen)
    told = _distinct(done)
    effects = _corrected(_effects(a, b, told, chosen, names), chosen)
    scripts = any(two.a.get("script") for two in pairing.pairs)
    if not any(effect.pairs for effect in effects) and not broken and not scripts:
        why = "no run was done on both sides" if not done else "no metric has a value on both sides"
        if skipped:
            why = "; ".join(f"{', '.join(one.metrics[:_LARGEST])}: {one.why}" for one in skipped)
        raise UserError(f"nothing can be compared: {why}", Place(b.folder))
    problems = tuple(dict.fromkeys(str(problem) for side in (a, b) for problem in _damage(side)))
    return Comparison(
        str(a.folder),
        str(b.folder),
        chosen,
        pairing,
        effects,
        _findings(a, b, done),
        broken,
        problems,
        exact(pairing, _equal(a, b, done, names)),
        tuple(skipped),
        tuple(versions(a, b)),
        sum(
            two.a.get("outcome") != Outcome.DONE and two.a.get("outcome") != two.a.get("expect", "done")
            for two in pairing.pairs
        ),
        len(done) - len(told),
    )


def _seeds(comparison: Comparison, side: str) -> str:
    """Seeds that only one side has, as the end of a sentence about runs without a partner."""
    pairing = comparison.pairing
    alone, others = (pairing.only_a, pairing.only_b) if side == "a" else (pairing.only_b, pairing.only_a)
    paired = {two.b["seed"] for two in pairing.pairs} | {run["seed"] for run in others}
    seeds = sorted({int(run["seed"]) for run in alone} - {int(seed) for seed in paired})
    return f" (seeds {', '.join(map(str, seeds))} only in {side})" if seeds else ""


def _readable(results: Results) -> None:
    """Raises `UserError` if the list of runs of a result cannot be read, because missing runs would go unnoticed."""
    if results.listed is None:
        damage = [
            problem
            for problem in _damage(results)
            if problem.place and problem.place.file.name in {RESULT, RUNS}
        ]
        if damage:
            raise UserError.several(damage)
        raise UserError(
            "it does not list the runs, so that they cannot be compared", Place(results.folder / RESULT)
        )


def _damage(results: Results) -> list[Problem]:
    """The damaged files among those that a comparison reads; recordings are not among them."""
    rows = set(results.metrics.select("case", "seed").iter_rows())
    _ = results.found
    damaged = [one for one in results.noted if one.place is None or one.place.file.parent == results.folder]
    measured = [run for run in results.runs if run.get("outcome") == Outcome.DONE and not run.get("script")]
    if absent := sum((run["case"], run["seed"]) not in rows for run in measured):
        place = Place(results.folder / METRICS)
        damaged.append(
            Problem(
                f"{plural(absent, 'run')} that {'was' if absent == 1 else 'were'} done have no row", place
            )
        )
    return damaged


def _names(a: Results, b: Results, options: Options) -> tuple[list[Skipped], list[str]]:
    """The metrics with different definitions on the two sides, and the compared metrics."""
    both = [name for name in _columns(a) if name in _columns(b)]
    if options.metrics is not None:
        for name in sorted(options.metrics - set(both)):
            known = interface.METRICS
            why = (
                "the results do not both have it"
                if name in known
                else f"no such metric{suggest(name, known)}"
            )
            raise UserError(f"`--metric {name}`: {why}; `tcpassay metrics` lists all")
        both = [name for name in both if name in options.metrics]
    gone = skipped(a, b, both)
    absent = {name for one in gone for name in one.metrics}
    return gone, [name for name in both if name not in absent]


def _columns(results: Results) -> list[str]:
    return [name for name in results.metrics.columns if name not in {"case", "seed"}]


def _equal(a: Results, b: Results, pairs: list[Pair], names: list[str]) -> dict[tuple[str, int], bool]:
    """By case and seed of the second side, whether all metrics of the pair are equal."""
    left, right = _values(a, [two.a for two in pairs]), _values(b, [two.b for two in pairs])
    alike = np.ones(len(pairs), dtype=np.bool_)
    for name in names:
        alike &= (left[name] == right[name]) | (np.isnan(left[name]) & np.isnan(right[name]))
    return {
        (str(two.b["case"]), int(two.b["seed"])): bool(same) for two, same in zip(pairs, alike, strict=True)
    }


def _distinct(pairs: list[Pair]) -> list[Pair]:
    """The pairs of a case without those that repeat the runs of another seed."""
    kept: dict[object, Pair] = {}
    for two in pairs:
        traces = two.a.get("trace"), two.b.get("trace")
        kept.setdefault((two.a["case"], two.b["case"], *(traces if all(traces) else (two.a["seed"],))), two)
    return list(kept.values())


def _effects(a: Results, b: Results, pairs: list[Pair], options: Options, names: list[str]) -> list[Effect]:
    left, right = _values(a, [two.a for two in pairs]), _values(b, [two.b for two in pairs])
    # With one run in each case, which is usual in a large plan, cases need not be averaged for each metric.
    alone = len({two.a["case"] for two in pairs}) == len(pairs)
    return [_effect(name, left[name], right[name], pairs, options, alone=alone) for name in names]


def _values(results: Results, runs: list[RunRow]) -> dict[str, Reals]:
    """Each metric of the runs, in their order; NaN if it is absent."""
    frame = results.metrics.unique(["case", "seed"], keep="first", maintain_order=True)
    asked = pl.DataFrame(
        {"case": [run["case"] for run in runs], "seed": [run["seed"] for run in runs]},
        schema={"case": pl.String(), "seed": pl.Int64()},
    )
    joined = asked.join(frame, on=["case", "seed"], how="left", maintain_order="left")
    return {
        name: joined[name].fill_null(math.nan).to_numpy()
        for name in frame.columns
        if name not in {"case", "seed"}
    }


def _effect(  # noqa: PLR0913 - two columns with what belongs to their rows
    name: str, a: Reals, b: Reals, pairs: list[Pair], options: Options, *, alone: bool
) -> Effect:
    both = np.isfinite(a) & np.isfinite(b)
    missing = int((np.isfinite(a) != np.isfinite(b)).sum())
    if not both.all():
        pairs = [pairs[n] for n in np.flatnonzero(both)]
        a, b = a[both], b[both]
    positive = bool((a > 0).all() and (b > 0).all())
    scale: Literal["ratio", "difference"] = "ratio" if positive else "difference"
    moved = np.log(b) - np.log(a) if positive else b - a
    moved[np.abs(b - a) <= _ROUNDING * np.maximum(np.abs(a), np.abs(b))] = 0.0
    good = direction(name)
    unit, units = _units(moved, pairs, fewest(1 - options.confidence), alone=alone)
    changed = units[units != 0]
    estimate, low, high, p = None, None, None, None
    if len(changed):
        found = shift(changed, options.confidence)
        values = (found.estimate, found.low, found.high)
        estimate, low, high = (x if x is None or not positive else math.exp(x) for x in values)
        p = found.p if len(units) >= fewest(1 - options.confidence) else None
    verdict = Verdict.IDENTICAL if len(changed) == 0 else Verdict.FEW if p is None else Verdict.SAME
    return Effect(
        name,
        good,
        verdict,
        unit,
        len(units),
        int((units > 0).sum()),
        int((units < 0).sum()),
        missing,
        median(np.sort(a).tolist()) if len(a) else None,
        median(np.sort(b).tolist()) if len(b) else None,
        scale,
        estimate,
        low,
        high,
        p,
        None,
        None if p is None else standard_error(changed),
        None,
        _one_regressed(good, a, b, options),
        _largest(moved, (a, b), pairs, good, positive=positive),
    )


def _units(
    moved: Reals, pairs: list[Pair], enough: int, *, alone: bool
) -> tuple[Literal["case", "run"], Reals]:
    """The statistical units: cases averaged over their seeds, or runs if there are too few cases.

    `alone` says that each case has one run.
    """
    if alone:
        return "case", moved
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


def _corrected(effects: list[Effect], options: Options) -> tuple[Effect, ...]:
    """The verdicts after the correction for the number of tested metrics."""
    tested = [effect for effect in effects if effect.p is not None]
    adjusted = dict(
        zip((e.metric for e in tested), adjust([e.p or 0.0 for e in tested], options.correction), strict=True)
    )
    level = (1 - options.confidence) / (1 if options.correction == "none" else max(len(tested), 1))
    return tuple(
        _judged(_with_power(effect, level), adjusted.get(effect.metric), options) for effect in effects
    )


def _with_power(effect: Effect, level: float) -> Effect:
    """The effect with the change that a test at this level would have found."""
    if effect.error is None:
        return effect
    found = detectable(effect.error, level)
    return replace(effect, detectable=math.exp(found) if effect.scale == "ratio" else found)


def _judged(effect: Effect, p: float | None, options: Options) -> Effect:
    said = asdict(effect) | {"largest": effect.largest, "p_adjusted": p}
    if p is not None and p <= 1 - options.confidence and effect.estimate is not None:
        higher = effect.estimate > (1 if effect.scale == "ratio" else 0)
        if effect.good is Direction.NEITHER:
            said["verdict"] = Verdict.HIGHER if higher else Verdict.LOWER
        else:
            worse = higher == (effect.good is Direction.LOWER)
            said["verdict"] = Verdict.WORSE if worse else Verdict.BETTER
            said["regressed"] = effect.regressed or (worse and _beyond(effect, options.threshold))
    return Effect(**said)


def _beyond(effect: Effect, threshold: float) -> bool:
    """Whether a worse effect reaches the threshold."""
    if effect.estimate is None or effect.median_a is None:
        return False
    if effect.scale == "ratio":
        return _worse(effect.good, 1.0, effect.estimate) >= threshold
    # Any difference exceeds a share of zero.
    return abs(effect.estimate) >= threshold * abs(effect.median_a)


def _findings(a: Results, b: Results, pairs: list[Pair]) -> tuple[Change, ...]:
    of_a, of_b = _found(a), _found(b)
    changes = []
    for oracle in sorted({*of_a, *of_b}):
        before, after = of_a.get(oracle, set()), of_b.get(oracle, set())
        new, gone = [], []
        for two in pairs:
            run_a, run_b = (two.a["case"], int(two.a["seed"])), (two.b["case"], int(two.b["seed"]))
            if run_b in after and run_a not in before:
                new.append(run_b)
            if run_a in before and run_b not in after:
                gone.append(run_a)
        changes.append(Change(oracle, tuple(new), tuple(gone)))
    return tuple(changes)


def _found(results: Results) -> dict[str, set[tuple[str, int]]]:
    found: dict[str, set[tuple[str, int]]] = {}
    for one in results.found:
        found.setdefault(one.oracle, set()).add((one.case, one.seed or 0))
    return found


def describe(effect: Effect) -> str:
    """An effect in words: `+3.2 % (+1.1 % to +5.0 %)`, or `x 2.1 (x 1.9 to x 2.3)`."""
    if effect.estimate is None:
        return "equal in every pair"
    values = [value for value in (effect.estimate, effect.low, effect.high) if value is not None]
    factors = effect.scale == "ratio" and any(max(value, 1 / value) >= _FACTOR for value in values)
    said = [_amount(value, effect.scale, factors=factors) for value in values]
    if effect.low is None or effect.high is None:
        return said[0]
    return f"{said[0]} ({said[1]} to {said[2]})"


def _amount(value: float, scale: str, *, factors: bool) -> str:
    if scale == "difference":
        return f"{value:+.4g}"
    return f"x {value:.3g}" if factors else f"{100 * (value - 1):+.2f} %"
