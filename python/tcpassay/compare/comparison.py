"""What differs between two results: each metric over all pairs of runs.

Runs of the model and the kernel are repeated bit for bit, so a difference within one pair is exact and has no error to
be estimated. What varies is the effect from case to case (and from seed to seed), and that is what the interval is
about: what to expect of a case like these. The unit is therefore the case, its seeds averaged, when there are enough
cases for a test, and otherwise the run.

For each metric, pairs that are equal are counted and set aside; of the others it is asked whether they moved one way
(Wilcoxon's signed ranks) and by how much (Hodges and Lehmann's shift, with its interval). Where all values are positive
that is done with logarithms, so the effect is a ratio and a case at 1 Mbit/s counts as much as one at 10 Gbit/s;
otherwise the effect is a difference. Swapping the sides inverts every effect and changes nothing else.
"""

import math
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal

import numpy as np
import polars as pl

from tcpassay.compare.correction import Method, adjust
from tcpassay.compare.direction import Direction, direction
from tcpassay.compare.pairing import Pair, Pairing, Sides, pair
from tcpassay.compare.signedrank import Reals, fewest, shift
from tcpassay.results import Results

_ROUNDING: Final = 1e-12
"""Relative difference below which two numbers differ by how they were added up."""
_LARGEST: Final = 3
_FACTOR: Final = 2
"""From here on a ratio is said as a factor, not in percent."""


class Verdict(StrEnum):
    """What is known about a metric."""

    IDENTICAL = "identical"
    """Every pair is equal."""
    SAME = "no significant difference"
    BETTER = "better"
    WORSE = "worse"
    HIGHER = "higher"
    """Higher, where neither way is good."""
    LOWER = "lower"
    FEW = "too few pairs"
    """They differ, but no test could tell from chance with so few of them."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to compare."""

    confidence: float = 0.95
    correction: Method = "holm"
    threshold: float = 0.05
    """A metric regresses when it is worse by this share or more, and significantly so."""
    each: float | None = None
    """When set, one run that is worse by this share or more is a regression by itself."""
    metrics: frozenset[str] | None = None
    """Those to be compared; all by default."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A run and how it moved."""

    case: str
    seed: int
    a: float
    b: float
    change: float
    """On the effect's scale: a ratio or a difference."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What the second side did to a metric, compared with the first."""

    metric: str
    good: Direction
    verdict: Verdict
    unit: Literal["case", "run"]
    """What was counted."""
    pairs: int
    up: int
    down: int
    """Of the pairs; the others are equal."""
    missing: int
    """Pairs of which one side has no value."""
    median_a: float | None
    median_b: float | None
    scale: Literal["ratio", "difference"]
    estimate: float | None
    """Of the pairs that differ: what b is over a, or more than a."""
    low: float | None
    high: float | None
    p: float | None
    p_adjusted: float | None
    regressed: bool
    largest: tuple[Moved, ...]
    """Runs that moved most, in the bad direction first when there is one."""


@dataclass(frozen=True, slots=True)
class Change:
    """Findings of one oracle that one side has and the other has not, in paired runs."""

    oracle: str
    new: tuple[tuple[str, int], ...]
    """Runs (case and seed of the second side) that have them only there."""
    gone: tuple[tuple[str, int], ...]
    """Runs (case and seed of the first side) that had them only there."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two results, compared."""

    a: str
    b: str
    options: Options
    pairing: Pairing
    effects: tuple[Effect, ...]
    findings: tuple[Change, ...]
    broken: tuple[tuple[str, int, str], ...]
    """Runs that were done on the first side and not on the second: case, seed, outcome."""
    problems: tuple[str, ...] = field(default=())
    """Files that could not be used."""
    repeated: int = 0
    """Pairs that are the runs of another seed again, because nothing in them is drawn: they are no evidence more."""

    @property
    def regressions(self) -> list[str]:
        """What got worse beyond what is allowed, in words; nothing is good news."""
        said = [f"{effect.metric}: {describe(effect)}" for effect in self.effects if effect.regressed]
        said += [f"{change.oracle}: new in {len(change.new)} runs" for change in self.findings if change.new]
        return said + [f"case {case}, seed {seed}: {outcome}" for case, seed, outcome in self.broken]

    @property
    def same(self) -> bool:
        """No metric differs significantly, no finding is new or gone, and no run broke."""
        calm = {Verdict.IDENTICAL, Verdict.SAME}
        changed = any(change.new or change.gone for change in self.findings)
        return not changed and not self.broken and all(effect.verdict in calm for effect in self.effects)

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        options = asdict(self.options)
        options["metrics"] = None if self.options.metrics is None else sorted(self.options.metrics)
        return {
            "format": 1,
            "a": self.a,
            "b": self.b,
            "options": options,
            "compared": {name: list(values) for name, values in self.pairing.compared.items()},
            "pairs": len(self.pairing.pairs),
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
    """Compare two results, or two parts of one that `sides` selects. Raises `UserError`."""
    chosen = options or Options()
    pairing = pair(a, b, sides or Sides())
    done = [two for two in pairing.pairs if two.a.get("outcome") == two.b.get("outcome") == "done"]
    broken = tuple(
        (str(two.b["case"]), int(two.b["seed"]), str(two.b.get("outcome")))
        for two in pairing.pairs
        if two.a.get("outcome") == "done" and two.b.get("outcome") != "done"
    )
    told = _distinct(done)
    effects = _corrected(_effects(a, b, told, chosen), chosen)
    problems = tuple(dict.fromkeys(str(problem) for side in (a, b) for problem in side.problems))
    changes = _findings(a, b, done)
    return Comparison(
        str(a.folder),
        str(b.folder),
        chosen,
        pairing,
        effects,
        changes,
        broken,
        problems,
        len(done) - len(told),
    )


def _distinct(pairs: list[Pair]) -> list[Pair]:
    """The pairs of a case that differ in the steps of their runs; of those that do not, the first."""
    kept: dict[object, Pair] = {}
    for two in pairs:
        traces = two.a.get("trace"), two.b.get("trace")
        kept.setdefault((two.a["case"], two.b["case"], *(traces if all(traces) else (two.a["seed"],))), two)
    return list(kept.values())


def _effects(a: Results, b: Results, pairs: list[Pair], options: Options) -> list[Effect]:
    left, right = _values(a, [two.a for two in pairs]), _values(b, [two.b for two in pairs])
    names = [name for name in left if name in right and (options.metrics is None or name in options.metrics)]
    return [_effect(name, left[name], right[name], pairs, options) for name in names]


def _values(results: Results, runs: list[dict[str, Any]]) -> dict[str, Reals]:
    """Each metric of the runs, in their order; NaN where there is none."""
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


def _effect(name: str, a: Reals, b: Reals, pairs: list[Pair], options: Options) -> Effect:
    both = np.isfinite(a) & np.isfinite(b)
    missing = int((np.isfinite(a) != np.isfinite(b)).sum())
    a, b, pairs = a[both], b[both], [two for two, keep in zip(pairs, both, strict=True) if keep]
    positive = bool((a > 0).all() and (b > 0).all())
    scale: Literal["ratio", "difference"] = "ratio" if positive else "difference"
    moved = np.log(b) - np.log(a) if positive else b - a
    moved[np.abs(b - a) <= _ROUNDING * np.maximum(np.abs(a), np.abs(b))] = 0.0
    good = direction(name)
    unit, units = _units(moved, pairs, fewest(1 - options.confidence))
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
        float(np.median(a)) if len(a) else None,
        float(np.median(b)) if len(b) else None,
        scale,
        estimate,
        low,
        high,
        p,
        None,
        _one_regressed(good, a, b, options),
        _largest(moved, (a, b), pairs, good, positive=positive),
    )


