"""The signed-rank test of paired differences, and the corresponding estimate of their shift.

Frank Wilcoxon, "Individual Comparisons by Ranking Methods" (1945); Joseph Hodges and Erich Lehmann, "Estimates of
Location Based on Rank Tests" (1963). The test uses only the sign of each difference and its rank. It assumes neither
normal distributions nor equal variances, and an outlier has only the weight of its rank.

The distribution is exact, also with ties, up to `EXACT` differences (without an effect, all patterns of signs are
equally likely). Above, it is the normal approximation with correction for ties. No random numbers are used.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float64]

EXACT: Final = 100
_ALL_PAIRS: Final = 1500
"""Maximum number of differences for which all pairwise averages are stored; a million numbers."""


@dataclass(frozen=True, slots=True)
class Shift:
    """The shift of the differences from zero."""

    estimate: float
    """The median of the averages of all pairs of differences, including each with itself."""
    low: float | None
    high: float | None
    """Ends of the confidence interval; `None` if there are too few differences."""
    p: float
    """Two-sided p value."""


def shift(differences: Reals, confidence: float = 0.95) -> Shift:
    """The shift of at least one difference; none may be zero."""
    if len(differences) == 0 or (differences == 0).any():
        raise AssertionError("a shift needs at least one difference, and none may be zero")
    ordered = np.sort(differences)
    n = len(ordered)
    averages = n * (n + 1) // 2
    middle = (kth(ordered, (averages + 1) // 2) + kth(ordered, averages // 2 + 1)) / 2
    cut = critical(n, (1 - confidence) / 2)
    low, high = (None, None) if cut is None else (kth(ordered, cut + 1), kth(ordered, averages - cut))
    return Shift(middle, low, high, _p_value(differences))


def _ranks(sizes: Reals) -> npt.NDArray[np.int64]:
    """Twice the rank of each difference; ties have the mean of their ranks, so that twice the rank is an integer."""
    _, inverse, counts = np.unique(sizes, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    made: npt.NDArray[np.int64] = (2 * last - counts + 1)[inverse]
    return made


def _p_value(differences: Reals) -> float:
    ranks = _ranks(np.abs(differences))
    total, positive = int(ranks.sum()), int(ranks[differences > 0].sum())
    smaller = min(positive, total - positive)
    if len(ranks) <= EXACT:
        return min(1.0, 2 * float(_null(ranks)[: smaller + 1].sum()))
    variance = float((ranks.astype(np.float64) ** 2).sum()) / 4
    # Half a rank as continuity correction; ranks are doubled here.
    z = max(0.0, total / 2 - smaller - 1) / math.sqrt(variance)
    return math.erfc(z / math.sqrt(2))


def _null(ranks: npt.NDArray[np.int64]) -> Reals:
    """The probability of each rank sum if every sign has probability 1/2."""
    chances = np.zeros(int(ranks.sum()) + 1)
    chances[0] = 1.0
    top = 0
    for rank in np.sort(ranks):
        chances[rank : top + rank + 1] += chances[: top + 1].copy()
        chances[: top + rank + 1] /= 2
        top += int(rank)
    return chances


def critical(n: int, tail: float) -> int | None:
    """The largest rank sum whose lower tail is at most `tail`; `None` if there is none."""
    if n <= EXACT:
        cumulative = np.cumsum(_null(2 * np.arange(1, n + 1))[::2])
        cut = int(np.searchsorted(cumulative, tail * (1 + 1e-12), "right")) - 1
    else:
        mean, deviation = n * (n + 1) / 4, math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
        cut = math.floor(mean - quantile(tail) * deviation - 0.5)
    return cut if cut >= 0 else None


def quantile(tail: float) -> float:
    """The quantile of the normal distribution with this upper tail, by bisection."""
    low, high = 0.0, 40.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if math.erfc(middle / math.sqrt(2)) / 2 > tail else (low, middle)
    return (low + high) / 2


def kth(ordered: Reals, k: int) -> float:
    """The k-th smallest, from 1, of the averages of all pairs of sorted numbers, including each with itself."""
    if len(ordered) > _ALL_PAIRS:
        return kth_by_bisection(ordered, k)
    i, j = np.triu_indices(len(ordered))
    averages = (ordered[i] + ordered[j]) / 2
    return float(np.partition(averages, k - 1)[k - 1])


def kth_by_bisection(ordered: Reals, k: int) -> float:
    """The same within the last bits, without storing the averages."""
    low, high = float(ordered[0]), float(ordered[-1])
    places = np.arange(len(ordered))
    while True:
        middle = low + (high - low) / 2
        if middle in {low, high}:
            return high
        partners = np.searchsorted(ordered, 2 * middle - ordered, "right")
        below = int(np.maximum(partners - places, 0).sum())
        low, high = (low, middle) if below >= k else (middle, high)
