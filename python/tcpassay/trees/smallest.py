"""The smallest settings with which the first event that differs between two kernels is of the kind of a group."""

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

from tcpassay.errors import Place, UserError
from tcpassay.isolate import files
from tcpassay.isolate.experiment import Experiment, Trials, request_of
from tcpassay.isolate.ran import Effect, Ran, Runs
from tcpassay.isolate.runner import MOST_ATTEMPTS, ExhaustedError, Job
from tcpassay.isolate.triples import DURATION, triples_of
from tcpassay.messages import Answer, Outcome
from tcpassay.run.pool import Pool
from tcpassay.run.settings import limits_of
from tcpassay.trees.causes import FOLDER, Search, TreeCause, reduced, setting_of, suspicion_of
from tcpassay.trees.examples import MOST_SHOWN
from tcpassay.trees.grouping import kind_of_runs
from tcpassay.trees.groups import Group
from tcpassay.trees.pairs import TreePair

STORED: Final = "kinds.sqlite"
"""The file that holds the first differences of the pairs that were run."""


def effect_of(kind: str) -> Effect:
    """What a pair shows whose first difference is of this kind."""
    return Effect("first-difference", "info", kind)


class PairRunner:
    """Runs pairs with event logs; a result is the first difference of a pair. Has the methods of `Runner`."""

    def __init__(self, where: Search, runs: Runs) -> None:
        """The pairs run on the kernels of `where`, and are stored in `runs`."""
        self.jobs: Final = max(1, where.jobs // 2)
        """Number of pairs at a time."""
        self._kernels = where.kernels
        self._work = where.folder / FOLDER / ".pairs"
        self._runs = runs
        self._pool = Pool(where.jobs, limits_of(where.spec), stay=True)
        self._known: dict[str, Ran] = {}
        self._budget = where.budget
        self.watch: Callable[[int], None] = lambda _: None
        """Called with the number of pairs that were run for a group."""
        self.begin()

    def begin(self) -> None:
        """Begins the budget again."""
        self._begun, self._made = time.monotonic(), 0

    def known(self, key: str) -> Ran | None:
        """The result of a stored pair."""
        if key not in self._known and (ran := self._runs.get(key)) is not None:
            self._known[key] = ran
        return self._known.get(key)

    def run(self, jobs: Sequence[Job]) -> list[Ran]:
        """The results of the jobs, in their order. Raises `ExhaustedError` if the budget is used up before."""
        waiting = {job.key: job for job in jobs if self.known(job.key) is None}
        left = list(waiting.values())
        while left:
            some, left = left[: self.jobs], left[self.jobs :]
            if self._exhausted(len(some)):
                raise ExhaustedError
            for job, ran in zip(some, self._pairs(some), strict=True):
                self._runs.put(job.key, ran)
                self._known[job.key] = ran
            self._made += len(some)
            self.watch(self._made)
        return [self._known[job.key] for job in jobs]

    def _exhausted(self, more: int) -> bool:
        """Whether the budget does not suffice for further pairs, each of two runs."""
        budget = self._budget
        if budget.seconds is not None and time.monotonic() - self._begun > budget.seconds:
            return True
        return budget.runs is not None and 2 * (self._made + more) > budget.runs

    def _pairs(self, jobs: Sequence[Job]) -> Iterator[Ran]:
        places = [(self._work / f"{job.key}-base", self._work / f"{job.key}-head") for job in jobs]
        requests = [
            replace(job.request, substrate=kernel, folder=str(place), keep=True, keep_events=True)
            for job, both in zip(jobs, places, strict=True)
            for kernel, place in zip(self._kernels, both, strict=True)
        ]
        answers: dict[int, Answer] = {}
        for _ in range(MOST_ATTEMPTS):
            open_ = [n for n in range(len(requests)) if n not in answers or answers[n].outside]
            for some in self._pool.run([requests[n] for n in open_]):
                answers |= {open_[index]: answer for index, answer in some}
        try:
            for number, both in enumerate(places):
                yield pair_of(both, (answers[2 * number], answers[2 * number + 1]))
        finally:
            shutil.rmtree(self._work, ignore_errors=True)

    def close(self) -> None:
        """Ends the processes."""
        self._pool.close()
        shutil.rmtree(self._work, ignore_errors=True)


def pair_of(places: tuple[Path, Path], answers: tuple[Answer, Answer]) -> Ran:
    """The result of a pair as that of one run. Raises `UserError` if a recording cannot be written."""
    base, head = answers
    for answer, place in zip(answers, places, strict=True):
        if answer.outcome == "unwritable":
            raise UserError(f"a run cannot be written: {answer.message}", Place(place))
    # Where neither run ended, the pair shows nothing.
    ended = Outcome.DONE in {base.outcome, head.outcome}
    kind = kind_of_runs(*places, (base.outcome, head.outcome)) if ended else None
    return Ran(
        str(Outcome.DONE) if ended else base.outcome,
        base.message or head.message,
        f"{base.trace} {head.trace}",
        frozenset() if kind is None else frozenset({effect_of(kind.text)}),
        base.cpu_s + head.cpu_s,
    )


def smallest(
    where: Search, groups: Sequence[Group], identical: Sequence[TreePair], watch: Callable[[str], None]
) -> list[Group]:
    """The groups with the smallest settings of the first of them; the budget of `where` holds for each."""
    if not groups or where.budget.runs == 0 or where.budget.seconds == 0:
        return list(groups)
    runs = Runs(
        where.folder / FOLDER, files.meaning(where.kernels, ()) | {"effects": "first differences"}, STORED
    )
    made = []
    with closing(runs), closing(PairRunner(where, runs)) as runner:
        for number, group in enumerate(groups[:MOST_SHOWN], 1):
            said = f"settings of group {number} of {min(len(groups), MOST_SHOWN)}"
            runner.watch = lambda count, said=said: watch(f"{said}, {count} pairs")  # type: ignore[misc]
            runner.begin()
            others = [pair for other in groups if other is not group for pair in other.pairs]
            made.append(replace(group, smallest=_smallest(where, runner, group, [*others, *identical])))
    return [*made, *groups[MOST_SHOWN:]]


def _smallest(
    where: Search, runner: PairRunner, group: Group, others: Sequence[TreePair]
) -> TreeCause | None:
    """The smallest settings of the example of a group; `None` if its first difference is another one this time."""
    pair = group.example
    said = triples_of(pair.head["triples"])
    always = frozenset(one for one in said if one.path == DURATION)
    setting = setting_of(where)
    experiment = Experiment(
        runner,
        setting,
        Trials.of(pair.seed, 1, real_time=False),
        effect_of(group.kind),
        request_of(where.spec, where.kernels[1], where.base, []),
        always,
    )
    whole = setting.beyond_defaults(said) - always
    try:
        if not experiment.rates([whole])[0].present:
            return None
    except ExhaustedError:
        return None
    return reduced(experiment, whole, suspicion_of(whole, group.pairs, others), pair)
