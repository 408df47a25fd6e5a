"""A question about the values of factors, answered with as many seeds as it needs.

Each candidate (a value of the factor, or a combination of several) runs in every environment of the plan (the other
factors) with the seeds 1 to n. After each batch the candidates are compared in pairs by the signed-rank test of
`compare --between`, whose unit is the seed, averaged over the environments. Look k spends alpha / (k (k + 1)) of the
error, divided among the pairs of candidates (Holm). These shares sum to alpha, so that all statements of all looks
hold together with the confidence, whatever the number of looks and whenever the runs end (the union bound; an
alpha-spending plan without assumptions about the metric, after Lan and DeMets, "Discrete Sequential Boundaries for
Clinical Trials", 1983).

A candidate to which another one is better at a look cannot be the best, and does not run with further seeds. The error
of later looks is still divided by the number of all pairs: which candidates are left depends on the same runs that are
tested, so that dividing by fewer would not bound the error.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from tcpassay import interface, levels
from tcpassay.compare import Options, Ranking, Rankings, between, cases_of
from tcpassay.compare.direction import direction
from tcpassay.compare.effect import Verdict
from tcpassay.conditions import Condition, Held, State, held
from tcpassay.errors import Place, UserError
from tcpassay.interface import Direction
from tcpassay.messages import Outcome
from tcpassay.plan.document import suggest
from tcpassay.plan.enough import CONTROLLERS, fewest
from tcpassay.plan.expand import Case, factors, show
from tcpassay.plan.idle import without_effect
from tcpassay.plan.quantity import quantity
from tcpassay.plan.read import Plan
from tcpassay.plan.table import parameters
from tcpassay.plural import few, plural
from tcpassay.results import Results
from tcpassay.substrate import substrate_of
from tcpassay.terminal import number

FIRST: Final = 2
"""Seeds of the first batch, which shows whether seeds make a difference at all."""
_GROWTH: Final = 1.5
"""The ratio of the numbers of seeds of two looks."""
_OF_TRANSFERS: Final = ("completion_", "round_", "slowdown_")
_ALIKE: Final = (Verdict.ALIKE, Verdict.IDENTICAL)
_HEADER: Final = "# Written by `tcpassay ask"


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked."""

    factors: tuple[str, ...]
    metric: str
    confidence: float
    relevant: float
    """A difference below this share does not matter."""
    budget: float
    """The largest number of runs."""
    seconds: float
    """The longest real time after which another batch begins."""
    conditions: tuple[Condition, ...] = ()
    """Limits that the answer must keep."""


class Ending(StrEnum):
    """Why no further runs were made."""

    DECIDED = "decided"
    ALIKE = "alike"
    """The best ones differ by less than what matters."""
    DETERMINISTIC = "deterministic"
    """All seeds give the same runs: the differences are facts."""
    NONE = "none"
    """No candidate keeps the conditions."""
    BUDGET = "budget"


