"""The metrics that a comparison tests: the more there are, the more pairs it needs.

Without a choice of the user these are the metrics that the plan names, in `metrics` and in its checks; without either a
short list for throughput, queueing delay, loss, fairness and tails.
"""

import tomllib
from collections.abc import Sequence

from tcpassay.interface import METRICS
from tcpassay.plan.enough import USUAL
from tcpassay.results import Results


def family(results: Sequence[Results]) -> tuple[tuple[str, ...], str]:
    """The metrics that are tested if the user names none, and where they come from, in words."""
    named = dict.fromkeys(name for one in results for name in _of_plan(one))
    if named:
        return tuple(named), "named by the plan"
    return USUAL, "the usual ones, because the plan names none"


def _of_plan(results: Results) -> list[str]:
    try:
        said = tomllib.loads(results.plan)
    except (ValueError, RecursionError):
        return []
    metrics, checks = said.get("metrics", []), said.get("check", [])
    named = list(metrics) if isinstance(metrics, list) else []
    if isinstance(checks, list):
        named += [one.get("metric") for one in checks if isinstance(one, dict)]
    return [name for name in named if isinstance(name, str) and name in METRICS]
