"""Constraints that cannot all hold, and levels that the constraints leave no case for.

Each is explained by a smallest set of constraints: without any one of them the contradiction is gone. It is
found by deletion: drop one constraint after the other and keep those whose absence makes the rest possible;
as many questions to the solver as there are constraints in the component. There may be other sets of the same
kind; the plan has no case until each of them is resolved.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tcpassay.cover.network import Network
from tcpassay.cover.space import Space
from tcpassay.cover.tables import Table
from tcpassay.errors import UserError
from tcpassay.plan.constraints import Constraint
from tcpassay.plan.quantity import Value


class ContradictionError(UserError):
    """The constraints leave no case. `constraints` is a smallest set of them that does."""

    def __init__(self, constraints: Sequence[Constraint]) -> None:
        self.constraints = tuple(constraints)
        if len(self.constraints) == 1:
            message = f"no case is possible: this constraint never holds in this plan: {constraints[0]}"
        else:
            listed = "\n".join(f"    {constraint}" for constraint in self.constraints)
            message = f"no case is possible: these constraints contradict each other in this plan:\n{listed}"
        super().__init__(message, self.constraints[0].place)


@dataclass(frozen=True, slots=True)
class DeadLevel:
    """A level that no case can have."""

    parameter: str
    level: Value
    constraints: tuple[Constraint, ...]
    """A smallest set of constraints that rules it out."""

    def __str__(self) -> str:
        why = "; ".join(str(constraint) for constraint in self.constraints)
        return f"`{self.parameter}` can never be `{self.level}` because of: {why}"


def check(space: Space) -> None:
    """Raise `ContradictionError` when the constraints leave no case."""
    network = Network(space.sizes, space.tables)
    for part in network.parts.values():
        if not part.satisfiable():
            raise ContradictionError([table.constraint for table in _smallest(part, {})])


def dead_levels(space: Space, most: int | None = None) -> list[DeadLevel]:
    """The levels, the first `most` of them, that no case can have, of a space without contradiction."""
    network = Network(space.sizes, space.tables)
    found: list[DeadLevel] = []
    for variable, component in enumerate(network.component):
        if component == -1:
            continue
        part = network.parts[component]
        for level, possible in enumerate(part.project((variable,))):
            if not possible and (most is None or len(found) < most):
                tables = _smallest(part, {variable: level})
                parameter = space.parameters[variable]
                found.append(
                    DeadLevel(parameter.name, parameter.levels[level], tuple(t.constraint for t in tables))
                )
    return found


def _smallest(network: Network, fixed: Mapping[int, int]) -> list[Table]:
    """A smallest set of the network's tables that allows nothing which agrees with `fixed`."""
    kept = list(network.tables)
    for table in network.tables:
        fewer = [other for other in kept if other is not table]
        if not Network(network.sizes, tuple(fewer)).satisfiable(fixed):
            kept = fewer
    return kept
