"""Correction for multiple tests: of a hundred metrics, five differ at the level of 5 % by chance."""

from collections.abc import Sequence
from typing import Final, Literal

from tcpassay.errors import UserError

Method = Literal["holm", "bh", "none"]
METHODS: Final[dict[str, Method]] = {"holm": "holm", "bh": "bh", "none": "none"}


def method(name: str) -> Method:
    """The method with this name. Raises `UserError`."""
    if name not in METHODS:
        raise UserError(
            f"`{name}` is not a correction for multiple testing; allowed are {', '.join(METHODS)}"
        )
    return METHODS[name]


def adjust(p_values: Sequence[float], method: Method, tests: int | None = None) -> list[float]:
    """Adjusted p values, which are compared with the level individually.

    `holm` limits the probability of any false positive (Holm 1979); `bh` limits the share of false positives among the
    positives (Benjamini and Hochberg 1995) and is more sensitive. If there are more `tests`, whose p values are not
    known, they count as larger than these: both methods then adjust these at least as much as with them.
    """
    n = max(len(p_values), tests or 0)
    if method == "none":
        return list(p_values)
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted = [0.0] * len(p_values)
    if method == "holm":
        most = 0.0
        for rank, place in enumerate(order):
            most = max(most, min(1.0, (n - rank) * p_values[place]))
            adjusted[place] = most
        return adjusted
    least = 1.0
    for rank, place in reversed(list(enumerate(order, start=1))):
        least = min(least, p_values[place] * n / rank)
        adjusted[place] = least
    return adjusted
