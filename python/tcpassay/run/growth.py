"""The generations of a plan whose cases depend on results, as stored in the journal.

The first generation contains the cases of the plan. Each further one is a note in the journal, written in the same
transaction as its runs, so that a resumed search has the same cases as an uninterrupted one.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Self, TypedDict

from tcpassay.errors import Place, UserError
from tcpassay.plan.expand import Case
from tcpassay.plan.fields import Scalar
from tcpassay.plan.model import PlanFile, Search
from tcpassay.plan.read import Plan
from tcpassay.run.result import Run
from tcpassay.search.strategy import Strategy, search_of

_NOTE: Final = "generation."
_SAME: Final = ("substrates", "seeds", "repetitions", "fixed", "axes", "groups", "negative", "constraints")
"""The parts of a plan, besides its strategy, that must be equal when a search is continued."""


class GrownRow(TypedDict):
    """A case of a generation, in the journal."""

    case: str
    triples: dict[str, Scalar]
    varied: dict[str, Scalar]
    substrate: str


def is_search(spec: PlanFile) -> bool:
    """Whether the cases of a plan depend on results."""
    return isinstance(spec.strategy, Search)


class Growth:
    """The generations of a plan, and the strategy that makes them."""

    def __init__(self, strategy: Strategy, generations: list[list[Case]], runs_of_case: int) -> None:
        self.strategy = strategy
        self.generations = generations
        self._runs_of_case = runs_of_case

    @classmethod
    def of(cls, plan: Plan, base: Path, notes: Mapping[str, str]) -> Self | None:
        """The generations stored in a journal; `None` if the cases of the plan do not depend on results."""
        strategy = search_of(plan, base)
        if strategy is None:
            return None
        later = _later(notes)
        grown = {case.id for cases in later for case in cases}
        first = [case for case in plan.cases if case.id not in grown]
        return cls(strategy, [first, *later], len(plan.spec.seeds) * plan.spec.repetitions)

    def start(self, generation: int) -> int:
        """The number of the first run of a generation."""
        return sum(map(len, self.generations[:generation])) * self._runs_of_case

    def tell(self, runs: Mapping[str, Sequence[Run]]) -> None:
        """Passes the results, by case, of the first generation without results to the strategy."""
        cases = self.generations[self.strategy.generations]
        self.strategy.tell([(case, runs.get(case.id, ())) for case in cases])

    def next(self) -> list[Case]:
        """The cases of the next generation; empty if the search is finished."""
        return self.strategy.ask()

    def add(self, cases: list[Case]) -> dict[str, str]:
        """Adds a generation, and returns the note about it for the journal."""
        self.generations.append(cases)
        said: list[GrownRow] = [
            {"case": one.id, "triples": one.triples, "varied": one.varied, "substrate": one.substrate}
            for one in cases
        ]
        return {f"{_NOTE}{len(self.generations) - 1:06}": json.dumps(said)}

    def words(self) -> str:
        """The best results so far, in words."""
        return self.strategy.words()


def with_generations(plan: Plan, notes: Mapping[str, str], place: Place) -> Plan:
    """The plan with the cases of all generations of a journal. Raises `UserError` if they are damaged."""
    try:
        later = _later(notes)
    except (KeyError, TypeError, ValueError):
        raise UserError("the journal is damaged: one of its generations has a wrong form", place) from None
    return replace(plan, cases=[*plan.cases, *(case for cases in later for case in cases)]) if later else plan


def _later(notes: Mapping[str, str]) -> list[list[Case]]:
    """The generations after the first one. Raises `KeyError`, `TypeError` or `ValueError` for anything else."""
    names = sorted(name for name in notes if name.startswith(_NOTE))
    return [[_case(one) for one in json.loads(notes[name])] for name in names]


def _case(said: GrownRow) -> Case:
    return Case(
        str(said["case"]), dict(said["triples"]), dict(said["varied"]), substrate=str(said["substrate"])
    )


def check_same(before: PlanFile, plan: Plan) -> None:
    """Raises `UserError` if a search cannot continue with a plan, because it differs in more than its budget."""
    now = plan.spec
    different = [name for name in _SAME if getattr(before, name) != getattr(now, name)]
    if not is_search(before) or _without_budget(before) != _without_budget(now):
        different.append("strategy")
    if different:
        message = (
            f"`{different[0]}` differs from the plan with which the search began: a search continues with the same "
            "plan, of which only the budget may grow; run it again into another folder"
        )
        raise UserError(message, Place(plan.file))


def _without_budget(spec: PlanFile) -> object:
    return spec.strategy.model_dump(exclude={"budget", "best"})
