"""The solver: which combinations of levels the constraints allow, how many, and which is closest to a given one.

It uses variable elimination over tables (Dechter, "Bucket elimination", 1999). A variable is eliminated by combining
all tables that mention it and reducing its axis: AND and OR give feasibility, * and + the number of solutions, + and
min the lowest cost. The method is exact and needs no search.

Cost: with n parameters and tables of at most d levels, O(n d^(w+1)), where w is the width of the constraint graph under
the elimination order (min-size). Chains, stars and trees of constraints have w = 1 for any n. In the worst case, when
all parameters are connected, the cost is exponential; a table with more than `LARGEST` entries is rejected with a
message.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import combinations
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tcpassay.cover.space import Rows
from tcpassay.cover.tables import Allowed, Table
from tcpassay.errors import UserError

LARGEST: Final = 1 << 25
"""Maximum number of entries of a table during elimination."""
_IMPOSSIBLE: Final = 1 << 40
"""A cost above every sum of real costs."""

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class _Factor:
    scope: tuple[int, ...]
    """In ascending order."""
    table: Array


@dataclass(frozen=True, slots=True)
class _Semiring:
    combine: Callable[[Array, Array], Array]
    reduce: Callable[[Array, int], Array]
    one: Array
    """The neutral element of `combine`, without axes."""


_POSSIBLE: Final = _Semiring(np.logical_and, np.logical_or.reduce, np.array(1, dtype=np.bool_))
_COUNT: Final = _Semiring(np.multiply, np.add.reduce, np.array(1, dtype=object))
_COST: Final = _Semiring(np.add, np.minimum.reduce, np.array(0))


@dataclass(frozen=True)
class Network:
    """Variables `0..n` with `sizes` levels, and the tables that connect them."""

    sizes: tuple[int, ...]
    tables: tuple[Table, ...]

    def satisfiable(self, fixed: Mapping[int, int] | None = None) -> bool:
        """Whether all tables allow some assignment compatible with `fixed`."""
        factors = _fix([_Factor(t.scope, t.allowed) for t in self.tables], fixed or {})
        return bool(self._eliminate(factors, (), _POSSIBLE).table)

    def count(self) -> int:
        """The exact number of allowed assignments."""
        factors = [_Factor(t.scope, t.allowed.astype(object) * 1) for t in self.tables]
        tied = {variable for factor in factors for variable in factor.scope}
        loose = prod(size for variable, size in enumerate(self.sizes) if variable not in tied)
        return int(self._eliminate(factors, (), _COUNT).table) * loose

    def project(self, scope: tuple[int, ...]) -> Allowed:
        """The combinations of the variables of `scope` (ascending) that have an allowed completion."""
        kept = self._eliminate([_Factor(t.scope, t.allowed) for t in self.tables], scope, _POSSIBLE)
        shape = tuple(self.sizes[v] for v in scope)
        allowed: Allowed = np.broadcast_to(_axes(kept, scope), shape)
        return allowed

    @cached_property
    def component(self) -> tuple[int, ...]:
        """The component of each variable; connected variables have the same number.

        The number is -1 if no table mentions the variable.
        """
        root = list(range(len(self.sizes)))

        def find(v: int) -> int:
            while root[v] != v:
                root[v] = root[root[v]]
                v = root[v]
            return v

        for table in self.tables:
            for v in table.scope[1:]:
                root[find(v)] = find(table.scope[0])
        tied = {v for table in self.tables for v in table.scope}
        return tuple(find(v) if v in tied else -1 for v in range(len(self.sizes)))

    @cached_property
    def parts(self) -> Mapping[int, "Network"]:
        """For each component, the network with its tables only."""
        return {
            c: Network(self.sizes, tuple(t for t in self.tables if self.component[t.scope[0]] == c))
            for c in sorted(set(self.component) - {-1})
        }

    def nearest(self, wanted: Sequence[int], fixed: Mapping[int, int]) -> list[int] | None:
        """An allowed assignment compatible with `fixed` that differs from `wanted` in the fewest variables.

        `None` if there is none. The choice among several depends only on the network.
        """
        factors = _fix(
            [_Factor(t.scope, np.where(t.allowed, 0, _IMPOSSIBLE).astype(np.int64)) for t in self.tables],
            fixed,
        )
        for v, size in enumerate(self.sizes):
            if v not in fixed:
                factors.append(_Factor((v,), (np.arange(size) != wanted[v]).astype(np.int64)))
        buckets, rest = self._buckets(factors, (), _COST)
        if rest.table >= _IMPOSSIBLE:
            return None
        row = [fixed.get(v, -1) for v in range(len(self.sizes))]
        for v, bucket in reversed(buckets):
            row[v] = int(np.argmin(_slice(bucket, v, row)))
        return row

    def sampler(self) -> Callable[[random.Random], list[int]]:
        """A function that draws allowed assignments with equal probability."""
        factors = [_Factor(t.scope, t.allowed.astype(object) * 1) for t in self.tables]
        factors += [_Factor((v,), np.ones(size, dtype=object)) for v, size in enumerate(self.sizes)]
        buckets, rest = self._buckets(factors, (), _COUNT)
        if not rest.table:
            raise AssertionError("a contradiction has no sample; the caller checks")

        def draw(rng: random.Random) -> list[int]:
            row = [-1] * len(self.sizes)
            for v, bucket in reversed(buckets):
                weights = [int(w) for w in _slice(bucket, v, row)]
                left = _below(rng, sum(weights))
                for level, weight in enumerate(weights):
                    left -= weight
                    if left < 0:
                        row[v] = level
                        break
            return row

        return draw

    def all(self) -> Rows:
        """All allowed assignments in lexical order. The caller checks `count` first."""
        factors = [_Factor(t.scope, t.allowed) for t in self.tables]
        factors += [_Factor((v,), np.ones(size, dtype=np.bool_)) for v, size in enumerate(self.sizes)]
        buckets, rest = self._buckets(factors, (), _POSSIBLE)
        rows = np.full((int(bool(rest.table)), len(self.sizes)), -1, dtype=np.int32)
        for v, bucket in reversed(buckets):
            others = [u for u in bucket.scope if u != v]
            table = np.moveaxis(bucket.table, bucket.scope.index(v), -1)
            possible = table[tuple(rows[:, u] for u in others)] if others else np.tile(table, (len(rows), 1))
            parents, levels = np.nonzero(possible)
            rows = rows[parents]
            rows[:, v] = levels
        listed: Rows = (rows[np.lexsort(rows.T[::-1])] if rows.size else rows).tolist()
        return listed

    @cached_property
    def _order(self) -> tuple[int, ...]:
        """The elimination order: the variable with the smallest combined table is next."""
        neighbours: dict[int, set[int]] = {v: set() for v in range(len(self.sizes))}
        for table in self.tables:
            for a, b in combinations(table.scope, 2):
                neighbours[a].add(b)
                neighbours[b].add(a)
        order = []
        while neighbours:
            v = min(neighbours, key=lambda u: (prod(self.sizes[w] for w in neighbours[u]) * self.sizes[u], u))
            tied = neighbours.pop(v)
            for u in tied:
                neighbours[u] |= tied
                neighbours[u] -= {u, v}
            order.append(v)
        return tuple(order)

    def _eliminate(self, factors: list[_Factor], keep: tuple[int, ...], ring: _Semiring) -> _Factor:
        return self._buckets(factors, keep, ring)[1]

    def _buckets(
        self, factors: list[_Factor], keep: tuple[int, ...], ring: _Semiring
    ) -> tuple[list[tuple[int, _Factor]], _Factor]:
        """Eliminates all variables except `keep`; returns their combined tables and the remaining tables."""
        buckets = []
        for v in self._order:
            if v in keep:
                continue
            mine = [f for f in factors if v in f.scope]
            if not mine:
                continue
            combined = self._combine(mine, ring)
            axis = combined.scope.index(v)
            buckets.append((v, combined))
            reduced = _Factor(
                combined.scope[:axis] + combined.scope[axis + 1 :], ring.reduce(combined.table, axis)
            )
            factors = [f for f in factors if v not in f.scope]
            factors.append(reduced)
        return buckets, self._combine(factors, ring)

    def _combine(self, factors: Sequence[_Factor], ring: _Semiring) -> _Factor:
        scope = tuple(sorted({v for f in factors for v in f.scope}))
        if len(factors) == 1:
            return factors[0]
        if prod(self.sizes[v] for v in scope) > LARGEST:
            raise UserError(
                f"the constraints connect {len(scope)} parameters so that a table of more than {LARGEST} "
                "combinations would be needed; give these parameters fewer levels, or remove a "
                "constraint between them"
            )
        return _Factor(scope, reduce(ring.combine, (_axes(f, scope) for f in factors), ring.one))


def _axes(factor: _Factor, scope: Iterable[int]) -> Array:
    """The table of the factor with an axis for each variable of a larger scope, for broadcasting."""
    lengths = dict(zip(factor.scope, np.shape(factor.table), strict=True))
    return np.reshape(factor.table, tuple(lengths.get(v, 1) for v in scope))


def _fix(factors: list[_Factor], fixed: Mapping[int, int]) -> list[_Factor]:
    return [
        _Factor(
            tuple(v for v in f.scope if v not in fixed),
            np.asarray(f.table[tuple(fixed.get(v, slice(None)) for v in f.scope)]),
        )
        for f in factors
    ]


def _slice(bucket: _Factor, variable: int, row: Sequence[int]) -> Array:
    """The table of the bucket along `variable`, with the other variables as in `row`."""
    part: Array = bucket.table[tuple(slice(None) if v == variable else row[v] for v in bucket.scope)]
    return part


def _below(rng: random.Random, limit: int) -> int:
    """A number from 0 to `limit` - 1, from `getrandbits`, which is stable between versions of Python."""
    bits = limit.bit_length()
    while (number := rng.getrandbits(bits)) >= limit:
        pass
    return number
