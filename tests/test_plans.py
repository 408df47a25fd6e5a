"""The checks of every plan of this repository hold: the acceptance test of the model."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import polars as pl
import pytest

import plans
from control import passes
from tcpassay import load
from tcpassay.errors import UserError
from tcpassay.plan import read
from tcpassay.stacks.build import RECIPES, is_built
from tcpassay.substrate import substrate_of
from tcpassay.substrate.agent import agent_program

NAMES = sorted(
    path.relative_to(plans.PLANS).with_suffix("").as_posix() for path in plans.PLANS.rglob("*.toml")
)


def ready(name: str) -> Path:
    """The file of a plan; the test skips where what the plan runs on is not there."""
    file = plans.PLANS / f"{name}.toml"
    for substrate in tomllib.loads(file.read_text(encoding="utf-8")).get("substrates", []):
        try:
            substrate_of(substrate).ready()
        except UserError as error:
            pytest.skip(f"`{substrate}` cannot be used: {error}")
    stack = name.removeprefix("stacks-")
    if stack in RECIPES and not is_built(stack):
        pytest.skip(f"{stack} is not built: `tcpassay stack build {stack}`")
    if name == "rate-limiter-mark-ack-host":
        bpf = subprocess.run([agent_program(), "bpf"], capture_output=True, text=True, check=False)
        if bpf.returncode:
            pytest.skip(bpf.stderr)
    return file


# Scenes for other TCPs: their result is a list of findings.
STACKS = {"stacks", *(f"stacks-{name}" for name in RECIPES)}
PAPERS = "papers/"
# Of the experiments, those of the rate limiter run here; the others by `tcpassay experiments run --all`.
LIMITER = "papers/rate-limiter-"
LONG = {
    "controllers": "minutes of CPU; tests/compare/test_controllers_plan.py runs a sample",
    "fidelity": "its result is a table that `make fidelity` renews (docs/fidelity.md)",
    "find-dctcp-bug": "minutes of CPU on a kernel; tests/isolate and tests/kernel run parts of it",
    "kernel-coverage": "a minute of CPU on a kernel; `make history` runs it (docs/quality-history.md)",
    "kernel-windows": "a minute of CPU on a kernel; `make history` runs it (docs/quality-history.md)",
    "rack-regions": "minutes of CPU; the pages of the rack tests have its result (tools/regions.py)",
    "stacks-pytcp": "minutes of CPU; PyTCP needs one or two milliseconds for a packet",
    "demo-kernel": "over three minutes of CPU; docs/kernel-measured.md has its result, rate-limiter-kernel its core",
}


# Plans of the substrate `host` measure in real time.
MARKED = [
    pytest.param(name, marks=pytest.mark.realtime) if name.endswith("-host") else name for name in NAMES
]


def run(file: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """The plan's results in `folder`/out."""
    command = [
        sys.executable,
        "-m",
        "tcpassay",
        "run",
        str(file),
        "--out",
        str(folder / "out"),
        "--force",
        "--json",
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def timely(file: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """The same in real time: again if a check failed while something else disturbed the machine."""

    def expect(done: subprocess.CompletedProcess[str]) -> None:
        failed = [check for check in json.loads(done.stdout)["checks"] if not check["holds"]]
        assert not failed, ", ".join(f"{check['metric']} {check['observed']}" for check in failed)

    return passes(lambda _: run(file, folder), expect)


def test_the_rate_limiter_of_the_paper_is_there() -> None:
    for which in ("latency", "mark-data", "mark-ack", "sequence", "fixed"):
        assert f"{LIMITER}{which}" in NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_is_named_as_its_file_says_what_it_shows_and_gives_a_reason_for_each_check(name: str) -> None:
    spec = read.read_file(ready(name)).spec
    assert spec.name == name.removeprefix(PAPERS).replace("python/reno", "python-controller")
    assert len(spec.doc.split()) > 10
    assert spec.check or spec.scripts


@pytest.mark.parametrize("name", MARKED)
def test_a_plan_of_the_project_passes_its_checks_and_draws_its_figures(name: str, tmp_path: Path) -> None:
    file = ready(name)
    if name in LONG:
        pytest.skip(LONG[name])
    if name.startswith(PAPERS) and not name.startswith(LIMITER):
        pytest.skip("`tcpassay experiments run --all` runs it")
    done = (
        run(file, tmp_path) if "host" not in read.read_file(file).spec.substrates else timely(file, tmp_path)
    )
    result = json.loads(done.stdout)
    failed = [check for check in result["checks"] if not check["holds"]]
    assert not failed, json.dumps(failed, indent=2)
    wanted = {case.id: case.expect for case in read.read_file(file).cases}
    # A search makes further cases while it runs, and all of these are to be done.
    assert "search" in result or {run["case"] for run in result["runs"]} == set(wanted)
    assert [run["outcome"] for run in result["runs"]] == [
        wanted.get(run["case"], "done") for run in result["runs"]
    ]
    # The results of a sweep are findings. No other plan has any.
    assert done.returncode == 0 or name in {"demo", "rate-limiter-kernel", *STACKS}
    if name == "rate-limiter-kernel":
        # A note says that a flow with such stalls received less than the others.
        stalls = load(tmp_path / "out").findings.filter(pl.col("severity").is_in(["error", "warning"]))
        assert set(stalls["oracle"]) == {"ack-timing", "timeout-without-loss"}
        blamed = load(tmp_path / "out").cases.join(stalls, on=("case", "seed"), how="semi")
        assert set(blamed["receiver"]) == {"clear-timer"}
    if name == "demo":
        _finds_the_stalls(tmp_path / "out")
    if name in STACKS:
        # Every scene ran with the TCP at each end.
        ran = load(tmp_path / "out").runs
        assert {run["varied"]["ends"] for run in ran} == {"both", "sender", "receiver"}
    for figure in result["figures"]:
        assert (tmp_path / "out" / figure).stat().st_size > 5_000


def _finds_the_stalls(folder: Path) -> None:
    """The demo finds the stalls that the paper describes, and the runs share the settings that the paper names."""
    results = load(folder)
    stalls = results.findings.filter(oracle="timeout-without-loss")
    assert stalls.height > 0
    assert set(stalls["severity"]) == {"error"}
    blamed = results.cases.join(stalls, on=("case", "seed"), how="semi")
    assert set(blamed["queue.ecn_mark"]) == {"data"}
    assert set(blamed["stack.dctcp_receiver"]) == {"clear-timer"}
    assert set(blamed["nic.gro"]) == {True}
    assert 1 not in set(blamed["app.flows"])
    done = subprocess.run(
        [sys.executable, "-m", "tcpassay", "isolate", str(folder), "late-ack", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    (cause,) = json.loads(done.stdout)["causes"]
    assert cause["proven"] is True
    said = {one["path"]: one["value"] for one in cause["cause"]}
    assert said["queue.ecn_mark"] == "data"
    assert said["stack.dctcp_receiver"] == "clear-timer"
    assert said["stack.ecn"] == "dctcp"
    assert said["nic.gro"] is True
