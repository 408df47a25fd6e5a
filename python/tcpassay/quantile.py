"""The definition of a quantile: nearest rank, as in metrics (`crates/measure`) and in the report (`js/stats.js`).

A quantile is always one of the values; interpolation would show a latency that no packet had. The medians of seeds in
comparisons and the shift of `compare/signedrank.py` are no quantiles of measured values: they are the mean of the two
in the middle if their number is even, as usual for the median of a sample.
"""

import math
from collections.abc import Sequence


def quantile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least a `share` (0 to 1) of the values does not exceed.

    `ordered` is in ascending order and not empty. This is the inverse of the cumulative distribution, type 1 of Hyndman
    and Fan (The American Statistician 50, 1996). The median is the quantile at 0.5.
    """
    # A share such as 0.07 times 100 is a little more than 7.
    return ordered[max(0, math.ceil(share * len(ordered) - 1e-9) - 1)]


def median(values: Sequence[float]) -> float:
    """The quantile at 0.5 of values in any order."""
    return quantile(sorted(values), 0.5)
