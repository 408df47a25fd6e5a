"""Reintroduces old bugs of Linux's TCP into a kernel, and determines which of them a plan finds: `make history`.

    python tools/quality/history.py                    # every bug: build, run, isolate; then docs/quality-history.md
    python tools/quality/history.py --only cwnd-of-zero --no-isolation
    python tools/quality/history.py --table            # the table of the stored results, without runs

A case finds a bug when an oracle reports an error or a warning in it that it does not report on the same kernel
without the bug, or when only the run with the bug fails. A case whose recording has the same bytes on both kernels did
not reach the bug. What is finished is kept in the folder `--out`, so that an interrupted run goes on. The result of
each bug is stored in tests/quality/history/results.json with the time of the measured commit; the table shows all.
"""

import argparse
import json
import subprocess
import sys
import time
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
from bugs import DATA, ROOT, TCPASSAY, Bug, Kernels, bugs
from findings import known_as

from tcpassay.judge import can_judge, judge
from tcpassay.recording import Recording
from tcpassay.results import Results, load

PLAN = ROOT / "plans" / "kernel-coverage.toml"
DOCS = ROOT / "docs" / "quality-history.md"
RESULTS = DATA / "results.json"
"""The last result of each bug, and under `plain` that of 6.1 without a bug."""
NOTES = DATA / "notes.toml"
"""For bugs that are not found: the missing feature. Under `plain`: the reasons of the findings without a bug."""
SLOWER = 0.9
"""Share of the goodput without the bug below which a case counts as slower."""


def run(kernels: Kernels, kernel: str, plan: Path, out: Path, filters: tuple[str, ...] = ()) -> Path:
    """Runs the plan on a kernel of the store, or continues it, and returns the folder of results."""
    folder = out / "results" / kernel
    own = out / f"{kernel}.toml"
    text = f'name = "{kernel}"\nextends = "{plan.resolve()}"\nsubstrates = ["kernel:{kernel}"]\n'
    own.write_text(text + 'collect.events = true\nkeep.recordings = "all"\n')
    resumed = (
        ["--resume", str(folder)]
        if (folder / "journal.sqlite").exists()
        else [str(own), "--out", str(folder)]
    )
    chosen = [] if resumed[0] == "--resume" else [word for one in filters for word in ("--filter", one)]
    command = [*TCPASSAY, "run", *resumed, *chosen, "--jobs", str(kernels.jobs)]
    ended = subprocess.run(  # noqa: S603
        command, env=kernels.environment(), capture_output=True, text=True, check=False
    )
    if ended.returncode not in (0, 1):
        sys.exit(f"error: {' '.join(command)}\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}")
    return folder


def found_in(results: Results, run: dict[str, Any]) -> Counter[tuple[str, str]]:
    """The number of each finding in a run, by the current oracles; without an event log, the stored findings."""
    if run.get("recording") and can_judge(Recording.open(results.place_of(run))):
        found = [(one.oracle, one.title, one.severity) for one in judge(results.place_of(run))]
    else:
        own = results.findings.filter(pl.col("case") == run["case"])
        found = list(own.select("oracle", "title", "severity").iter_rows())
    return Counter(known_as(oracle, title) for oracle, title, severity in found if severity != "note")


def cases(results: Results, plain: dict[str, dict[str, Any]] | None = None) -> dict[str, dict[str, Any]]:
    """Each run by what its case varies: outcome, checksum of its recording, goodput, findings, CPU time.

    A recording with the bytes of the one in `plain` has the same findings and is not judged again.
    """

    def found(key: str, run: dict[str, Any]) -> Counter[tuple[str, str]]:
        known = (plain or {}).get(key)
        if known and known["digest"] and known["digest"] == run.get("digest"):
            same: Counter[tuple[str, str]] = known["found"]
            return same
        return found_in(results, run)

    return {
        key: {
            "case": run["case"],
            "outcome": run["outcome"],
            "digest": run.get("digest"),
            "cpu_s": run.get("cpu_s") or 0.0,
            "goodput": (run.get("metrics") or {}).get("goodput"),
            "found": found(key, run),
        }
        for run in results.runs
        for key in [json.dumps(run["varied"], sort_keys=True)]
    }


