"""The space that cases are drawn from: parameters with levels, and the constraints between them.

Inside `cover` a case is a row: for each parameter, in the space's order, the index of its level; invalid
levels are numbered after the valid ones. A constraint becomes a table: for each combination of valid levels
of the parameters that it mentions, whether it is allowed. Generators and the verifier see only rows and
tables, so that what a value means is decided in one place (`plan.constraints`).
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
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
    compared,
)
from tcpassay.plan.quantity import Quantity, Value, quantity

Rows = NDArray[np.int32]
"""Cases by row, parameters by column, level indices as entries."""
Allowed = NDArray[np.bool_]

LARGEST_TABLE: Final = 1 << 22
"""Entries of one constraint's table (4 MiB)."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a plan, with the levels that the plan gives it."""

    name: str
    levels: tuple[Value, ...]
    """The valid levels, at least one, no two of which mean the same."""
    invalid: tuple[Value, ...] = ()
    """Levels that the program under test must refuse. A case holds at most one."""
    default: int = 0
    """Index of the simplest valid level."""

    def __post_init__(self) -> None:
        if not self.levels:
            raise UserError(f"`{self.name}` has no level; at least one is needed")
        if not 0 <= self.default < len(self.levels):
            raise UserError(
                f"`{self.name}` has {len(self.levels)} levels; its default cannot be number {self.default}"
            )
        seen: dict[Quantity, Value] = {}
        for level in (*self.levels, *self.invalid):
            meaning = quantity(level)
            if meaning in seen:
                raise UserError(
                    f"`{self.name}` lists `{seen[meaning]}` and `{level}`, which mean the same; keep one"
                )
            seen[meaning] = level

    @property
    def all_levels(self) -> tuple[Value, ...]:
        """Valid levels, then invalid ones: the numbering of rows."""
        return self.levels + self.invalid


@dataclass(frozen=True, slots=True)
class Derived:
    """A name whose value follows from the level of a parameter, for constraints to mention.

    A group of parameters that vary together is one parameter, whose levels are the names of its sets; what a
    set gives its members is derived. So a group counts as one in interactions, and constraints speak of the
    members.
    """

    name: str
    parameter: str
    """The one that it follows from."""
    values: tuple[Value, ...]
    """Its value for each valid level of that parameter."""


@dataclass(frozen=True, slots=True)
class Table:
    """What one constraint allows."""

    scope: tuple[int, ...]
    """Indices of the parameters that it mentions, rising."""
    allowed: Allowed
    """One axis for each parameter of the scope, by valid level."""
    constraint: Constraint


