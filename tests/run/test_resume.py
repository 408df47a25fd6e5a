"""The command, killed at random times and resumed: no run is lost or repeated, and the result is the same."""

import contextlib
import hashlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gate import SCRIPT, Gate

import folders
from patience import SAFETY_NET_S, children, parent, until
from tcpassay import load
from tcpassay.plan.read import read_file
from tcpassay.run.execute import Local, execute
from tcpassay.run.session import Beginning, Session

COMMAND = [sys.executable, "-m", "tcpassay"]

# Sixty runs of a few milliseconds, with a stack that treats reordering as loss, so that there are findings.
PLAN = """\
name = "many"
seeds = [1, 2, 3, 4, 5, 6]
keep.sample = "20%"
limits.case_time = "1h"  # of which a test may hold up a run for some seconds

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


STARTED: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    """When a test fails, what it has started ends."""
    yield
    for process in STARTED:
        process.kill()
        process.communicate()
    STARTED.clear()


def start(folder: Path, *args: str, gate: Gate | None = None, jobs: int = 2) -> subprocess.Popen[str]:
    command = COMMAND if gate is None else [sys.executable, str(SCRIPT), str(gate.folder)]
    process = subprocess.Popen(
        [*command, "run", *args, "--jobs", str(jobs)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    STARTED.append(process)
    return process


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    said, _ = process.communicate(timeout=SAFETY_NET_S)
    return process.returncode, said


def goes_on(process: subprocess.Popen[str]) -> bool:
    """True; what it said before it ended is the message otherwise."""
    assert process.poll() is None, end(process)
    return True


def asked(folder: Path, question: str) -> list[Any]:
    """What the journal answers, nothing while there is none."""
    if not (folder / "journal.sqlite").exists():
        return []
    with contextlib.closing(sqlite3.connect(folder / "journal.sqlite", timeout=SAFETY_NET_S)) as database:
        return database.execute(question).fetchall()


def ended(folder: Path) -> dict[int, tuple[str, float, int]]:
    """The outcome, the end time and the number of starts of each ended run."""
    rows = asked(folder, "SELECT number, outcome, finished, attempts FROM cases WHERE outcome IS NOT NULL")
    return {number: (outcome, finished, attempts) for number, outcome, finished, attempts in rows}


def reached(process: subprocess.Popen[str], folder: Path, number: int) -> None:
    """Waits until this number of runs has ended."""
    until(lambda: goes_on(process) and len(ended(folder)) >= number, f"{number} runs end")


def result(folder: Path) -> dict[str, Any]:
    """The result without the machine and the times, which the table of runs has, too."""
    made: dict[str, Any] = folders.result(folder)
    del made["environment"], made["xxh3"], made["files"]["runs.parquet"]
    for run in made["runs"]:
        del run["cpu_s"], run["simulation_s"]
    return made


def digests(folder: Path) -> dict[str, str]:
    """Every file that is a function of the plan."""
    own = ("result.json", "runs.parquet", "journal.sqlite", ".work", ".tcpassay.lock")
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


def test_the_plan_of_these_tests_has_findings_and_keeps_a_part_of_the_recordings(calm: Path) -> None:
    results = load(calm)
    assert len(results.runs) == RUNS
    assert results.index["status"] == "complete"
    assert results.findings.height > 10
    kept = [run for run in results.runs if run["recording"]]
    assert 30 < len(kept) < RUNS
    assert set(digests(calm)) > {"plan.toml", "metrics.parquet", "findings.json"}
    assert results.problems == []


def kill(process: subprocess.Popen[str]) -> None:
    workers = children(process.pid)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    until(lambda: not any(map(parent, workers)), "no worker outlives the command")


def test_a_plan_killed_repeatedly_has_the_result_of_an_uninterrupted_run(calm: Path, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8")
    out, gate = tmp_path / "out", Gate(tmp_path / "gate")
    rng = random.Random(20261121)  # noqa: S311
    process = start(tmp_path, "plan.toml", "--out", "out", gate=gate)
    before: dict[int, tuple[str, float, int]] = {}
    for most in range(6, 54, 6):
        gate.let_in(range(most))
        # From the start of the interpreter on: each kill waits for some more runs to end, then a moment.
        reached(process, out, rng.randint(len(before), most))
        if most == 48:  # and at least the last hits a run
            until(lambda: max(gate.before(process.pid), default=0) >= 48, "a run has begun")  # noqa: B023
        time.sleep(rng.uniform(0, 0.04))
        kill(process)
        now = ended(out)
        assert before.items() <= now.items(), "a run that had ended was lost or repeated"
        before = now
        if (out / "journal.sqlite").exists():
            process = start(tmp_path, "--resume", "out", gate=gate)
        else:  # killed before there was anything to resume
            process = start(tmp_path, "plan.toml", "--out", "out", "--force", gate=gate)
    assert 0 < len(before) <= 48
    gate.let_in(range(RUNS))
    code, said = end(process)
    assert code == 0, said
    now = ended(out)
    assert before.items() <= now.items()
    assert len(now) == RUNS
    assert max(attempts for _, _, attempts in now.values()) > 1
    same(out, calm)


def test_the_run_of_a_worker_that_is_killed_from_outside_is_repeated(calm: Path, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8")
    out, gate = tmp_path / "out", Gate(tmp_path / "gate")
    process = start(tmp_path, "plan.toml", "--out", "out", gate=gate)
    # One wherever it is.
    gate.let_in(range(20))
    reached(process, out, 8)
    killed = {until(lambda: children(process.pid), "there is a worker")[0]}
    os.kill(*killed, signal.SIGKILL)
    # And three whose run is known: before it, after it with the answer unsent, and before one again.
    hit = set()
    for first, waiting in ((20, gate.before), (30, gate.held), (40, gate.before)):
        gate.hold(range(first, RUNS) if waiting == gate.held else [])
        gate.let_in(range(RUNS if waiting == gate.held else first))
        until(lambda: not any(map(parent, killed)), "who was killed is gone")
        two = until(lambda: goes_on(process) and both(waiting(process.pid), first), "both wait")  # noqa: B023
        # The one that was begun less often: a run has ended when its process was killed three times.
        begun = dict(asked(out, "SELECT number, attempts FROM cases"))
        number = min(two, key=lambda one: (begun[one], one))
        hit.add(number)
        killed.add(two[number])
        os.kill(two[number], signal.SIGKILL)
    gate.hold([])
    gate.let_in(range(RUNS))
    code, said = end(process)
    assert code == 0, said
    assert len(killed) == 4
    now = ended(out)
    assert min(now[number][2] for number in hit) > 1
    same(out, calm)


def both(waiting: dict[int, int], first: int) -> dict[int, int]:
    """The two workers that wait with runs from `first` on, when there are two."""
    there = {number: pid for number, pid in waiting.items() if number >= first}
    return there if len(there) == 2 else {}


def test_an_interrupted_run_is_resumed_and_one_that_is_complete_is_left_as_it_is(
    calm: Path, tmp_path: Path
) -> None:
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8")
    out, gate = tmp_path / "out", Gate(tmp_path / "gate")
    process = start(tmp_path, "plan.toml", "--out", "out", "--shuffle", "7", gate=gate)
    first = "SELECT number FROM cases ORDER BY position LIMIT 10"
    ten = {number for (number,) in until(lambda: goes_on(process) and asked(out, first), "it begins")}
    gate.let_in(ten)
    reached(process, out, 10)
    process.send_signal(signal.SIGTERM)
    code, said = end(process)
    assert code == 130, said
    assert "tcpassay run --resume out" in said
    # Shuffled, the first ten are not the plan's first ten.
    assert set(ended(out)) == ten != set(range(10))
    assert end(start(tmp_path, "--resume", "out"))[0] == 0
    same(out, calm)
    before = ended(out)
    assert end(start(tmp_path, "--resume", "out"))[0] == 0
    assert ended(out) == before
    same(out, calm)


def test_the_time_of_the_plan_ends_it_cleanly_and_more_time_goes_on(calm: Path, tmp_path: Path) -> None:
    # A tenth of a second passes with each answer, and a process has some runs ahead when the time is up.
    text = PLAN.replace("[fixed]", 'limits.time = "300ms"\n\n[fixed]')
    (tmp_path / "plan.toml").write_text(text, encoding="utf-8")
    out, gate = tmp_path / "out", Gate(tmp_path / "gate")
    gate.let_in(range(RUNS))
    code, said = end(start(tmp_path, "plan.toml", "--out", "out", gate=gate, jobs=1))
    assert code == 130, said
    assert "the time limit of the plan was reached" in said
    assert result(out)["status"] == "budget"
    first = ended(out)
    assert 3 <= len(first) < RUNS // 2
    code, said = end(start(tmp_path, "--resume", "out", gate=gate, jobs=1))
    assert code == 130, said
    assert first.items() < ended(out).items()
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8")
    code, said = end(start(tmp_path, "plan.toml", "--extend", "--out", "out"))
    assert code == 0, said
    assert first.items() < ended(out).items()
    same(out, calm)


def test_the_folder_of_an_unfinished_run_has_the_results_of_finished_cases(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8")
    out, gate = tmp_path / "out", Gate(tmp_path / "gate")
    process = start(tmp_path, "plan.toml", "--out", "out", gate=gate)
    gate.let_in(range(20))
    reached(process, out, 20)
    process.kill()
    end(process)
    results = load(out)
    assert results.index["status"] == "running"
    assert len(results.runs) == RUNS
    assert results.cases["outcome"].to_list().count("done") == results.metrics.height == 20
    assert results.findings.height == sum(run["findings"] for run in results.runs if "findings" in run) > 0
    assert results.problems == []


class Interrupted(Local):
    """An executor whose number of jobs cannot be asked for without an interrupt."""

    def __init__(self) -> None:
        super().__init__(1)

    def __getattribute__(self, name: str) -> Any:
        if name == "jobs":
            raise KeyboardInterrupt
        return super().__getattribute__(name)


def test_an_interrupt_before_the_start_of_work_is_recorded_leaves_an_interrupted_result(
    calm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8")
    out = tmp_path / "out"
    with Session.begin(read_file(Path("plan.toml")), out, Beginning(), replace_=False) as session:
        assert result(out)["status"] == "interrupted"  # nothing runs yet
        assert execute(session, Interrupted()).status == "interrupted"
    assert result(out)["status"] == "interrupted"
    assert end(start(tmp_path, "--resume", "out"))[0] == 0
    same(out, calm)
