"""The data of a report from a result folder, except the curves of single runs.

Large tables are stored as columns: for each parameter the indices of its levels, for each metric a number per run. The
page filters, sorts and computes its statistics from them, so that one copy of the data serves every view.
"""

import base64
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from tcpassay import _native, drawings
from tcpassay._native import __version__
from tcpassay.compare.direction import direction
from tcpassay.errors import UserError
from tcpassay.finding import Finding, Row, Severity
from tcpassay.gcov.catalogue import File, Kind
from tcpassay.gcov.reached import Reach, groups, reach_of, sums
from tcpassay.interface import METRICS, EventKind
from tcpassay.judge.registry import ORACLES
from tcpassay.plan import table
from tcpassay.report import coverage
from tcpassay.report.better import better
from tcpassay.report.factors import Factor, Planned, settings, varied
from tcpassay.report.pack import Pack
from tcpassay.report.page_data import (
    AmountData,
    CoverageData,
    FactorData,
    FindingData,
    FindingRow,
    KernelCoverageData,
    MetricData,
    PageData,
    PlanData,
    ReachedData,
    RunsData,
)
from tcpassay.report.search import search_data
from tcpassay.result_format import RunRow
from tcpassay.results import Results, as_text

EVIDENCE: Final = 2_000
"""Maximum number of findings whose rows of evidence are stored in the page."""
ROWS: Final = 16
"""Maximum number of evidence rows of one finding."""


@dataclass(frozen=True, slots=True)
class Report:
    """The data of the page."""

    data: PageData
    """Small data: texts, findings, checks, coverage."""
    runs: str
    """Large data, as a pack."""


def build(results: Results, *, rounded: bool = False) -> Report:
    """The data of `results`. Damaged files are listed in the report, and the other files are used.

    With `rounded` metrics have about four digits (`rounded_reals`).
    """
    index, runs = results.index, results.runs
    planned = Planned.of(results)
    factors = varied(results, planned)
    members, fixed = settings(runs, {factor.name for factor in factors})
    packed = _runs(results, factors, members, rounded=rounded)
    data: PageData = {
        "plan": _plan(results),
        "version": str(index.get("tcpassay") or __version__),
        "status": str(index.get("status") or "unknown"),
        "environment": _environment(results.environment) if isinstance(results.environment, dict) else {},
        "folder": str(index.get("folder") or results.folder),
        "replay": f"tcpassay replay {shlex.quote(str(index.get('folder') or results.folder))}",
        "judged": index.get("findings") is not None or bool(results.found),
        "undetermined": len(index.get("undetermined") or []),
        "metrics": list(planned.metrics) if planned else [],
        "checks": [check for check in index.get("checks") or [] if isinstance(check, dict)],
        "fixed": fixed,
        "findings": _findings(results.found, results.folder),
        "oracles": {name: oracle.as_json() for name, oracle in ORACLES.items()},
        "coverage": _coverage(runs, factors, planned, searched="search" in index),
        "reached": _reached(results),
        "kernel_coverage": _kernel_coverage(results),
        "better": better(results, factors),
        "search": search_data(results),
        # Last, because damage is detected while reading.
        "problems": [str(problem) for problem in results.problems],
    }
    return Report(data, packed)


def _coverage(
    runs: list[RunRow], factors: list[Factor], planned: Planned | None, *, searched: bool
) -> CoverageData:
    """The coverage of the cases made of parameters; scripts are included only if there are no other cases.

    A search has values instead of levels, so that it has no coverage.
    """
    if searched:
        return {"cases": len({run["case"] for run in runs}), "planned": False, "lines": [], "pairs": []}
    ours = [n for n, run in enumerate(runs) if not run.get("script")] or list(range(len(runs)))
    shown = [
        replace(factor, codes=factor.codes[ours])
        for factor in factors
        if len(ours) == len(runs) or factor.name != "script"
    ]
    return coverage.report([runs[n] for n in ours], shown, planned)


def _environment(said: Mapping[str, object]) -> dict[str, str | None]:
    """The environment as lines; nested values are one line, and the history of sessions is omitted."""
    made: dict[str, str | None] = {}
    for name, value in said.items():
        if isinstance(value, dict):
            made[name] = ", ".join(f"{key} {as_text(part)}" for key, part in value.items())
        elif name != "sessions":
            made[name] = as_text(value)
    return made


def _plan(results: Results) -> PlanData:
    text = results.plan
    name = (results.index.get("plan") or {}).get("name") or results.folder.resolve().name
    try:
        doc = _native.read_toml(text)[0].get("doc", "")
    except ValueError:
        doc = ""
    return {"name": str(name), "doc": " ".join(str(doc).split()), "text": text}


def _reached(results: Results) -> list[ReachedData]:
    """The behaviours that a run reached or the plan requires: numbers of runs, of occurrences and of required runs."""
    runs: Counter[str] = Counter()
    times: Counter[str] = Counter()
    for run in results.runs:
        reached = run.get("reached")
        for name, count in reached.items() if isinstance(reached, dict) else ():
            if isinstance(count, int):
                runs[str(name)] += 1
                times[str(name)] += count
    required = _required(results.plan)
    kinds = {kind.value for kind in EventKind}
    return [
        {
            "name": name,
            "runs": runs[name],
            "times": times[name],
            "required": required.get(name, 0),
            "regime": name.partition(" ")[0] not in kinds,
        }
        for name in sorted(runs.keys() | required.keys())
    ]


