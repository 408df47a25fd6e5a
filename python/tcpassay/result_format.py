"""The format of `result.json`, of the runs beside it (`run_table.py`), and of the runs in a journal.

A reader checks the types of the fields (`results.py`). Most fields may be absent, because a folder without
`result.json` is read from its recordings.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, Required, Self, TypedDict

from tcpassay.messages import Expected, ScriptRow, Value

FORMAT: Final = 3
"""The format of `result.json`. Formats 1 and 2 list the runs with their metrics in it, as `runs`."""
NOT_RUN: Final = "not run"
"""The outcome of a run that has not ended."""


@dataclass(frozen=True, slots=True)
class RunKey:
    """The key of a run in the journal: a case of the plan with a seed."""

    case: str
    seed: int
    repetition: int
    """From 1."""

    @classmethod
    def of(cls, content: Mapping[str, object]) -> Self:
        """From the content of a journal, whose form has been checked."""
        return cls(str(content["case"]), int(str(content["seed"])), int(str(content["repetition"])))

    def as_json(self) -> dict[str, object]:
        """The content of a journal."""
        return {"case": self.case, "seed": self.seed, "repetition": self.repetition}


class Environment(TypedDict, total=False):
    """The machine and the versions with which runs were made."""

    tcpassay: str
    tables: str
    """Digest of the tables of parameters and metrics."""
    kernel: str
    system: str
    machine: str
    cpu: str | None
    cores: int | None
    memory_bytes: int
    python: str
    libraries: dict[str, str | None]
    substrates: dict[str, str | None]
    """The Linux version of each substrate; `None` for the model."""
    commands: dict[str, str]
    """The SHA-256 digest of each command of `exec:` with the files that it names."""


class Work(Environment, total=False):
    """One command that worked on the runs of a folder."""

    started: str | None
    jobs: int | None
    executor: str
    load: list[float] | None
    """The load average over 1, 5 and 15 minutes at the start."""
    ended: str
    load_at_end: list[float] | None


class WorkDone(Work, total=False):
    """`environment` of `result.json`: the last command, with the start of the first one."""

    sessions: list[Work]


class EndedRow(TypedDict, total=False):
    """The result of a run."""

    outcome: str
    message: str
    recording: str | None
    """The folder of the recording, relative to that of the results."""
    trace: str
    digest: str
    cpu_s: float
    simulation_s: float
    findings: int
    """Number of findings."""
    unjudged: dict[str, str]
    reached: dict[str, int]
    covered: str
    """What the run reached in the code of a kernel with counters (`gcov.Catalogue.decode`)."""
    metrics: Mapping[str, float | None]


class RunRow(EndedRow, total=False):
    """A run of a result."""

    case: Required[str]
    seed: Required[int]
    substrate: str
    varied: dict[str, Value]
    """The value of each factor."""
    triples: dict[str, Value]
    script: ScriptRow
    expect: Expected


class DifferenceRow(TypedDict):
    """Two runs of the same case and seed that differ on a deterministic substrate: the first one and a repetition."""

    case: str
    seed: int
    repetition: int
    outcomes: list[str]
    traces: list[str]
    digests: list[str]


class VerdictRow(TypedDict):
    """The result of a check; see `Verdict` and `[[check]]` of a plan."""

    metric: str
    op: str
    value: float
    subject: str
    case: str | None
    seed: int | None
    observed: float | None
    limit: float | None
    holds: bool
    why: str
    note: str


class BestRow(TypedDict):
    """A case that a search found."""

    case: str
    value: float | None
    """The metric that is searched, averaged over the seeds."""
    found_with_seed: int | None
    """The first seed with the finding that is searched."""


class StepRow(BestRow):
    """A case that was better than all before it."""

    runs: int
    """The number of runs up to it."""


class SearchRow(TypedDict):
    """The result of a search."""

    kind: Literal["search"]
    method: str
    metric: str | None
    worst: str | None
    """`least` or `greatest`: which end of the metric is searched."""
    finding: str | None
    generations: int
    runs: int
    ended: str
    """Why there are no more cases; empty before that."""
    best: list[BestRow]
    path: list[StepRow]


class PlanRow(TypedDict, total=False):
    """The plan of a result."""

    name: str
    file: str
    sha256: str


class ResultIndex(TypedDict, total=False):
    """`result.json`."""

    format: int
    tcpassay: str
    plan: PlanRow
    folder: str
    status: str
    ok: bool
    environment: WorkDone
    checks: list[VerdictRow]
    unreached: list[str]
    search: SearchRow
    figures: list[str]
    figure_problems: list[str]
    findings: int | None
    undetermined: list[DifferenceRow]
    files: dict[str, str]
    """Checksums of other files by name."""
    runs: list[RunRow]
    """Only in formats 1 and 2."""
