"""How complete what was run is: which combinations of levels the runs that were done have met.

Counted here from the runs themselves, not from what a generator promised: a case that crashed covers nothing.
"""

from dataclasses import dataclass
from itertools import combinations
from math import comb, prod
from typing import Final

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int64]

MOST_SETS: Final = 20_000
"""Sets of parameters beyond which a strength is not counted."""


@dataclass(frozen=True, slots=True)
class Strength:
    """The coverage of all sets of `strength` parameters."""

    strength: int
    total: int
    """Combinations of levels that the constraints of the plan leave possible."""
    covered: int


@dataclass(frozen=True, slots=True)
class Pair:
    """Two parameters, by place: how many cases met each pair of their levels."""

    first: int
    second: int
    counts: Counts
    """By level of the first and of the second; -1 where the plan's constraints leave no case."""

    @property
    def total(self) -> int:
        """Pairs of levels that are possible."""
        return int((self.counts >= 0).sum())

    @property
    def covered(self) -> int:
        """Pairs of levels that were met."""
        return int((self.counts > 0).sum())


def pairs(codes: Codes, sizes: list[int]) -> list[Pair]:
    """Every pair of parameters that vary. `codes` has a row a case and a column a parameter: its level."""
    made = []
    for a, b in combinations([n for n, size in enumerate(sizes) if size > 1], 2):
        flat = np.bincount(codes[:, a] * sizes[b] + codes[:, b], minlength=sizes[a] * sizes[b])
        made.append(Pair(a, b, flat.reshape(sizes[a], sizes[b]).astype(np.int64)))
    return made


def strengths(codes: Codes, sizes: list[int], most: int = 4) -> list[Strength]:
    """The coverage at each strength from 1 to `most`, as far as it is countable in a moment."""
    free = [n for n, size in enumerate(sizes) if size > 1]
    made = []
    for strength in range(1, min(most, len(free)) + 1):
        if comb(len(free), strength) > MOST_SETS:
            break
        total = covered = 0
        for scope in combinations(free, strength):
            size = prod(sizes[n] for n in scope)
            flat = np.zeros(len(codes), dtype=np.int64)
            for n in scope:
                flat = flat * sizes[n] + codes[:, n]
            total += size
            covered += len(np.unique(flat))
        made.append(Strength(strength, total, covered))
    return made
