"""Runs cases for an isolation: in parallel, each only once, within a budget."""

import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol, Self

from tcpassay.errors import Place, UserError
from tcpassay.isolate.ran import Effect, Ran, Runs
from tcpassay.messages import Answer, CaseRequest
from tcpassay.plan.quantity import quantity
from tcpassay.run.pool import Limits, Pool

MOST_ATTEMPTS: Final = 3
"""Maximum number of attempts of a run whose process is killed by another process."""


class ExhaustedError(Exception):
    """The budget is used up."""


class ChangedError(Exception):
    """A program was changed, so that further runs cannot be compared with those before."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The budget of one isolation; stored runs are free."""

    seconds: float | None = None
    """Seconds of real time."""
    runs: int | None = None

    @classmethod
    def of(cls, text: str) -> Self:
        """`60s` or `10min` of real time, or a number of runs. Raises `UserError`."""
        if re.fullmatch(r"[0-9]{1,9}", text):
            return cls(runs=int(text))
        amount = quantity(text)
        if amount.kind != "a length of time" or not amount.ordered or float(amount.amount) < 0:
            raise UserError(
                f"`--budget {text}`: give a time, as `60s` or `10min`, or a number of runs, as `200`"
            )
        return cls(seconds=float(amount.amount) / 1e9)


@dataclass(frozen=True, slots=True)
class Job:
    """A requested run."""

    key: str
    """The identity of a run: the case, the seed, and in real time the repetition."""
    request: CaseRequest
    """The request to a worker, without the folder of the recording."""


class RunsJobs(Protocol):
    """What an experiment needs of a `Runner`."""

    @property
    def jobs(self) -> int:
        """The number of jobs at a time."""

    def known(self, key: str) -> Ran | None:
        """The result of a stored run."""

    def run(self, jobs: Sequence[Job]) -> list[Ran]:
        """The results of the jobs, in their order. Raises `ExhaustedError` if the budget is used up before."""


class Runner:
    """Runs jobs in worker processes, and stores results and cost. Call `close`, or use it in a `with` statement."""

    def __init__(  # noqa: PLR0913, PLR0917 - what it runs with
        self,
        runs: Runs,
        work: Path,
        jobs: int,
        limits: Limits,
        budget: Budget,
        more: Callable[[Answer], Iterable[Effect]] | None = None,
        changed: Callable[[], str] = str,
    ) -> None:
        """`more` returns further effects of an answer, which no oracle reports, `changed` what was changed."""
        self.jobs = jobs
        self._changed = changed
        self._more = more
        self.made = 0
        """Number of executed runs, without stored results."""
        self.cpu_s = 0.0
        """CPU seconds of all requested runs, including those of an earlier, interrupted isolation."""
        self.used = 0
        """Number of different requested runs."""
        self._runs = runs
        self._work = work
        self._pool = Pool(jobs, limits, stay=True)
        self._budget = budget
        self._begun = time.monotonic()
        self._known: dict[str, Ran] = {}
        self.watch: Callable[[int], None] = lambda _: None
        """Called after each run with the number of executed runs."""

    @property
    def seconds(self) -> float:
        """Real time since the start in seconds."""
        return time.monotonic() - self._begun

    def known(self, key: str) -> Ran | None:
        """The result of a stored run."""
        if key not in self._known and (ran := self._runs.get(key)) is not None:
            self._know(key, ran)
        return self._known.get(key)

    def run(self, jobs: Sequence[Job]) -> list[Ran]:
        """The results of the jobs, in their order.

        Raises `ExhaustedError` if the budget is used up before, `ChangedError` if a program was changed.
        """
        waiting = {job.key: job for job in jobs if self.known(job.key) is None}
        self._make(list(waiting.values()))
        return [self._known[job.key] for job in jobs]

    def _make(self, jobs: list[Job], attempt: int = 1) -> None:
        again = []
        requests = (self._placed(job) for job in self._allowed(jobs))
        for some in self._pool.run(requests):
            for index, answer in some:
                job = jobs[index]
                shutil.rmtree(self._work / job.key, ignore_errors=True)
                if answer.outside and attempt < MOST_ATTEMPTS:
                    again.append(job)
                    continue
                if answer.outcome == "unwritable":
                    raise UserError(f"a run cannot be written: {answer.message}", Place(self._work))
                if what := self._changed():
                    raise ChangedError(f"{what} was changed meanwhile")
                ran = Ran.of(answer, () if self._more is None else self._more(answer))
                self._runs.put(job.key, ran)
                self._know(job.key, ran)
                self.made += 1
                self.watch(self.made)
        if again:
            self._make(again, attempt + 1)
        if any(job.key not in self._known for job in jobs):
            raise ExhaustedError

    def _allowed(self, jobs: list[Job]) -> Iterator[Job]:
        """The jobs that the remaining budget allows."""
        for begun, job in enumerate(jobs, self.made):
            if self._budget.seconds is not None and self.seconds > self._budget.seconds:
                return
            if self._budget.runs is not None and begun >= self._budget.runs:
                return
            yield job

    def _placed(self, job: Job) -> CaseRequest:
        return replace(job.request, folder=str(self._work / job.key))

    def _know(self, key: str, ran: Ran) -> None:
        self._known[key] = ran
        self.used += 1
        self.cpu_s += ran.cpu_s

    def close(self) -> None:
        """Ends the processes."""
        self._pool.close()
        shutil.rmtree(self._work, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