def _kernel_coverage(results: Results) -> list[KernelCoverageData]:
    """The code that the runs reached in each kernel with counters; empty if its catalogue is damaged."""
    try:
        found = reach_of(results.folder, results.runs, results.folder.name)
    except UserError:
        return []
    return [
        {
            "kernel": reach.substrate,
            "runs": len(reach.runs),
            "files": [
                {
                    "file": name,
                    "lines": _amount(reach, files, "lines"),
                    "branches": _amount(reach, files, "branches"),
                    "functions": _amount(reach, files, "functions"),
                }
                for name, files in groups(reach.catalogue)
            ],
        }
        for reach in found
    ]


def _amount(reach: Reach, files: list[File], kind: Kind) -> AmountData:
    some, all_ = sums(reach, files, kind)
    return {"reached": some, "of": all_}


def _required(plan: str) -> dict[str, int]:
    """The number of runs in which the plan requires a behaviour."""
    try:
        read, _ = _native.read_toml(plan)
    except ValueError:
        return {}
    reach = read.get("reach")
    listed = reach if isinstance(reach, list) else []
    wanted = [one for one in listed if isinstance(one, dict) and "behaviour" in one]
    return {str(one["behaviour"]): int(one.get("runs", 1)) for one in wanted}


def first_end(finding: Finding) -> int:
    """The end of the first occurrence: that of its evidence, or of the whole finding if it occurred once."""
    if finding.count == 1:
        return finding.end_ns
    return max((row.time_ns for row in finding.events), default=finding.start_ns)


def _findings(found: Iterable[Finding], folder: Path) -> list[FindingData]:
    ordered = sorted(found, key=lambda one: (one.severity is not Severity.ERROR, one.oracle, one.title))
    made = []
    for place, one in enumerate(ordered):
        drawing = drawings.kept(folder, one)
        data: FindingData = {
            "oracle": one.oracle,
            "severity": one.severity,
            "title": one.title,
            "host": one.host,
            "flow": one.flow,
            "start_ns": one.start_ns,
            "end_ns": one.end_ns,
            "count": one.count,
            "text": one.text,
            "events": [_row(row) for row in (one.events[:ROWS] if place < EVIDENCE else ())],
            "packets": one.packets,
            "replay": one.replay,
            "case": one.case,
            "seed": one.seed,
            "rows": len(one.events),
            "first_end_ns": first_end(one),
            "drawing": "" if drawing is None else base64.b64encode(drawing).decode("ascii"),
        }
        made.append(data)
    return made


def _row(row: Row) -> FindingRow:
    return {
        "index": row.index,
        "time_ns": row.time_ns,
        "host": row.host,
        "flow": row.flow,
        "kind": row.kind,
        "why": row.why,
        "values": row.values,
    }


def _runs(results: Results, factors: list[Factor], members: list[Factor], *, rounded: bool) -> str:
    pack, runs, known = Pack(), results.runs, table.parameters()
    outcomes = list(dict.fromkeys(str(run.get("outcome")) for run in runs))

    def listed(several: list[Factor]) -> list[FactorData]:
        return [
            {
                "name": factor.name,
                "levels": factor.levels,
                "codes": pack.add(factor.codes, "u2"),
                "ordered": factor.ordered,
                "doc": known[factor.name].doc if factor.name in known else "",
            }
            for factor in several
        ]

    data: RunsData = {
        "count": len(runs),
        "case": [str(run["case"]) for run in runs],
        "seed": [run["seed"] for run in runs],
        "outcomes": outcomes,
        "outcome": pack.add([outcomes.index(str(run.get("outcome"))) for run in runs], "u2"),
        "expected": [n for n, run in enumerate(runs) if run.get("expect", "done") == run.get("outcome")],
        "messages": {n: str(run["message"]) for n, run in enumerate(runs) if run.get("message")},
        "factors": listed(factors),
        "members": listed(members),
        "metrics": _metrics(results, pack, rounded=rounded),
    }
    return pack.text(data)


def rounded_reals(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """The values with 13 significant bits, a relative error of at most 1.2e-4; half of their bytes compress well."""
    bits = values.astype(np.float32).view(np.uint32)
    drop = np.uint32(11)
    nearest = (bits + (np.uint32(1) << (drop - np.uint32(1)))) >> drop << drop
    return np.where(np.isfinite(values), nearest, bits).astype(np.uint32).view(np.float32)


def _metrics(results: Results, pack: Pack, *, rounded: bool) -> list[MetricData]:
    """The metrics that at least one run has, in the order of the table, then unknown ones."""
    known = METRICS
    wanted = results.cases.select("case", "seed")
    frame = wanted.join(
        results.metrics.unique(["case", "seed"], keep="first"),
        on=["case", "seed"],
        how="left",
        maintain_order="left",
    )
    there = [
        name
        for name in frame.columns
        if name not in {"case", "seed"} and frame[name].null_count() < len(frame)
    ]
    names = [name for name in known if name in there] + [name for name in there if name not in known]
    return [
        {
            "name": name,
            "unit": known[name].unit if name in known else "",
            "doc": known[name].doc if name in known else "",
            "good": direction(name),
            "values": _packed(
                frame[name].cast(pl.Float64).fill_null(float("nan")).to_numpy(), pack, rounded=rounded
            ),
        }
        for name in names
    ]


def _packed(values: npt.NDArray[np.float64], pack: Pack, *, rounded: bool) -> int:
    return pack.add(rounded_reals(values), "f4") if rounded else pack.add(values)
