"""How complete what was run is: which combinations of levels the cases that were done have met.

Counted by the verifier of covering arrays (`tcpassay.cover.verify`) from the runs themselves, not from what a generator
promised: a case that crashed covers nothing. What is possible at all is what the constraints of the folder's plan
leave; where the plan cannot be read, every combination of the levels that were seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tcpassay.cover import generate, verify
from tcpassay.cover.network import Network
from tcpassay.cover.space import Parameter, Space
from tcpassay.cover.tables import Matrix
from tcpassay.errors import UserError
from tcpassay.plan import combine
from tcpassay.report.factors import Codes, Factor, Planned, constant, text_of

COUNTED: Final = 300_000
"""Combinations of levels up to which a strength is counted that the plan does not ask for."""
STRONGEST: Final = 4
EXAMPLES: Final = 6


@dataclass(frozen=True, slots=True)
class Pair:
    """Two parameters, by place: how many cases met each pair of their levels."""

    first: int
    second: int
    counts: Codes
    """By level of the first and of the second; -1 where the constraints leave no case."""

    @property
    def total(self) -> int:
        """Pairs of levels that are possible."""
        return int((self.counts >= 0).sum())

    @property
    def covered(self) -> int:
        """Pairs of levels that were met."""
        return int((self.counts > 0).sum())


def bare(names: Sequence[str], sizes: Sequence[int]) -> Space:
    """A space without constraints, whose levels are numbers: what is known where the plan cannot be read."""
    return Space(tuple(Parameter(name, tuple(range(size))) for name, size in zip(names, sizes, strict=True)))


def lines(space: Space, rows: Matrix, asked: generate.Strategy | None = None) -> list[verify.Line]:
    """The coverage at each strength that the plan asks for, or that is counted in a moment, and of its families."""
    families = asked.families if isinstance(asked, generate.TWay) else ()
    strength = asked.strength if isinstance(asked, generate.TWay) else 2
    sizes = [space.sizes[v] for v in space.free]
    while strength < STRONGEST and combine.tuples(sizes, strength + 1) <= COUNTED:
        strength += 1
    if len(space.free) < 2:  # noqa: PLR2004 - no pair
        return []
    return list(verify.verify_rows(space, rows, generate.TWay(strength, families), EXAMPLES).lines)


def pairs(space: Space, rows: Matrix) -> list[Pair]:
    """Every pair of parameters that vary. `rows` has a row a case and a column a parameter: the place of its level."""
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
    """For pairs of parameters that constraints tie together, the pairs of levels that they leave no case for."""
    if not space.tables:
        return {}
    network = Network(space.sizes, space.tables)
    tied = sorted({v for table in space.tables for v in table.scope})
    made: dict[tuple[int, int], Any] = {}
    try:
        for a, b in combinations(space.free, 2):
            if a in tied or b in tied:
                made[a, b] = ~network.project((a, b))
    except UserError:
        # Too much to solve: such a pair counts as one that was not met.
        return {}
    return made


def report(runs: list[dict[str, Any]], factors: list[Factor], planned: Planned | None) -> dict[str, Any]:
    """Of the cases that were done, each counted once however many seeds it has.

    Those that were refused, as they had to be, count for the invalid values alone.
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
    refused = np.array([runs[n]["outcome"] != "done" for n in rows], dtype=np.bool_)
    # A level that the plan does not have, and a negative one that was not refused, cover nothing.
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
    """For each level of the page, which has amounts in rising order, its place in the space; -1 for others."""
    levels = [text_of(level) for level in parameter.all_levels]
    return np.array([levels.index(text) if text in levels else -1 for text in factor.levels], dtype=np.int32)
