"""The space of cases: parameters with levels, and constraints between them.

Inside `cover` a case is a row: for each parameter, in the space's order, the index of its level; invalid
levels are numbered after the valid ones. A constraint becomes a table: for each combination of valid levels
of the parameters that it mentions, whether it is allowed. Generators and the verifier use only rows and
tables; only `plan.constraints` interprets values.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from tcpassay.errors import UserError
from tcpassay.plan.constraints import Constraint, compare, compared
from tcpassay.plan.quantity import Quantity, Value, quantity

if TYPE_CHECKING:
    from tcpassay.cover.tables import Table

Rows = list[list[int]]
"""Cases by row, parameters by column, level indices as entries."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a plan, with its levels in the plan."""

    name: str
    levels: tuple[Value, ...]
    """The valid levels: at least one, all with different meanings."""
    invalid: tuple[Value, ...] = ()
    """Levels that must be refused. A case has at most one."""
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

    A group of parameters that vary together is one parameter, whose levels are the names of its sets; the values of
    its members are derived. A group is therefore one parameter in interactions, and constraints may mention its
    members.
    """

    name: str
    parameter: str
    """The parameter that determines it."""
    values: tuple[Value, ...]
    """Its value for each valid level of that parameter."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Cover all combinations of `strength` of these parameters (by index)."""

    parameters: tuple[int, ...]
    strength: int


@dataclass(frozen=True)
class Space:
    """Parameters and constraints, whose consistency is checked on creation.

    `contradiction` checks whether all constraints can hold together.
    """

    parameters: tuple[Parameter, ...]
    constraints: tuple[Constraint, ...] = ()
    derived: tuple[Derived, ...] = ()
    tables: "tuple[Table, ...]" = field(init=False, repr=False, compare=False)

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
        object.__setattr__(self, "tables", self._tables())

    def _tables(self) -> "tuple[Table, ...]":
        if not self.constraints:
            return ()
        from tcpassay.cover.tables import tabulate  # noqa: PLC0415 - numpy is a quarter of the start-up time

        for constraint in self.constraints:
            for name in constraint.parameters:
                self.parameter(name, f"the constraint {constraint}")
        return tuple(tabulate(constraint, self.sizes, self.views) for constraint in self.constraints)

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
    def invalid(self) -> tuple[tuple[int, int], ...]:
        """The invalid levels, as parameter and number."""
        return tuple(
            (v, level)
            for v, parameter in enumerate(self.parameters)
            for level in range(len(parameter.levels), len(parameter.all_levels))
        )

    @cached_property
    def views(self) -> Mapping[str, tuple[int, tuple[Value, ...]]]:
        """The names that constraints may mention, each with the parameter that determines it and a value per level."""
        own = {parameter.name: (i, parameter.levels) for i, parameter in enumerate(self.parameters)}
        return own | {d.name: (self.index[d.parameter], d.values) for d in self.derived}

    def parameter(self, name: str, what: str) -> int:
        """Index of the parameter with this name, or of the parameter that determines this derived name.

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
        raise UserError(f"{what} mentions `{name}`, which is not a parameter of the plan{hint}")

    def values(self, row: Sequence[int]) -> dict[str, Value]:
        """The case of a row."""
        return {p.name: p.all_levels[level] for p, level in zip(self.parameters, row, strict=True)}

    def rows(self, cases: Iterable[Mapping[str, Value]]) -> Rows:
        """The rows of cases.

        Raises `UserError` for a case that lacks a parameter, has one too many, or has a value that is no
        level.
        """
        numbers = [{quantity(v): n for n, v in enumerate(p.all_levels)} for p in self.parameters]
        rows: Rows = []
        for case_number, case in enumerate(cases):
            for name in case.keys() - self.index.keys():
                raise UserError(f"case {case_number} gives `{name}`, which is not a parameter of the plan")
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
        return rows

    def unmatched(self) -> list[str]:
        """Values in constraints that are not levels, each as a sentence.

        It may be a misspelling, or a value that this plan does not use.
        """
        found = []
        for constraint in self.constraints:
            for name, value in compared(constraint.expression):
                levels = self.views[name][1]
                if not any(compare(level, "=", value) for level in levels):
                    shown = ", ".join(f"`{level}`" for level in levels)
                    found.append(f"`{value}` is not a level of `{name}` ({shown}) in: {constraint}")
        return found
