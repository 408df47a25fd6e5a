"""`--executor ray` on two nodes of this machine: identical results and outcomes."""

import contextlib
import hashlib
import importlib.util
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gate import Gate

import folders
from patience import parent, until

CLUSTER = Path(__file__).with_name("ray_cluster.py")
PLANTED = Path(__file__).with_name("planted")
HAS_RAY = importlib.util.find_spec("ray") is not None
needs_ray = pytest.mark.skipif(
    not HAS_RAY, reason="Ray is not installed (240 MB): pip install -r requirements-ray.lock"
)

# A file that is named, findings, recordings that are kept and that are not, a run that hangs, a value to be refused.
PLAN = """\
name = "spread"
seeds = [1, 2]
keep.sample = "30%"
limits.case_time = "1h"

[fixed]
"link.reorder" = "reverse-burst:5"
"link.jitter" = "10us"

[axes]
"link.rate" = ["trace:../up.trace", "100Mbit"]
"stack.profile" = ["freebsd", "linux"]
"app.duration" = ["50ms", "60ms"]

[negative]
"link.delay" = ["soon"]
"""
# An hour at 10 Gbit/s are 3e9 packets: no machine makes them in 40 s. The others of this plan take some milliseconds.
HANGS = (
    PLAN.replace('["50ms", "60ms"]', '["3600s", "50ms", "60ms", "70ms"]')
    .replace('["trace:../up.trace", "100Mbit"]', '["10Gbit"]')
    .replace('["freebsd", "linux"]', '["linux"]')
    .replace("seeds = [1, 2]", "seeds = [1]")
    .replace('"1h"', '"40s"\noracles = false')
)
# Sixteen runs.
LONG = """\
name = "long"
seeds = [1, 2, 3, 4, 5, 6, 7, 8]
oracles = false

[fixed]
"link.rate" = "1Gbit"
"app.duration" = "50ms"

[axes]
"stack.cc" = ["reno", "cubic"]
"""


def ended(journal: Path) -> list[tuple[str | None, int]]:
    """The outcome of each run, and the number of its claims."""
    if not journal.exists():
        return []
    with contextlib.closing(sqlite3.connect(journal, timeout=600)) as database:
        return database.execute("SELECT outcome, attempts FROM cases ORDER BY number").fetchall()


