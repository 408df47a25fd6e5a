"""The interface of a strategy whose cases depend on results, and the strategy of a plan."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from tcpassay.plan import model
from tcpassay.plan.expand import Case
from tcpassay.plan.read import Plan
from tcpassay.result_format import SearchRow
from tcpassay.search.evolution import Evolution
from tcpassay.search.feedback import Ran
from tcpassay.search.space import SearchSpace
from tcpassay.search.spending import Spending

__all__ = ["Evolution", "Ran", "Strategy", "search_of"]


class Strategy(Protocol):
    """A strategy whose cases depend on results."""

    spending: Spending
    generations: int
    """Number of generations with results."""
    ended: str
    """Why there are no more cases, in words; empty before the end."""

    def tell(self, generation: Sequence[tuple[Case, Sequence[Ran]]]) -> None:
        """Receives the results of a generation, in its order."""

    def ask(self) -> list[Case]:
        """The next generation; empty at the end."""

    def words(self) -> str:
        """The best results so far, in a few words."""

    def as_json(self) -> SearchRow:
        """For `result.json`."""


def search_of(plan: Plan, base: Path) -> Strategy | None:
    """The strategy of a plan before its first generation has run; `None` if its cases do not depend on results.

    `base` is the folder of relative file names in values.
    """
    spec, strategy = plan.spec, plan.spec.strategy
    if isinstance(strategy, model.Search):
        space = SearchSpace.of(spec, base)
        return Evolution(space, strategy, Spending.of(spec, strategy.budget))
    return None
