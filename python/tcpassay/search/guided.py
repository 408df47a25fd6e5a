"""A covering array, then cases derived from those that reached new behaviour, as in coverage-guided fuzzing."""

from collections import Counter
from collections.abc import Hashable, Sequence
from random import Random
from typing import Final

from tcpassay.plan import model
from tcpassay.plan.expand import Case
from tcpassay.plan.sequence import below
from tcpassay.result_format import GenerationRow, GuidedRow, ReachedRow
from tcpassay.search.evolution import stream
from tcpassay.search.feedback import Feedback, Kind, Ran, Rarity
from tcpassay.search.space import SearchSpace, Values
from tcpassay.search.spending import Spending

NEWCOMERS: Final = 0.5
"""Share of new cases that are drawn at random, because changed cases stay similar to those of a small array."""
CROSSED: Final = 0.3
"""Share of the other new cases that have two parents."""
MOST_CHANGES: Final = 6
"""Maximum number of changes of a new case; each number is equally likely. Faults need up to six values together."""


class Guided:
    """A guided plan in progress."""

    def __init__(
        self, space: SearchSpace, strategy: model.Guided, spending: Spending, feedback: Feedback
    ) -> None:
        self.space = space
        self.strategy = strategy
        self.spending = spending
        self.feedback = feedback
        self.corpus: list[tuple[Case, frozenset[Hashable]]] = []
        """The corpus: cases that reached a new feature, with all their features."""
        self.path: list[GenerationRow] = []
        """The numbers of reached features after each generation."""
        self.generations = 0
        self.ended = ""
        self._known: set[str] = set()
        self._rarity = Rarity()
        self._counts: Counter[Kind] = Counter()

    def tell(self, generation: Sequence[tuple[Case, Sequence[Ran]]]) -> None:
        """Receives the results of a generation, in its order."""
        for case, runs in generation:
            self.spending.spend(runs)
            self._known.add(case.id)
            features = self.feedback.features(runs)
            new = self._rarity.add(features)
            self._counts.update(kind for one in new if (kind := self.feedback.kind(one)) is not None)
            if new and case.expect == "done":
                self.corpus.append((case, features))
        self.generations += 1
        self.path.append({"runs": self.spending.used_runs, **self._reached()})

    def _reached(self) -> ReachedRow:
        counts = self._counts
        made: ReachedRow = {"behaviours": counts["behaviours"], "pairs": counts["pairs"]}
        if counts["lines"]:
            made |= {"lines": counts["lines"], "branches": counts["branches"]}
        return made

    def ask(self) -> list[Case]:
        """The next generation; empty at the end of the plan, whose reason is in `ended`."""
        wanted = self.spending.cases(self.strategy.generation)
        if wanted <= 0:
            self.ended = self.spending.ended()
            return []
        if not self.corpus:
            self.ended = "no case of the covering array reached anything"
            return []
        rng = stream(self.strategy.seed, self.generations)
        weights = self._weights()
        made: list[Case] = []
        while len(made) < wanted:
            case = self.space.new(lambda: self._child(rng, weights), self._known | {one.id for one in made})
            if case is None:
                self.ended = "" if made else "there are no more cases"
                break
            made.append(case)
        return made

    def _weights(self) -> list[float]:
        """Running sums of how rare the features of each case of the corpus are."""
        made, total = [], 0.0
        for _, features in self.corpus:
            total += self._rarity.of(features)
            made.append(total)
        return made

    def _child(self, rng: Random, weights: Sequence[float]) -> Values:
        if rng.random() < NEWCOMERS:
            return self.space.draw(rng)
        values = self.space.values(self._parent(rng, weights))
        if rng.random() < CROSSED:
            other = self.space.values(self._parent(rng, weights))
            values = {
                gene.name: gene.cross(values[gene.name], other[gene.name], rng) for gene in self.space.genes
            }
        genes = self.space.genes
        for _ in range(1 + below(rng, MOST_CHANGES)):
            gene = genes[below(rng, len(genes))]
            values[gene.name] = gene.mutate(values[gene.name], rng)
        return values

    def _parent(self, rng: Random, weights: Sequence[float]) -> Case:
        point = rng.random() * weights[-1]
        return self.corpus[next(n for n, upto in enumerate(weights) if point < upto or upto == weights[-1])][
            0
        ]

    def words(self) -> str:
        """The running generation and the numbers of reached features, in words."""
        lines = f", {self._counts['lines']} lines of the kernel" if self._counts["lines"] else ""
        return f"generation {self.generations + 1}, {self._counts['behaviours']} behaviours{lines}"

    def smallest(self) -> list[Case]:
        """Cases of the corpus that together have all its features, selected greedily, in the order of their runs."""
        left = set().union(*(features for _, features in self.corpus)) if self.corpus else set()
        chosen: set[int] = set()
        while left:
            place = max(
                (n for n in range(len(self.corpus)) if n not in chosen),
                key=lambda n: (len(self.corpus[n][1] & left), -n),
            )
            chosen.add(place)
            left -= self.corpus[place][1]
        return [case for n, (case, _) in enumerate(self.corpus) if n in chosen]

    def as_json(self) -> GuidedRow:
        """For `result.json`."""
        return {
            "kind": "guided",
            "generations": self.generations,
            "runs": self.spending.used_runs,
            "ended": self.ended,
            **self._reached(),
            "corpus": [case.id for case in self.smallest()],
            "path": self.path,
        }
