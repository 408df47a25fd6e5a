"""The evolutionary search: each generation is made from the worst cases so far (compare CC-Fuzz, HotNets 2022).

A generation is a function of the plan and of the results of the generations before it, and does not depend on the
order in which their runs ended.
"""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Final

from tcpassay.errors import UserError
from tcpassay.interface import METRICS
from tcpassay.plan import model
from tcpassay.plan.expand import Case
from tcpassay.result_format import SearchRow
from tcpassay.search.feedback import Ran, Rarity, features_of
from tcpassay.search.objective import Objective, Seen
from tcpassay.search.space import SearchSpace, Values
from tcpassay.search.spending import Spending
from tcpassay.terminal import number

NEWCOMERS: Final = 0.1
"""Share of a generation that is drawn at random, so that the search does not end in a local optimum."""
CROSSED: Final = 0.5
"""Share of the others that have two parents."""


def stream(seed: int, generation: int) -> Random:
    """The random numbers of a generation."""
    return Random(f"{seed} generation {generation}")  # noqa: S311 - reproducible is the point


def first(space: SearchSpace, strategy: model.Search, most: int) -> list[Case]:
    """The first generation: cases that are drawn independently of each other."""
    return drawn(space, stream(strategy.seed, 0), most, set())


def drawn(space: SearchSpace, rng: Random, count: int, known: set[str]) -> list[Case]:
    """New cases that are drawn independently of each other; fewer if there are no more."""
    made: list[Case] = []
    while len(made) < count:
        case = space.new(lambda: space.draw(rng), known | {one.id for one in made})
        if case is None:
            break
        made.append(case)
    return made


class Evolution:
    """A search in progress."""

    def __init__(self, space: SearchSpace, strategy: model.Search, spending: Spending) -> None:
        self.space = space
        self.strategy = strategy
        self.spending = spending
        self.objective = Objective.of(strategy)
        self.best: list[Seen] = []
        """The best cases, the best first."""
        self.path: list[tuple[int, Seen]] = []
        """Each case that was better than all before it, with the number of runs up to it."""
        self.generations = 0
        self.ended = ""
        self._parents: list[Seen] = []
        self._known: set[str] = set()
        self._done = 0
        """Number of completed runs."""
        self._rarity = Rarity()

    def tell(self, generation: Sequence[tuple[Case, Sequence[Ran]]]) -> None:
        """Receives the results of a generation, in its order."""
        children = []
        for case, runs in generation:
            self.spending.spend(runs)
            self._done += sum(run.done for run in runs)
            seen = Seen(case, self.objective.value(runs), self.objective.found(runs), number=len(self._known))
            if self._by_rarity:
                seen = replace(seen, features=features_of(runs))
                self._rarity.add(seen.features)
            self._known.add(case.id)
            children.append(seen)
            if self._worth(seen) and (not self.path or self._rank(seen) > self._rank(self.path[-1][1])):
                self.path.append((self.spending.used_runs, seen))
        self.generations += 1
        worth = [one for one in children if self._worth(one)]
        # Of cases with equal values the first one is listed.
        different: dict[tuple[bool, bool, float], Seen] = {}
        for seen in [*self.best, *worth]:
            different.setdefault(self._rank(seen), seen)
        self.best = sorted(different.values(), key=self._rank, reverse=True)[: self.strategy.best]
        # Of equal cases the newer one stays, so that a search can cross a plateau.
        among = sorted(
            [*self._parents, *children], key=lambda one: (self._fitness(one), one.number), reverse=True
        )
        self._parents = among[: self.strategy.population]

    def ask(self) -> list[Case]:
        """The next generation; empty at the end of the search, whose reason is in `ended`.

        Raises `UserError` if no case of the first generation has the metric.
        """
        if self.generations == 1 and self.objective.metric is not None and self._done and not self.path:
            raise UserError(
                f"`strategy.metric` = `{self.objective.metric}`: none of the {self._done} runs of the first generation "
                "has it, so that there is nothing to search; `tcpassay metrics` describes what it measures"
            )
        if self.objective.finding and self.best and self.best[0].found is not None:
            self.ended = "the finding is found"
            return []
        wanted = self.spending.cases(self.strategy.population)
        if wanted <= 0:
            self.ended = self.spending.ended()
            return []
        rng = stream(self.strategy.seed, self.generations)
        if self.strategy.method == "random":
            made = drawn(self.space, rng, wanted, self._known)
        else:
            made = self._children(rng, wanted)
        if not made:
            self.ended = "there are no more cases"
        return made

    def _children(self, rng: Random, wanted: int) -> list[Case]:
        made: list[Case] = []
        while len(made) < wanted:
            newcomer = rng.random() < NEWCOMERS
            make = (lambda: self.space.draw(rng)) if newcomer else (lambda: self._child(rng))
            case = self.space.new(make, self._known | {one.id for one in made})
            if case is None:
                break
            made.append(case)
        return made

    def _child(self, rng: Random) -> Values:
        values = self.space.values(self._parent(rng).case)
        genes = self.space.genes
        if rng.random() < CROSSED:
            other = self.space.values(self._parent(rng).case)
            values = {
                gene.name: gene.cross(values[gene.name], other[gene.name], rng)
                if rng.random() < 0.5  # noqa: PLR2004 - either parent
                else values[gene.name]
                for gene in genes
            }
        return changed(self.space, values, rng)

    def _parent(self, rng: Random) -> Seen:
        """The better of two."""
        places = [min(int(rng.random() * len(self._parents)), len(self._parents) - 1) for _ in range(2)]
        return self._parents[min(places)]

    @property
    def _by_rarity(self) -> bool:
        return self.objective.metric is None

    def _worth(self, seen: Seen) -> bool:
        """Whether a case is a result of the search."""
        return seen.found is not None or seen.value is not None

    def _rank(self, seen: Seen) -> tuple[bool, bool, float]:
        return self.objective.rank(seen)

    def _fitness(self, seen: Seen) -> tuple[bool, bool, float]:
        if self._by_rarity:
            return seen.found is not None, True, self._rarity.of(seen.features)
        return self._rank(seen)

    def words(self) -> str:
        """The running generation and the best value so far, in words."""
        said = f"generation {self.generations + 1}"
        best = self.best[0] if self.best else None
        if best is not None and best.found is not None:
            return f"{said}, found"
        if self.objective.metric is None:
            return f"{said}, {len(self._rarity.cases)} features"
        if best is None or best.value is None:
            return said
        return f"{said}, best {number(best.value, METRICS[self.objective.metric].unit)}"

    def as_json(self) -> SearchRow:
        """For `result.json`."""
        return {
            "kind": "search",
            "method": self.strategy.method,
            "metric": self.objective.metric,
            "worst": None
            if self.objective.metric is None
            else "greatest"
            if self.objective.greatest
            else "least",
            "finding": self.objective.finding,
            "generations": self.generations,
            "runs": self.spending.used_runs,
            "ended": self.ended,
            "best": [
                {"case": one.case.id, "value": one.value, "found_with_seed": one.found} for one in self.best
            ],
            "path": [
                {"runs": runs, "case": one.case.id, "value": one.value, "found_with_seed": one.found}
                for runs, one in self.path
            ],
        }


def changed(space: SearchSpace, values: Values, rng: Random) -> Values:
    """Values of which at least one gene was changed, and each other one with a probability of 1 / number of genes."""
    genes = space.genes
    sure = min(int(rng.random() * len(genes)), len(genes) - 1)
    return values | {
        gene.name: gene.mutate(values[gene.name], rng)
        for place, gene in enumerate(genes)
        if place == sure or rng.random() < 1 / len(genes)
    }
