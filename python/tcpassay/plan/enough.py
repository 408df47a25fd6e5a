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
CONTROLLERS: Final = ("controller", "stack.cc")
"""The factors whose values are usually compared."""
SAMPLING: Final = ("t-way", "random")
"""The strategies whose cases are a sample of the possible ones, so that many of them are evidence as seeds are."""


def fewest(alpha: float) -> int:
    """The number of differences that a signed-rank test at this level needs to be significant."""
    return math.ceil(1 - math.log2(alpha))


def too_few(plan: Plan) -> list[str]:
    """A sentence for each factor whose values the runs cannot distinguish, whatever they are.

    Only of plans with several seeds: with one seed, runs are compared as they are. Of a plan whose cases are a sample,
    many cases are as good as seeds. Of a controller also if it cannot be compared at each combination of the others.
    """
    seeds = len(plan.spec.seeds)
    if seeds == 1:
        return []
    metrics = len({*plan.spec.metrics, *(check.metric for check in plan.spec.check)} or USUAL)
    several = [name for name, among in factors(plan.spec).items() if len(among) > 1]
    made = []
    for name in several:
        rest: dict[object, set[str]] = {}
        for case in plan.cases:
            others = tuple(sorted((key, str(value)) for key, value in case.varied.items() if key != name))
            rest.setdefault(others, set()).add(str(case.varied.get(name)))
        values = sorted({value for having in rest.values() for value in having})
        cases = [sum({a, b} <= having for having in rest.values()) for a, b in combinations(values, 2)]
        shared, needed = max(cases, default=0), fewest(LEVEL / (metrics * max(len(cases), 1)))
        sampled = plan.spec.strategy.kind in SAMPLING
        most = max(seeds, shared) if sampled else seeds
        by = [other for other in several if other != name]
        if shared and most < needed:
            made.append(
                _note(f"--between {name}", seeds, metrics, len(cases), f"{needed}; `--by` takes more")
            )
        elif shared and by and name in CONTROLLERS and not sampled:
            pairs = len(cases) * len(rest)
            if most < (needed := fewest(LEVEL / (metrics * pairs))):
                made.append(
                    _note(f"--between {name} --by {','.join(by)}", seeds, metrics, pairs, f"{needed}")
                )
    return made


def _note(options: str, seeds: int, metrics: int, pairs: int, needed: str) -> str:
    return (
        f"`tcpassay compare {options}` cannot decide between two values: there are {plural(seeds, 'seed')}, and 95 % "
        f"for {plural(metrics, 'metric')} and {plural(pairs, 'pair')} of values takes {needed}"
    )
