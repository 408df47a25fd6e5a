"""Whether the runs of a plan can be enough for `compare --between`, before they are made."""

import math
from itertools import combinations
from typing import Final

from tcpassay.plan.expand import factors
from tcpassay.plan.read import Plan
from tcpassay.plural import plural

LEVEL: Final = 0.05
USUAL: Final = (
    "goodput",
    "queue_delay_mean",
    "queue_delay_p99",
    "loss_rate",
    "jain_flows",
    "completion_p99",
)
"""The metrics that a comparison tests if the plan names none: throughput, queueing delay, loss, fairness, tails."""


def fewest(alpha: float) -> int:
    """The number of differences that a signed-rank test at this level needs to be significant."""
    return math.ceil(1 - math.log2(alpha))


def too_few(plan: Plan) -> list[str]:
    """A sentence for each factor whose values the pairs of runs cannot distinguish, whatever they are.

    Only of plans with several seeds: with one seed, runs are compared as they are. A pair of runs has two values of the
    factor and is equal otherwise.
    """
    seeds = len(plan.spec.seeds)
    if seeds == 1:
        return []
    metrics = len({*plan.spec.metrics, *(check.metric for check in plan.spec.check)} or USUAL)
    made = []
    for name, among in factors(plan.spec).items():
        if len(among) == 1:
            continue
        rest: dict[object, set[str]] = {}
        for case in plan.cases:
            others = tuple(sorted((key, str(value)) for key, value in case.varied.items() if key != name))
            rest.setdefault(others, set()).add(str(case.varied.get(name)))
        values = sorted({value for having in rest.values() for value in having})
        pairs = [
            sum({a, b} <= having for having in rest.values()) * seeds for a, b in combinations(values, 2)
        ]
        most, needed = max(pairs, default=0), fewest(LEVEL / (metrics * max(len(pairs), 1)))
        if 0 < most < needed:
            made.append(
                f"`tcpassay compare --between {name}` cannot decide between two values: there are at most "
                f"{plural(most, 'pair')} of runs, and 95 % for {plural(metrics, 'metric')} and "
                f"{plural(len(pairs), 'pair')} of values takes {needed}"
            )
    return made
