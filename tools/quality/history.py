"""Reintroduces old bugs of Linux's TCP into a kernel, and determines which of them two plans find: `make history`.

    python tools/quality/history.py                    # every bug: build, run, isolate; then docs/quality-history.md
    python tools/quality/history.py --only cwnd-of-zero --no-isolation
    python tools/quality/history.py --table            # the table of the stored results, without runs
    python tools/quality/history.py --bugs other --out out/other    # the patches of another folder; no table is written

A case finds a bug when an oracle reports an error or a warning in it that it does not report on the same kernel
without the bug, or when only the run with the bug fails. A case whose packets are the same on both kernels did not
reach the bug. `differences.py` defines what `tcpassay follow` finds. What is finished is kept in the folder `--out`, so
that an interrupted run goes on. The result of each bug and plan is stored beside its patch in results.json
(plans/kernel-coverage.toml) or results-windows.json (plans/kernel-windows.toml) with the time of the measured commit;
the table shows all.
"""

import argparse
import json
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from bugs import DATA, PLAIN, ROOT, TCPASSAY, Bug, Kernels, bugs
from differences import functions
from differences import told as follow_told
from findings import known_as

from tcpassay.following import Followed, follow_folder
from tcpassay.judge import can_judge, judge
from tcpassay.recording import Recording
from tcpassay.results import Results, load


@dataclass(frozen=True, slots=True)
class Sweep:
    """A plan that runs on every kernel, and the file with its last results."""

    plan: Path
    results: str
    """The file with the last result of each bug, and under `plain` that of 6.1 without a bug."""

    @property
    def name(self) -> str:
        """The name of the plan."""
        return self.plan.stem

    def filters(self, chosen: tuple[str, ...]) -> tuple[str, ...]:
        """Those of a bug's factors and values that the plan has; one that it does not have restricts nothing."""
        read = tomllib.loads(self.plan.read_text(encoding="utf-8"))
        known = {(name, str(value)) for name, values in read["axes"].items() for value in values}
        known |= {(name, value) for name, values in read["groups"].items() for value in values}
        return tuple(one for one in chosen if tuple(one.split("=", 1)) in known)


COVERAGE = Sweep(ROOT / "plans" / "kernel-coverage.toml", "results.json")
WINDOWS = Sweep(ROOT / "plans" / "kernel-windows.toml", "results-windows.json")
SWEEPS = (COVERAGE, WINDOWS)
DOCS = ROOT / "docs" / "quality-history.md"
COLUMNS = ("bug", "fixed by", "lived", "changed", "oracles", "alone", "named", "beside", "first differences")
COLUMNS += ("slower", "findings (cases)", "cause of a finding", "what an oracle would need", "measured")
NOTES = DATA / "notes.toml"
"""For bugs that are not found: the missing feature. Under `plain`: the reasons of the findings without a bug."""
HOLD_OUT = DATA / "holdout.toml"
"""The first measurement of the bugs of the hold-out."""
COUNTED = ("error", "warning")
"""Severities of the findings that find a bug. First differences from the model are counted beside them."""
ENDS = 2
"""Ends of a case: one connection."""
COUNTED_FIELDS = ("PSH",)
"""Fields whose differences end no following: PSH changes nothing at the sender, and what follows it would be hidden."""
SLOWER = 0.9
"""Share of the goodput without the bug below which a case counts as slower."""


def run(kernels: Kernels, kernel: str, plan: Path, out: Path, filters: tuple[str, ...] = ()) -> Path:
    """Runs the plan on a kernel of the store, or continues it, and returns the folder of results."""
    folder = out / "results" / kernel
    own = out / f"{kernel}.toml"
    text = f'name = "{kernel}"\nextends = "{plan.resolve()}"\nsubstrates = ["kernel:{kernel}"]\n'
    own.write_text(text + 'collect.events = true\ncollect.packets = true\nkeep.recordings = "all"\n')
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
    return Counter(known_as(oracle, title) for oracle, title, severity in found if severity in COUNTED)


