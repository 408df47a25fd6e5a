"""A result folder in use: created, resumed, or extended.

The journal contains all data that must survive: the plan's text, the runs with their results, the active processes. The
other files can be recreated from it.
"""

import contextlib
import hashlib
import json
import random
import shutil
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

from tcpassay._native import __version__
from tcpassay.errors import Place, UserError
from tcpassay.messages import Answer, Outcome
from tcpassay.metric_table import MetricTable
from tcpassay.plan.expand import Case
from tcpassay.plan.read import Plan, read
from tcpassay.quantile import median
from tcpassay.result_format import NOT_RUN, DifferenceRow, Environment, RunKey, Work, WorkDone
from tcpassay.run import growth, inputs
from tcpassay.run.answers import answer_of, payload_of
from tcpassay.run.environment import environment, table_version
from tcpassay.run.folder import Folder, is_run
from tcpassay.run.growth import Growth, is_search
from tcpassay.run.journal import NAME as JOURNAL
from tcpassay.run.journal import Claim, Entry, Journal
from tcpassay.run.journal_rows import Json
from tcpassay.run.result import RESULT, Result, Run, Status
from tcpassay.search.files import plans
from tcpassay.substrate import substrate_of

_MOST_SHOWN: Final = 3
_BEGUN: Final = "begun"
"""The note with the options of a plan whose runs are not in the journal yet; empty afterwards."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """Options for starting the runs of a plan."""

    chosen: frozenset[str] | None = None
    """Only cases with these ids."""
    shuffle: int | None = None
    """The seed of a random order; `None` uses the order of the plan."""
    retry: frozenset[Outcome] = frozenset()
    """Runs with these outcomes are repeated."""
    stopped: Mapping[str, int] = field(default_factory=dict)
    """When a folder is extended: cases that run with no seed above this one."""

    def as_json(self) -> str:
        """The options that determine the runs of a new folder, for its journal."""
        chosen = None if self.chosen is None else sorted(self.chosen)
        return json.dumps({"chosen": chosen, "shuffle": self.shuffle})

    @classmethod
    def from_json(cls, text: str, path: Path) -> Self:
        """The inverse of `as_json`. Raises `UserError`."""
        try:
            said = json.loads(text)
            chosen = None if said["chosen"] is None else frozenset(map(str, said["chosen"]))
            return cls(chosen, None if said["shuffle"] is None else int(said["shuffle"]))
        except (KeyError, TypeError, ValueError, RecursionError):
            message = "the journal is damaged: its options of the plan have a wrong form"
            raise UserError(message, Place(path / JOURNAL)) from None


class Session:
    """An open result folder. Call `close`, or use it in a `with` statement."""

    def __init__(self, plan: Plan, folder: Folder, journal: Journal, damaged: int = 0) -> None:
        self.damaged = damaged
        """Number of ended runs that are damaged in the journal and are repeated."""
        self.plan = plan
        self.folder = folder
        self.journal = journal
        self.notes = journal.notes
        self.cases = {case.id: case for case in plan.cases}
        self._begun = False
        """Whether `begin_work` has ended."""
        self.growth = Growth.of(plan, self.base, self.notes)
        """The generations of a plan whose cases depend on results; `None` for other plans."""

    @classmethod
    def begin(cls, plan: Plan, out: Path, how: Beginning, *, replace_: bool) -> Self:
        """Creates the folder and its journal; on an error nothing is left behind. Raises `UserError`."""
        plan = _chosen(plan, how)
        folder = Folder.create(out, replace=replace_)
        with contextlib.ExitStack() as on_error:
            on_error.callback(folder.abandon)
            try:
                base, copied = inputs.copy(plan, plan.file.parent, folder.made)
            except OSError as error:
                reason = (error.strerror or type(error).__name__).lower()
                raise UserError(
                    f"a file that the plan names cannot be copied: {reason}", Place(out)
                ) from None
            notes = _notes(plan, base, copied)
            if folder.is_new:
                Journal.create(folder.made, _digest(plan), _cases(plan), _order(plan, how), notes)
            else:
                # In a folder that is visible already, the plan is recorded first, so that a creation that is killed
                # later can be completed.
                Journal.create(folder.made, _digest(plan), (), notes=notes | {_BEGUN: how.as_json()})
            folder.publish()
            journal = Journal.open(folder.path)
            on_error.callback(journal.close)
            if not folder.is_new:
                _fill(journal, plan, how)
            session = cls(plan, folder, journal)
            session._describe()
            on_error.pop_all()
        return session

    @classmethod
    def resume(cls, path: Path, *, force: bool, retry: frozenset[Outcome] = frozenset()) -> Self:
        """Opens a folder with runs that did not end, or that are to be repeated.

        `force` accepts results of another version.
        """
        with contextlib.ExitStack() as on_error:
            folder = Folder.existing(path)
            on_error.callback(folder.close)
            journal = _open(path, on_error)
            notes = _checked(journal.notes, path)
            _same_inputs(notes, path)
            if not force:
                _same_version(notes, path)
            plan = _plan_of(notes, path)
            if notes.get(_BEGUN):  # its creation was interrupted
                how = Beginning.from_json(notes[_BEGUN], path)
                plan = _chosen(plan, how)
                _fill(journal, plan, how)
            wanted = _planned(journal, path)
            plan = plan.with_seeds(list(dict.fromkeys(run.seed for run in wanted)))
            plan = growth.with_generations(plan, notes, Place(path / JOURNAL))
            plan = _with_cases(plan, {run.case for run in wanted}, path)
            damaged = _forget_damaged(journal)
            journal.reopen(retry)
            session = cls(plan, folder, journal, damaged)
            folder.repair("plan.toml", notes["plan"])
            if not (path / RESULT).exists():
                session._describe()
            on_error.pop_all()
        return session

    @classmethod
    def extend(cls, plan: Plan, path: Path, how: Beginning, *, force: bool) -> Self:
        """Opens a folder for an extended plan, and keeps the runs that both plans have.

        `force` accepts that runs are removed, or that the kept ones were collected differently from the current plan.
        """
        plan = _chosen(plan, how)
        with contextlib.ExitStack() as on_error:
            folder = Folder.existing(path)
            on_error.callback(folder.close)
            journal = _open(path, on_error)
            before = _checked(journal.notes, path)
            runs = _planned(journal, path)
            damaged = _forget_damaged(journal)
            if not force:
                _same_version(journal.notes, path)
                _same_manner(journal.notes, plan, path)
            if is_search(plan.spec):
                growth.check_same(_plan_of(before, path).spec, plan)
                plan = growth.with_generations(plan, before, Place(path / JOURNAL))
            else:
                runs = [run for run in _runs(plan) if run.seed <= how.stopped.get(run.case, run.seed)]
            new = set(runs)
            ended = [RunKey.of(entry.case) for entry in journal.entries() if entry.outcome is not None]
            lost = [run for run in ended if run not in new]
            if not force:
                _none_lost(lost, path)
            base, copied = inputs.copy(plan, plan.file.parent, path)
            order = None if is_search(plan.spec) or how.stopped else _order(plan, how)
            journal.replan(_digest(plan), [run.as_json() for run in runs], order, _notes(plan, base, copied))
            journal.reopen(how.retry)
            for run in lost:
                shutil.rmtree(folder.recording(run.case, run.seed), ignore_errors=True)
            session = cls(plan, folder, journal, damaged)
            session._describe()
            on_error.pop_all()
        return session

    def _describe(self) -> None:
        """Writes the files for readers of the folder before the first run has ended."""
        self.folder.write("plan.toml", self.plan.text)
        # Until the work begins, an interrupt ends the command without a further change of the folder.
        self.write(self.result("interrupted"))

    def write(self, result: Result) -> None:
        """Writes the files of a result; the journal knows the table of runs before it has its name."""
        result.write(lambda checksum: self._note(runs=checksum))

    def begin_work(self, jobs: int, executor: str, load: list[float] | None) -> None:
        """Records the start of work and the environment in the journal."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        begun: Work = {"started": now, "jobs": jobs, "executor": executor, "load": load}
        self._note(sessions=json.dumps([*self._work, begun | self._environment()]))
        self._begun = True

    def _environment(self) -> Environment:
        return environment(self.plan.spec.substrates, (case.triples for case in self.plan.cases))

    def end_work(self, load: list[float] | None) -> None:
        """Records the end of work, unless an interrupt came before its start was recorded."""
        if not self._begun:
            return
        *earlier, last = self._work
        last |= {"ended": datetime.now(UTC).isoformat(timespec="seconds"), "load_at_end": load}
        self._note(sessions=json.dumps([*earlier, last]))

    @property
    def _work(self) -> list[Work]:
        """The commands that worked on the runs."""
        sessions: list[Work] = json.loads(self.notes.get("sessions", "[]"))
        return sessions

    def _note(self, **notes: str) -> None:
        self.journal.note(**notes)
        self.notes |= notes

    @property
    def base(self) -> Path:
        """The base folder of file names in cases."""
        return self.folder.path / self.notes["base"]

    def entry_run(self, entry: Entry) -> Run:
        """The journal's entry of a run."""
        key = RunKey.of(entry.case)
        answer = None if entry.outcome is None else answer_of(str(entry.outcome), entry.payload)
        return Run.of(self.cases[key.case], key.seed, answer or Answer(NOT_RUN))

    def grow(self) -> list[Run]:
        """Adds the runs of the next generation when all runs have ended, and returns them.

        The result is empty for a plan whose cases do not depend on results, and after the last generation.
        """
        if self.growth is None:
            return []
        while (told := self.growth.strategy.generations) < len(self.growth.generations):
            self.growth.tell(self._ended_runs(self.growth.start(told), self.growth.start(told + 1)))
        cases = self.growth.next()
        if not cases:
            return []
        self.journal.append((run.as_json() for run in _runs_of(cases, self.plan)), self.growth.add(cases))
        self.plan = replace(self.plan, cases=[*self.plan.cases, *cases])
        self.cases |= {case.id: case for case in cases}
        return [Run.of(case, seed, Answer(NOT_RUN)) for case in cases for seed in self.plan.spec.seeds]

    def _ended_runs(self, start: int, end: int) -> dict[str, list[Run]]:
        """The runs with these numbers by case: in real time the median of the repetitions, else the first."""
        again: dict[tuple[str, int], list[Run]] = {}
        for entry in self.journal.entries(start):
            if entry.number >= end:
                break
            run = self.entry_run(entry)
            again.setdefault((run.case.id, run.seed), []).append(run)
        made: dict[str, list[Run]] = {}
        for (case, _), runs in again.items():
            real_time = substrate_of(runs[0].case.substrate).real_time
            made.setdefault(case, []).append(_median(runs) if real_time else runs[0])
        return made

    def result(self, status: Status, judged: bool = False) -> Result:  # noqa: FBT001, FBT002 - a fact
        """The result according to the journal."""
        runs: dict[tuple[str, int], Run] = {}
        again: dict[tuple[str, int], list[Run]] = {}
        different = []
        table = MetricTable()
        for entry in self.journal.entries():
            run = self.entry_run(entry)
            if run.metrics:
                run = replace(run, metrics=table.add(run.metrics))
            key = (run.case.id, run.seed)
            first = runs.setdefault(key, run)
            if substrate_of(run.case.substrate).real_time:
                again.setdefault(key, []).append(run)
            elif run.begun and first.begun and (run.outcome, run.digest) != (first.outcome, first.digest):
                different.append(_difference(entry, first, run))
        runs |= {key: _median(repeated) for key, repeated in again.items()}
        sessions = self._work
        here: Work = {"started": None, "jobs": None}
        here = sessions[-1] if sessions else {**here, **self._environment()}
        about: WorkDone = {**here, "started": (sessions or [here])[0]["started"], "sessions": sessions}
        search = None if self.growth is None else self.growth.strategy.as_json()
        return Result(
            self.plan,
            self.folder,
            self.notes["file"],
            status,
            list(runs.values()),
            judged,
            about,
            undetermined=different,
            inputs=json.loads(self.notes["inputs"]),
            search=search,
            plans={} if search is None else plans(search, self.plan.spec, self.cases, self.base),
        )

    def finish(self, answered: Iterable[tuple[Claim, Answer]], ahead: deque[Claim]) -> list[Run]:
        """Records the results of runs, and claims as many new ones, which are added to those that are `ahead`."""
        ended, runs = [], []
        for claim, answer in answered:
            ended.append((claim, Outcome(answer.outcome), payload_of(answer)))
            key = RunKey.of(claim.case)
            runs.append(Run.of(self.cases[key.case], key.seed, answer))
        ahead.extend(self.journal.exchange(ended))
        return runs

    def close(self) -> None:
        """Returns the claimed runs and releases the folder."""
        self.journal.close()
        self.folder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _chosen(plan: Plan, how: Beginning) -> Plan:
    if how.chosen is None:
        return plan
    return replace(plan, cases=[case for case in plan.cases if case.id in how.chosen])


