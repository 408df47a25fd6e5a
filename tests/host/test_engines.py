"""`stack.cc_engine` through `tcpassay run`: Linux's own controllers, the model's through BPF, and an object file's."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from had_time import ATTEMPTS, rows
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
    """The runs of the plan. Where the machine was too busy for them, they are made again."""
    (folder / "plan.toml").write_text(PLAN + axes, encoding="utf-8")
    command = [sys.executable, "-m", "tcpassay", "run", "plan.toml", "--out", "out", "--force"]
    for _ in range(ATTEMPTS):
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=SAFETY_NET_S
        )
        made: list[dict[str, Any]] = json.loads((folder / "out" / "result.json").read_text())["runs"]
        if any(one["outcome"] == "path" for one in made):
            continue  # it cannot send as fast as a case wants
        assert done.returncode == 0, done.stdout + done.stderr
        # What is asked below of a second of traffic holds if the agent slept through a tenth of it.
        if all(rows(folder / "out" / one["recording"])["machine", "late"] < 0.1 for one in made):
            return made
    pytest.skip("this machine was too busy for the runs to be made")


def recording(folder: Path, one: dict[str, Any]) -> dict[str, Any]:
    kept = folder / "out" / one["recording"] / "recording.json"
    read: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
    return read


def shim_of(folder: Path, one: dict[str, Any]) -> dict[str, int]:
    """What the shim did, about which holds what must always."""
    assert one["outcome"] == "done", one["message"]
    assert one["metrics"]["throughput"] > 5e6
    did: dict[str, int] = recording(folder, one)["counters"].get("shim", {})
    if did:
        # Both ends have a controller; only the sender's has something to decide.
        assert (did["connections"], did["lost"]) == (2, 0)
        assert did["decided"] > 100
        assert did["followed"] > 0
    assert "run0_" not in LIST.read_text(encoding="ascii")
    return did


def test_the_same_plan_has_the_kernels_controllers_and_the_models_decide(tmp_path: Path) -> None:
    made = run(tmp_path, '[axes]\n"stack.cc_engine" = ["kernel", "shim"]\n"stack.cc" = ["reno", "cubic"]\n')
    deciders = {
        (one["varied"]["stack.cc_engine"], one["varied"]["stack.cc"]): bool(shim_of(tmp_path, one))
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
    assert all(shim_of(tmp_path, one) for one in made)


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
    (one,) = run(
        tmp_path, '"stack.cc_engine" = "fixed.o"\n[axes]\n"app.flows" = [1]\n[collect]\nseries = "10ms"\n'
    )
    assert one["outcome"] == "done", one["message"]
    # Twenty packets are in flight whatever happens, but for the moment of a timeout: 4.6 ms of the rate.
    assert one["metrics"]["throughput"] > 5e6
    assert "tat_fixed" not in LIST.read_text(encoding="ascii")
