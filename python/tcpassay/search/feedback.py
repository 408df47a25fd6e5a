"""The features of a run, which a search uses in addition to its metrics: the behaviours that it reached.

`Feedback` is the interface. `Reached` reads the behaviours that a run reports (`reached` in `result.json`), on the
model and on kernels alike. `Covered` reads the lines and branches that a run reached in the code of a kernel with
counters.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Final, Literal, Protocol

from tcpassay.finding import Finding
from tcpassay.gcov.catalogue import Bits, Catalogue

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
    def covered(self) -> str:
        """What was reached in the code of a kernel with counters; empty for other substrates."""

    @property
    def cpu_s(self) -> float:
        """CPU seconds of the run."""


Kind = Literal["behaviours", "pairs", "lines", "branches"]


class Feedback(Protocol):
    """The interface for reading the features of runs."""

    def features(self, runs: Iterable[Ran]) -> frozenset[Hashable]:
        """The features that the runs of a case reached; equal features denote the same behaviour."""

    def kind(self, feature: Hashable) -> Kind | None:
        """The kind under which a feature is counted; `None` if it is not counted."""


class Reached:
    """Behaviours, how often they occurred, and pairs of behaviours of one run."""

    def features(self, runs: Iterable[Ran]) -> frozenset[Hashable]:
        """A behaviour is its name, a count a name with a bucket, a pair two names."""
        made: set[Hashable] = set()
        for run in runs:
            names = sorted(run.reached)
            made.update(names)
            made.update((name, bucket(run.reached[name])) for name in names)
            made.update(combinations(names, 2))
        return frozenset(made)

    def kind(self, feature: Hashable) -> Kind | None:
        """Names are behaviours, two names a pair."""
        if isinstance(feature, str):
            return "behaviours"
        return "pairs" if isinstance(feature, tuple) and isinstance(feature[1], str) else None


class Covered:
    """Lines and branches of the kernel's code, and behaviours."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._lines = catalogue.of_kind("lines")
        self._branches = catalogue.of_kind("branches")

    def features(self, runs: Iterable[Ran]) -> frozenset[Hashable]:
        """A line or branch is its number in the catalogue, a behaviour its name."""
        made: set[Hashable] = set()
        bits: Bits = 0
        for run in runs:
            made.update(run.reached)
            if run.covered:
                bits |= self._catalogue.decode(run.covered)
        bits &= self._lines | self._branches
        made.update(place for place, digit in enumerate(reversed(f"{bits:b}")) if digit == "1")
        return frozenset(made)

    def kind(self, feature: Hashable) -> Kind | None:
        """Numbers are lines or branches, names are behaviours."""
        if not isinstance(feature, int):
            return "behaviours"
        return "lines" if self._lines >> feature & 1 else "branches"


def bucket(count: int) -> int:
    """The range in which a count lies."""
    return max((one for one in _BUCKETS if one <= count), default=0)


class Rarity:
    """The rarity of the features of a case among all cases so far."""

    def __init__(self) -> None:
        self.cases: Counter[Hashable] = Counter()
        """The number of cases with each feature."""

    def add(self, features: frozenset[Hashable]) -> frozenset[Hashable]:
        """Counts the features of a case, and returns those that no case had before."""
        new = frozenset(one for one in features if one not in self.cases)
        self.cases.update(features)
        return new

    def of(self, features: frozenset[Hashable]) -> float:
        """1 for each feature that no other case has, half for one that two cases have, and so on."""
        # In a fixed order of additions: the sum of floating-point numbers depends on it.
        counted = Counter(self.cases[one] for one in features)
        return sum(number / cases for cases, number in sorted(counted.items()))