def _runs(plan: Plan) -> Iterator[RunKey]:
    """The runs, in the order in which results are listed."""
    return _runs_of(plan.cases, plan)


def _runs_of(cases: Iterable[Case], plan: Plan) -> Iterator[RunKey]:
    for case in cases:
        for seed in plan.spec.seeds:
            for repetition in range(1, plan.spec.repetitions + 1):
                yield RunKey(case.id, seed, repetition)


def _cases(plan: Plan) -> Iterator[Json]:
    """The runs as the cases of a journal."""
    return (run.as_json() for run in _runs(plan))


def _fill(journal: Journal, plan: Plan, how: Beginning) -> None:
    """Adds the runs of the plan to a journal that has none yet."""
    journal.append(_cases(plan), {_BEGUN: ""}, _order(plan, how))


def _order(plan: Plan, how: Beginning) -> list[int] | None:
    if how.shuffle is None:
        remote = any(name.partition(":")[0] == "remote" for name in plan.spec.substrates)
        return _interleaved(plan) if remote else None
    order = list(range(len(plan.cases) * len(plan.spec.seeds) * plan.spec.repetitions))
    random.Random(how.shuffle).shuffle(order)  # noqa: S311 - an order, not a secret
    return order


def _interleaved(plan: Plan) -> list[int]:
    """An order in which all cases run once, in a random order, before the next seed or repetition.

    What changes on a testbed in the course of hours then concerns all cases alike.
    """
    seeds, repetitions = len(plan.spec.seeds), plan.spec.repetitions
    draw = random.Random(_digest(plan))  # noqa: S311 - an order, not a secret
    order = []
    for repetition in range(repetitions):
        for seed in range(seeds):
            block = [(case * seeds + seed) * repetitions + repetition for case in range(len(plan.cases))]
            draw.shuffle(block)
            order += block
    return order


