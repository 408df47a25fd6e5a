"""The result of a plan, and its files: `result.json`, `runs.parquet`, `metrics.parquet`, `findings.json`."""

import hashlib
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Final, Literal, Self

from pydantic_core import to_json

from tcpassay import _native, levels, run_table
from tcpassay._native import __version__
from tcpassay.finding import Finding, Severity
from tcpassay.gcov.reached import file_of
from tcpassay.kernel import store
from tcpassay.messages import Answer, Outcome, Value
from tcpassay.metric_table import MetricTable
from tcpassay.plan.expand import Case, show
from tcpassay.plan.read import Plan
from tcpassay.result_format import FORMAT, NOT_RUN, DifferenceRow, RunRow, SearchRow, WorkDone
from tcpassay.run import checks
from tcpassay.run.answers import row_of
from tcpassay.run.folder import Folder
from tcpassay.seal import checksum, seal

RESULT: Final = "result.json"
METRICS: Final = "metrics.parquet"
Status = Literal["running", "complete", "interrupted", "budget", "no space", "paused"]


@dataclass(frozen=True, slots=True)
class Run(Answer):
    """A case with a seed, and its result."""

    outcome: str = NOT_RUN
    case: Case = field(kw_only=True)
    seed: int = field(kw_only=True)

    @classmethod
    def of(cls, case: Case, seed: int, answer: Answer) -> Self:
        """A run that ended."""
        said = {one.name: getattr(answer, one.name) for one in fields(Answer)}
        return cls(**said, case=case, seed=seed)

    @property
    def done(self) -> bool:
        """Whether there are metrics."""
        return self.outcome == Outcome.DONE

    @property
    def begun(self) -> bool:
        """Whether the run has started."""
        return self.outcome != NOT_RUN

    @property
    def as_expected(self) -> bool:
        """Whether it has the outcome that its case expects."""
        return self.outcome == self.case.expect


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a plan."""

    plan: Plan
    folder: Folder
    file: str
    """The plan's file, as named when the results were created."""
    status: Status
    runs: list[Run]
    judged: bool
    environment: WorkDone
    verdicts: list[checks.Verdict] = field(default_factory=list)
    figures: list[str] = field(default_factory=list)
    figure_problems: list[str] = field(default_factory=list)
    """Figures that were not drawn, or not completely; independent of the runs."""
    undetermined: list[DifferenceRow] = field(default_factory=list)
    """Repetitions that differ from the first run of the same case and seed."""
    inputs: dict[str, str] = field(default_factory=dict)
    """Checksums of copied files."""
    sums: dict[str, str] = field(default_factory=dict)
    """Checksums of the files written beside `result.json`."""
    search: SearchRow | None = None
    """The result of a search, in the form for JSON; `None` for a plan whose cases do not depend on results."""
    plans: dict[str, str] = field(default_factory=dict)
    """Plans of cases that a search found, by file name."""
    reason: str = ""
    """Why the runs were paused."""
    _seeds: dict[str, set[int]] = field(default_factory=dict, init=False, repr=False, compare=False)
    """The seeds of each case, once they were needed."""

    @property
    def errors(self) -> int:
        """Findings that violate a rule."""
        return sum(one.severity is Severity.ERROR for run in self.runs for one in run.findings)

    def measured(self) -> list[levels.Measured]:
        """The completed runs that have metrics, for tables and figures of metrics."""
        return [
            levels.Measured(
                run.case.id,
                run.seed,
                {name: show(value) for name, value in run.case.varied.items()},
                run.metrics,
                run.trace,
            )
            for run in self.runs
            if run.done and run.metrics
        ]

    @property
    def unreached(self) -> list[str]:
        """Behaviours that the plan requires and that too few runs reached."""
        runs: Counter[str] = Counter(name for run in self.runs for name in run.reached)
        return [
            f"`{one.behaviour}` was reached in {runs[one.behaviour]} runs; the plan requires {one.runs}"
            + (f": {one.why}" if one.why else "")
            for one in self.plan.spec.reach
            if runs[one.behaviour] < one.runs
        ]

    @property
    def ok(self) -> bool:
        """Whether every run has its expected outcome, all checks passed, and no finding violates a rule."""
        complete = self.status == "complete" and all(run.as_expected for run in self.runs)
        held = all(verdict.holds for verdict in self.verdicts)
        return complete and held and not self.errors and not self.undetermined and not self.unreached

    def as_json(self) -> dict[str, object]:
        """The form for JSON with all runs, which are one by one in the order of the plan."""
        return self._index() | {"runs": map(self._full_row, self.runs)}

    def _index(self) -> dict[str, object]:
        """The content of `result.json`."""
        return {
            "format": FORMAT,
            "tcpassay": __version__,
            "plan": {
                "name": self.plan.spec.name,
                "file": self.file,
                "sha256": hashlib.sha256(self.plan.text.encode()).hexdigest(),
            },
            "folder": str(self.folder.path),
            "status": self.status,
            "ok": self.ok,
            "environment": self.environment,
            "checks": [verdict.as_json() for verdict in self.verdicts],
            "unreached": self.unreached,
            **({} if self.search is None else {"search": self.search}),
            "figures": self.figures,
            "figure_problems": self.figure_problems,
            "findings": sum(len(run.findings) for run in self.runs) if self.judged else None,
            "undetermined": self.undetermined,
            "files": self.inputs | self.sums,
        }

    def _full_row(self, run: Run) -> RunRow:
        """A run as a row, in a form that JSON has."""
        return {**self._row(run), "metrics": dict(run.metrics)}

    def _row(self, run: Run) -> RunRow:
        row: RunRow = {
            "case": run.case.id,
            "seed": run.seed,
            "substrate": run.case.substrate,
            "varied": run.case.varied,
            "triples": run.case.triples,
        }
        if run.case.script:
            row["script"] = run.case.script.as_json()
        row["expect"] = run.case.expect
        return {**row, **row_of(run, self.folder.name(run.case.id, run.seed))}

    def replay(self, run: Run) -> str:
        """The shortest command that repeats a run."""
        if not self._seeds:
            for other in self.runs:
                self._seeds.setdefault(other.case.id, set()).add(other.seed)
        seed = f" --seed {run.seed}" if len(self._seeds.get(run.case.id, ())) > 1 else ""
        return f"tcpassay replay {shlex.quote(str(self.folder.path))} {run.case.id}{seed}"

    def findings(self) -> Iterable[Finding]:
        """All findings, in the order of the plan."""
        for run in self.runs:
            for one in run.findings:
                yield one.of(run.case.id, run.seed, self.replay(run))

    def write(self, note: Callable[[str], None] = lambda _: None) -> None:
        """Writes the files, each completely or not at all; the one that lists the others is the last.

        `note` receives the checksum of the table of runs before it is written. If the process is killed before
        `result.json` has it, it is known from there.
        """
        self._write_runs(note)
        if self.status != "running":
            self._write_metrics()
            if self.judged:
                from tcpassay.judge import write_findings  # noqa: PLC0415 - start-up time

                write_findings(self.folder.path, self.findings())
            for name, text in self.plans.items():
                self.folder.write(name, text)
            self._write_catalogues()
        self.folder.write(RESULT, seal("".join(as_text(self._index()))))

    def _write_runs(self, note: Callable[[str], None]) -> None:
        content = _native.parquet(run_table.columns_of(map(self._row, self.runs)))
        self.sums[run_table.NAME] = checksum(content)
        note(self.sums[run_table.NAME])
        self.folder.write(run_table.NAME, content)

    def _write_catalogues(self) -> None:
        """Writes for each kernel with counters the meaning of its counters."""
        for substrate in dict.fromkeys(run.case.substrate for run in self.runs if run.covered):
            notes = store.find(substrate.partition(":")[2] or None).notes
            if notes is not None:
                text = (notes / store.CATALOGUE).read_text(encoding="utf-8")
                self.folder.write(file_of(substrate), text)

    def _write_metrics(self) -> None:
        done = [run for run in self.runs if run.done]
        if done:
            varied = list(dict.fromkeys(path for run in done for path in run.case.varied))
            # About ninety metrics per run, so that the speed of this loop matters.
            metrics = MetricTable()
            for run in done:
                metrics.append(run.metrics)
            columns: list[tuple[str, Sequence[int] | Sequence[float] | Sequence[str | None]]] = [
                ("case", [run.case.id for run in done]),
                ("seed", [run.seed for run in done]),
                *((path, [_shown(run.case.varied.get(path)) for run in done]) for path in varied),
                *metrics.full().items(),
            ]
            # Polars could write it, too, but accounts for most of the start-up time.
            content = _native.parquet(columns)
            self.folder.write(METRICS, content)
            self.sums[METRICS] = checksum(content)


def _shown(value: Value | None) -> str | None:
    return None if value is None else str(value)


def as_text(value: Mapping[str, object]) -> Iterator[str]:
    """Readable JSON that is fast to write, with one line per element of a list or an iterator, in parts."""
    before = "{\n"
    for name, part in value.items():
        yield f'{before}  "{name}": '
        before = ",\n"
        if isinstance(part, list | Iterator):
            yield from _elements(part)
        else:
            yield _json(part)
    yield "\n}\n"


def _elements(values: Iterable[object]) -> Iterator[str]:
    before = "[\n"
    for one in values:
        yield f"{before}    {_json(one)}"
        before = ",\n"
    yield "[]" if before == "[\n" else "\n  ]"


def _json(value: object) -> str:
    return to_json(value).decode()
