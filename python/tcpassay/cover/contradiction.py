"""Contradictory constraints, and levels that no allowed case has.

Each is explained by a minimal set of constraints: without any one of them the contradiction disappears. The set is
found by deletion: each constraint is removed in turn and kept only if the rest is satisfiable without it. This takes
one solver call per constraint of the component. Other minimal sets may exist; the plan has no case until all of them
are resolved.
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
    """The constraints allow no case. `constraints` is a minimal contradictory set."""

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
    """A level that no allowed case has."""

    parameter: str
    level: Value
    constraints: tuple[Constraint, ...]
    """A minimal set of constraints that excludes it."""

    def __str__(self) -> str:
        why = "; ".join(str(constraint) for constraint in self.constraints)
        return f"`{self.parameter}` can never be `{self.level}` because of: {why}"


def check(space: Space) -> None:
    """Raises `ContradictionError` if the constraints allow no case."""
    network = Network(space.sizes, space.tables)
    for part in network.parts.values():
        if not part.satisfiable():
            raise ContradictionError([table.constraint for table in _smallest(part, {})])


def dead_levels(space: Space, most: int | None = None) -> list[DeadLevel]:
    """The first `most` levels that no allowed case has, for a space without contradiction."""
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
    """A minimal set of tables of the network that allows nothing compatible with `fixed`."""
    kept = list(network.tables)
    for table in network.tables:
        fewer = [other for other in kept if other is not table]
        if not Network(network.sizes, tuple(fewer)).satisfiable(fixed):
            kept = fewer
    return kept
