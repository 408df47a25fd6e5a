"""Real time on a shared machine: the gate before a run, repetitions and medians, and the recorded load."""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import folders
from control import control, rows, ticks
from patience import SAFETY_NET_S, children, until
from tcpassay.run.journal import Journal
from tcpassay.substrate import host

CASE = {"link.rate": "20Mbit", "link.delay": "0s", "nic.tso": True, "nic.gro": True, "app.duration": "100ms"}
WINDOWS, OPENS = 480, 4
"""Quarters of a second: as many as the machine gets to become quiet, and as many quiet ones as open the gate."""
COLLECT = {"series": None, "warmup": "0s", "deliveries": False, "events": False, "packets": False}


def busy() -> float:
    """The share of all processors that something ran on for a quarter of a second."""
    all_before, idle_before = ticks()
    time.sleep(0.25)
    all_after, idle_after = ticks()
    return 1 - (idle_after - idle_before) / max(1, all_after - all_before)


@contextlib.contextmanager
def load() -> Iterator[list[int]]:
    """Keeps every processor busy with processes of the lowest priority, which do not delay other processes."""
    processors = len(os.sched_getaffinity(0))
    if processors < (os.cpu_count() or 1):
        pytest.skip(
            f"the tests may use {processors} of {os.cpu_count()} processors and cannot keep all of them busy"
        )
    spin = "import os\nos.nice(19)\nprint(flush=True)\nwhile True: pass"
    spinning = [
        subprocess.Popen([sys.executable, "-c", spin], stdout=subprocess.PIPE) for _ in range(processors)
    ]
    try:
        for one in spinning:
            assert one.stdout is not None
            one.stdout.readline()
        until(lambda: busy() > 0.6, "processes that never wait keep all processors busy")
        yield [one.pid for one in spinning]
    finally:
        for one in spinning:
            one.kill()
            one.communicate()


def go(folder: Path, quiet_s: float, ours: list[int]) -> None:
    with control(ours) as seen:
        made = host.run_case(
            triples=CASE, seed=1, base="/", collect=COLLECT, folder=str(folder), quiet_s=quiet_s
        )
    if made.outcome == "path":
        seen.skip_if_disturbed(made.message)
    assert made.outcome == "done", made.message


def test_a_run_waits_for_a_quiet_machine_and_runs_all_the_same_when_it_does_not_become_so(
    tmp_path: Path,
) -> None:
    with load() as ours:
        began = time.monotonic()
        go(tmp_path / "patient", 3.0, ours)
        assert time.monotonic() - began > 3.0
        go(tmp_path / "impatient", 0.0, ours)
    for name in ("patient", "impatient"):
        seen = rows(tmp_path / name)
        # The processors were taken, and the recording says so: before the run, and by others during it.
        assert seen["machine", "busy_before"] > 0.2
        assert 0 < seen["machine", "busy_others"] <= 1
        # A mean over a minute that is made every five seconds need not show it yet.
        assert seen["machine", "load"] >= 0
        assert seen["machine", "agent_cpu"] > 0
        assert seen["machine", "late"] > 0
        assert 0 <= seen["machine", "stolen"] <= 1


def test_the_gate_opens_when_the_load_goes_away(tmp_path: Path) -> None:
    with load():
        command = [
            sys.executable,
            "-c",
            (
                "import sys, json; from dataclasses import asdict; from tcpassay.substrate import host; "
                "r = json.loads(sys.argv[1]); json.dump(asdict(host.run_case(**r)), open(sys.argv[2], 'w'))"
            ),
            json.dumps(
                {"triples": CASE, "seed": 1, "base": "/", "collect": COLLECT}
                | {"folder": str(tmp_path / "run"), "quiet_s": 3600.0}
            ),
            str(tmp_path / "made.json"),
        ]
        waiting = subprocess.Popen(command)
        until(lambda: children(waiting.pid), "the agent is started")
        time.sleep(1.5)
        assert waiting.poll() is None, "it waits"
    with control([]) as seen:
        quiet = 0
        for _ in range(WINDOWS):
            if waiting.poll() is not None:
                break
            quiet = quiet + 1 if busy() < 0.1 else 0
            if quiet == OPENS:
                break
        # The gate looks at 200 ms after 200 ms: one of these lies wholly in such a time.
        if quiet == OPENS:
            waiting.communicate(timeout=SAFETY_NET_S)
    if waiting.poll() is None:
        waiting.kill()
        waiting.communicate()
        pytest.skip(f"others kept this machine busy: no second of {WINDOWS // 4} was quiet")
    assert waiting.returncode == 0
    made = json.loads((tmp_path / "made.json").read_text(encoding="utf-8"))
    if made["outcome"] == "path":
        seen.skip_if_disturbed(made["message"])
    assert made["outcome"] == "done", made["message"]
    assert rows(tmp_path / "run")["machine", "busy_before"] <= 0.2


def test_repetitions_are_runs_of_their_own_and_a_check_takes_their_median(tmp_path: Path) -> None:
    plan = f"""\
name = "again"
substrates = ["host"]
seeds = [1]
repetitions = 3
oracles = false

[fixed]
{"".join(f'"{name}" = {json.dumps(value)}' + chr(10) for name, value in CASE.items())}
[axes]
"stack.cc" = ["reno"]

[[check]]
metric = "throughput"
over = "median"
op = ">"
value = 0
why = "something passes"
"""
    (tmp_path / "plan.toml").write_text(plan, encoding="utf-8")
    command = [sys.executable, "-m", "tcpassay", "run", "plan.toml", "--out", "out"]
    with control([]) as seen:
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=SAFETY_NET_S
        )
    result = folders.result(tmp_path / "out")
    (one,) = result["runs"]
    if one["outcome"] == "path":
        seen.skip_if_disturbed(one["message"])
    assert done.returncode == 0, done.stdout + done.stderr
    with Journal.peek(tmp_path / "out") as journal:
        each = [entry.payload["metrics"] for entry in journal.entries() if entry.payload]
    # In real time no two runs are the same, and that is no finding.
    assert len({json.dumps(metrics) for metrics in each}) == 3
    assert one["metrics"]["throughput"] == statistics.median(metrics["throughput"] for metrics in each) > 0
    assert result["undetermined"] == []
