"""The power of a comparison: the smallest change that its test would most likely have found.

The standard error of the shift follows from the spread of the differences. The signed-rank test needs pi / 3 times as
many differences as a test of means if they are normal, and hardly more, or fewer, for other distributions (Hodges and
Lehmann, "The Efficiency of Some Nonparametric Competitors of the t-Test", 1956).
"""

import math
from typing import Final

import numpy as np

from tcpassay.compare.signedrank import Reals, quantile

POWER: Final = 0.8
"""The probability with which the change would have been found."""


def standard_error(differences: Reals) -> float | None:
    """The standard error of the shift; `None` for fewer than two differences."""
    n = len(differences)
    if n < 2:  # noqa: PLR2004 - a spread needs two
        return None
    return float(np.std(differences, ddof=1)) * math.sqrt(math.pi / 3 / n)


def detectable(error: float, level: float) -> float:
    """The shift that a two-sided test at this level finds with the probability `POWER`."""
    return (quantile(level / 2) + quantile(1 - POWER)) * error
