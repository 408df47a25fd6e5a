"""What plans say about a comparison: the metrics that it tests, and whether their cases are a sample.

The more metrics there are, the more seeds a comparison needs.

Without a choice of the user these are the metrics that the plan names, in `metrics` and in its checks; without either a
short list for throughput, queueing delay, loss, fairness and tails.
"""

import tomllib
from collections.abc import Collection, Sequence

from tcpassay.interface import METRICS
from tcpassay.plan.enough import SAMPLING, USUAL
from tcpassay.results import Results


def family(results: Sequence[Results], among: Collection[str]) -> tuple[tuple[str, ...], str]:
    """The metrics `among` these that are tested if the user names none, and where they come from, in words."""
    named = [
        name for name in dict.fromkeys(name for one in results for name in of_plan(one)) if name in among
    ]
    if named:
        return tuple(named), "named by the plan"
    return tuple(name for name in USUAL if name in among), "the usual ones, because the plan names none"


def sampled(results: Sequence[Results]) -> bool:
    """Whether the cases of all results are a sample of the possible ones."""
    strategies = [_read(one).get("strategy") for one in results]
    return all(isinstance(one, dict) and one.get("kind") in SAMPLING for one in strategies)


def _read(results: Results) -> dict[str, object]:
    try:
        return tomllib.loads(results.plan)
    except (ValueError, RecursionError):
        return {}


def of_plan(results: Results) -> list[str]:
    """The metrics that the plan of a result names; none if its plan cannot be read."""
    said = _read(results)
    metrics, checks = said.get("metrics", []), said.get("check", [])
    named = list(metrics) if isinstance(metrics, list) else []
    if isinstance(checks, list):
        named += [one.get("metric") for one in checks if isinstance(one, dict)]
    return [name for name in named if isinstance(name, str) and name in METRICS]
