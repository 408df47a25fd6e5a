"""The power of a comparison: the smallest shift that its test most likely finds, and the number of pairs that decide.

The power of the exact signed-rank test is computed for differences that are normal around a shift, as the share of
`SAMPLES` drawn samples (with a fixed seed) that the test finds at the corrected level. It is 0 for fewer pairs than
`fewest`. Above `EXACT` pairs it is Noether's approximation: the test needs pi / 3 times as many differences as a test
of means if they are normal, and hardly more, or fewer, for other distributions (Hodges and Lehmann, "The Efficiency of
Some Nonparametric Competitors of the t-Test", 1956).
"""

import math
from functools import lru_cache
from typing import Final

import numpy as np

from tcpassay.compare.signedrank import EXACT, Reals, critical, quantile
from tcpassay.plan.enough import fewest

POWER: Final = 0.8
"""The probability with which the shift is found."""
SAMPLES: Final = 4000
_MOST: Final = 100_000
"""A greater number of pairs is not stated."""


def deviation(differences: Reals) -> float | None:
    """The standard deviation; `None` for fewer than two differences."""
    return float(np.std(differences, ddof=1)) if len(differences) > 1 else None


@lru_cache(maxsize=1024)
def detectable(pairs: int, level: float) -> float | None:
    """The shift, in standard deviations, that a two-sided test at this level finds with the probability `POWER`.

    `None` if a test of so few pairs finds nothing at this level, whatever the shift is.
    """
    cut = critical(pairs, level / 2)
    if cut is None:
        return None
    if pairs > EXACT:
        return _noether(level) / math.sqrt(pairs)
    drawn = np.random.Generator(np.random.PCG64(1)).standard_normal((SAMPLES, pairs))
    low, high = 0.0, 16.0
    while high - low > 1e-3:  # noqa: PLR2004 - smaller than the error of the samples
        middle = (low + high) / 2
        if _found(drawn + middle, cut) < POWER:
            low = middle
        else:
            high = middle
    return high


def together(differences: Reals) -> float:
    """The share of the pairs of differences whose sum has the more frequent sign; 0.5 for fewer than two."""
    if len(differences) < 2:  # noqa: PLR2004 - there is no pair
        return 0.5
    ordered = np.sort(differences)
    # For each difference, the number of the later ones with which its sum is positive.
    first = np.maximum(np.searchsorted(ordered, -ordered, "right"), np.arange(1, len(ordered) + 1))
    share = float((len(ordered) - first).sum()) / (len(ordered) * (len(ordered) - 1) / 2)
    return max(share, 1 - share)


def deciding(
    pairs: int, spread: float | None, size: float, level: float, agreeing: float = 0.5
) -> int | None:
    """About the number of pairs with which a test at this level decides about a shift of this size.

    At least those without which no test is significant, and more than there are. `None` if it cannot be stated.
    `agreeing` is the share of `together`: from it Noether ("Sample Size Determination for Some Common Nonparametric
    Tests", 1987) has another number, which a few large differences do not increase; the smaller of both counts.
    """
    least = max(fewest(level), pairs + 1)
    if spread is None or size <= 0:
        return least if pairs < fewest(level) else None
    wanted = (_noether(level) * spread / size) ** 2
    if agreeing >= 1:
        return least
    if agreeing > 0.5:  # noqa: PLR2004 - no direction is more frequent
        normal = quantile(level / 2) + quantile(1 - POWER)
        wanted = min(wanted, (normal / (agreeing - 0.5)) ** 2 / 3)
    return None if wanted > _MOST else max(least, math.ceil(wanted))


def _noether(level: float) -> float:
    return (quantile(level / 2) + quantile(1 - POWER)) * math.sqrt(math.pi / 3)


def _found(samples: Reals, cut: int) -> float:
    """The share of samples whose smaller rank sum is at most `cut`."""
    ranks = np.argsort(np.argsort(np.abs(samples), axis=1), axis=1) + 1
    total = samples.shape[1] * (samples.shape[1] + 1) // 2
    negative = (ranks * (samples < 0)).sum(axis=1)
    return float((np.minimum(negative, total - negative) <= cut).mean())
