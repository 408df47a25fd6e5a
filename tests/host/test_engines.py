"""`stack.cc_engine` in `tcpassay run`: controllers of Linux, of the model through BPF, and of an object file."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import folders
from control import passes
from patience import SAFETY_NET_S
from tcpassay.substrate.agent import agent_program

REPOSITORY = Path(__file__).parent.parent.parent
LIST = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
PLAN = """\
name = "engines"
substrates = ["host"]
seeds = [1]
oracles = false
keep.recordings = "all"

[fixed]
"link.rate" = "1Gbit"
"link.delay" = "0s"
"queue.kind" = "htb"
"queue.rate" = "50Mbit"
"queue.limit" = "60KB"
"app.duration" = "1s"
"""


@pytest.fixture(scope="module", autouse=True)
def _able() -> None:
    lacks = subprocess.run([agent_program(), "bpf", "shim"], capture_output=True, text=True, check=False)
    if lacks.returncode:
        pytest.skip(f"the shim cannot be used here: {lacks.stderr.strip()}")


def run(folder: Path, axes: str) -> list[dict[str, Any]]:
    """The runs of the plan, each with as much traffic as a machine with time for it carries."""
    (folder / "plan.toml").write_text(PLAN + axes, encoding="utf-8")
    command = [sys.executable, "-m", "tcpassay", "run", "plan.toml", "--out", "out", "--force"]

    def once(_: int) -> list[dict[str, Any]]:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=SAFETY_NET_S
        )
        made: list[dict[str, Any]] = folders.result(folder / "out")["runs"]
        # The outcome `path`: the probes of the path did not reach the rate of the case.
        assert {one["outcome"] for one in made} <= {"done", "path"}, done.stdout + done.stderr
        for one in made:
            if did := counters_of_shim(folder, one):
                # Both ends have a controller, and no event was lost between the kernel and the agent.
                assert (did["connections"], did["lost"]) == (2, 0)
        listed = LIST.read_text(encoding="ascii")
        assert "run0_" not in listed
        assert "tat_fixed" not in listed
        return made

    def expect(made: list[dict[str, Any]]) -> None:
        for one in made:
            assert one["outcome"] == "done", one["message"]
            assert one["metrics"]["throughput"] > 5e6
            if did := counters_of_shim(folder, one):
                assert did["decided"] > 100
                assert did["followed"] > 0

    return passes(once, expect)


def counters_of_shim(folder: Path, one: dict[str, Any]) -> dict[str, int]:
    """The counters of the shim in the recording of a run; empty without a shim."""
    kept = folder / "out" / (one["recording"] or "") / "recording.json"
    if one["outcome"] != "done":
        return {}
    read: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
    shim: dict[str, int] = read["counters"].get("shim", {})
    return shim


def test_the_same_plan_has_the_kernels_controllers_and_the_models_decide(tmp_path: Path) -> None:
    made = run(tmp_path, '[axes]\n"stack.cc_engine" = ["kernel", "shim"]\n"stack.cc" = ["reno", "cubic"]\n')
    deciders = {
        (one["varied"]["stack.cc_engine"], one["varied"]["stack.cc"]): bool(counters_of_shim(tmp_path, one))
        for one in made
    }
    assert deciders == {
        ("kernel", "reno"): False,
        ("kernel", "cubic"): False,
        ("shim", "reno"): True,
        ("shim", "cubic"): True,
    }


def test_controllers_that_this_kernel_lacks_are_the_models_through_the_shim(tmp_path: Path) -> None:
    fixed = '"stack.cc_engine" = "shim"\n"stack.ecn" = "dctcp"\n"queue.ecn_mark" = "data"\n'
    fixed += '"queue.ecn_threshold" = "15KB"\n'
    made = run(tmp_path, fixed + '[axes]\n"stack.cc" = ["vegas", "mvegas", "dctcp"]\n')
    assert all(counters_of_shim(tmp_path, one) for one in made)


def test_the_controller_of_an_object_file_beside_the_plan_decides(tmp_path: Path) -> None:
    target = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
    headers = sorted(target.glob("*/build/libbpf-sys-*/out/include"))
    clang = shutil.which("clang")
    if not (headers and clang):
        pytest.skip(f"clang or libbpf's headers (below {target}) are missing")
    crate = REPOSITORY / "crates" / "bpf"
    flags = ["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-I", headers[0], "-I", crate / "src" / "bpf"]
    system = ["-idirafter", f"/usr/include/{os.uname().machine}-linux-gnu"]
    source = crate / "tests" / "kernel" / "fixed.bpf.c"
    subprocess.run([clang, *flags, *system, "-c", source, "-o", tmp_path / "fixed.o"], check=True)
    # Twenty packets are in flight whatever happens, but for the moment of a timeout: 4.6 ms of the rate.
    run(tmp_path, '"stack.cc_engine" = "fixed.o"\n[axes]\n"app.flows" = [1]\n[collect]\nseries = "10ms"\n')