@dataclass(frozen=True, slots=True)
class Dropped:
    """A candidate that cannot be the answer, because another one is better, or because it breaks a condition."""

    value: str
    better: str
    """Empty if it breaks a condition."""
    effect: str
    """From `value` to `better`, with its interval, or the condition."""
    seeds: int
    """Number of seeds with which this was decided; it ran with no others."""
    look: int

    @property
    def text(self) -> str:
        """The reason."""
        if not self.better:
            return f"{self.value} was dropped after {plural(self.seeds, 'seed')}: it breaks {self.effect}"
        return f"{self.value} was dropped after {plural(self.seeds, 'seed')}: {self.better} is better ({self.effect})"


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer."""

    question: Question
    ending: Ending
    rankings: Rankings
    """Of the candidates that were left before the last look."""
    seeds: int
    runs: int
    looks: int
    dropped: tuple[Dropped, ...] = ()
    """Candidates that were lost at a look."""
    beside: Rankings | None = None
    """The other metrics that the plan names, tested for themselves; `None` if it names none."""
    held: tuple[Held, ...] = ()
    """The conditions of the candidates that were left before the last look."""
    ended: str = ""
    """Why the runs ended without a decision, in words."""

    @property
    def costs(self) -> list[str]:
        """The other metrics in which the answer is worse than another candidate, each as a sentence."""
        first = next(iter(self.ranking.medians))
        made = []
        for ranking in self.beside.rankings if self.beside is not None else ():
            lost = [one for one in ranking.against if one.value == first and one.verdict is Verdict.WORSE]
            if lost:
                best = next(iter(ranking.medians))
                made.append(f"But its {ranking.metric} is worse than with {best}: {lost[0].effect}.")
        return made

    @property
    def earlier(self) -> list[Dropped]:
        """Those that the last ranking does not have: lost before the last look, or because of a condition."""
        return [one for one in self.dropped if one.look < self.looks or not one.better]

    @property
    def ranking(self) -> Ranking:
        """The ranking for the metric."""
        return self.rankings.rankings[0]

    @property
    def text(self) -> str:
        """The answer as a paragraph."""
        if self.ending is Ending.NONE:
            wished = " and ".join(one.text for one in self.question.conditions)
            broken = " ".join(f"{one.text}." for one in self.dropped)
            return (
                f"No value meets {wished}. {broken} {plural(self.seeds, 'seed')}, {plural(self.runs, 'run')}."
            )
        ranking, question = self.ranking, self.question
        unit = interface.METRICS[question.metric].unit
        first = next(iter(ranking.medians))
        median = number(ranking.medians[first], unit)
        others = {one.value: one for one in ranking.against}
        sure = f"With a confidence of {100 * question.confidence:g} % for all statements together"
        worse = [one for one in others.values() if one.verdict is Verdict.WORSE]
        alike = [one.value for one in others.values() if one.verdict in _ALIKE]
        open_ = [one for one in others.values() if one.verdict is Verdict.UNDECIDED]
        sure_of = "has its best median" if self.ending is Ending.BUDGET else "is best"
        over = f", each the geometric mean over {few(self.rankings.over)}" if self.rankings.over else ""
        said = [f"{question.metric} {sure_of} with {first}: {median} (median of the seeds{over})."]
        mine = [one for one in self.held if one.value == first]
        if met := [one.text for one in mine if one.state is State.HOLDS]:
            said.append(f"It meets {' and '.join(met)}.")
        if doubtful := [one.text for one in mine if one.state is State.OPEN]:
            said.append(f"It is not decided whether it meets {' and '.join(doubtful)}.")
        if self.ending is Ending.DETERMINISTIC:
            facts = "; ".join(f"{one.value} {one.effect}" for one in others.values())
            said.append(f"All seeds give the same runs, so that the differences are facts: {facts}.")
        if worse:
            said.append(
                f"{sure}, it is better than "
                + "; ".join(f"{one.value} ({one.effect})" for one in worse)
                + "."
            )
        if alike and self.ending is not Ending.DETERMINISTIC:
            said.append(f"It differs by less than {100 * question.relevant:g} % from {', '.join(alike)}.")
        said += [f"{one.text}." for one in self.earlier]
        if open_:
            needed = [one.needed for one in open_ if one.needed is not None and one.needed > self.seeds]
            more = f"; about {max(needed)} seeds would decide" if needed else ""
            named = ", ".join(f"{one.value} ({one.effect})" for one in open_)
            said.append(f"It is not decided whether it is better than {named}{more}.")
        said += self.costs
        looks = f", {plural(self.looks, 'look')}" if self.looks else ""
        ended = f"; {self.ended}" if self.ended else ""
        said.append(f"{plural(self.seeds, 'seed')}, {plural(self.runs, 'run')}{looks}{ended}.")
        return " ".join(said)

    def as_json(self) -> dict[str, object]:
        """The answer for programs."""
        return {
            "text": self.text,
            "ending": self.ending,
            "best": [next(iter(self.ranking.medians)), *self._level_with()],
            "seeds": self.seeds,
            "runs": self.runs,
            "looks": self.looks,
            "dropped": [asdict(one) for one in self.dropped],
            "conditions": [asdict(one) for one in self.held],
            "beside": None if self.beside is None else self.beside.as_json(),
            **self.rankings.as_json(),
        }

    def _level_with(self) -> list[str]:
        return [one.value for one in self.ranking.against if one.verdict in _ALIKE]


def understood(plan: Plan, choose: Sequence[str], metric: str | None, question: Question) -> Question:
    """The question with its defaults. Raises `UserError` for wishes that contradict each other or the plan."""
    place = Place(plan.file)
    varies = {name: [level.value for level in among] for name, among in factors(plan.spec).items()}
    several = [name for name, values in varies.items() if len(values) > 1]
    if plan.spec.strategy.kind != "full":
        raise UserError(f"`ask` needs the strategy `full`; this plan has `{plan.spec.strategy.kind}`", place)
    names = [_factor(name, several, place) for name in choose] or _usual(several, place)
    chosen = metric or next(iter(plan.spec.metrics), None)
    if chosen is None:
        raise UserError("name the metric with --metric: the plan has no `metrics`", place)
    if chosen not in interface.METRICS:
        hint = suggest(chosen, interface.METRICS) or "; `tcpassay metrics` lists them"
        raise UserError(f"`--metric {chosen}`: no such metric{hint}")
    if direction(chosen) is Direction.NEITHER:
        raise UserError(
            f"`--metric {chosen}`: neither large nor small values of it are better, so that none is best"
        )
    made = Question(
        tuple(names),
        chosen,
        question.confidence,
        question.relevant,
        question.budget,
        question.seconds,
        question.conditions,
    )
    for metric_ in (chosen, *(one.metric for one in made.conditions)):
        _measurable(plan, metric_)
    _reachable(plan, made)
    least = first_look(plan, made) * len(plan.cases)
    if least > made.budget:
        seeds = plural(first_look(plan, made), "seed")
        raise UserError(
            f"`--budget {made.budget:g}`: {candidates(plan, made)} candidates at {100 * made.confidence:g} % need "
            f"{seeds} before anything can be decided, which are {least:,} runs; raise the budget, lower the "
            "confidence or compare fewer values"
        )
    return made


def _factor(name: str, several: Iterable[str], place: Place) -> str:
    meant = [path for path in several if name in {path, path.rpartition(".")[2]}]
    if len(meant) != 1:
        listed = ", ".join(f"`{path}`" for path in several) or "nothing"
        raise UserError(f"`--choose {name}`: the plan varies {listed}{suggest(name, several)}", place)
    return meant[0]


def _usual(several: Sequence[str], place: Place) -> list[str]:
    """The only factor, or the controller."""
    if len(several) == 1:
        return list(several)
    for name in CONTROLLERS:
        if name in several:
            return [name]
    listed = ", ".join(f"`{path}`" for path in several)
    raise UserError(f"say with --choose what to choose: the plan varies {listed or 'nothing'}", place)


def _measurable(plan: Plan, metric: str) -> None:
    """Raises `UserError` if no case can have the metric."""
    place = Place(plan.file)
    kinds = {show(case.triples.get("app.workload", "bulk")).partition(":")[0] for case in plan.cases}
    endless = all(
        show(case.triples.get("app.workload", "bulk")) == "bulk"
        and show(case.triples.get("app.flow_size", "endless")) == "endless"
        for case in plan.cases
    )
    if metric.startswith("round_") and "incast" not in kinds:
        raise UserError(
            f"`{metric}` is never measured: no case has rounds; set `app.workload` to `incast`", place
        )
    if metric.startswith(_OF_TRANSFERS) and endless:
        raise UserError(
            f"`{metric}` is never measured: the flows of all cases are endless and nothing completes; set "
            "`app.workload` to `rpc`, or `app.flow_size`",
            place,
        )


def _reachable(plan: Plan, question: Question) -> None:
    """Raises `UserError` if no run can differ, or if the time does not suffice."""
    _effective(plan, question)
    if all(substrate_of(name).real_time for name in plan.spec.substrates):
        seeds = first_look(plan, question)
        length = sum(map(_duration, plan.cases))
        if seeds * length > question.seconds:
            raise UserError(
                f"`--time {question.seconds:g}`: nothing can be decided before {plural(seeds, 'seed')} of each case, "
                f"which take {seeds * length:.0f} s in real time; raise it, or compare fewer or shorter cases"
            )


def _duration(case: Case) -> float:
    """The seconds that a run of a case takes at least; 0 if it ends when the applications have ended."""
    amount = quantity(show(case.triples.get("app.duration", parameters()["app.duration"].default)))
    return float(amount.amount) / 1e9 if amount.ordered else 0.0


def _effective(plan: Plan, question: Question) -> None:
    """Raises `UserError` if all settings of a chosen factor have no effect in any case."""
    idle = without_effect(plan.spec, plan.cases)
    for name in question.factors:
        varies = {path for level in factors(plan.spec)[name] for path in level.triples}
        if varies <= idle.keys():
            why = "; ".join(idle[path] for path in varies)
            raise UserError(f"`--choose {name}`: no value is better than another: {why}", Place(plan.file))


def candidates(plan: Plan, question: Question) -> int:
    """The number of values or combinations to choose from."""
    return len({tuple(show(case.varied[name]) for name in question.factors) for case in plan.cases})


def share(question: Question, look: int) -> float:
    """The error that a look may spend, from 1."""
    return (1 - question.confidence) / (look * (look + 1))


def first_look(plan: Plan, question: Question) -> int:
    """The number of seeds with which the first look can decide."""
    return _least(plan, question, 1)


def _tests(question: Question, count: int) -> int:
    """The number of tests of a look: the pairs of candidates, and the conditions of each."""
    return max(1, count * (count - 1) // 2) + count * len(question.conditions)


def _least(plan: Plan, question: Question, look: int) -> int:
    return max(FIRST + 1, fewest(share(question, look) / _tests(question, candidates(plan, question))))


def answered(
    plan: Plan,
    question: Question,
    run: Callable[[int, Mapping[str, int]], Results],
    clock: Callable[[], float] = time.monotonic,
) -> Answered:
    """Runs batches until the question is decided or the budget ends.

    `run` makes the runs of the seeds 1 to n; a case in its second argument has no seeds above the one given there.
    """
    began = clock()
    results = run(FIRST, {})
    beside = [name for name in plan.spec.metrics if name != question.metric]
    if _deterministic(results):
        made = _answer(question, Ending.DETERMINISTIC, results, FIRST, 0, ())
        return replace(made, beside=_beside(question, results, beside))
    of_case = cases_of(results, question.factors)
    seeds, look = first_look(plan, question), 0
    dropped: tuple[Dropped, ...] = ()
    while True:
        stopped = _stopped(of_case, dropped)
        results = run(seeds, stopped)
        look += 1
        made = _answer(question, Ending.BUDGET, results, seeds, look, dropped)
        dropped = made.dropped
        if (ending := _ending(made)) is not None:
            return replace(made, ending=ending, beside=_beside(question, results, beside))
        stopped = _stopped(of_case, dropped)
        further = max(math.ceil(_GROWTH * seeds), _least(plan, question, look + 1))
        total = sum(stopped.get(case, further) for case in of_case)
        ended = f"--time of {question.seconds:g} s is over"
        if total > question.budget:
            ended = f"the next look needs {total:,} runs, more than --budget {question.budget}"
        if total > question.budget or clock() - began > question.seconds:
            return replace(made, beside=_beside(question, results, beside), ended=ended)
        seeds = further


def _ending(made: Answered) -> Ending | None:
    """The end of the runs, if the last look decided."""
    if made.ending is Ending.NONE:
        return Ending.NONE
    lost = {one.value for one in made.dropped}
    left = [value for value in made.ranking.medians if value not in lost]
    if any(one.state is State.OPEN and one.value in left for one in made.held):
        return None
    if len(left) == 1:
        return Ending.DECIDED
    alike = all(one.verdict in _ALIKE for one in made.ranking.against if one.value in left)
    return Ending.ALIKE if alike else None


def _beside(question: Question, results: Results, metrics: Sequence[str]) -> Rankings | None:
    """All candidates for other metrics, at the confidence of the question."""
    if not metrics:
        return None
    options = Options(confidence=question.confidence, metrics=tuple(metrics), relevant=question.relevant)
    return between(results, list(question.factors), None, options)


def _stopped(of_case: Mapping[str, str], dropped: Iterable[Dropped]) -> dict[str, int]:
    """The number of seeds of each case of a dropped candidate."""
    seeds = {one.value: one.seeds for one in dropped}
    return {case: seeds[value] for case, value in of_case.items() if value in seeds}


def _answer(  # noqa: PLR0913, PLR0917 - the parts of an answer
    question: Question,
    ending: Ending,
    results: Results,
    seeds: int,
    look: int,
    dropped: tuple[Dropped, ...],
) -> Answered:
    of_case = cases_of(results, question.factors)
    among = dict.fromkeys(of_case.values())
    tests = _tests(question, len(among))
    level = share(question, max(look, 1)) / tests
    lost = {one.value for one in dropped}
    runs = levels.measured(results.runs)
    facts = ending is Ending.DETERMINISTIC
    left = [value for value in among if value not in lost]
    states = tuple(held(runs, of_case, left, question.conditions, level, facts=facts))
    broken = {one.value: one for one in states if one.state is State.FAILS}
    new = [Dropped(value, "", one.text, seeds, look) for value, one in broken.items()]
    left = [value for value in left if value not in broken]
    done = sum(run.get("outcome") == Outcome.DONE for run in results.runs)
    # Pairs share the error of the look with the conditions.
    pairs = _tests(replace(question, conditions=()), len(among))
    options = Options(confidence=1 - level * pairs, metrics=(question.metric,), relevant=question.relevant)
    shown = left if len(left) > 1 else list(among)
    rankings = between(results, list(question.factors), None, options, among=shown)
    if not rankings.rankings or not rankings.rankings[0].medians:
        raise UserError(f"no run has a value of `{question.metric}`", Place(results.folder))
    ranking = rankings.rankings[0]
    if len(left) == 1:
        ranking = replace(
            ranking,
            medians={left[0]: ranking.medians[left[0]]},
            best=(left[0],),
            better=(),
            against=(),
            undecided=(),
        )
        rankings = replace(rankings, rankings=(ranking,))
    # One that may break a condition excludes no other. Of several that are better, the one with the best median.
    sure = set(left) - {one.value for one in states if one.state is State.OPEN}
    order = list(ranking.medians)
    better = sorted(
        (one for one in ranking.better if one.value in sure), key=lambda one: order.index(one.value)
    )
    reasons = {one.than: one for one in reversed(better)}
    new += [Dropped(one.than, one.value, one.effect, seeds, look) for one in reasons.values()]
    ending = ending if left else Ending.NONE
    return Answered(question, ending, rankings, seeds, done, look, (*dropped, *new), None, states)


def _deterministic(results: Results) -> bool:
    """Whether the seeds of each case gave the same run."""
    traces: dict[str, set[str]] = {}
    for run in levels.measured(results.runs):
        traces.setdefault(run.case, set()).add(run.trace or str(run.seed))
    return bool(traces) and all(len(of_case) == 1 for of_case in traces.values())


def plan_text(plan: Plan, seeds: int) -> str:
    """The plan of an answer: the given one with other seeds."""
    listed = ", ".join(map(str, range(1, seeds + 1)))
    quoted = plan.file.name.replace("\\", "\\\\").replace('"', '\\"')
    name = f"{plan.spec.name}-ask"
    return (
        f"{_HEADER} {plan.file.name}`: the plan with as many seeds as the answer needed.\n"
        f'name = "{name}"\nextends = "{quoted}"\nseeds = [{listed}]\n'
    )


def plan_file(plan: Plan) -> Path:
    """Where the plan of an answer is written, beside the given one. Raises `UserError` for a file of somebody else."""
    file = plan.file.with_name(f"{plan.file.stem}-ask.toml")
    if file.exists() and not file.read_bytes().startswith(_HEADER.encode()):
        raise UserError("it was not written by `tcpassay ask`; rename it", Place(file))
    return file