def cases(results: Results, plain: dict[str, dict[str, Any]] | None = None) -> dict[str, dict[str, Any]]:
    """Each run by what its case varies: outcome, checksums of packets and recording, goodput, findings, CPU time.

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
            "trace": run.get("trace"),
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
        differ += one["trace"] != other["trace"] or one["outcome"] != other["outcome"]
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


def finished(out: Path, kernel: str) -> bool:
    """Whether all runs of a kernel are there. `out`: the folder of a sweep."""
    folder = out / "results" / kernel
    return (folder / "result.json").exists() and load(folder).index["status"] == "complete"


@dataclass(frozen=True, slots=True)
class Plain:
    """The runs of a plan on the kernel without a bug."""

    cases: dict[str, dict[str, Any]]
    followed: Followed


def looked_at(
    kernels: Kernels, sweep: Sweep, bug: Bug, plain: Plain, given: argparse.Namespace
) -> dict[str, Any]:
    """Builds, runs, compares and isolates one bug, or reads stored results."""
    out = place(given.out, sweep)
    file: Path = out / f"{bug.id}.json"
    folder = out / "results" / bug.id
    complete = finished(out, bug.id)
    row: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    if not complete:
        started = time.monotonic()
        name = kernels.image(bug)
        row = {"build_s": round(time.monotonic() - started, 1)}
        chosen = bug.window_cases if sweep is WINDOWS and bug.window_cases else bug.cases
        run(kernels, name, sweep.plan, out, sweep.filters(chosen))
    faulty = cases(load(folder), plain.cases)
    row |= compared(plain.cases, faulty) | {"cpu_s": round(sum(one["cpu_s"] for one in faulty.values()), 1)}
    changed, callers = functions(bug, kernels.source(bug.id))
    changed_cases = {one["case"] for key, one in faulty.items() if one["trace"] != plain.cases[key]["trace"]}
    followed = follow_folder(folder, COUNTED_FIELDS, kernels.jobs, changed_cases)
    found = follow_told(plain.followed, followed, changed | callers, ENDS * len(faulty))
    row |= {"functions": sorted(changed), "follow": found}
    file.write_text(json.dumps(row, indent=1))
    if row["found"] and "isolation" not in row and not given.no_isolation:
        row["isolation"] = isolated(kernels, folder, row, given.budget)
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


def place(out: Path, sweep: Sweep) -> Path:
    """The folder of the runs of a sweep."""
    return out if sweep is COVERAGE else out / sweep.name


def stored(sweep: Sweep, folder: Path = DATA) -> dict[str, dict[str, Any]]:
    """The stored results of a sweep on the bugs of a folder."""
    file = folder / sweep.results
    made: dict[str, dict[str, Any]] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return made


def store(sweep: Sweep, folder: Path, name: str, row: dict[str, Any]) -> None:
    """Replaces one of the stored results."""
    head = ["git", "-C", str(ROOT), "log", "-1", "--format=%cI"]
    commit = subprocess.run(head, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603
    rows = stored(sweep, folder) | {name: row | {"measured": commit}}
    (folder / sweep.results).write_text(
        json.dumps(dict(sorted(rows.items())), indent=1) + "\n", encoding="utf-8"
    )


def told(row: dict[str, Any]) -> dict[str, Any]:
    """What the table shows of a result."""
    kept = ("cases", "differ", "slower", "slowest", "found", "by", "cpu_s", "functions", "follow")
    return {key: row[key] for key in kept} | {"cause": cause(row)}


def without_bug(plain: Plain) -> dict[str, Any]:
    """The result of 6.1 without a bug: cases with findings, ends that are followed, and what is found how often."""
    runs, followed = plain.cases.values(), plain.followed
    found = Counter(f"{oracle}: {title}" for one in runs for oracle, title in one["found"])
    return {
        "cases": len(runs),
        "found": sum(bool(one["found"]) for one in runs),
        "by": dict(found.most_common()),
        "ends": len(followed.ends),
        "followed": followed.whole,
        "causes": {cause.cause: cause.count for cause in followed.causes},
    }


def plain_lines(needed: dict[str, str]) -> Iterator[str]:
    """What each sweep finds on 6.1 without a bug."""
    for sweep in SWEEPS:
        plain = stored(sweep).get("plain")
        if plain is None:
            continue
        what = ", ".join(f"{text} ({count})" for text, count in plain["by"].items()) or "none"
        yield (
            f"* On 6.1 without a bug {plain['found']} of {plain['cases']} cases of `{sweep.name}` have findings "
            f"(measured at {plain['measured']}): {what}."
        )
        yield f"  {needed['plain' if sweep is COVERAGE else f'plain-{sweep.name}']}."


def hold_out(ran: dict[str, dict[str, dict[str, Any]]]) -> str:
    """The results of the hold-out before and after plans and oracles were changed. `ran`: the present ones."""
    first = tomllib.loads(HOLD_OUT.read_text(encoding="utf-8"))
    found: dict[str, tuple[int, int]] = first["found"]
    now = sum(any(row["found"] for row in ran.get(name, {}).values()) for name in found)
    hits = [f"`{name}` in {cases} of {of} cases" for name, (cases, of) in found.items() if cases]
    names = ", ".join(f"`{name}`" for name in found)
    return (
        f"* Hold-out: {len(found)} of the bugs ({names}) were chosen after the plans and oracles had been written, "
        f"and were run before either was changed again (measured at {first['measured']}): {len(hits)} of "
        f"{len(found)} were found ({', '.join(hits)}). With the present plans and oracles, whose changes followed, "
        f"{now} of {len(found)} are found."
    )


def followed_hold_out() -> str:
    """The first results of the bugs that were chosen before the reasons of `follow` were changed for any of them."""
    first = tomllib.loads(HOLD_OUT.read_text(encoding="utf-8"))["follow"]
    rows: dict[str, tuple[int, ...]] = first["found"]
    alone, named, beside, oracles = (
        {name for name, row in rows.items() if row[column]} for column in (2, 3, 4, 5)
    )
    return (
        f"* Second hold-out: {len(rows)} bugs ({', '.join(f'`{name}`' for name in rows)}) that change packets were "
        f"chosen from memory, and run with `kernel-windows` before anything was mended (measured at "
        f"{first['measured']}): `follow` found {len(alone)} alone, {len(named)} of them named, and "
        f"{len(beside - alone)} only beside the plain kernel; oracles found {len(oracles)}. The reasons that follow "
        "the windows of a kernel came afterwards, for the kind."
    )


def mean_cpu(rows: dict[str, dict[str, Any]]) -> float:
    """Mean CPU time of the runs of a bug, in seconds."""
    spent = [row["cpu_s"] for row in rows.values() if "cpu_s" in row]
    return sum(spent) / max(len(spent), 1)


def following(rows: dict[str, dict[str, Any]]) -> list[str]:
    """The cells about first differences: alone, named, beside, and the most frequent cause of each plan."""
    measured = [row["follow"] for row in rows.values() if "follow" in row]
    if not measured:
        return ["not measured"] * 4
    alone, named, beside, ends = (
        sum(one[key] for one in measured) for key in ("alone", "named", "beside", "ends")
    )
    causes = dict.fromkeys(text for one in measured for text in list(one["causes"])[:2])
    return [f"{alone} of {ends}" if alone else "no", str(named), str(beside), "<br>".join(causes) or "-"]


def ways(rows: dict[str, dict[str, dict[str, Any]]]) -> str:
    """How many bugs whose packets differ are found, and by what. `rows`: the results by bug and plan."""
    reached = {
        bug: [row["follow"] for row in of.values() if "follow" in row]
        for bug, of in rows.items()
        if any(row["differ"] and "follow" in row for row in of.values())
    }

    def found(key: str) -> set[str]:
        return {bug for bug, told in reached.items() if any(one[key] for one in told)}

    alone, by = found("alone"), {bug for bug in reached if any(row["found"] for row in rows[bug].values())}
    return (
        f"Of {len(reached)} bugs that change packets and were followed, `follow` finds {len(alone)} alone, "
        f"{len(found('named'))} of them with a reason that names the function, and {len(found('beside') - alone)} "
        f"more only beside the plain kernel; the oracles find {len(by)}, {len(by - alone)} of which `follow` does not "
        "find alone."
    )


def cells(bug: Bug, rows: dict[str, dict[str, Any]], needed: dict[str, str]) -> list[str]:
    """The cells of a bug. `rows`: its results by the name of the sweep."""

    def each(text: str) -> str:
        """One line for each sweep, by the fields of its result."""
        return "<br>".join(f"{name}: {text.format(**row)}" for name, row in rows.items())

    found = sum(row["found"] for row in rows.values())
    by = "<br>".join(
        f"{text} ({count})" for row in rows.values() for text, count in list(row["by"].items())[:2]
    )
    causes = [row["cause"] for row in rows.values() if row["cause"] != "-"]
    slowest = min(row["slowest"] for row in rows.values())
    slower = sum(row["slower"] for row in rows.values())
    return [
        f"`{bug.id}`",
        bug.fixed_by,
        bug.lived,
        each("{differ} of {cases}"),
        each("{found} of {cases}") if found else "no",
        *following(rows),
        f"{slower} (worst {slowest - 1:.0%})" if slower else "0",
        by or "-",
        "<br>".join(causes) or "-",
        "" if found else needed.get(bug.id, ""),
        each("{measured}"),
    ]


def table() -> str:
    """`docs/quality-history.md`."""
    needed = tomllib.loads(NOTES.read_text(encoding="utf-8"))
    results = {sweep.name: stored(sweep) for sweep in SWEEPS}
    of = {bug.id: {name: rows[bug.id] for name, rows in results.items() if bug.id in rows} for bug in bugs()}
    ran = {bug: rows for bug, rows in of.items() if rows}
    caught = sum(any(row["found"] for row in rows.values()) for rows in ran.values())
    reached = sum(any(row["differ"] for row in rows.values()) for rows in ran.values())
    lines = [
        "# Old bugs of Linux",
        "",
        "Generated by `tools/quality/history.py` (`make history`). Each row is a bug of Linux's TCP that was put",
        "back into 6.1 (tests/quality/history has the patches and their fixing commits). The same cases of two",
        "general plans ran on the kernel with the bug and on 6.1 without it: `plans/kernel-coverage.toml`, whose",
        "cases differ from the usual in most factors, and `plans/kernel-windows.toml`, whose cases differ in little",
        "more than traffic and one disturbance. Where the header of a patch has `Cases`, no other cases were run.",
        "No case was written for one of the bugs.",
        "",
        "* *Changed*: cases whose packets differ from those without the bug (where none differs, the plan did not",
        "  reach it), and the number of cases that were run.",
        "* *Oracles*: cases in which an oracle reports an error or a warning that it does not report without the bug,",
        "  or in which only the run with the bug fails. A finding in a single case may be accidental, because a",
        "  changed packet changes all later packets of the run.",
        "* *Alone*: ends at which `tcpassay follow --count PSH` has a first difference that the same end does not",
        "  have without the bug, or has later, and whose cause (what differs, and the kind of the model's reason) no",
        "  end of any run of the plan has on 6.1 without a bug, or so few that its number with the bug has a",
        "  probability below 0.001: with a list of those causes and their shares the plain kernel need not run.",
        "* *Named*: of these, ends with a reason that names a function that the patch changes, or one that calls it.",
        "* *Beside*: the other new or earlier first differences, which only a comparison with the same case on the",
        "  plain kernel tells from faults of the model.",
        "* *Slower*: cases with less than 90 % of the goodput without the bug: a comparison of kernels, not a finding.",
        "",
        f"* Oracles find {caught} of {len(ran)} that were run (of {len(of)}). Packets of {reached} differ in a case.",
        f"* {ways(ran)}",
        *(
            f"* {mean_cpu(rows):.0f} CPU s a kernel for the runs of `{name}`."
            for name, rows in results.items()
        ),
        hold_out(ran),
        followed_hold_out(),
        *plain_lines(needed),
        "* *Measured* is the time of the commit whose oracles and cases were used.",
        "",
        f"| {' | '.join(COLUMNS)} |",
        f"| {' | '.join(['---'] * len(COLUMNS))} |",
    ]
    for bug in bugs():
        if bug.id not in ran:
            lines.append(
                f"| `{bug.id}` | {bug.fixed_by} | {bug.lived} | not run {'| ' * (len(COLUMNS) - 3)}|"
            )
            continue
        lines.append(f"| {' | '.join(cells(bug, ran[bug.id], needed))} |")
    return "\n".join(lines) + "\n"


def swept(kernels: Kernels, sweep: Sweep, given: argparse.Namespace, started: float) -> bool:
    """Runs one plan on all kernels. Returns false if the time was up before the last one."""
    out = place(given.out, sweep)
    out.mkdir(parents=True, exist_ok=True)
    folder = out / "results" / PLAIN
    if not finished(out, PLAIN):
        folder = run(kernels, kernels.image(None), sweep.plan, out)
    plain = Plain(cases(load(folder)), follow_folder(folder, COUNTED_FIELDS, kernels.jobs))
    store(sweep, given.bugs, "plain", without_bug(plain))
    spent = sum(one["cpu_s"] for one in plain.cases.values())
    print(f"{sweep.name}, plain: {len(plain.cases)} cases, {spent:.0f} CPU s", flush=True)
    for bug in bugs(given.only, given.bugs):
        late = given.seconds is not None and time.monotonic() - started > given.seconds
        if late and not finished(out, bug.id):
            print(f"{sweep.name}, {bug.id}: the time is up", flush=True)
            return False
        row = looked_at(kernels, sweep, bug, plain, given)
        store(sweep, given.bugs, bug.id, told(row))
        print(
            f"{sweep.name}, {bug.id}: {row['found']} of {row['cases']} cases, {row['differ']} differ, {row['by']}; "
            f"{row['follow']}",
            flush=True,
        )
    return True


def main() -> None:
    """The command line; see the docstring of the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [sweep.name for sweep in SWEEPS]
    parser.add_argument("--plans", nargs="+", choices=names, default=names, help="only these plans")
    parser.add_argument("--only", nargs="+", help="names of bugs")
    parser.add_argument("--bugs", type=Path, default=DATA, help="the folder of the patches")
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
    given.out, given.bugs = given.out.resolve(), given.bugs.resolve()
    kernels = Kernels(given.out, given.jobs)
    chosen = [sweep for sweep in SWEEPS if sweep.name in given.plans]
    complete = all(swept(kernels, sweep, given, started) for sweep in chosen)
    if given.bugs == DATA:
        DOCS.write_text(table(), encoding="utf-8")
        print(DOCS)
    if not complete:
        sys.exit(3)


if __name__ == "__main__":
    main()
