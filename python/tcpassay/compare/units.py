"""The statistical units of a comparison: what counts as one independent difference.

It is the seed. Runs of different cases with one seed see the same random numbers, and the values that a plan gives to
its other parameters were chosen and are no random sample, so that several cases are no further evidence (Hurlbert,
"Pseudoreplication and the Design of Ecological Field Experiments", 1984). The differences of the cases of a seed are
averaged, over those cases that differ in any seed, and the test is one of seeds. Means in tables and figures
(`levels.py`) have the same unit.

Only if the plan draws its cases (strategy `t-way` or `random`) and has enough of them, each case is a unit, averaged
over its seeds: they are a sample of the possible cases, and the statement is about cases like these. Cases whose runs
are identical count once.
"""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from tcpassay.compare.pairing import Pair
from tcpassay.compare.signedrank import Reals

Kind = Literal["seed", "case"]
_ROUNDING: Final = 1e-12
_Codes = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Places:
    """The case and the seed of each pair of runs, as numbers from 0."""

    cases: _Codes
    seeds: _Codes
    distinct: _Codes
    """As `cases`, with one number for cases whose runs are identical."""

    def of(self, chosen: npt.NDArray[np.bool_]) -> "Places":
        """Those of the chosen pairs."""
        return Places(self.cases[chosen], self.seeds[chosen], self.distinct[chosen])


def places(pairs: list[Pair]) -> Places:
    """The places of pairs of runs."""
    cases: dict[str, int] = {}
    seeds: dict[int, int] = {}
    steps: dict[str, list[object]] = {}
    for two in pairs:
        case, seed = str(two.a["case"]), int(two.a["seed"])
        cases.setdefault(case, len(cases))
        seeds.setdefault(seed, len(seeds))
        traces = two.a.get("trace"), two.b.get("trace")
        steps.setdefault(case, []).append((seed, *(traces if all(traces) else (case,))))
    alike: dict[object, int] = {}
    same = [alike.setdefault(tuple(steps[case]), number) for case, number in cases.items()]
    of_case = np.array([cases[str(two.a["case"])] for two in pairs], dtype=np.int64)
    of_seed = np.array([seeds[int(two.a["seed"])] for two in pairs], dtype=np.int64)
    return Places(of_case, of_seed, np.array(same, dtype=np.int64)[of_case])


@dataclass(frozen=True, slots=True)
class Units:
    """The units of a metric."""

    kind: Kind
    moved: Reals
    """The difference of each unit."""
    cases: int
    """Number of cases over which a seed is averaged; of units that are cases 1."""
    same: int
    """Number of cases that are equal in every seed and are left out."""
    kept: npt.NDArray[np.bool_]
    """Which pairs of runs have a part."""
    of: _Codes
    """The unit of each of these pairs, from 0 to `len(moved) - 1`."""

    def means(self, values: Reals, *, positive: bool) -> Reals:
        """A value for each unit, from those of the pairs: the geometric mean if all values are positive."""
        return _means(values[self.kept], self.of, geometric=positive)


def units(where: Places, moved: Reals, enough: int | None) -> Units:
    """The units of the differences of pairs; with at least `enough` cases, if it is given, the cases."""
    count = len(np.unique(where.distinct))
    if enough is not None and count >= enough:
        kept = np.ones(len(moved), dtype=np.bool_)
        of = _numbered(where.distinct)
        return Units("case", _means(moved, of), 1, 0, kept, of)
    differ = np.unique(where.cases[moved != 0])
    everything = np.unique(where.cases)
    part = differ if len(differ) else everything
    kept = np.isin(where.cases, part)
    # Seeds that lack a case would have a mean over other cases.
    complete = np.bincount(where.seeds[kept], minlength=int(where.seeds.max(initial=0)) + 1) == len(part)
    if complete.sum() > 1:
        kept &= complete[where.seeds]
    of = _numbered(where.seeds[kept])
    means = _means(moved[kept], of)
    # Differences that cancel each other do so but for the order of additions.
    means[np.abs(means) <= _ROUNDING * _means(np.abs(moved[kept]), of)] = 0.0
    return Units("seed", means, len(part), len(everything) - len(part), kept, of)


def _numbered(codes: _Codes) -> _Codes:
    return np.unique(codes, return_inverse=True)[1]


def _means(values: Reals, of: _Codes, *, geometric: bool = False) -> Reals:
    counts = np.bincount(of)
    if geometric and counts.max() > 1:
        made: Reals = np.exp(np.bincount(of, np.log(values)) / counts)
        return made
    return np.bincount(of, values) / counts
