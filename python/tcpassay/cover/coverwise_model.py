"""The interface to the covering-array generator coverwise (pinned, because its arrays may change between versions).

coverwise receives neither names nor values: parameters are `p0, p1, ...`, levels are their indices, and each part of a
constraint about values is sent as the set of indices for which it holds. Its rules for comparing texts and numbers (it
ignores case and has no units) and its limit on the length of texts therefore have no effect.

Used features: mixed strength (`subModels`), constraints with implied infeasibility, extension that keeps the existing
rows as a prefix, determinism for a 32-bit seed. Implemented here instead: invalid values (coverwise generates nearly
one case per pair, ten times more than needed; see `generate`), strengths above the number of parameters (coverwise
rejects them; here they mean the full product), and parameters with one level (omitted).

`verify` counts the coverage of the rows independently.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import coverwise
import numpy as np

from tcpassay.cover.space import Demand, Rows, Space
from tcpassay.cover.tables import Matrix, matrix
from tcpassay.errors import UserError
from tcpassay.plan.constraints import (
    Comparison,
    Conjunction,
    Disjunction,
    Expression,
    Negation,
    accepts,
    compare,
)
from tcpassay.plan.quantity import Value

_MOST_CONSTRAINTS: Final = 256
_LONGEST: Final = 65_536
_SEEDS: Final = 1 << 32


def covering(space: Space, demands: Sequence[Demand], seed: int, rows: Rows) -> Rows:
    """Extends the rows by the missing combinations: first valid cases, then those of each invalid level."""
    existing = matrix(rows, len(space.parameters))
    invalid = existing >= np.array(space.sizes)
    valid = existing[~invalid.any(axis=1)]
    parts = [existing, covering_array(space, demands, seed, valid)[len(valid) :]]
    for v, level in space.invalid:
        mine = existing[existing[:, v] == level]
        more = covering_array(space, [Demand(space.free, 1)], seed, mine, dropped=frozenset([v]))
        more[:, v] = level
        parts.append(more[len(mine) :])
    extended: Rows = np.concatenate(parts).tolist()
    return extended


def covering_array(
    space: Space,
    demands: Sequence[Demand],
    seed: int,
    existing: Matrix,
    dropped: frozenset[int] = frozenset(),
) -> Matrix:
    """Rows that satisfy all demands; the `existing` rows come first, unchanged.

    `dropped` parameters and the constraints that mention them are omitted; their column is 0. Raises `UserError` if the
    generator rejects the model. The space must have no contradiction.
    """
    used = [v for v in space.free if v not in dropped]
    everything = Demand(tuple(used), 1)
    kept = [d for d in (_restrict(d, used) for d in demands) if d.parameters]
    if not used:
        return existing if len(existing) else np.zeros((1, len(space.parameters)), dtype=np.int32)
    # The global strength is that of the strongest demand on all parameters; the other demands become sub-models.
    whole = max(
        (d for d in kept if d.parameters == everything.parameters),
        key=lambda d: d.strength,
        default=everything,
    )
    model: dict[str, object] = {
        "parameters": [{"name": f"p{v}", "values": list(range(space.sizes[v]))} for v in used],
        "strength": whole.strength,
        "seed": seed % _SEEDS,
        "constraints": _constraints(space, dropped),
        "subModels": [
            {"parameters": [f"p{v}" for v in d.parameters], "strength": d.strength}
            for d in kept
            # Demands implied by the global one are omitted, so that a family with the global strength changes no row.
            if d.parameters != everything.parameters and d.strength > whole.strength
        ],
    }
    try:
        if len(existing):
            before = [{f"p{v}": int(row[v]) for v in used} for row in existing]
            result = coverwise.extend_tests(before, model)
        else:
            result = coverwise.generate(model)
    except coverwise.CoverwiseError as error:
        raise UserError(f"the generator of covering arrays refuses this plan: {error}") from error
    rows = np.zeros((len(result["tests"]), len(space.parameters)), dtype=np.int32)
    for n, test in enumerate(result["tests"]):
        for v in used:
            rows[n, v] = int(test[f"p{v}"])
    if len(existing):
        if not np.array_equal(rows[: len(existing), used], existing[:, used]):
            raise AssertionError("the generator did not keep the existing cases")
        rows[: len(existing)] = existing
    return rows


def _restrict(demand: Demand, used: Sequence[int]) -> Demand:
    parameters = tuple(v for v in used if v in demand.parameters)
    return Demand(parameters, min(demand.strength, len(parameters)))


def _constraints(space: Space, dropped: frozenset[int]) -> list[str]:
    texts = []
    for table in space.tables:
        if dropped.isdisjoint(table.scope):
            text = _Translator(space).of(table.constraint.expression)
            if text is False:
                raise AssertionError("a contradiction has no covering array; the caller checks")
            if text is True:
                continue
            if len(text) > _LONGEST:
                raise UserError(
                    f"the constraint {table.constraint} compares parameters with too many levels for the "
                    "generator of covering arrays; give them fewer levels, or use another strategy"
                )
            texts.append(text)
    while len(texts) > _MOST_CONSTRAINTS:
        texts = [" AND ".join(f"({text})" for text in texts[n : n + 2]) for n in range(0, len(texts), 2)]
    return texts


@dataclass(frozen=True, slots=True)
class _Translator:
    """Translates an expression over names and values to coverwise's form over indices, or to a bool."""

    space: Space

    def of(self, expression: Expression) -> str | bool:
        match expression:
            case Comparison(left, operator, right) if self._index(left) == self._index(right):
                both = zip(self._levels(left), self._levels(right), strict=True)
                return self._in(left, [i for i, (a, b) in enumerate(both) if compare(a, operator, b)])
            case Comparison(left, operator, right):
                # One alternative per set of right levels, so that `a <= b` has as many alternatives as `b` has
                # levels.
                groups: dict[tuple[int, ...], list[int]] = {}
                for i, a in enumerate(self._levels(left)):
                    fits = tuple(j for j, b in enumerate(self._levels(right)) if compare(a, operator, b))
                    groups.setdefault(fits, []).append(i)
                return _any(
                    _all([self._in(left, lefts), self._in(right, rights)]) for rights, lefts in groups.items()
                )
            case Negation(term):
                return _not(self.of(term))
            case Conjunction(terms):
                return _all(map(self.of, terms))
            case Disjunction(terms):
                return _any(map(self.of, terms))
            case leaf:
                name = leaf.parameter
                return self._in(
                    name, [i for i, level in enumerate(self._levels(name)) if accepts(leaf, level)]
                )

    def _index(self, name: str) -> int:
        return self.space.views[name][0]

    def _levels(self, name: str) -> Sequence[Value]:
        return self.space.views[name][1]

    def _in(self, name: str, levels: Sequence[int]) -> str | bool:
        if not levels:
            return False
        if len(levels) == len(self._levels(name)):
            return True
        return f"p{self._index(name)} IN {{{', '.join(map(str, levels))}}}"


def _not(term: str | bool) -> str | bool:  # noqa: FBT001
    return not term if isinstance(term, bool) else f"NOT ({term})"


def _all(terms: Iterable[str | bool]) -> str | bool:
    return _join("AND", terms, neutral=True)


def _any(terms: Iterable[str | bool]) -> str | bool:
    return _join("OR", terms, neutral=False)


def _join(word: str, terms: Iterable[str | bool], *, neutral: bool) -> str | bool:
    parts = []
    for term in terms:
        if isinstance(term, str):
            parts.append(term)
        elif term is not neutral:
            return not neutral
    if not parts:
        return neutral
    return parts[0] if len(parts) == 1 else "(" + f" {word} ".join(f"({part})" for part in parts) + ")"