def _digest(plan: Plan) -> str:
    return hashlib.sha256(plan.text.encode()).hexdigest()


def _notes(plan: Plan, base: Path, copied: dict[str, str]) -> dict[str, str]:
    return {
        "plan": plan.text,
        "file": str(plan.file),
        "base": str(base),
        "inputs": json.dumps(copied),
        "tables": table_version(),
        "version": __version__,
        _BEGUN: "",
    }


def _checked(notes: dict[str, str], path: Path) -> dict[str, str]:
    """The notes of a journal, after checking the parts that become paths."""
    if missing := {"plan", "file", "base", "inputs", "tables", "version"} - set(notes):
        raise UserError(
            f"the journal is damaged: its note `{min(missing)}` is missing", Place(path / JOURNAL)
        )
    if not inputs.is_base(notes["base"]):
        message = f"the journal is damaged: `{notes['base']}` is not a folder of copied files"
        raise UserError(message, Place(path / JOURNAL))
    try:
        copied, sessions = json.loads(notes["inputs"]), json.loads(notes.get("sessions", "[]"))
    except ValueError:
        copied = sessions = None
    if not inputs.are_sums(copied):
        raise UserError(
            "the journal is damaged: its list of copied files has a wrong form", Place(path / JOURNAL)
        )
    if not isinstance(sessions, list) or not all(map(_is_session, sessions)):
        raise UserError(
            "the journal is damaged: its list of sessions has a wrong form", Place(path / JOURNAL)
        )
    return notes


