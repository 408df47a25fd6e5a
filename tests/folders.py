"""Result folders with the runs that a test names."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from tcpassay.judge import Finding, Severity, write_findings

Metrics = Mapping[str, float | None]


def run(case: str, seed: int, metrics: Metrics, *, outcome: str = "done", **triples: Any) -> dict[str, Any]:
    said = {name.replace("__", "."): value for name, value in triples.items()}
    return {
        "case": case,
        "seed": seed,
        "triples": said,
        "varied": said,
        "outcome": outcome,
        "message": "",
        "recording": None,
        "metrics": dict(metrics) if outcome == "done" else {},
    }


def folder(path: Path, runs: Sequence[dict[str, Any]], found: Sequence[tuple[str, str, int]] = ()) -> Path:
    """`found`: oracle, case and seed of each finding."""
    path.mkdir(parents=True)
    (path / "plan.toml").write_text('name = "made"\n', encoding="utf-8")
    (path / "result.json").write_text(json.dumps({"format": 1, "runs": list(runs)}), encoding="utf-8")
    rows = [
        {"case": r["case"], "seed": r["seed"], "cpu_s": 0.1} | r["metrics"]
        for r in runs
        if r["outcome"] == "done"
    ]
    if rows:
        pl.DataFrame(rows, infer_schema_length=None).write_parquet(path / "metrics.parquet")
    findings = [
        Finding(oracle, Severity.ERROR, oracle, "h", "f", 0, 1, 1, "", (), (), case=case, seed=seed)
        for oracle, case, seed in found
    ]
    if findings:
        write_findings(path, findings)
    return path