def compared(plain: dict[str, dict[str, Any]], faulty: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The findings that only the faulty kernel has: by oracle, with the number of cases and the first case."""
    by: Counter[str] = Counter()
    first: dict[str, str] = {}
    differ = 0
    for key, one in faulty.items():
        other = plain[key]
        differ += one["digest"] != other["digest"] or one["outcome"] != other["outcome"]
        new = [found for found in one["found"] if found not in other["found"]]
        if one["outcome"] != "done" and other["outcome"] == "done":
            new.append(("outcome", one["outcome"]))
        for oracle, title in new:
            by[f"{oracle}: {title}"] += 1
            first.setdefault(f"{oracle}: {title}", f"{one['case']}-1/{oracle}")
    cases_found = sum(
        any(key not in plain[name]["found"] for key in one["found"])
        or (one["outcome"] != "done" and plain[name]["outcome"] == "done")
        for name, one in faulty.items()
    )
    less = [
        one["goodput"] / plain[key]["goodput"]
        for key, one in faulty.items()
        if one["goodput"] is not None and plain[key]["goodput"]
    ]
    return {
        "cases": len(faulty),
        "differ": differ,
        "slower": sum(share < SLOWER for share in less),
        "slowest": min(less, default=1.0),
        "found": cases_found,
        "by": dict(by.most_common()),
        "first": first,
    }


def isolated(kernels: Kernels, folder: Path, row: dict[str, Any], budget: str) -> dict[str, Any]:
    """The cause, by `tcpassay isolate`, of the most frequent oracle's finding in the first case."""
    chosen = next((row["first"][one] for one in row["by"] if not one.startswith("outcome: ")), None)
    if chosen is None:
        return {}
    command = [*TCPASSAY, "isolate", str(folder), chosen, "--seeds", "1", "--budget", budget, "--json"]
    ended = subprocess.run(  # noqa: S603
        command, env=kernels.environment(), capture_output=True, text=True, check=False
    )
    try:
        told = json.loads(ended.stdout)
    except ValueError:
        told = {}
    return {"finding": chosen, "exit": ended.returncode, "told": told, "error": ended.stderr[-300:]}


def finished(out: Path, bug: Bug) -> bool:
    """Whether all runs of a bug are there."""
    folder = out / "results" / bug.id
    return (folder / "result.json").exists() and load(folder).index["status"] == "complete"


def looked_at(
    kernels: Kernels, bug: Bug, plain: dict[str, dict[str, Any]], given: argparse.Namespace
) -> dict[str, Any]:
    """Builds, runs, compares and isolates one bug, or reads stored results."""
    file: Path = given.out / f"{bug.id}.json"
    folder = given.out / "results" / bug.id
    complete = finished(given.out, bug)
    row: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    if not complete:
        started = time.monotonic()
        name = kernels.image(bug)
        row = {"build_s": round(time.monotonic() - started, 1)}
        run(kernels, name, given.plan, given.out, bug.cases)
    faulty = cases(load(folder), plain)
    row |= compared(plain, faulty) | {"cpu_s": round(sum(one["cpu_s"] for one in faulty.values()), 1)}
    file.write_text(json.dumps(row, indent=1))
    if row["found"] and "isolation" not in row and not given.no_isolation:
        row["isolation"] = isolated(kernels, given.out / "results" / bug.id, row, given.budget)
        file.write_text(json.dumps(row, indent=1))
    return row


def cause(row: dict[str, Any]) -> str:
    """The result of the isolation of the first finding, as a cell of the table."""
    isolation = row.get("isolation") or {}
    told = next(iter(isolation.get("told", {}).get("causes", [])), None)
    if not told:
        return "-"
    whole = "" if told["complete"] else "at most: "
    return whole + ", ".join(f"`{one['entity']}/{one['parameter']}={one['value']}`" for one in told["cause"])


def stored() -> dict[str, dict[str, Any]]:
    """The stored results."""
    made: dict[str, dict[str, Any]] = (
        json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    )
    return made


def store(name: str, row: dict[str, Any]) -> None:
    """Replaces one of the stored results."""
    head = ["git", "-C", str(ROOT), "log", "-1", "--format=%cI"]
    commit = subprocess.run(head, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603
    rows = stored() | {name: row | {"measured": commit}}
    RESULTS.write_text(json.dumps(dict(sorted(rows.items())), indent=1) + "\n", encoding="utf-8")


def told(row: dict[str, Any]) -> dict[str, Any]:
    """What the table shows of a result."""
    kept = ("cases", "differ", "slower", "slowest", "found", "by", "cpu_s")
    return {key: row[key] for key in kept} | {"cause": cause(row)}


def without_bug(plain: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The result of 6.1 without a bug: cases, cases with findings, and the findings with the number of their cases."""
    found = Counter(f"{oracle}: {title}" for one in plain.values() for oracle, title in one["found"])
    return {
        "cases": len(plain),
        "found": sum(bool(one["found"]) for one in plain.values()),
        "by": dict(found.most_common()),
    }


def table() -> str:
    """`docs/quality-history.md`."""
    rows = stored()
    plain = rows.pop("plain", {"cases": 0, "found": 0, "by": {}, "measured": "-"})
    needed = tomllib.loads(NOTES.read_text(encoding="utf-8"))
    caught = [name for name, row in rows.items() if row["found"]]
    reached = sum(row["differ"] > 0 for row in rows.values())
    seconds = sum(row["cpu_s"] for row in rows.values())
    lines = [
        "# Old bugs of Linux",
        "",
        "Generated by `tools/quality/history.py` (`make history`). Each row is a bug of Linux's TCP that was put",
        "back into 6.1 (tests/quality/history has the patches and their fixing commits). The same cases of",
        "`plans/kernel-coverage.toml` ran on the kernel with the bug and on 6.1 without it. A bug is found in a case",
        "if an oracle reports an error or a warning that it does not report without the bug, or if only the run with",
        "the bug fails. *Differ* counts cases whose recording has other bytes than without the bug; where none",
        "differs, the plan did not reach the bug. Where the header of a patch has `Cases`, no other cases were run;",
        "*differ* has the number of cases that were run.",
        "No case was written for one of the bugs, and every oracle states a rule of an RFC or of Linux. *Slower*",
        "counts cases with less than 90 % of the goodput without the bug: a comparison of kernels, not a finding.",
        "A finding in a single case may be accidental, because a changed packet changes all later packets of the run.",
        "",
        f"* Found: {len(caught)} of {len(rows)} that were run (of {len(bugs())}). Reached (a case differs): {reached}.",
        f"* {seconds / max(len(rows), 1):.0f} CPU s a kernel for the runs.",
        f"* On 6.1 without a bug (measured at {plain['measured']}) {plain['found']} of {plain['cases']} cases have "
        "findings: "
        + (", ".join(f"{text} ({count})" for text, count in plain["by"].items()) or "none")
        + ".",
        f"  {needed['plain']}.",
        "* *Measured* is the time of the commit whose oracles and cases were used.",
        "",
        "| bug | fixed by | lived | found | differ | slower | by (cases) | cause | what would be needed | measured |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for bug in bugs():
        if bug.id not in rows:
            lines.append(f"| `{bug.id}` | {bug.fixed_by} | {bug.lived} | not run | | | | | | |")
            continue
        row = rows[bug.id]
        by = "; ".join(f"{text} ({count})" for text, count in list(row["by"].items())[:2]) or "-"
        slower = f"{row['slower']} (worst {row['slowest'] - 1:.0%})" if row["slower"] else "0"
        what = "" if row["found"] else needed.get(bug.id, "")
        cells = [
            f"`{bug.id}`", bug.fixed_by, bug.lived, f"{row['found']} of {row['cases']}" if row["found"] else "no",
            f"{row['differ']} of {row['cases']}", slower, by, row["cause"], what,
            row["measured"],
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """The command line; see the docstring of the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--plan", type=Path, default=PLAN)
    parser.add_argument("--only", nargs="+", help="names of bugs")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "history")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--budget", default="60", help="runs of each isolation, or its time")
    parser.add_argument("--no-isolation", action="store_true")
    parser.add_argument("--table", action="store_true", help="write the table from what was run before")
    parser.add_argument(
        "--seconds", type=float, help="begin with no further bug after this time; the next call goes on"
    )
    given = parser.parse_args()
    if given.table:
        DOCS.write_text(table(), encoding="utf-8")
        print(DOCS)
        return
    started = time.monotonic()
    given.out = given.out.resolve()
    kernels = Kernels(given.out, given.jobs)
    plain = cases(load(run(kernels, kernels.image(None), given.plan, given.out)))
    store("plain", without_bug(plain))
    print(f"plain: {len(plain)} cases, {sum(one['cpu_s'] for one in plain.values()):.0f} CPU s", flush=True)
    for bug in bugs(given.only):
        late = given.seconds is not None and time.monotonic() - started > given.seconds
        if late and not finished(given.out, bug):
            print(f"{bug.id}: the time is up", flush=True)
            break
        row = looked_at(kernels, bug, plain, given)
        store(bug.id, told(row))
        print(
            f"{bug.id}: {row['found']} of {row['cases']} cases, {row['differ']} differ, {row['by']}",
            flush=True,
        )
    else:
        late = False
    DOCS.write_text(table(), encoding="utf-8")
    print(DOCS)
    if late:
        sys.exit(3)


if __name__ == "__main__":
    main()
