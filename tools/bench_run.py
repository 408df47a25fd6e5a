"""Measures the overhead of the runner beyond the simulation, and the memory of a large plan.

    python tools/bench_run.py [--runs N] [--cases N] [--jobs N]

First, runs of one simulated second (pair, 1 Gbit/s, 10 ms round trip): all CPU time of `tcpassay run`, with its
workers, against that of the data plane alone, which simulates and computes metrics. The goal is 5 % on top. The same
with oracles gives the cost of event logs and oracles. Second, a plan of many very short cases: the memory of the
largest process that plans, journals and reports it. The goal is 2 GB. Exit code 1: a goal is missed.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tcpassay.results import load

OVERHEAD = 0.05
MEMORY = 2 * 1000**3

SECONDS = """\
name = "seconds"
seeds = {seeds}
oracles = {oracles}
keep = {{ recordings = "none", sample = "0%" }}

[fixed]
"topology" = "pair"
"link.rate" = "1Gbit"
"link.delay" = "5ms"
"app.duration" = "1s"

[axes]
"stack.cc" = ["reno", "cubic"]
"queue.limit" = {{ from = "100KB", to = "2500KB", steps = 25 }}
"stack.delayed_ack" = ["2,40ms", "2,200ms"]
"""

MANY = """\
name = "many"
oracles = false
keep = {{ recordings = "none", sample = "0%" }}

[fixed]
"app.duration" = "1ms"
"link.rate" = "1Gbit"

[axes]
"queue.limit" = {{ from = "10KB", to = "10MB", steps = {side}, scale = "log" }}
"link.delay" = {{ from = "1ms", to = "100ms", steps = {side}, scale = "log" }}
"""


@dataclass(frozen=True)
class Cost:
    """The cost of a command, including all child processes that it waited for."""

    wall: float
    cpu: float
    largest: int
    """Maximum resident memory of one of the processes in bytes."""


def command(*arguments: str) -> Cost:
    """Runs `tcpassay`. Raises `SystemExit` if it fails."""
    started = time.monotonic()
    process = subprocess.Popen(  # noqa: S603 - this very program
        [sys.executable, "-m", "tcpassay", *arguments], stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in {0, 1}:
        sys.exit(f"tcpassay {' '.join(arguments)}: exit code {process.returncode}")
    return Cost(time.monotonic() - started, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


def seconds(folder: Path, runs: int, jobs: int, *, oracles: bool) -> float:
    """The overhead, as a share of the CPU time of the data plane."""
    seeds = list(range(1, max(runs // 100, 1) + 1))
    plan, out = folder / "seconds.toml", folder / "seconds"
    plan.write_text(SECONDS.format(seeds=seeds, oracles=str(oracles).lower()), encoding="utf-8")
    cost = command("run", str(plan), "--out", str(out), "--jobs", str(jobs), "--force")
    done = [run for run in load(out).runs if run["outcome"] == "done"]
    simulated = sum(run["simulation_s"] for run in done)
    worked = sum(run["cpu_s"] for run in done)
    share = cost.cpu / simulated - 1
    judged, logs = ("judged", " with event logs") if oracles else ("not judged", "")
    each = 1e3 * cost.wall / len(done)
    print(f"{len(done)} runs of 1 s, {judged}, {jobs} jobs: {cost.wall:.1f} s, {each:.1f} ms a run")
    print(f"    data plane{logs} {simulated:.1f} s of CPU, workers {worked:.1f} s, all {cost.cpu:.1f} s")
    print(
        f"    on top of the data plane: {share:.1%} of CPU; wall time {cost.wall * jobs / simulated - 1:.1%}"
    )
    return share


def many(folder: Path, cases: int, jobs: int) -> int:
    """The memory of the largest process in bytes."""
    side = round(cases**0.5)
    plan, out = folder / "many.toml", folder / "many"
    plan.write_text(MANY.format(side=side), encoding="utf-8")
    ran = command("run", str(plan), "--out", str(out), "--jobs", str(jobs), "--force")
    told = command("report", str(out))
    kept = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    print(
        f"{side * side} cases planned, journaled and run in {ran.wall:.1f} s: {ran.largest / 1e6:.0f} MB at most"
    )
    print(
        f"    reported in {told.wall:.1f} s: {told.largest / 1e6:.0f} MB at most; the folder has {kept / 1e6:.0f} MB"
    )
    return max(ran.largest, told.largest)


def main() -> None:
    """Prints both measurements, and fails if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tcpassay-bench-") as scratch:
        folder = Path(scratch)
        share = seconds(folder, options.runs, options.jobs, oracles=False)
        seconds(folder, max(options.runs // 10, 100), options.jobs, oracles=True)
        largest = many(folder, options.cases, options.jobs)
    missed = [f"overhead of {share:.1%}, allowed are {OVERHEAD:.0%}"] * (share > OVERHEAD)
    missed += [f"{largest / 1e9:.1f} GB, allowed are {MEMORY / 1e9:.0f} GB"] * (largest > MEMORY)
    for one in missed:
        print(f"MISSED: {one}")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
