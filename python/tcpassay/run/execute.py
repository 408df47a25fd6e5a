"""Execution of the pending runs of a session: cases to processes, answers to the journal, then checks and figures."""

import contextlib
import itertools
import shutil
import time
from collections import Counter, deque
from collections.abc import Generator, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

from tcpassay import figures, regular
from tcpassay.errors import Place, UserError
from tcpassay.guard import Stop
from tcpassay.messages import Answer, CaseRequest, Outcome
from tcpassay.result_format import RunKey
from tcpassay.run import checks
from tcpassay.run.environment import load
from tcpassay.run.folder import RECORDINGS, Folder, UnwritableError
from tcpassay.run.journal import Claim, NoSpaceError
from tcpassay.run.pool import Limits, Pool
from tcpassay.run.result import Result, Run, Status
from tcpassay.run.session import Session
from tcpassay.run.settings import Settings

MOST_ATTEMPTS: Final = 3
"""Maximum number of attempts of a run whose process is killed from outside."""


class Executor(Protocol):
    """An executor runs requests and yields indices and answers as they complete, several at a time.

    An answer with `kept` has left its recording in the `folder` of the request.
    """

    name: str
    jobs: int

    def run(self, requests: Iterable[CaseRequest], limits: Limits) -> Generator[list[tuple[int, Answer]]]:
        """Runs all requests; a request is taken when a process is available for it."""


class Local:
    """Processes on this machine."""

    name = "local"

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs

    def run(self, requests: Iterable[CaseRequest], limits: Limits) -> Generator[list[tuple[int, Answer]]]:
        """Runs all requests."""
        return Pool(self.jobs, limits).run(requests)


class Watch(Protocol):
    """The interface for progress."""

    def begin(self, runs: Iterable[Run]) -> None:
        """Receives all runs, including those that ended before."""

    def finished(self, run: Run) -> None:
        """Receives a run that ended."""

    def grown(self, most: int, said: str) -> None:
        """Receives how many runs there are or will be at most, and what a search has found so far, in words."""


class Paused(Exception):  # noqa: N818 - the condition, not a program error
    """A host of a testbed failed, and its testbed file says that the runs pause then."""


class Full(Exception):  # noqa: N818 - the condition, not a program error
    """Results cannot be written."""


def execute(session: Session, executor: Executor, watch: Watch | None = None) -> Result:
    """Runs all pending runs.

    After an interrupt, a time limit or a full disk the results of the ended runs are readable.

    Raises `UserError` if the results cannot be written; the run can then be resumed.
    """
    with Stop() as stop:
        return _execute(session, executor, watch, stop)


def _execute(session: Session, executor: Executor, watch: Watch | None, stop: Stop) -> Result:
    settings = Settings.of(session.plan)
    status: Status = "complete"
    drawn = figures.Drawn()
    reason = paused = ""
    try:
        session.folder.begin_work()
        session.begin_work(executor.jobs, executor.name, load())
        begun = session.result("running")
        session.write(begun)
        if watch:
            watch.begin(begun.runs)
            _tell(session, watch)
        if not _run_all(session, settings, executor, watch, stop):
            status = "budget"
        elif session.plan.spec.figure:
            so_far = session.result("running")
            done = {(run.case.id, run.seed) for run in so_far.runs if run.kept}
            drawn = figures.draw(session.plan, session.folder, done, so_far.measured())
        # Writing the result is fast, and a further interrupt must not interrupt it.
        stop.ignore()
    except KeyboardInterrupt:
        stop.ignore()
        status = "interrupted"
    except Paused as pause:
        stop.ignore()
        status, paused = "paused", str(pause)
    except (Full, NoSpaceError, UnwritableError) as error:
        stop.ignore()
        status, reason = "no space", str(error)
    try:
        result = _conclude(session, settings, status, drawn)
    except (OSError, NoSpaceError, UnwritableError) as error:
        raise _stopped(session, reason or str(error)) from error
    if reason:
        raise _stopped(session, reason)
    return replace(result, reason=paused)


def _conclude(session: Session, settings: Settings, status: Status, drawn: figures.Drawn) -> Result:
    session.folder.end_work()
    session.end_work(load())
    result = session.result(status, settings.judges)
    if status == "complete":
        measured = {(run.case.id, run.seed): run.metrics for run in result.runs if run.done}
        result.verdicts.extend(checks.judge(session.plan, measured))
        result.figures.extend(drawn.files)
        result.figure_problems.extend(drawn.problems)
    session.write(result)
    return result


