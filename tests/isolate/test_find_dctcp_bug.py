"""`plans/find-dctcp-bug.toml` on the model: the bug of the first paper is found, and its cause is isolated."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import plans

PLAN = plans.PLANS / "find-dctcp-bug.toml"


def tcpassay(*args: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tcpassay", *map(str, args)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=1200)


def run(folder: Path, receiver: str) -> dict[str, Any]:
    """The part of the plan with DCTCP on the model, with this receiver and half of the time, in which it stalls."""
    text = PLAN.read_text(encoding="utf-8")
    assert text.count('"clear-timer"') == 1
    assert text.count('"app.duration" = "500ms"') == 1
    text = text.replace('"app.duration" = "500ms"', '"app.duration" = "250ms"')
    text = text.replace('"clear-timer"', f'"{receiver}"').replace('["model", "kernel"]', '["model"]')
    (folder / "plan.toml").write_text(text, encoding="utf-8")
    done = tcpassay("run", "plan.toml", "--filter", "ecn=dctcp", "--out", "out", "--json", cwd=folder)
    result: dict[str, Any] = json.loads(done.stdout)
    assert {one["outcome"] for one in result["runs"]} == {"done"}
    return result


@pytest.fixture(scope="module")
def isolated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("found")
    result = run(folder, "clear-timer")
    assert result["findings"] > 0
    done = tcpassay("isolate", "out", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_all_that_is_found_has_one_cause(isolated: dict[str, Any]) -> None:
    (cause,) = isolated["causes"]
    assert isolated["left"] == []
    assert cause["proven"] is True
    oracles = {one["oracle"] for one in cause["produces"]}
    assert {"late-ack", "mutual-silence"} <= oracles


def test_the_cause_contains_the_receiver_dctcp_and_marks_on_data(isolated: dict[str, Any]) -> None:
    """What the paper names: the old receiver of DCTCP and marks on data. What else a stall takes depends on the case:
    bulk flows need small windows and merging (docs/rate-limiter.md); a request may have one burst in flight alone."""
    (cause,) = isolated["causes"]
    said = {one["path"]: one["value"] for one in cause["cause"]}
    needed = {
        "queue.ecn_mark": "data",
        "stack.cc": "dctcp",
        "stack.dctcp_receiver": "clear-timer",
        "stack.ecn": "dctcp",
    }
    assert needed.items() <= said.items()


def test_each_setting_of_the_cause_is_necessary(isolated: dict[str, Any]) -> None:
    (cause,) = isolated["causes"]
    assert {row["path"] for row in cause["proof"] if row["gone"]} == {one["path"] for one in cause["cause"]}
    assert all(row["runs"] > 0 for row in cause["proof"])


@pytest.mark.parametrize("receiver", ["rearm", "immediate"])
def test_with_a_repaired_receiver_nothing_is_found(tmp_path: Path, receiver: str) -> None:
    result = run(tmp_path, receiver)
    assert result["findings"] == 0
    assert any(one["metrics"]["marks"] > 1000 for one in result["runs"])
