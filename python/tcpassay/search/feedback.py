"""The features of a run, which a search for findings uses in addition to its metrics: the behaviours that it reached.

They are what a run reports (`reached` in the row of a run), on the model and on kernels alike.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Final, Protocol

from tcpassay.finding import Finding

_BUCKETS: Final = (1, 2, 3, 4, 8, 16, 32, 128)
"""Counts are classified by the greatest of these that does not exceed them, as in coverage-guided fuzzers (AFL)."""


class Ran(Protocol):
    """The parts of a run that a search uses."""

    @property
    def seed(self) -> int:
        """The seed of the run."""

    @property
    def done(self) -> bool:
        """Whether there are metrics."""

    @property
    def metrics(self) -> Mapping[str, float | None]:
        """The metrics of the run."""

    @property
    def findings(self) -> Sequence[Finding]:
        """The findings of the oracles."""

    @property
    def reached(self) -> Mapping[str, int]:
        """Occurrences of each behaviour."""

    @property
    def cpu_s(self) -> float:
        """CPU seconds of the run."""


def features_of(runs: Iterable[Ran]) -> frozenset[Hashable]:
    """Behaviours, how often they occurred, and pairs of behaviours of one run.

    A behaviour is its name, a count a name with a bucket, a pair two names. Equal features denote the same behaviour.
    """
    made: set[Hashable] = set()
    for run in runs:
        names = sorted(run.reached)
        made.update(names)
        made.update((name, bucket(run.reached[name])) for name in names)
        made.update(combinations(names, 2))
    return frozenset(made)


def bucket(count: int) -> int:
    """The range in which a count lies."""
    return max((one for one in _BUCKETS if one <= count), default=0)


class Rarity:
    """The rarity of the features of a case among all cases so far."""

    def __init__(self) -> None:
        self.cases: Counter[Hashable] = Counter()
        """The number of cases with each feature."""

    def add(self, features: frozenset[Hashable]) -> None:
        """Counts the features of a case."""
        self.cases.update(features)

    def of(self, features: frozenset[Hashable]) -> float:
        """1 for each feature that no other case has, half for one that two cases have, and so on."""
        # In a fixed order of additions: the sum of floating-point numbers depends on it.
        counted = Counter(self.cases[one] for one in features)
        return sum(number / cases for cases, number in sorted(counted.items()))
