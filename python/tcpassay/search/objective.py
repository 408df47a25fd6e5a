"""The objective of a search: the worst value of a metric, or a finding of an oracle."""

import statistics
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

from tcpassay.finding import Severity
from tcpassay.interface import METRICS, Direction
from tcpassay.plan import model
from tcpassay.plan.expand import Case
from tcpassay.search.feedback import Ran

ANY: Final = "any"
"""Instead of the name of an oracle: the first error of any oracle."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The results of the runs of a case."""

    case: Case
    value: float | None
    """The metric, averaged over the runs that have it; `None` if none has, or no metric is searched."""
    found: int | None
    """The first seed with the finding; `None` if none has it."""
    features: frozenset[Hashable] = frozenset()
    number: int = 0
    """Index of the case in the search, from 0."""


@dataclass(frozen=True, slots=True)
class Objective:
    """A metric with the direction that is searched, a finding, or both."""

    metric: str | None
    greatest: bool
    """Whether greater values of the metric are worse."""
    finding: str | None

    @classmethod
    def of(cls, strategy: model.Search) -> "Objective":
        """The objective of a checked plan."""
        greatest = strategy.worst == "greatest"
        if strategy.metric is not None and strategy.worst is None:
            greatest = METRICS[strategy.metric].direction is Direction.LOWER
        return cls(strategy.metric, greatest, strategy.finding)

    def value(self, runs: Sequence[Ran]) -> float | None:
        """The mean of the metric over the runs that have it."""
        if self.metric is None:
            return None
        values = [value for run in runs if run.done and (value := run.metrics.get(self.metric)) is not None]
        return statistics.fmean(values) if values else None

    def found(self, runs: Sequence[Ran]) -> int | None:
        """The seed of the first run with the finding."""
        if self.finding is None:
            return None
        for run in runs:
            for one in run.findings:
                if self.finding == one.oracle or (self.finding == ANY and one.severity is Severity.ERROR):
                    return run.seed
        return None

    def rank(self, seen: Seen) -> tuple[bool, bool, float]:
        """Sort key: greater is better for the search; a case without a value is last."""
        value = 0.0 if seen.value is None else seen.value if self.greatest else -seen.value
        return seen.found is not None, seen.value is not None, value

    def words(self) -> str:
        """The objective in words."""
        end = "the greatest" if self.greatest else "the least"
        metric = f"{end} `{self.metric}`" if self.metric else ""
        if self.finding is None:
            return metric
        found = (
            "the first error of an oracle"
            if self.finding == ANY
            else f"the first finding of `{self.finding}`"
        )
        return f"{found}, guided by {metric or 'rare behaviour'}"