def _units(moved: Reals, pairs: list[Pair], enough: int) -> tuple[Literal["case", "run"], Reals]:
    """What the test counts: cases, with their seeds averaged, or runs when there are too few cases."""
    cases: dict[str, list[float]] = {}
    for two, x in zip(pairs, moved, strict=True):
        cases.setdefault(two.a["case"], []).append(float(x))
    if len(cases) < enough:
        return ("case" if len(cases) == len(moved) else "run"), moved
    return "case", np.array([math.fsum(each) / len(each) for each in cases.values()])


def _one_regressed(good: Direction, a: Reals, b: Reals, options: Options) -> bool:
    if options.each is None or good == "neither" or len(a) == 0:
        return False
    return any(_worse(good, float(x), float(y)) >= options.each for x, y in zip(a, b, strict=True))


def _worse(good: Direction, a: float, b: float) -> float:
    """By what share `b` is worse than `a`; negative when it is better. From or to nothing it is infinite."""
    if good == "higher":
        a, b = b, a
    if a == b:
        return 0.0
    return b / a - 1 if a > 0 else math.copysign(math.inf, b - a)


def _largest(
    moved: Reals, values: tuple[Reals, Reals], pairs: list[Pair], good: Direction, *, positive: bool
) -> tuple[Moved, ...]:
    a, b = values
    sizes = {"higher": -moved, "lower": moved, "neither": np.abs(moved)}[good]
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
    """The verdicts, once it is known how many metrics were tested."""
    tested = [effect for effect in effects if effect.p is not None]
    adjusted = dict(
        zip((e.metric for e in tested), adjust([e.p or 0.0 for e in tested], options.correction), strict=True)
    )
    return tuple(_judged(effect, adjusted.get(effect.metric), options) for effect in effects)


def _judged(effect: Effect, p: float | None, options: Options) -> Effect:
    said = asdict(effect) | {"largest": effect.largest, "p_adjusted": p}
    if p is not None and p <= 1 - options.confidence and effect.estimate is not None:
        higher = effect.estimate > (1 if effect.scale == "ratio" else 0)
        if effect.good == "neither":
            said["verdict"] = Verdict.HIGHER if higher else Verdict.LOWER
        else:
            worse = higher == (effect.good == "lower")
            said["verdict"] = Verdict.WORSE if worse else Verdict.BETTER
            said["regressed"] = effect.regressed or (worse and _beyond(effect, options.threshold))
    return Effect(**said)


def _beyond(effect: Effect, threshold: float) -> bool:
    """Whether an effect for the worse is as large as the threshold."""
    if effect.estimate is None or effect.median_a is None:
        return False
    if effect.scale == "ratio":
        return _worse(effect.good, 1.0, effect.estimate) >= threshold
    # Any difference is beyond a share of nothing.
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
    """An effect in words: `+3.2 % (+1.1 % to +5.0 %)`."""
    if effect.estimate is None:
        return "equal in every pair"
    said = _amount(effect.estimate, effect.scale)
    if effect.low is None or effect.high is None:
        return said
    return f"{said} ({_amount(effect.low, effect.scale)} to {_amount(effect.high, effect.scale)})"


def _amount(value: float, scale: str) -> str:
    if scale == "difference":
        return f"{value:+.4g}"
    return f"x {value:.3g}" if max(value, 1 / value) >= _FACTOR else f"{100 * (value - 1):+.2f} %"
