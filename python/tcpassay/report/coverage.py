"""The coverage of the completed cases: the combinations of levels that they contain.

The verifier of covering arrays (`tcpassay.cover.verify`) counts it from the runs, so that a case that crashed covers
nothing. The constraints of the folder's plan define the possible combinations; if the plan cannot be read, all
combinations of the observed levels are possible.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
import numpy.typing as npt

from tcpassay.cover import generate, verify
from tcpassay.cover.network import Network
from tcpassay.cover.space import Parameter, Space
from tcpassay.cover.tables import Matrix
from tcpassay.errors import UserError
from tcpassay.messages import Outcome
from tcpassay.plan import combine
from tcpassay.report.factors import Codes, Factor, Planned, constant, text_of
from tcpassay.report.page_data import CoverageData
from tcpassay.result_format import RunRow

COUNTED: Final = 300_000
"""Maximum number of combinations at strengths that the plan does not require."""
STRONGEST: Final = 4
EXAMPLES: Final = 6


@dataclass(frozen=True, slots=True)
class Pair:
    """Two parameters by index, with the number of cases for each pair of their levels."""

    first: int
    second: int
    counts: Codes
    """By level of the first and of the second parameter; -1 if the constraints exclude the pair."""

    @property
    def total(self) -> int:
        """Number of possible pairs of levels."""
        return int((self.counts >= 0).sum())

    @property
    def covered(self) -> int:
        """Number of covered pairs of levels."""
        return int((self.counts > 0).sum())


def bare(names: Sequence[str], sizes: Sequence[int]) -> Space:
    """A space without constraints and with numbers as levels, used if the plan cannot be read."""
    return Space(tuple(Parameter(name, tuple(range(size))) for name, size in zip(names, sizes, strict=True)))


def lines(space: Space, rows: Matrix, asked: generate.Strategy | None = None) -> list[verify.Line]:
    """The coverage at each strength of the plan, at further strengths that are fast to count, and of the families."""
    families = asked.families if isinstance(asked, generate.TWay) else ()
    strength = asked.strength if isinstance(asked, generate.TWay) else 2
    sizes = [space.sizes[v] for v in space.free]
    while strength < STRONGEST and combine.tuples(sizes, strength + 1) <= COUNTED:
        strength += 1
    if len(space.free) < 2:  # noqa: PLR2004 - no pair
        return []
    return list(verify.verify_rows(space, rows, generate.TWay(strength, families), EXAMPLES).lines)


def pairs(space: Space, rows: Matrix) -> list[Pair]:
    """All pairs of varied parameters.

    `rows` has a row per case and a column per parameter with the index of its level.
    """
    impossible = _impossible(space)
    made = []
    for a, b in combinations(space.free, 2):
        shape = (space.sizes[a], space.sizes[b])
        counts = np.zeros(shape, dtype=np.int64)
        np.add.at(counts, (rows[:, a], rows[:, b]), 1)
        if (a, b) in impossible:
            counts[impossible[a, b] & (counts == 0)] = -1
        made.append(Pair(a, b, counts))
    return made


def _impossible(space: Space) -> dict[tuple[int, int], npt.NDArray[np.bool_]]:
    """For pairs of parameters connected by constraints, the pairs of levels that the constraints exclude."""
    if not space.tables:
        return {}
    network = Network(space.sizes, space.tables)
    tied = sorted({v for table in space.tables for v in table.scope})
    made: dict[tuple[int, int], npt.NDArray[np.bool_]] = {}
    try:
        for a, b in combinations(space.free, 2):
            if a in tied or b in tied:
                made[a, b] = ~network.project((a, b))
    except UserError:
        # Too expensive to solve: such a pair counts as not covered.
        return {}
    return made


def report(runs: list[RunRow], factors: list[Factor], planned: Planned | None) -> CoverageData:
    """The coverage of the completed cases, each counted once for all seeds.

    Cases that were refused as expected count only for the invalid values.
    """
    ended = [n for n, run in enumerate(runs) if run.get("outcome") in {"done", run.get("expect", "done")}]
    first = {str(runs[n]["case"]): n for n in reversed(ended)}
    rows = np.array(sorted(first.values()), dtype=np.int64)
    if planned:
        space, strategy = planned.space, planned.strategy
        known = {one.name: one for one in factors}
        factors = [known.get(p.name) or constant(p, len(runs)) for p in space.parameters]
        places = [_places(factor, p) for factor, p in zip(factors, space.parameters, strict=True)]
    else:
        space, strategy = bare([one.name for one in factors], [len(one.levels) for one in factors]), None
        places = [np.arange(len(one.levels), dtype=np.int32) for one in factors]
    codes = np.empty((len(rows), len(factors)), dtype=np.int32)
    for v, (factor, place) in enumerate(zip(factors, places, strict=True)):
        codes[:, v] = place[factor.codes[rows]]
    invalid = (codes >= np.array(space.sizes, dtype=np.int32)).any(axis=1)
    refused = np.array([runs[n]["outcome"] != Outcome.DONE for n in rows], dtype=np.bool_)
    # A level outside the plan, and a negative level that was not refused, cover nothing.
    codes, valid = codes[(invalid == refused) & (codes >= 0).all(axis=1)], codes[~invalid & ~refused]
    valid = valid[(valid >= 0).all(axis=1)]
    texts = {
        one.name: [text_of(level) for level in one.levels] if planned else list(factor.levels)
        for one, factor in zip(space.parameters, factors, strict=True)
    }
    return {
        "cases": len(valid),
        "planned": planned is not None,
        "lines": [
            {
                "name": line.name,
                "strength": line.strength,
                "total": line.total,
                "covered": line.covered,
                "excluded": line.excluded,
                "missing": [
                    {
                        name: text_of(level) if planned else texts[name][int(level)]
                        for name, level in example.items()
                    }
                    for example in line.examples
                ],
            }
            for line in lines(space, codes, strategy)
        ],
        "pairs": [
            {
                "a": factors[pair.first].name,
                "b": factors[pair.second].name,
                "total": pair.total,
                "covered": pair.covered,
                "rows": [texts[factors[pair.first].name][n] for n in range(len(pair.counts))],
                "columns": [texts[factors[pair.second].name][n] for n in range(pair.counts.shape[1])],
                "counts": pair.counts.ravel().tolist(),
            }
            for pair in pairs(space, valid)
        ],
    }


def _places(factor: Factor, parameter: Parameter) -> npt.NDArray[np.int32]:
    """For each level of the page (amounts in ascending order) its index in the space; -1 for others."""
    levels = [text_of(level) for level in parameter.all_levels]
    return np.array([levels.index(text) if text in levels else -1 for text in factor.levels], dtype=np.int32)
