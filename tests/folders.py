"""Result folders with the runs that a test names."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

import sealed
from tcpassay import _native, run_table, seal
from tcpassay.judge import Finding, Severity, write_findings
from tcpassay.results import load

Metrics = Mapping[str, float | None]


def result(path: Path) -> dict[str, Any]:
    """`result.json` with the runs that `runs.parquet` has."""
    results = load(path)
    runs = [{**one, "metrics": dict(one.get("metrics") or {})} for one in results.runs]
    return {**results.index, "runs": runs}


def write(path: Path, said: dict[str, Any]) -> None:
    """The inverse of `result`; the metrics remain as they are."""
    index = {name: value for name, value in said.items() if name != "runs"}
    content = _native.parquet(run_table.columns_of(said["runs"]))
    (path / run_table.NAME).write_bytes(content)
    index["files"][run_table.NAME] = seal.checksum(content)
    sealed.write(path / "result.json", index)


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
