"""Comparison of the model with Linux 6.1 in a few short cases; plans/fidelity.toml covers the whole space."""

import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import polars as pl
import pytest

from tcpassay import load
from tcpassay.interface import EventKind, SeriesColumn
from tcpassay.recording import Recording
from tcpassay.results import Results

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


def finished(plan: str, folder: Path) -> Results:
    """The results of a plan."""
    (folder / "plan.toml").write_text(plan, encoding="utf-8")
    command = [sys.executable, "-m", "tcpassay", "run", "plan.toml", "--out", "out"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return load(folder / "out")


def pairs(plan: str, by: str, folder: Path) -> dict[Any, tuple[dict[str, Any], dict[str, Any]]]:
    """The metrics of the model and of the kernel, by what varies."""
    metrics = {
        (run["varied"][by], run["substrate"] == "model"): run["metrics"]
        for run in finished(plan, folder).runs
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


BBR_EVENTS: Final = """\
name = "bbr-events"
substrates = ["model", "kernel:6.1"]
oracles = false
keep.recordings = "all"

[fixed]
"stack.profile" = "linux"
"stack.cc" = "bbr"
"queue.limit" = "250KB"
"link.rate" = "20Mbit"
"link.delay" = "10ms"
"stack.ecn" = "classic"
"queue.ecn_threshold" = "30KB"
"app.duration" = "400ms"

[groups.scene]
loss = { "link.loss_model" = "list:60", "queue.ecn_mark" = "off" }
mark-and-loss = { "link.loss_model" = "list:140", "queue.ecn_mark" = "data" }

[collect]
series = "10ms"
events = true
"""


def test_after_a_loss_and_after_a_mark_with_a_loss_bbr_has_the_states_and_windows_of_linux(
    tmp_path: Path,
) -> None:
    states: dict[tuple[str, bool], list[str]] = {}
    windows: dict[tuple[str, bool], list[int]] = {}
    results = finished(BBR_EVENTS, tmp_path)
    for run in results.runs:
        key = str(run["varied"]["scene"]), run["substrate"] == "model"
        recording = Recording.open(results.place_of(run))
        sender = recording.events.filter(pl.col("host") == 0, pl.col("kind") == EventKind.CONGESTION)
        states[key] = [why.split(":")[0] for why in sender["why"]]
        flow = recording.series.filter(pl.col("entity") == recording.flows[0]["name"])
        # In ProbeBW, which begins later, each draws its first phase.
        early = flow.filter(pl.col("time_ns") <= 300_000_000)
        windows[key] = [octets // 1448 for octets in early[SeriesColumn.CWND_BYTES]]
    assert states["loss", False][:3] == ["Open->Disorder", "Disorder->Recovery", "Recovery->Open"]
    assert states["mark-and-loss", False][:4] == [
        "Open->CWR",
        "CWR->Recovery",
        "Recovery->Open",
        "Open->CWR",
    ]
    for scene in ("loss", "mark-and-loss"):
        assert states[scene, True] == states[scene, False]
        both = list(zip(windows[scene, True], windows[scene, False], strict=True))
        assert len(both) > 25
        # Linux counts its times in whole microseconds, which is a packet at most here.
        assert max(abs(model - kernel) for model, kernel in both) <= 1, both
    # The loss leaves what is in flight and delivered; after the recovery Startup goes on to 2.89 times the product.
    for substrate in (True, False):
        assert windows["loss", substrate][6:9] == [69, 61, 61]
        assert windows["loss", substrate][17] in {110, 111}