def _is_session(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("started"), str)


def _planned(journal: Journal, path: Path) -> list[RunKey]:
    """The runs of the journal, after checking their form."""
    runs = []
    for run in (entry.case for entry in journal.entries()):
        known = isinstance(run, dict) and is_run(run.get("case"), run.get("seed"))
        repetition = run.get("repetition") if known else None
        if not isinstance(repetition, int) or repetition < 1:
            message = f"the journal is damaged: it contains an invalid run, {json.dumps(run)[:100]}"
            raise UserError(message, Place(path / JOURNAL))
        runs.append(RunKey.of(run))
    return runs


def _same_inputs(notes: dict[str, str], path: Path) -> None:
    """Raises `UserError` if a copied file has changed, because the remaining runs would differ."""
    for name in inputs.damaged(json.loads(notes["inputs"]), path):
        message = "it is damaged or missing: its checksum is not that in the journal; run the plan again with --force"
        raise UserError(message, Place(path / name))


def _forget_damaged(journal: Journal) -> int:
    """Makes runs with a damaged result pending again, and returns their number."""
    damaged = [
        entry.number
        for entry in journal.entries()
        if entry.damaged or (entry.outcome is not None and answer_of(entry.outcome, entry.payload) is None)
    ]
    if damaged:
        journal.forget(damaged)
    return len(damaged)


