"""The real command, killed at random moments and resumed: nothing lost, nothing repeated, the same result."""

import contextlib
import hashlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tcpassay import load

COMMAND = [sys.executable, "-m", "tcpassay"]

# Sixty runs of a few milliseconds; a stack that takes reordering for loss, so that there are findings.
PLAN = """\
name = "many"
seeds = [1, 2, 3, 4, 5, 6]
keep.sample = "20%"

[fixed]
"app.duration" = "60ms"
"link.rate" = "100Mbit"
"link.jitter" = "10us"
"link.reorder" = "reverse-burst:5"

[axes]
"stack.profile" = ["freebsd", "linux"]
"link.delay" = ["1ms", "2ms", "3ms", "4ms", "5ms"]

[collect]
series = "10ms"

[[check]]
metric = "throughput"
op = ">"
value = 0
why = "something arrives"
"""
RUNS = 60


def start(folder: Path, *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, "run", *args, "--jobs", "2"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    said, _ = process.communicate(timeout=240)
    return process.returncode, said


def children(pid: int) -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = status.read_text(encoding="utf-8").rpartition(")")[2].split()
            if int(fields[1]) == pid:
                found.append(int(status.parent.name))
    return found


def ended(folder: Path) -> dict[int, tuple[str, float, int]]:
    """Of each run that ended: what came of it, when, and how often it was begun."""
    if not (folder / "journal.sqlite").exists():
        return {}
    with contextlib.closing(sqlite3.connect(folder / "journal.sqlite")) as database:
        rows = database.execute(
            "SELECT number, outcome, finished, attempts FROM cases WHERE outcome IS NOT NULL"
        ).fetchall()
    return {number: (outcome, finished, attempts) for number, outcome, finished, attempts in rows}


def result(folder: Path) -> dict[str, Any]:
    """`result.json` without the machine and the times."""
    made: dict[str, Any] = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    del made["environment"]
    for run in made["runs"]:
        del run["cpu_s"], run["simulation_s"]
    return made


def digests(folder: Path) -> dict[str, str]:
    """Every file that is a function of the plan."""
    own = ("result.json", "journal.sqlite", ".work")
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(own) and path.parent.name != ".work"
    }


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results without a disturbance."""
    folder = tmp_path_factory.mktemp("calm")
    (folder / "plan.toml").write_text(PLAN, encoding="utf-8")
    code, said = end(start(folder, "plan.toml", "--out", "out"))
    assert code == 0, said
    return folder / "out"


def same(wild: Path, calm: Path) -> None:
    assert result(wild) == result(calm)
    assert digests(wild) == digests(calm)
    assert not (wild / ".work").exists()
    assert not list(wild.glob("journal.sqlite-owner-*"))


def test_the_plan_has_what_could_be_lost(calm: Path) -> None:
    results = load(calm)
    assert len(results.runs) == RUNS
    assert results.index["status"] == "complete"
    assert results.findings.height > 10
    kept = [run for run in results.runs if run["recording"]]
    assert 30 < len(kept) < RUNS
    assert set(digests(calm)) > {"plan.toml", "metrics.parquet", "findings.json"}
    assert results.problems == []


def test_killed_again_and_again_it_ends_as_if_never_disturbed(calm: Path, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8")
    out = tmp_path / "out"
    rng = random.Random(20261121)  # noqa: S311
    process = start(tmp_path, "plan.toml", "--out", "out")
    kills = 0
    before: dict[int, tuple[str, float, int]] = {}
    while kills < 8 and len(before) < RUNS * 2 // 3:
        # From the start of the interpreter on: each kill waits for some more runs to end, then a moment.
        target = len(before) + rng.randint(0, 4)
        while len(ended(out)) < target and process.poll() is None:
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.04))
        workers = children(process.pid)
        process.kill()
        if process.wait() == 0:
            break
        kills += 1
        assert process.stdout is not None
        process.stdout.close()
        until = time.monotonic() + 20
        while any(Path(f"/proc/{pid}/statm").exists() for pid in workers):
            assert time.monotonic() < until, "a worker outlived the command"
            time.sleep(0.01)
        now = ended(out)
        assert before.items() <= now.items(), "a run that had ended was lost or repeated"
        before = now
        if (out / "journal.sqlite").exists():
            process = start(tmp_path, "--resume", "out")
        else:  # killed before there was anything to resume
            process = start(tmp_path, "plan.toml", "--out", "out", "--force")
    assert kills >= 4
    assert 0 < len(before) < RUNS, "no kill came in the middle"
    code, said = end(process)
    assert code == 0, said
    now = ended(out)
    assert before.items() <= now.items()
    assert len(now) == RUNS
    assert max(attempts for _, _, attempts in now.values()) > 1, "no kill came in the middle of a run"
    same(out, calm)


def test_a_worker_that_is_killed_from_outside_costs_nothing(calm: Path, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8")
    process = start(tmp_path, "plan.toml", "--out", "out")
    killed: set[int] = set()
    while len(killed) < 4 and process.poll() is None:
        if len(ended(tmp_path / "out")) >= 8 * (len(killed) + 1):
            fresh = [pid for pid in children(process.pid) if pid not in killed]
            if fresh:
                killed.add(fresh[0])
                os.kill(fresh[0], signal.SIGKILL)
        time.sleep(0.005)
    code, said = end(process)
    assert code == 0, said
    assert len(killed) >= 2
    same(tmp_path / "out", calm)


def test_an_interrupted_run_is_resumed_and_one_that_is_complete_is_left_as_it_is(
    calm: Path, tmp_path: Path
) -> None:
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8")
    out = tmp_path / "out"
    process = start(tmp_path, "plan.toml", "--out", "out", "--shuffle", "7")
    while len(ended(out)) < 10:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    code, said = end(process)
    assert code == 130, said
    assert "tcpassay run --resume out" in said
    # Shuffled, the first ten are not the plan's first ten.
    assert set(ended(out)) != set(range(len(ended(out))))
    assert end(start(tmp_path, "--resume", "out"))[0] == 0
    same(out, calm)
    before = ended(out)
    assert end(start(tmp_path, "--resume", "out"))[0] == 0
    assert ended(out) == before
    same(out, calm)


def test_the_time_of_the_plan_ends_it_cleanly_and_more_time_goes_on(calm: Path, tmp_path: Path) -> None:
    text = PLAN.replace("[fixed]", 'limits.time = "300ms"\n\n[fixed]')
    (tmp_path / "plan.toml").write_text(text, encoding="utf-8")
    out = tmp_path / "out"
    code, said = end(start(tmp_path, "plan.toml", "--out", "out"))
    assert code == 130, said
    assert "the plan's time is used up" in said
    assert result(out)["status"] == "budget"
    first = ended(out)
    assert 0 < len(first) < RUNS
    code, said = end(start(tmp_path, "--resume", "out"))
    assert code == 130, said
    assert first.items() < ended(out).items()
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8")
    code, said = end(start(tmp_path, "plan.toml", "--extend", "--out", "out"))
    assert code == 0, said
    assert first.items() < ended(out).items()
    same(out, calm)


def test_while_it_goes_on_the_folder_tells_what_ended(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8")
    process = start(tmp_path, "plan.toml", "--out", "out")
    while len(ended(tmp_path / "out")) < 20:
        time.sleep(0.01)
    process.kill()
    end(process)
    results = load(tmp_path / "out")
    assert results.index["status"] == "running"
    number = len(ended(tmp_path / "out"))
    assert len(results.runs) == RUNS
    assert results.cases["outcome"].to_list().count("done") == results.metrics.height == number
    assert results.findings.height == sum(run["findings"] for run in results.runs if "findings" in run) > 0
    assert results.problems == []