def run(folder: Path, *args: str, address: str = "") -> subprocess.CompletedProcess[str]:
    loopback = {"RAY_ADDRESS": address, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"} if address else {}
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    return subprocess.run(
        [sys.executable, "-m", "tcpassay", "run", *args],
        cwd=folder,
        env=environment | loopback,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


class Nodes:
    """Two nodes, of which the second can be lost."""

    def __init__(self, gate: Gate | None = None) -> None:
        planted = {"PYTHONPATH": str(PLANTED), "TCPASSAY_GATE": str(gate.folder)} if gate else {}
        self._process = subprocess.Popen(
            [sys.executable, str(CLUSTER)],
            # Ray has no other way to stay on the loopback.
            env=os.environ | {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"} | planted,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        said = self._said("address")
        self.address, self.client = said[1], f"ray://{said[2]}"
        assert self.address.startswith("127.0.0.1:")

    def _said(self, word: str) -> list[str]:
        assert self._process.stdout is not None
        lines = (line.split() for line in iter(self._process.stdout.readline, ""))
        return next(line for line in lines if line and line[0] == word)

    def lose_one(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("lose\n")
        self._process.stdin.flush()
        self._said("lost")

    def end(self) -> None:
        self._process.communicate(timeout=600)


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    made = Nodes()
    yield made
    made.end()


@pytest.fixture
def cluster(nodes: Nodes) -> str:
    return nodes.address


def files(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in {"result.json", "runs.parquet", "journal.sqlite"}
    }


def result(folder: Path) -> dict[str, Any]:
    made: dict[str, Any] = folders.result(folder)
    for one in made["runs"]:
        del one["cpu_s"], one["simulation_s"]
    return made


def prepare(folder: Path, text: str) -> Path:
    (folder / "plans").mkdir(parents=True)
    (folder / "up.trace").write_text("".join(f"{ms}\n" for ms in range(1, 100)), encoding="utf-8")
    (folder / "plans" / "plan.toml").write_text(text, encoding="utf-8")
    return folder


@needs_ray
def test_two_nodes_write_the_same_bytes_as_this_machine_alone(cluster: str, tmp_path: Path) -> None:
    here, there = prepare(tmp_path / "here", PLAN), prepare(tmp_path / "there", PLAN)
    done = [
        run(here, "plans/plan.toml", "--out", "out", "--jobs", "2"),
        run(there, "plans/plan.toml", "--out", "out", "--executor", "ray", address=cluster),
    ]
    assert done[0].returncode == done[1].returncode == 0, done[1].stderr
    one, two = result(here / "out"), result(there / "out")
    # One actor a CPU, and each node has one CPU.
    assert (two["environment"]["executor"], two["environment"]["jobs"]) == ("ray", 2)
    assert one["runs"] == two["runs"]
    assert {run["outcome"] for run in one["runs"]} == {"done", "refused"}
    kept = [run for run in two["runs"] if run["recording"]]
    assert 0 < len(kept) < len(two["runs"])
    assert any(run["findings"] for run in two["runs"])
    assert files(here / "out") == files(there / "out")


@needs_ray
def test_a_run_that_hangs_on_a_node_is_ended_there_and_the_others_go_on(cluster: str, tmp_path: Path) -> None:
    there = prepare(tmp_path, HANGS)
    done = run(there, "plans/plan.toml", "--out", "out", "--executor", "ray", address=cluster)
    assert done.returncode == 1, done.stderr
    ran = [one for one in result(there / "out")["runs"] if one["expect"] == "done"]
    outcomes = {(one["varied"]["app.duration"], one["outcome"]) for one in ran}
    done_too = {("50ms", "done"), ("60ms", "done"), ("70ms", "done")}
    assert outcomes == {("3600s", "timeout")} | done_too, [one["message"][:300] for one in ran]


@needs_ray
def test_through_the_port_of_rays_client_the_results_are_the_same(nodes: Nodes, tmp_path: Path) -> None:
    here, there = prepare(tmp_path / "here", PLAN), prepare(tmp_path / "there", PLAN)
    assert run(here, "plans/plan.toml", "--out", "out", "--jobs", "2").returncode == 0
    done = run(there, "plans/plan.toml", "--out", "out", "--executor", nodes.client)
    assert done.returncode == 0, done.stderr
    assert result(there / "out")["environment"]["jobs"] == 2
    assert result(here / "out")["runs"] == result(there / "out")["runs"]
    assert files(here / "out") == files(there / "out")


@needs_ray
def test_the_runs_of_a_lost_node_are_repeated_on_another_node(tmp_path: Path) -> None:
    there = prepare(tmp_path, LONG)
    journal = there / "out" / "journal.sqlite"
    gate = Gate(tmp_path / "gate")
    own = Nodes(gate)
    command = [
        sys.executable,
        "-m",
        "tcpassay",
        "run",
        "plans/plan.toml",
        "--out",
        "out",
        "--executor",
        "ray",
    ]
    process = subprocess.Popen(
        command,
        cwd=there,
        env=os.environ | {"RAY_ADDRESS": own.address, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )

    def waiting() -> int:
        """Workers that wait at the gate, and live."""
        assert process.poll() is None, process.communicate()
        return sum(parent(path.name.split("-")[-1]) is not None for path in gate.folder.glob("let-in-*"))

    def four_ended_and_two_wait() -> bool:
        return [outcome for outcome, _ in ended(journal)].count("done") == 4 and waiting() == 2

    try:
        # Of the first controller four seeds are done, and each node has one of the others that cannot end.
        gate.let_in(range(1, 5))
        until(four_ended_and_two_wait, "four runs end and each node has another")
        own.lose_one()
        until(lambda: waiting() < 2, "the worker ends with its node")
        gate.let_in(range(1, 9))
        said, _ = process.communicate(timeout=600)
    finally:
        process.kill()
        own.end()
    assert process.returncode == 0, said
    assert [outcome for outcome, _ in ended(journal)] == ["done"] * 16
    assert sum(attempts > 1 for _, attempts in ended(journal)) == 1, ended(journal)


@needs_ray
def test_without_a_cluster_an_error_is_reported_and_nothing_is_written(tmp_path: Path) -> None:
    done = run(prepare(tmp_path, PLAN), "plans/plan.toml", "--executor", "ray", address="127.0.0.1:1")
    assert done.returncode == 2
    assert "there is no cluster" in done.stderr.splitlines()[-1]
    assert not (tmp_path / "results").exists()


def test_without_ray_the_message_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tcpassay.errors import UserError  # noqa: PLC0415
    from tcpassay.run.on_ray import OnRay  # noqa: PLC0415

    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"-m pip install 'ray\[client\]==2\.\d+\.\d+'"):
        OnRay("ray", 2)
    done = run(prepare(tmp_path, PLAN), "plans/plan.toml", "--executor", "slurm")
    assert "allowed are `local`, `ray` and `ray://HOST:PORT`" in done.stderr
