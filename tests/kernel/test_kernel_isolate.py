"""Isolation on a real Linux in virtual time: the settings with which the old DCTCP receiver stalls a connection."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tcpassay.kernel import store

pytestmark = pytest.mark.usefixtures("kernel")

# The setting of plans/demo-kernel.toml in which Linux 6.1 stalls, with two settings that do not matter. With this seed
# the timeout ends early.
PLAN = """\
name = "stall"
substrates = ["kernel"]
seeds = [4]
oracles = ["timeout-without-loss"]

[fixed]
"link.delay" = "25us"
"nic.tso" = true
"nic.gro" = true
"nic.gro_timeout" = "20us"
"queue.limit" = "1MB"
"stack.cc" = "dctcp"
"stack.ecn" = "dctcp"
"stack.tlp" = "off"
"app.flows" = 6
"app.duration" = "250ms"

[axes]
"queue.ecn_mark" = ["off", "data"]
"stack.dctcp_receiver" = ["clear-timer", "immediate"]
"""


def tcpassay(*args: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tcpassay", *map(str, args)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=1800)


def test_the_cause_of_the_stall_is_isolated_on_a_kernel_and_the_plan_it_leaves_shows_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8")
    ran = json.loads(tcpassay("run", "plan.toml", "--out", "out", "--json", cwd=tmp_path).stdout)
    found = [one["findings"] > 0 for one in ran["runs"]]
    if store.find().release.startswith("7."):
        # With none of the seeds 1 to 7 does a connection stall in this setting.
        assert found == [False, False, False, False]
        pytest.skip("on Linux 7 there is no finding whose cause could be isolated")
    assert found == [False, False, True, False]
    done = tcpassay("isolate", "out", "timeout-without-loss", "--seeds", "1", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (cause,) = json.loads(done.stdout)["causes"]
    said = {one["path"]: one["value"] for one in cause["cause"]}
    assert cause["substrate"] == "kernel"
    assert cause["proven"] is True
    assert said["stack.dctcp_receiver"] == "clear-timer"
    assert said["queue.ecn_mark"] == "data"
    assert said["stack.ecn"] == "dctcp"
    assert "queue.limit" not in said
    again = json.loads(
        tcpassay("run", cause["plan"], "--out", "again", "--json", cwd=tmp_path).stdout,
    )
    assert [one["findings"] > 0 for one in again["runs"]] == [True]
