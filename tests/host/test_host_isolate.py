"""Isolation in real time: runs are repeated, and a finding that never occurs is reported as not reproducible."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tcpassay.judge import Finding, Severity, write_findings

PLAN = """\
name = "host"
substrates = ["host"]
seeds = [1]

[fixed]
"link.rate" = "50Mbit"
"link.delay" = "0s"
"app.duration" = "200ms"

[axes]
"stack.cc" = ["reno", "cubic"]
"""


def tcpassay(*args: str | Path, cwd: Path) -> Any:
    command = [sys.executable, "-m", "tcpassay", *map(str, args)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=600)
    return json.loads(done.stdout)


def test_a_finding_that_shows_in_no_repetition_does_not_reproduce(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8")
    ran = tcpassay("run", "plan.toml", "--out", "out", "--json", cwd=tmp_path)
    assert [one["outcome"] for one in ran["runs"]] == ["done", "done"]
    case = ran["runs"][1]["case"]
    claimed = Finding(
        "late-ack", Severity.ERROR, "never", "receiver", "f", 0, 1, 1, "", (), (), case=case, seed=1
    )
    write_findings(tmp_path / "out", [claimed])
    told = tcpassay("isolate", "out", "--seeds", "4", "--json", cwd=tmp_path)
    assert told["causes"] == []
    (one,) = told["unreproduced"]
    assert (one["case"], one["oracle"]) == (case, "late-ack")
    assert "runs are in real time, and none of 4 repetitions has the finding" in one["why"]
    assert told["runs_made"] == 4
