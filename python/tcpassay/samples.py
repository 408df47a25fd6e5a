"""Of how many samples a percentile is, and whether these are few.

A percentile q of n samples has n (1 - q) of them beyond it. Below ten, single samples decide it: the standard deviation
of their number is then more than a third of it (binomial distribution).
"""

import re
from collections.abc import Iterable
from fractions import Fraction
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from tcpassay.levels import Measured

BEYOND: Final = 10
"""Samples beyond a percentile that are enough."""
_COUNTS: Final = {
    "rtt": "rtt_samples", "one_way": "one_way_samples", "queue_delay": "queue_delay_samples",
    "completion": "completions",
}  # fmt: skip
"""The metric with the number of samples, for each beginning of the name of a percentile."""
_PERCENTILE: Final = re.compile(r"(\w+)_p(\d+)")


class Few(NamedTuple):
    """Runs in which a percentile is of few samples."""

    metric: str
    enough: int
    """This number of samples would be enough."""
    runs: int
    of: int
    """The runs whose number of samples is known."""
    least: int
    """The smallest number of samples of a run."""

    def __str__(self) -> str:
        return (
            f"{self.metric}: {self.runs} of {self.of} runs have fewer than {self.enough:,} samples "
            f"(the fewest: {self.least:,}), so that fewer than ten lie beyond it and single ones decide it"
        )


def enough(metric: str) -> tuple[str, int] | None:
    """The metric that counts the samples of a percentile, and how many are enough; `None` for other metrics."""
    found = _PERCENTILE.fullmatch(metric)
    if found is None or found[1] not in _COUNTS:
        return None
    beyond = 1 - Fraction(int(found[2]), 10 ** len(found[2]))
    return _COUNTS[found[1]], int(BEYOND / beyond)


def few(runs: Iterable["Measured"], metric: str) -> Few | None:
    """The runs whose percentile `metric` is of few samples; `None` if there is none."""
    wanted = enough(metric)
    if wanted is None:
        return None
    counted = [run.metrics.get(wanted[0]) for run in runs if run.metrics.get(metric) is not None]
    known = [int(count) for count in counted if count is not None]
    below = [count for count in known if count < wanted[1]]
    return Few(metric, wanted[1], len(below), len(known), min(below)) if below else None
