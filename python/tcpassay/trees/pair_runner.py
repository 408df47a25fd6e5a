"""Runs pairs of runs with event logs; the result of a pair, which is stored, is its first difference."""

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from tcpassay.errors import Place, UserError
from tcpassay.isolate import files
from tcpassay.isolate.experiment import Experiment, Trials, request_of
from tcpassay.isolate.ran import Effect, Ran, Runs
from tcpassay.isolate.runner import MOST_ATTEMPTS, Budget, ExhaustedError, Job
from tcpassay.isolate.triples import Triples
from tcpassay.messages import Answer, Outcome
from tcpassay.recording import Recording
from tcpassay.run.pool import Pool
from tcpassay.run.settings import limits_of
from tcpassay.trees.causes import FOLDER, Search, settings_of
from tcpassay.trees.groups import Kind, kind_of
from tcpassay.trees.pairs import TreePair

STORED: Final = "kinds.sqlite"
"""The file that holds the first differences of the pairs that were run."""
_KIND: Final = "first-difference"
_BEFORE: Final = "before the first difference"


def effect_of(kind: str) -> Effect:
    """What a pair shows whose first difference is of this kind."""
    return Effect(_KIND, "info", kind)


def effects_of(kind: Kind | None) -> frozenset[Effect]:
    """What a pair with this first difference shows."""
    if kind is None:
        return frozenset()
    return frozenset({effect_of(kind.text), *(Effect(_BEFORE, "info", name) for name in kind.quiet)})


def kind_shown(ran: Ran) -> Kind | None:
    """The inverse of `effects_of`."""
    if not ran.resolved:
        return Kind(f"no run ended: {ran.outcome}")
    titles = {
        name: sorted(one.title for one in ran.effects if one.oracle == name) for name in (_KIND, _BEFORE)
    }
    return Kind(titles[_KIND][0], tuple(titles[_BEFORE])) if titles[_KIND] else None


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
        self.watch: Callable[[int], None] = lambda _: None
        """Called with the number of pairs that were run since `begin`."""
        self.begin(Budget())

    def begin(self, budget: Budget) -> None:
        """Begins with a budget; stored pairs are free."""
        self._budget, self._begun, self._made = budget, time.monotonic(), 0

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
    kind = _kind_of_runs(*places, (base.outcome, head.outcome)) if ended else None
    return Ran(
        str(Outcome.DONE) if ended else base.outcome,
        base.message or head.message,
        f"{base.trace} {head.trace}",
        effects_of(kind),
        base.cpu_s + head.cpu_s,
    )


def _kind_of_runs(base: Path, head: Path, outcomes: tuple[str, str]) -> Kind | None:
    """The kind of the first difference of two runs in folders; `None` if their event logs are identical."""
    if set(outcomes) != {Outcome.DONE}:
        return Kind(f"{outcomes[0]} on base, {outcomes[1]} on head")
    try:
        return kind_of(Recording.open(base), Recording.open(head))
    except UserError as error:
        return Kind(f"unknown: {error}")


@contextmanager
def pair_runner(where: Search) -> Iterator[PairRunner]:
    """A runner with the stored pairs of the results."""
    meaning = files.meaning(where.kernels, ()) | {"effects": "first differences with what differs before"}
    runs = Runs(where.folder / FOLDER, meaning, STORED)
    with closing(runs), closing(PairRunner(where, runs)) as runner:
        yield runner


def experiment_of(where: Search, runner: PairRunner, pair: TreePair, kind: str) -> tuple[Experiment, Triples]:
    """The experiment whether settings of a pair have a first difference of this kind, and all of these settings."""
    setting, always, whole = settings_of(where, pair)
    experiment = Experiment(
        runner,
        setting,
        Trials.of(pair.seed, 1, real_time=False),
        effect_of(kind),
        request_of(where.spec, where.kernels[1], where.base, []),
        always,
    )
    return experiment, whole
