"""What a report says, taken from a result folder: everything but the curves of single runs.

Large tables are columns: for each parameter the places of its levels, for each metric a number a run. The page filters,
sorts and computes its statistics from them, so that one copy of the data serves every view.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from tcpassay import __version__
from tcpassay.compare.direction import direction
from tcpassay.judge.finding import Finding, Severity
from tcpassay.judge.registry import ORACLES
from tcpassay.plan import table
from tcpassay.plan.quantity import quantity
from tcpassay.report import coverage
from tcpassay.report.pack import Pack
from tcpassay.results import Results, as_text

ABSENT: Final = "(default)"
"""The level of a parameter that a run does not set."""
EVIDENCE: Final = 2_000
"""Findings that keep their rows of evidence in the page."""
ROWS: Final = 16
"""Most rows of evidence of one finding."""


@dataclass(frozen=True, slots=True)
class Factor:
    """A parameter, or a group of them, and the level that each run gives it."""

    name: str
    levels: tuple[str, ...]
    codes: coverage.Codes
    ordered: bool
    """Whether its levels are amounts of one kind; they stand in rising order then."""


@dataclass(frozen=True, slots=True)
class Report:
    """What the page is told."""

    data: dict[str, Any]
    """What is small: texts, findings, checks, coverage."""
    runs: str
    """What is large, as a pack."""


def build(results: Results) -> Report:
    """What `results` hold. Damaged files are listed in the report, and the rest is used."""
    index, runs = results.index, results.runs
    factors = varied(results)
    members, fixed = _settings(runs, {factor.name for factor in factors})
    done = np.array([run.get("outcome") == "done" for run in runs], dtype=np.bool_)
    data = {
        "plan": _plan(results),
        "version": str(index.get("tcpassay") or __version__),
        "status": str(index.get("status") or "unknown"),
        "environment": {str(name): as_text(value) for name, value in results.environment.items()},
        "folder": str(index.get("folder") or results.folder),
        "checks": [check for check in index.get("checks") or [] if isinstance(check, dict)],
        "fixed": fixed,
        "findings": _findings(results.found),
        "oracles": {name: oracle.as_json() for name, oracle in ORACLES.items()},
        "coverage": _coverage(runs, factors, done),
    }
    packed = _runs(results, factors, members)
    # Last, because reading is what finds the damage.
    data["problems"] = [str(problem) for problem in results.problems]
    return Report(data, packed)


def varied(results: Results) -> list[Factor]:
    """What varies, in the plan's order."""
    cases = results.cases
    own = {"case", "seed", "outcome", "message", "recording"}
    return [_factor(name, cases[name].to_list()) for name in cases.columns if name not in own]


def _factor(name: str, values: list[str | None]) -> Factor:
    texts = [ABSENT if value is None else value for value in values]
    levels = list(dict.fromkeys(texts))
    meanings = [quantity(level) for level in levels]
    ordered = len({meaning.kind for meaning in meanings}) == 1 and all(
        meaning.ordered for meaning in meanings
    )
    if ordered:
        levels = [level for _, level in sorted(zip([m.amount for m in meanings], levels, strict=True))]
    elif set(levels) == {"on", "off"}:
        levels = ["off", "on"]
    place = {level: n for n, level in enumerate(levels)}
    return Factor(name, tuple(levels), np.array([place[text] for text in texts], dtype=np.int64), ordered)


def _settings(runs: list[dict[str, Any]], taken: set[str]) -> tuple[list[Factor], dict[str, str]]:
    """What the cases set beside what varies by name: members of groups, and what all share."""
    names = dict.fromkeys(name for run in runs for name in run.get("triples") or {} if name not in taken)
    members, fixed = [], {}
    for name in names:
        factor = _factor(name, [as_text((run.get("triples") or {}).get(name)) for run in runs])
        if len(factor.levels) == 1:
            fixed[name] = factor.levels[0]
        else:
            members.append(factor)
    return members, fixed


def _plan(results: Results) -> dict[str, str]:
    text = results.plan
    name = (results.index.get("plan") or {}).get("name") or results.folder.resolve().name
    doc = ""
    try:
        from tcpassay import _native  # noqa: PLC0415 - beside its use

        read, _ = _native.read_toml(text)
        doc = read.get("doc", "")
    except ValueError:
        pass
    return {"name": str(name), "doc": " ".join(str(doc).split()), "text": text}


def _findings(found: Iterable[Finding]) -> list[dict[str, Any]]:
    ordered = sorted(found, key=lambda one: (one.severity is not Severity.ERROR, one.oracle, one.title))
    made = []
    for place, one in enumerate(ordered):
        value = one.as_json()
        value["events"] = value["events"][:ROWS] if place < EVIDENCE else []
        value["rows"] = len(one.events)
        made.append(value)
    return made


def _coverage(runs: list[dict[str, Any]], factors: list[Factor], done: Any) -> dict[str, Any]:
    """Of the cases, each counted once however many seeds it has."""
    first = {str(run["case"]): n for n, run in enumerate(runs) if done[n]}
    rows = sorted(first.values())
    sizes = [len(factor.levels) for factor in factors]
    codes = (
        np.stack([factor.codes[rows] for factor in factors], axis=1)
        if factors
        else np.empty((len(rows), 0), dtype=np.int64)
    )
    return {
        "cases": len(rows),
        "strengths": [
            {"strength": one.strength, "total": one.total, "covered": one.covered}
            for one in coverage.strengths(codes, sizes)
        ],
        "pairs": [
            {
                "a": pair.first,
                "b": pair.second,
                "total": pair.total,
                "covered": pair.covered,
                "counts": pair.counts.ravel().tolist(),
            }
            for pair in coverage.pairs(codes, sizes)
        ],
    }


def _runs(results: Results, factors: list[Factor], members: list[Factor]) -> str:
    pack, runs, known = Pack(), results.runs, table.parameters()
    outcomes = list(dict.fromkeys(str(run.get("outcome")) for run in runs))

    def listed(several: list[Factor]) -> list[dict[str, Any]]:
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

    return pack.text(
        {
            "count": len(runs),
            "case": [str(run["case"]) for run in runs],
            "seed": [run["seed"] for run in runs],
            "outcomes": outcomes,
            "outcome": pack.add([outcomes.index(str(run.get("outcome"))) for run in runs], "u2"),
            "messages": {n: str(run["message"]) for n, run in enumerate(runs) if run.get("message")},
            "factors": listed(factors),
            "members": listed(members),
            "metrics": _metrics(results, pack),
        }
    )


def _metrics(results: Results, pack: Pack) -> list[dict[str, Any]]:
    """The metrics that at least one run has, in the table's order; others follow."""
    known = table.metrics()
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
            "values": pack.add(frame[name].cast(pl.Float64).fill_null(float("nan")).to_numpy()),
        }
        for name in names
    ]
