"""The smallest settings with which two kernels differ, each proven by resetting it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tcpassay.errors import Place
from tcpassay.isolate import files, search
from tcpassay.isolate.cause import Reset
from tcpassay.isolate.experiment import Experiment, Trials, request_of
from tcpassay.isolate.ran import Runs
from tcpassay.isolate.runner import Budget, ExhaustedError, Runner
from tcpassay.isolate.symptoms import Suspicion
from tcpassay.isolate.triples import DURATION, Setting, Triple, Triples, contains, triples_of
from tcpassay.plan import constraint_parser
from tcpassay.plan.expand import show
from tcpassay.plan.model import PlanFile
from tcpassay.run.settings import limits_of
from tcpassay.trees.experiment import DIFFERENCE, PairExperiment, values_of
from tcpassay.trees.pairs import By, TreePair

FOLDER: Final = "differences"
INTERRUPTED: Final = "interrupted"
"""Why a search ended that was interrupted."""
_MOST_STRANGE: Final = 3
"""Number of pairs without a difference in a repetition, after which the search for causes ends."""


@dataclass
class TreeCause:
    """Settings with which the kernels differ, and the pairs that have them."""

    triples: tuple[Triple, ...]
    """Empty if the kernels differ with every parameter at its default."""
    pair: TreePair
    """The pair from which it was isolated."""
    complete: bool
    """Whether it is the smallest set; otherwise it is the smallest that was found within the budget."""
    proof: list[Reset] = field(default_factory=list)
    """Each triple reset, and whether the kernels are then identical."""
    explains: list[TreePair] = field(default_factory=list)

    @property
    def text(self) -> str:
        """In words."""
        return (
            ", ".join(map(self._text, self.triples))
            or "any settings: also with every parameter at its default"
        )

    def _text(self, triple: Triple) -> str:
        """A setting. The plan of a comparison of TCPs has another value in the place of the two that are compared."""
        both = [one.get("substrate") or "model" for one in (self.pair.base, self.pair.head)]
        names = [name.partition(":")[2] for name in both if name.startswith("model:")]
        if triple.parameter != "implementation" or triple.text == "model" or len(names) < len(both):
            return str(triple)
        return f"{triple.path}={' or '.join(names)}"

    def as_json(self) -> dict[str, object]:
        """The form for JSON."""
        return {
            "settings": {one.path: one.value for one in self.triples},
            "complete": self.complete,
            "proof": [row.as_json() for row in self.proof],
            "isolated_from": {"case": self.pair.head["case"], "seed": self.pair.seed},
            "explains": [{"case": one.head["case"], "seed": one.seed} for one in self.explains],
        }


@dataclass
class Causes:
    """All causes that were found."""

    found: list[TreeCause] = field(default_factory=list)
    left: list[TreePair] = field(default_factory=list)
    """Pairs that differ and that no cause explains."""
    runs: int = 0
    stopped: str = ""
    """Why the search ended early; empty if it did not."""


@dataclass(frozen=True)
class Search:
    """The input of the search for causes."""

    folder: Path
    base: str
    """The folder in which file names of cases start."""
    kernels: tuple[str, str]
    spec: PlanFile
    jobs: int
    budget: Budget
    by: By = "packets"


def causes(
    where: Search, different: Sequence[TreePair], identical: Sequence[TreePair], watch: Callable[[str], None]
) -> Causes:
    """The causes of pairs that differ in what counts, until none is left or the budget is used up."""
    made = Causes(left=list(different))
    if not different or where.budget.runs == 0 or where.budget.seconds == 0:
        made.stopped = "" if not different else "no budget"
        return made
    runs = Runs(where.folder / FOLDER, files.meaning(where.kernels, ()) | {"effects": "metrics"})
    try:
        with Runner(
            runs, where.folder / FOLDER / ".work", where.jobs, limits_of(where.spec), where.budget, values_of
        ) as runner:
            runner.watch = lambda count: watch(f"{count} runs")
            try:
                search_all(where, runner, identical, made)
            except KeyboardInterrupt:
                made.stopped = INTERRUPTED
            made.runs = runner.used
    finally:
        runs.close()
    return made


def search_all(where: Search, runner: Runner, identical: Sequence[TreePair], made: Causes) -> None:
    """Adds the causes of the pairs in `made.left`: that with the fewest triples first."""
    different, strange = list(made.left), 0
    open_ = list(made.left)
    while open_ and strange < _MOST_STRANGE:
        pair = min(open_, key=lambda one: len(one.head["triples"]))
        try:
            cause = _one(where, runner, pair, different, identical)
        except ExhaustedError:
            made.stopped = "the budget is used up"
            return
        if cause is None:
            strange += 1
            open_.remove(pair)
            continue
        cause.explains = [
            one
            for one in made.left
            if one is pair or (cause.complete and contains(one.head["triples"], cause.triples))
        ]
        made.found.append(cause)
        made.left = [one for one in made.left if one not in cause.explains]
        open_ = [one for one in open_ if one in made.left]
        if not cause.complete:
            made.stopped = "the budget is used up"
            return


def _one(
    where: Search,
    runner: Runner,
    pair: TreePair,
    different: Sequence[TreePair],
    identical: Sequence[TreePair],
) -> TreeCause | None:
    """The cause of one pair; `None` if it does not differ when it is run again."""
    setting, always, whole = settings_of(where, pair)
    experiment = PairExperiment(
        runner,
        setting,
        Trials.of(pair.seed, 1, real_time=False),
        DIFFERENCE,
        request_of(where.spec, where.kernels[1], where.base, []),
        always,
        kernels=where.kernels,
        by=where.by,
    )
    if not experiment.rates([whole])[0].present:
        return None
    return reduced(experiment, whole, suspicion_of(whole, different, identical), pair)


def settings_of(where: Search, pair: TreePair) -> tuple[Setting, Triples, Triples]:
    """Where the triples of a pair are tried, those that every trial has, and the others beyond the defaults."""
    said = triples_of(pair.head["triples"])
    always = frozenset(one for one in said if one.path == DURATION)
    setting = setting_of(where)
    return setting, always, setting.beyond_defaults(said) - always


def setting_of(where: Search) -> Setting:
    """Where the triples of pairs are tried."""
    constraints = tuple(
        constraint_parser.parse(text, Place(where.folder / "plan.toml")) for text in where.spec.constraints
    )
    return Setting(where.kernels[1], where.base, constraints, where.spec.groups)


def suspicion_of(whole: Triples, having: Sequence[TreePair], others: Sequence[TreePair]) -> Suspicion:
    """The evidence from the settings of the pairs that have an effect and of those that have not."""

    def values(pairs: Sequence[TreePair]) -> list[dict[str, str]]:
        triples = [one.head["triples"] for one in pairs]
        return [
            {one.path: show(them[one.path]) if one.path in them else one.default for one in whole}
            for them in triples
        ]

    return Suspicion.between(whole, values(having), values(others))


def reduced(experiment: Experiment, whole: Triples, suspicion: Suspicion, pair: TreePair) -> TreeCause:
    """The smallest of the settings of a pair that have the effect, which `whole` has."""
    try:
        found = search.smallest_set(experiment, whole, suspicion)
        cause = TreeCause(tuple(sorted(found, key=str)), pair, complete=True)
    except ExhaustedError:
        smallest = experiment.smallest if experiment.smallest is not None else whole
        return TreeCause(tuple(sorted(smallest, key=str)), pair, complete=False)
    try:
        cause.proof = search.proof(experiment, cause.triples)
    except ExhaustedError:
        cause.proof = []
    return cause
