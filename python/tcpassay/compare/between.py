"""Which value of a parameter is better for which metric, by the levels of another parameter.

Each two values are compared as the two sides of a comparison: paired by case and seed, tested by signed ranks, with the
correction for several metrics. A statement "a is better than b" holds at the confidence of the options for these two
values; it is not corrected for the number of pairs of values and of levels.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Final

from tcpassay.compare.comparison import Comparison, Effect, Options, Verdict, compare, describe
from tcpassay.compare.direction import direction
from tcpassay.compare.pairing import SUBSTRATE, Sides
from tcpassay.errors import Place, UserError
from tcpassay.interface import Direction
from tcpassay.results import Results, as_text

METRICS: Final = (
    "goodput",
    "queue_delay_mean",
    "queue_delay_p99",
    "loss_rate",
    "jain_flows",
    "completion_p99",
)
"""The metrics that are compared unless others are named: throughput, queueing delay, loss, fairness, tails."""


@dataclass(frozen=True, slots=True)
class Better:
    """One value is significantly better than another."""

    value: str
    than: str
    effect: str
    """From `than` to `value`, with its interval."""
    p: float
    """After the correction for several metrics."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The values of the parameter for one metric at one level."""

    level: str
    """The level of the other parameter; empty for all runs."""
    metric: str
    medians: dict[str, float]
    """By value; of the runs."""
    best: tuple[str, ...]
    """Values to which no other is significantly better, the best median first."""
    better: tuple[Better, ...]
    untested: tuple[str, ...]
    """Pairs of values that differ in too few pairs of runs for a test."""


@dataclass(frozen=True, slots=True)
class Rankings:
    """All rankings of a result."""

    folder: str
    between: str
    by: str | None
    confidence: float
    correction: str
    rankings: tuple[Ranking, ...]

    def as_json(self) -> dict[str, object]:
        """The rankings as a JSON object."""
        return asdict(self)


def between(
    results: Results, parameter: str, by: str | None = None, options: Options | None = None
) -> Rankings:
    """Compares each two values of `parameter` at each level of `by`.

    Raises `UserError` if the parameter does not vary, if it has no level, or if nothing can be compared.
    """
    chosen = options or Options()
    if chosen.metrics is None:
        chosen = replace(chosen, metrics=frozenset(METRICS) & set(results.metrics.columns))
    values = levels(results, parameter)
    if len(values) == 1:
        raise UserError(
            f"`{parameter}` has one value in these runs; there is nothing to compare", Place(results.folder)
        )
    made: list[Ranking] = []
    for level in levels(results, by) if by else [""]:
        where = {by: level} if by else {}
        compared = [
            (a, b, compare(results, results, chosen, Sides({parameter: a} | where, {parameter: b} | where)))
            for a, b in combinations(values, 2)
        ]
        made += [_ranking(level, metric, values, compared) for metric in sorted(chosen.metrics or ())]
    return Rankings(str(results.folder), parameter, by, chosen.confidence, chosen.correction, tuple(made))


def levels(results: Results, parameter: str) -> list[str]:
    """The values of a parameter or group in the runs of a result, in the order of the plan.

    Raises `UserError` if there is none.
    """
    found: dict[str, None] = {}
    for run in results.runs:
        if run.get("outcome") == "refused":
            continue
        said = {
            SUBSTRATE: str(run.get("substrate") or "model"),
            **(run.get("triples") or {}),
            **(run.get("varied") or {}),
        }
        if parameter in said:
            found[str(as_text(said[parameter]))] = None
    if not found:
        raise UserError(f"no run has the parameter or group `{parameter}`", Place(results.folder))
    return list(found)


def _ranking(
    level: str, metric: str, values: Sequence[str], compared: Sequence[tuple[str, str, Comparison]]
) -> Ranking:
    medians: dict[str, float] = {}
    better: list[Better] = []
    untested: list[str] = []
    for a, b, comparison in compared:
        effect = next((one for one in comparison.effects if one.metric == metric), None)
        if effect is None:
            continue
        for value, median in ((a, effect.median_a), (b, effect.median_b)):
            if median is not None:
                medians.setdefault(value, median)
        better += _better(a, b, effect)
        if effect.verdict is Verdict.FEW:
            untested.append(f"{a}, {b}")
    beaten = {one.than for one in better}
    sign = -1 if direction(metric) is Direction.HIGHER else 1
    there = sorted((value for value in values if value in medians), key=lambda value: sign * medians[value])
    best = tuple(value for value in there if value not in beaten)
    return Ranking(
        level, metric, {value: medians[value] for value in there}, best, tuple(better), tuple(untested)
    )


def _better(a: str, b: str, effect: Effect) -> list[Better]:
    """`b` against `a`, if one of them is better."""
    if effect.verdict not in {Verdict.BETTER, Verdict.WORSE} or effect.p_adjusted is None:
        return []
    if effect.verdict is Verdict.BETTER:
        return [Better(b, a, describe(effect), effect.p_adjusted)]
    return [Better(a, b, f"{b} against it: {describe(effect)}", effect.p_adjusted)]
