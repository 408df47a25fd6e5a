"""Runs a plan into a folder: cases on the pool, then checks, then figures."""

import contextlib
import hashlib
import io
import os
import platform
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from tcpassay import __version__, figures
from tcpassay.plan.expand import Case
from tcpassay.plan.read import Plan
from tcpassay.run import checks, pool
from tcpassay.run.folder import Folder

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Run:
    """One case with one seed, and what came of it."""

    case: Case
    seed: int
    outcome: str = "not run"
    message: str = ""
    trace: str = ""
    metrics: dict[str, float | None] = field(default_factory=dict)
    cpu_s: float = 0.0

    @property
    def done(self) -> bool:
        """Whether there is a recording."""
        return self.outcome == "done"


@dataclass(frozen=True, slots=True)
class Result:
    """What a plan came to."""

    plan: Plan
    folder: Folder
    jobs: int
    started: str
    status: Literal["running", "complete", "interrupted"]
    runs: list[Run]
    verdicts: list[checks.Verdict] = field(default_factory=list)
    figures: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Every case ran, and every check holds."""
        complete = self.status == "complete" and all(run.done for run in self.runs)
        return complete and all(verdict.holds for verdict in self.verdicts)

    def as_json(self) -> dict[str, Any]:
        """The machine-readable result."""
        return {
            "format": FORMAT,
            "tcpassay": __version__,
            "plan": {
                "name": self.plan.spec.name,
                "file": str(self.plan.file),
                "sha256": hashlib.sha256(self.plan.text.encode()).hexdigest(),
            },
            "folder": str(self.folder.path),
            "status": self.status,
            "ok": self.ok,
            "environment": environment() | {"started": self.started, "jobs": self.jobs},
            "runs": [self._run_json(run) for run in self.runs],
            "checks": [verdict.as_json() for verdict in self.verdicts],
            "figures": self.figures,
        }

    def _run_json(self, run: Run) -> dict[str, Any]:
        recording = self.folder.recording(run.case.id, run.seed).relative_to(self.folder.path)
        return {
            "case": run.case.id,
            "seed": run.seed,
            "varied": run.case.varied,
            "triples": run.case.triples,
            "outcome": run.outcome,
            "message": run.message,
            "recording": str(recording) if run.done else None,
            "trace": run.trace,
            "cpu_s": round(run.cpu_s, 3),
            "metrics": run.metrics,
        }


def environment() -> dict[str, Any]:
    """What the plan was run on; a run of the model does not depend on it."""
    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
    }


def execute(
    plan: Plan, out: Path, *, jobs: int, replace: bool, finished: Callable[[Run], None] | None = None
) -> Result:
    """Runs every case of the plan with every seed; an interrupt leaves a readable result of what finished."""
    folder = Folder.create(out, replace=replace)
    folder.write("plan.toml", plan.text)
    runs = [Run(case, seed) for case in plan.cases for seed in plan.spec.seeds]
    result = Result(plan, folder, jobs, datetime.now(UTC).isoformat(timespec="seconds"), "running", runs)
    folder.write_json("result.json", result.as_json())
    # What asks a program to stop is answered as Ctrl-C is.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    status: Literal["complete", "interrupted"] = "complete"
    try:
        _run_all(result, finished)
        drawn = figures.draw(plan, folder, {(run.case.id, run.seed) for run in runs if run.done})
    except KeyboardInterrupt:
        status, drawn = "interrupted", []
    # Writing the result takes no time; a second Ctrl-C must not tear it.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        folder.drop_partial()
        measured = {(run.case.id, run.seed): run.metrics for run in runs if run.done}
        verdicts = checks.judge(plan, measured) if status == "complete" else []
        result = Result(plan, folder, jobs, result.started, status, runs, verdicts, drawn)
        _write_metrics(result)
        folder.write_json("result.json", result.as_json())
    finally:
        signal.signal(signal.SIGINT, before)
    return result


def _run_all(result: Result, finished: Callable[[Run], None] | None) -> None:
    plan, folder, runs = result.plan, result.folder, result.runs
    collect = plan.spec.collect

    def request(run: Run) -> dict[str, Any]:
        return {
            "triples": run.case.triples,
            "seed": run.seed,
            "base": str(plan.file.parent),
            "collect": collect.model_dump() | {"series": None if collect.series == "off" else collect.series},
            "folder": str(folder.recording(run.case.id, run.seed)),
        }

    with contextlib.closing(pool.run_all(map(request, runs), result.jobs)) as answers:
        for index, answer in answers:
            case, seed = runs[index].case, runs[index].seed
            runs[index] = Run(case, seed, **answer)
            if finished:
                finished(runs[index])


def _write_metrics(result: Result) -> None:
    import polars as pl  # noqa: PLC0415 - most of the start-up time, and not needed to refuse a plan

    rows = [_row(run) for run in result.runs if run.done]
    if rows:
        table = pl.DataFrame(rows, infer_schema_length=None)
        content = io.BytesIO()
        table.write_parquet(content)
        result.folder.write("metrics.parquet", content.getvalue())


def _row(run: Run) -> dict[str, Any]:
    varied = {path: str(value) for path, value in run.case.varied.items()}
    return {"case": run.case.id, "seed": run.seed, "cpu_s": run.cpu_s} | varied | run.metrics
