"""Behaviours that a plan requires of its runs."""

import subprocess
import sys
from pathlib import Path

import folders

PLAN = """
name = "reach"
[fixed]
"app.duration" = "100ms"
"link.rate" = "20Mbit"
"link.loss" = "5%"
[[reach]]
behaviour = "limited by the congestion window"
[[reach]]
behaviour = "closed window"
why = "a slow reader is wanted"
"""


def run(folder: Path, *lines: str) -> subprocess.CompletedProcess[str]:
    (folder / "plan.toml").write_text(PLAN + "\n".join(lines))
    command = [sys.executable, "-m", "tcpassay", "run", "plan.toml", "--out", "out", "--force"]
    return subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)


def test_a_behaviour_that_is_not_reached_is_named_and_the_exit_code_is_1(tmp_path: Path) -> None:
    ended = run(tmp_path)
    assert ended.returncode == 1, ended.stderr
    said = " ".join(ended.stdout.split())
    assert "`closed window` was reached in 0 runs; the plan requires 1: a slow reader is wanted" in said
    result = folders.result(tmp_path / "out")
    assert len(result["unreached"]) == 1
    assert not result["ok"]
    reached = result["runs"][0]["reached"]
    assert reached["limited by the congestion window"] >= 1
    assert reached["in"] > 10
    assert reached["retransmit"] >= 1


def test_a_plan_whose_behaviours_are_reached_succeeds(tmp_path: Path) -> None:
    text = PLAN.replace('"closed window"', '"timer_set Rto"')
    (tmp_path / "plan.toml").write_text(text)
    command = [sys.executable, "-m", "tcpassay", "run", "plan.toml", "--out", "out"]
    ended = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
