"""Constraints as tables: whether each combination of valid levels of the mentioned parameters is allowed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tcpassay.errors import UserError
from tcpassay.plan.constraints import (
    Comparison,
    Conjunction,
    Constraint,
    Disjunction,
    Expression,
    Negation,
    Operator,
    Relation,
    accepts,
    compare,
)
from tcpassay.plan.quantity import Value, quantity

Allowed = NDArray[np.bool_]
Matrix = NDArray[np.int32]
"""Rows as an array."""

LARGEST_TABLE: Final = 1 << 22
"""Entries of one constraint's table (4 MiB)."""


def matrix(rows: Sequence[Sequence[int]] | Matrix, columns: int) -> Matrix:
    """The rows as an array with this number of columns, also without rows."""
    return np.array(rows, dtype=np.int32).reshape(len(rows), columns)


@dataclass(frozen=True, slots=True)
class Table:
    """The combinations that a constraint allows."""

    scope: tuple[int, ...]
    """Indices of the mentioned parameters, ascending."""
    allowed: Allowed
    """One axis for each parameter of the scope, by valid level."""
    constraint: Constraint


def tabulate(
    constraint: Constraint, sizes: Sequence[int], views: Mapping[str, tuple[int, tuple[Value, ...]]]
) -> Table:
    """The table of a constraint. Raises `UserError` if it is too large, or for an order between incomparable values.

    `sizes` has the number of valid levels of each parameter; `views` has, for each name that the constraint mentions,
    the index of the parameter that decides it and its value for each level of that parameter.
    """
    scope = tuple(sorted({views[name][0] for name in constraint.parameters}))
    shape = tuple(sizes[i] for i in scope)
    if prod(shape) > LARGEST_TABLE:
        raise UserError(
            f"the constraint {constraint} connects {len(scope)} parameters with {prod(shape)} combinations of "
            f"levels; allowed are at most {LARGEST_TABLE}: write it as several constraints"
        )
    levels = {name: views[name][1] for name in constraint.parameters}
    axis = {name: scope.index(views[name][0]) for name in constraint.parameters}
    allowed = _Tabulator(levels, axis, len(scope), constraint).of(constraint.expression)
    return Table(scope, np.ascontiguousarray(np.broadcast_to(allowed, shape)), constraint)


@dataclass(frozen=True, slots=True)
class _Tabulator:
    """Evaluates an expression for all combinations of levels at once: arrays with one axis per parameter."""

    levels: Mapping[str, tuple[Value, ...]]
    axis: Mapping[str, int]
    axes: int
    constraint: Constraint

    def of(self, expression: Expression) -> Allowed:
        match expression:
            case Comparison(left, operator, right):
                self._check_order(operator, left, self.levels[right])
                values = [[compare(a, operator, b) for b in self.levels[right]] for a in self.levels[left]]
                return self._pair(left, right, np.array(values, dtype=np.bool_))
            case Negation(term):
                return ~self.of(term)
            case Conjunction(terms):
                return reduce(np.logical_and, map(self.of, terms), self._constant(value=True))
            case Disjunction(terms):
                return reduce(np.logical_or, map(self.of, terms), self._constant(value=False))
            case leaf:
                if isinstance(leaf, Relation):
                    self._check_order(leaf.operator, leaf.parameter, (leaf.value,), literal=True)
                return self._single(
                    leaf.parameter, [accepts(leaf, level) for level in self.levels[leaf.parameter]]
                )

    def _constant(self, *, value: bool) -> Allowed:
        return np.full((1,) * self.axes, value, dtype=np.bool_)

    def _single(self, name: str, values: list[bool]) -> Allowed:
        shape = [1] * self.axes
        shape[self.axis[name]] = len(values)
        return np.array(values, dtype=np.bool_).reshape(shape)

    def _pair(self, left: str, right: str, values: Allowed) -> Allowed:
        if self.axis[left] == self.axis[right]:
            return self._single(left, [bool(v) for v in values.diagonal()])
        if self.axis[left] > self.axis[right]:
            left, right, values = right, left, values.T
        shape = [1] * self.axes
        shape[self.axis[left]], shape[self.axis[right]] = values.shape
        return values.reshape(shape)

    def _check_order(
        self, operator: Operator, name: str, right: tuple[Value, ...], *, literal: bool = False
    ) -> None:
        """Refuses an order between values of different kinds, such as a time and a number of bytes, which is a mistake.

        A parameter of which a plan uses only a level without order, as `"auto"`, is allowed.
        """
        if operator in ("=", "<>"):
            return
        left = self.levels[name]
        meanings = [(quantity(a), quantity(b)) for a in left for b in right]
        mistaken = any(a.ordered and b.ordered for a, b in meanings) or (
            literal and not meanings[0][1].ordered
        )
        if any(a.comparable(b) for a, b in meanings) or not mistaken:
            return
        a, b = meanings[0]
        raise UserError(
            f"the constraint {self.constraint} asks for an order between `{left[0]}`, which is {a.kind}, and "
            f"`{right[0]}`, which is {b.kind}; only two numbers, times, numbers of bytes or rates are ordered"
        )
