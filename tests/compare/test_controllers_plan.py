"""A sample of plans/controllers.toml, and its result of `compare --between`."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import plans

SAMPLE: Final = """\
extends = "{plan}"
name = "sample"
# With three pairs of values, two levels and two metrics, a confidence of 95 % needs nine seeds.
seeds = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]

[groups.controller]
cubic = {{ "stack.cc" = "cubic" }}
bbr = {{ "stack.cc" = "bbr" }}
bbr3 = {{ "stack.cc" = "bbr3" }}

[groups.scenario.access-link]
"link.rate" = "20Mbit"
"link.delay" = "10ms"
"queue.limit" = "500KB"
"app.duration" = "4s"

[groups.scenario.wireless]
"link.rate" = "20Mbit"
"link.delay" = "15ms"
"queue.limit" = "250KB"
"link.loss" = "1%"
"link.jitter" = "200us"
"app.duration" = "4s"
"""


def tcpassay(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tcpassay", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=600)


def test_bbr_is_better_with_random_losses_and_cubic_has_the_longer_queue(tmp_path: Path) -> None:
    # The second check of the plan is about controllers that the sample leaves out.
    first, check, _ = (plans.PLANS / "controllers.toml").read_text(encoding="utf-8").split("[[check]]")
    (tmp_path / "base.toml").write_text(f"{first}[[check]]{check}", encoding="utf-8")
    (tmp_path / "sample.toml").write_text(SAMPLE.format(plan="base.toml"), encoding="utf-8")
    done = tcpassay("run", "sample.toml", "--out", "out", folder=tmp_path)
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    metrics = ["--metric", "goodput", "--metric", "queue_delay_mean"]
    said = tcpassay(
        "compare", "out", "--between", "controller", "--by", "scenario", *metrics, "--json", folder=tmp_path
    )
    # 0, or 3 if a pair that is not of interest here is undecided.
    assert said.returncode in {0, 3}, said.stdout + said.stderr
    rankings = {(one["level"], one["metric"]): one for one in json.loads(said.stdout)["rankings"]}
    lossy = {(one["value"], one["than"]) for one in rankings["wireless", "goodput"]["better"]}
    assert {("bbr", "cubic"), ("bbr3", "cubic")} <= lossy
    queues = {(one["value"], one["than"]) for one in rankings["access-link", "queue_delay_mean"]["better"]}
    assert {("bbr", "cubic"), ("bbr3", "cubic")} <= queues
