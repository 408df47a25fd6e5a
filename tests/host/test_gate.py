"""Real time on a machine that others use: the gate before a run, repetitions and medians, what is recorded of it."""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from had_time import rows
from patience import SAFETY_NET_S, children, until
from tcpassay.run.journal import Journal
from tcpassay.substrate import host

CASE = {"link.rate": "20Mbit", "link.delay": "0s", "nic.tso": True, "nic.gro": True, "app.duration": "100ms"}
COLLECT = {"series": None, "warmup": "0s", "deliveries": False, "events": False, "packets": False}


def busy() -> float:
    """The share of all processors that something ran on for a quarter of a second (proc(5))."""

    def ticks() -> tuple[int, int]:
        first = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0]
        every = [int(word) for word in first.split()[1:9]]
        return sum(every), every[3] + every[4]

    all_before, idle_before = ticks()
    time.sleep(0.25)
    all_after, idle_after = ticks()
    return 1 - (idle_after - idle_before) / max(1, all_after - all_before)


@contextlib.contextmanager
def load() -> Iterator[None]:
    """Every processor has something to do."""
    spin = "print(flush=True)\nwhile True: pass"
    spinning = [
        subprocess.Popen([sys.executable, "-c", spin], stdout=subprocess.PIPE)
        for _ in range(len(os.sched_getaffinity(0)))
    ]
    try:
        for one in spinning:
            assert one.stdout is not None
            one.stdout.readline()
        if busy() < 0.6:
            pytest.skip("the processors of this machine are not ours to keep busy")
        yield
    finally:
        for one in spinning:
            one.kill()
            one.communicate()


def go(folder: Path, quiet_s: float) -> dict[str, Any]:
    made = host.run_case(triples=CASE, seed=1, base="/", collect=COLLECT, folder=str(folder), quiet_s=quiet_s)
    if made["outcome"] == "path":
        pytest.skip(f"this machine is too busy: {made['message']}")
    assert made["outcome"] == "done", made["message"]
    return made


def test_a_run_waits_for_a_quiet_machine_and_runs_all_the_same_when_it_does_not_become_so(
    tmp_path: Path,
) -> None:
    with load():
        began = time.monotonic()
        go(tmp_path / "patient", 3.0)
        assert time.monotonic() - began > 3.0
        go(tmp_path / "impatient", 0.0)
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
            "import sys, json; from tcpassay.substrate import host; r = json.loads(sys.argv[1]); host.run_case(**r)",
            json.dumps(
                {"triples": CASE, "seed": 1, "base": "/", "collect": COLLECT}
                | {"folder": str(tmp_path / "run"), "quiet_s": 3600.0}
            ),
        ]
        waiting = subprocess.Popen(command)
        until(lambda: children(waiting.pid), "the agent is started")
        time.sleep(1.5)
        assert waiting.poll() is None, "it waits"
    try:
        assert waiting.wait(30) == 0
    except subprocess.TimeoutExpired:
        waiting.kill()
        waiting.wait()
        pytest.skip("others kept this machine busy for half a minute")
    if not (tmp_path / "run").exists():
        pytest.skip("this machine is too busy to send as fast as the case wants")
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
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=SAFETY_NET_S
    )
    result = json.loads((tmp_path / "out" / "result.json").read_text(encoding="utf-8"))
    (one,) = result["runs"]
    if one["outcome"] == "path":
        pytest.skip(f"this machine is too busy: {one['message']}")
    assert done.returncode == 0, done.stdout + done.stderr
    with Journal.peek(tmp_path / "out") as journal:
        each = [entry.payload["metrics"] for entry in journal.entries() if entry.payload]
    # In real time no two runs are the same, and that is no finding.
    assert len({json.dumps(metrics) for metrics in each}) == 3
    assert one["metrics"]["throughput"] == statistics.median(metrics["throughput"] for metrics in each) > 0
    assert result["undetermined"] == []
