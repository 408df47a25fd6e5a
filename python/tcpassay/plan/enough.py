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
SAMPLING: Final = ("t-way", "random")
"""The strategies whose cases are a sample of the possible ones, so that many of them are evidence as seeds are."""


def fewest(alpha: float) -> int:
    """The number of differences that a signed-rank test at this level needs to be significant."""
    return math.ceil(1 - math.log2(alpha))


def too_few(plan: Plan) -> list[str]:
    """A sentence for each factor whose values the runs cannot distinguish, whatever they are.

    Only of plans with several seeds: with one seed, runs are compared as they are. Of a plan whose cases are a sample,
    many cases are as good as seeds.
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
        cases = [sum({a, b} <= having for having in rest.values()) for a, b in combinations(values, 2)]
        shared, needed = max(cases, default=0), fewest(LEVEL / (metrics * max(len(cases), 1)))
        most = max(seeds, shared) if plan.spec.strategy.kind in SAMPLING else seeds
        if shared and most < needed:
            made.append(
                f"`tcpassay compare --between {name}` cannot decide between two values: there are "
                f"{plural(seeds, 'seed')}, and 95 % for {plural(metrics, 'metric')} and "
                f"{plural(len(cases), 'pair')} of values takes {needed}; `--by` takes more"
            )
    return made