def _open(path: Path, on_error: contextlib.ExitStack) -> Journal:
    """The journal, used by this process only."""
    journal = Journal.open(path)
    on_error.callback(journal.close)
    if journal.others():
        message = "another process works on these results; wait for it, or end it"
        raise UserError(message, Place(path / JOURNAL))
    return journal


def _with_cases(plan: Plan, ids: set[str], path: Path) -> Plan:
    """The plan with these of its cases."""
    if missing := sorted(ids - {case.id for case in plan.cases}):
        message = (
            f"its plan no longer makes {len(missing)} of its cases ({_some(missing)}): the selection of cases has "
            f"changed "
            "since; run the plan again into another folder"
        )
        raise UserError(message, Place(path))
    return replace(plan, cases=[case for case in plan.cases if case.id in ids])


def _none_lost(lost: list[RunKey], path: Path) -> None:
    if lost:
        some = _some([f"case {run.case} seed {run.seed}" for run in lost])
        message = (
            f"{len(lost)} runs that ended are not in the plan any more ({some}); --force drops them, or choose another "
            "folder with --out"
        )
        raise UserError(message, Place(path))


def _same_version(notes: dict[str, str], path: Path) -> None:
    for name, here, what in (
        ("tables", table_version(), "tables of parameters and metrics"),
        ("version", __version__, "tcpassay"),
    ):
        if notes[name] != here:
            message = (
                f"the runs there were made with {what} {notes[name]}; this is {here}, so that more of them would not "
                f"belong together: use that version (tcpassay {notes['version']}), run the plan again into another "
                "folder, or continue with --force"
            )
            raise UserError(message, Place(path))


def _plan_of(notes: dict[str, str], path: Path) -> Plan:
    """The plan with which the runs of a folder were begun."""
    return read(notes["plan"], path / notes["base"] / "plan.toml")


def _same_manner(notes: dict[str, str], plan: Plan, path: Path) -> None:
    """Checks that the kept runs were collected and judged as the current plan requires."""
    before = _plan_of(notes, path).spec
    for name in ("collect", "oracles", "keep"):
        if getattr(before, name) != getattr(plan.spec, name):
            message = (
                f"`{name}` is not what it was when the runs there were made, and they are not made again; keep it as "
                "it was, run the plan again into another folder, or continue with --force"
            )
            raise UserError(message, Place(plan.file))


def _median(runs: list[Run]) -> Run:
    """Repetitions in real time as one run with the medians of the metrics; all of them must have completed."""
    if failed := next((run for run in runs if run.begun and not run.done), None):
        return failed
    values: dict[str, list[float]] = {}
    done = [run for run in runs if run.done]
    for run in done:
        for name, value in run.metrics.items():
            if value is not None:
                values.setdefault(name, []).append(value)
    if len(done) < 2:  # noqa: PLR2004 - a single repetition is the median
        return runs[0]
    metrics = {name: median(values[name]) if name in values else None for name in runs[0].metrics}
    return replace(runs[0], metrics=metrics)


def _difference(entry: Entry, first: Run, run: Run) -> DifferenceRow:
    """Two runs of the same case and seed that differ on a deterministic substrate."""
    return {
        "case": run.case.id,
        "seed": run.seed,
        "repetition": RunKey.of(entry.case).repetition,
        "outcomes": [first.outcome, run.outcome],
        "traces": [first.trace, run.trace],
        "digests": [first.digest, run.digest],
    }


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:_MOST_SHOWN]) + (", ..." if len(listed) > _MOST_SHOWN else "")