@dataclass(frozen=True)
class Space:
    """Parameters and constraints, checked on creation to fit each other.

    Whether all constraints can hold is another question (`contradiction`).
    """

    parameters: tuple[Parameter, ...]
    constraints: tuple[Constraint, ...] = ()
    derived: tuple[Derived, ...] = ()
    tables: tuple[Table, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names = [p.name for p in self.parameters] + [d.name for d in self.derived]
        for name in names:
            if names.count(name) > 1:
                raise UserError(f"the parameter `{name}` is given twice")
        for derived in self.derived:
            if len(derived.values) != self.sizes[self.index[derived.parameter]]:
                raise AssertionError(
                    f"`{derived.name}` needs one value for each level of `{derived.parameter}`"
                )
        object.__setattr__(self, "tables", tuple(_table(self, constraint) for constraint in self.constraints))

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Position of each parameter."""
        return {parameter.name: i for i, parameter in enumerate(self.parameters)}

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of valid levels of each parameter."""
        return tuple(len(parameter.levels) for parameter in self.parameters)

    @cached_property
    def free(self) -> tuple[int, ...]:
        """The parameters that vary: those with more than one valid level."""
        return tuple(i for i, size in enumerate(self.sizes) if size > 1)

    @cached_property
    def views(self) -> Mapping[str, tuple[int, tuple[Value, ...]]]:
        """What constraints may mention: the parameter that decides it, and a value for each level of that."""
        own = {parameter.name: (i, parameter.levels) for i, parameter in enumerate(self.parameters)}
        return own | {d.name: (self.index[d.parameter], d.values) for d in self.derived}

    def parameter(self, name: str, what: str) -> int:
        """Position of the parameter that `what`, in words, mentions, or that decides what it mentions.

        Raises `UserError` when there is none.
        """
        if name in self.views:
            return self.views[name][0]
        near = difflib.get_close_matches(name, self.views, n=1)
        hint = (
            f"; did you mean `{near[0]}`?"
            if near
            else f"; there are {', '.join(f'`{n}`' for n in self.views)}"
        )
        raise UserError(f"{what} mentions `{name}`, which is no parameter of the plan{hint}")

    def values(self, row: Sequence[int]) -> dict[str, Value]:
        """The case that a row stands for."""
        return {p.name: p.all_levels[level] for p, level in zip(self.parameters, row, strict=True)}

    def rows(self, cases: Iterable[Mapping[str, Value]]) -> Rows:
        """The rows that stand for cases.

        Raises `UserError` for a case that lacks a parameter, has one too many, or has a value that is no
        level.
        """
        numbers = [{quantity(v): n for n, v in enumerate(p.all_levels)} for p in self.parameters]
        rows = []
        for case_number, case in enumerate(cases):
            for name in case.keys() - self.index.keys():
                raise UserError(f"case {case_number} gives `{name}`, which is no parameter of the plan")
            row = []
            for parameter, levels in zip(self.parameters, numbers, strict=True):
                if parameter.name not in case:
                    raise UserError(f"case {case_number} gives no `{parameter.name}`")
                level = levels.get(quantity(case[parameter.name]))
                if level is None:
                    raise UserError(
                        f"case {case_number} gives `{parameter.name}` the value `{case[parameter.name]}`; "
                        f"its levels are {', '.join(f'`{v}`' for v in parameter.all_levels)}"
                    )
                row.append(level)
            rows.append(row)
        return np.array(rows, dtype=np.int32).reshape(len(rows), len(self.parameters))

    def unmatched(self) -> list[str]:
        """What the constraints compare with although it is no level, each as a sentence.

        It may be a misspelling, or a value that this plan does not use.
        """
        found = []
        for constraint in self.constraints:
            for name, value in compared(constraint.expression):
                levels = self.views[name][1]
                if not any(compare(level, "=", value) for level in levels):
                    shown = ", ".join(f"`{level}`" for level in levels)
                    found.append(f"`{value}` is no level of `{name}` ({shown}) in: {constraint}")
        return found


def _table(space: Space, constraint: Constraint) -> Table:
    what = f"the constraint {constraint}"
    scope = tuple(sorted({space.parameter(name, what) for name in constraint.parameters}))
    shape = tuple(space.sizes[i] for i in scope)
    if prod(shape) > LARGEST_TABLE:
        raise UserError(
            f"the constraint {constraint} ties {len(scope)} parameters with {prod(shape)} combinations of "
            f"levels together; at most {LARGEST_TABLE} are possible: write it as several constraints"
        )
    levels = {name: space.views[name][1] for name in constraint.parameters}
    axis = {name: scope.index(space.views[name][0]) for name in constraint.parameters}
    allowed = _Tabulator(levels, axis, len(scope), constraint).of(constraint.expression)
    return Table(scope, np.ascontiguousarray(np.broadcast_to(allowed, shape)), constraint)


@dataclass(frozen=True, slots=True)
class _Tabulator:
    """Evaluates an expression for all combinations of levels at once: arrays with one axis a parameter."""

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
        """Refuse an order between a length of time and a number of bytes: it is a mistake, not just false.

        A parameter of which a plan uses only a level without order, as `"auto"`, is no mistake.
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
            f"`{right[0]}`, which is {b.kind}; two numbers, times, numbers of bytes or rates have one"
        )
