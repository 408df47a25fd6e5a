"""Comparison of the model with Linux 6.1 in a few short cases; plans/fidelity.toml covers the whole space."""

import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tcpassay import load

pytestmark = pytest.mark.usefixtures("kernel")

PLAN: Final = """\
name = "sample"
substrates = ["model", "kernel:6.1"]
oracles = false

[fixed]
"stack.profile" = "linux"
"stack.cc" = "cubic"
"queue.limit" = "250KB"

[groups.path]
slow = { "link.rate" = "50Mbit", "link.delay" = "10ms", "app.duration" = "1s" }

[groups.scene]
plain = {}
super-segments = { "nic.tso" = true }
receive-buffer = { "app.rcvbuf" = "64KB", "nic.tso" = true }
send-buffer = { "app.sndbuf" = "200KB" }
send-buffer-of-super-segments = { "app.sndbuf" = "200KB", "nic.tso" = true }
autotuning-off = { "stack.rcv_autotune" = false, "nic.tso" = true }
pauses = { "app.workload" = "onoff", "app.burst" = "200KB", "app.gap" = "300ms", "nic.tso" = true }
requests = { "app.workload" = "rpc", "app.request" = "10KB", "app.response" = "1KB", "topology" = "star:3" }
below-a-slow-nic = { "topology" = "dumbbell:2", "nic.tso" = true, "nic.rate" = "100Mbit" }
small-packets = { "topology" = "dumbbell:2", "nic.tso" = true, "nic.rate" = "100Mbit", "stack.mtu" = "576B" }

[[check]]
metric = "throughput"
op = ">"
value = 0
why = "both carried traffic"
"""

JUMBO: Final = """\
name = "jumbo"
substrates = ["model", "kernel:6.1"]
oracles = false

[fixed]
"stack.profile" = "linux"
"stack.cc" = "cubic"
"link.rate" = "10Gbit"
"link.delay" = "50us"
"queue.limit" = "1MB"
"nic.tso" = true
"nic.gro" = true
"app.duration" = "20ms"

[axes]
"stack.mtu" = ["1500B", "9000B"]
"""


def pairs(plan: str, by: str, folder: Path) -> dict[Any, tuple[dict[str, Any], dict[str, Any]]]:
    """The metrics of the model and of the kernel, by what varies."""
    (folder / "plan.toml").write_text(plan, encoding="utf-8")
    command = [sys.executable, "-m", "tcpassay", "run", "plan.toml", "--out", "out"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    metrics = {
        (run["varied"][by], run["substrate"] == "model"): run["metrics"] for run in load(folder / "out").runs
    }
    return {value: (metrics[value, True], metrics[value, False]) for value, model in metrics if model}


@pytest.mark.parametrize(("plan", "by"), [(PLAN, "scene"), (JUMBO, "stack.mtu")], ids=["slow", "jumbo"])
def test_throughput_is_within_5_percent_and_the_longest_round_trips_within_15(
    plan: str, by: str, tmp_path: Path
) -> None:
    wrong = {}
    both = pairs(plan, by, tmp_path)
    for value, (model, kernel) in both.items():
        errors = [model[name] / kernel[name] - 1.0 for name in ("throughput", "rtt_p99")]
        if abs(errors[0]) > 0.05 or abs(errors[1]) > 0.15:
            wrong[value] = errors
    assert len(both) == {"scene": 10, "stack.mtu": 2}[by]
    assert not wrong


BBR: Final = """\
name = "bbr"
substrates = ["model", "kernel:6.1"]
oracles = false

[fixed]
"stack.profile" = "linux"
"stack.cc" = "bbr"
"queue.limit" = "250KB"
"link.rate" = "50Mbit"
"link.delay" = "10ms"
"app.duration" = "3s"

[groups.scene]
bulk = {}
shallow = { "queue.limit" = "20KB" }
deep = { "link.rate" = "20Mbit", "link.delay" = "20ms", "queue.limit" = "2MB" }
loss = { "link.loss" = "1%" }
policer = { "link.policer" = "20Mbit,50KB", "app.duration" = "6s" }
requests = { "app.workload" = "rpc", "app.request" = "10KB", "app.response" = "1KB" }
"""


def test_bbr_is_within_5_percent_of_throughput_and_of_the_longest_round_trips(tmp_path: Path) -> None:
    both = pairs(BBR, "scene", tmp_path)
    assert len(both) == 6
    for scene, (model, kernel) in both.items():
        for name in ("throughput", "rtt_p99"):
            assert abs(model[name] / kernel[name] - 1.0) <= 0.05, (scene, name, model[name], kernel[name])