def _stopped(session: Session, reason: str) -> UserError:
    counts = session.journal.counts()
    ended = counts.total - counts.waiting - counts.running
    message = (
        f"stopped, the results cannot be written: {reason}; {ended} of {counts.total} runs are safe: make space, then "
        f"`tcpassay run --resume {session.folder.path}`"
    )
    return UserError(message, Place(session.folder.path))


def _run_all(
    session: Session, settings: Settings, executor: Executor, watch: Watch | None, stop: Stop
) -> bool:
    """Whether no run is pending and there are no further ones; false if the time limit was reached."""
    ends = None if settings.budget is None else time.monotonic() + settings.budget
    killed: Counter[int] = Counter()
    while True:
        while session.journal.counts().waiting:
            stop.check()
            if ends is not None and time.monotonic() > ends:
                return False
            _run_some(session, settings, executor, watch, ends, killed, stop)
        stop.check()
        new = session.grow()
        if not new:
            return True
        if watch:
            _tell(session, watch)


def _tell(session: Session, watch: Watch) -> None:
    """Reports the progress of a search to the display."""
    if session.growth is not None:
        runs = session.growth.strategy.spending.runs
        watch.grown(session.journal.counts().total if runs is None else runs, session.growth.words())


def _run_some(  # noqa: PLR0913, PLR0917 - what `_run_all` has
    session: Session,
    settings: Settings,
    executor: Executor,
    watch: Watch | None,
    ends: float | None,
    killed: Counter[int],
    stop: Stop,
) -> None:
    """Runs the pending runs; those ended from outside become pending again."""
    claims: dict[int, tuple[Claim, str]] = {}
    numbers = itertools.count()
    ahead: deque[Claim] = deque()
    base, work = str(session.base), str(session.folder.work)

    def requests() -> Iterator[CaseRequest]:
        while ends is None or time.monotonic() <= ends:
            claim = ahead.popleft() if ahead else session.journal.claim()
            if claim is None:
                return
            # The path is built directly, because this code is executed for tens of thousands of runs.
            place = f"{work}/{claim.number}-{claim.attempt}"
            claims[next(numbers)] = claim, place
            yield replace(_request(session, settings, claim), base=base, folder=place)

    with contextlib.closing(executor.run(requests(), settings.limits)) as answers:
        for some in answers:
            stop.check()
            come = ((*claims.pop(index), answer) for index, answer in some)
            ended = [
                (claim, answer)
                for claim, place, answer in come
                if _ended(session, claim, answer, place, killed)
            ]
            runs = session.finish(ended, ahead)
            for (claim, _), run in zip(ended, runs, strict=True):
                if watch and RunKey.of(claim.case).repetition == 1:
                    watch.finished(run)
    for claim in ahead:  # claimed shortly before the time limit of the plan
        session.journal.release(claim)


def _ended(session: Session, claim: Claim, answer: Answer, place: str, killed: Counter[int]) -> bool:
    """Whether an answer is final for the run; its recording is then moved to its place."""
    if answer.outcome == "unwritable":
        raise Full(answer.message)
    if answer.pause:
        session.journal.release(claim)
        raise Paused(answer.message)
    if answer.outside:
        # The process was killed from outside; its answer is not valid for the run.
        killed[claim.number] += 1
        if killed[claim.number] < MOST_ATTEMPTS:
            session.journal.release(claim)
            return False
    _take(session.folder, claim, answer, place)
    return True


def _request(session: Session, settings: Settings, claim: Claim) -> CaseRequest:
    key = RunKey.of(claim.case)
    request = settings.request(session.plan, session.cases[key.case], key.seed)
    return replace(request, keep=False, keep_found=False) if key.repetition > 1 else request


def _take(folder: Folder, claim: Claim, answer: Answer, workplace: str) -> None:
    """Moves the recording to its place, or removes the files of an incomplete run."""
    folder.owner.check()
    try:
        for within in (folder.work, folder.path / RECORDINGS):
            regular.no_link(within)  # whoever may change the folder may have replaced it meanwhile
        if answer.kept:
            key = RunKey.of(claim.case)
            place = folder.recording(key.case, key.seed)
            if place.exists():  # the run was made before, but its end was not recorded
                shutil.rmtree(place)
            Path(workplace).rename(place)
        elif answer.outcome not in {Outcome.DONE, Outcome.REFUSED}:
            made = Path(workplace)
            for left in (made, made.with_name(f".{made.name}.partial")):
                shutil.rmtree(left, ignore_errors=True)
    except OSError as error:
        raise Full(str(error)) from error
