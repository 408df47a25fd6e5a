"""`judge DIR` and the oracles that read logs which only a run of the model in memory has."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tcpassay import load
from tcpassay.finding import Finding, Severity
from tcpassay.judge.folders import Repeats, judge_folder
from tcpassay.judge.registry import ORACLES
from tcpassay.run.rejudge import repeats

PLAN = """
name = "kept"

[strategy]
kind = "full"

[fixed]
"app.duration" = "50ms"

[axes]
"link.loss" = ["0", "1%"]

[collect]
events = true
"""
MEMORY = ["congestion-control", "controller-input", "elements"]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("memory")
    (folder / "plan.toml").write_text(PLAN)
    done = tcpassay("run", folder / "plan.toml", "--out", folder / "out")
    assert done.returncode in {0, 1}, done.stderr
    return folder / "out"


def tcpassay(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tcpassay", *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)


def judged(folder: Path) -> dict[str, Any]:
    named = [word for name in MEMORY for word in ("--oracle", name)]
    made: dict[str, Any] = json.loads(tcpassay("judge", folder, "--json", *named).stdout)
    return made


def test_three_oracles_need_a_run_in_memory() -> None:
    assert [name for name, oracle in ORACLES.items() if oracle.memory] == MEMORY


def test_a_run_of_the_model_is_repeated_for_them(ran: Path) -> None:
    told = judged(ran)
    assert (told["judged"], told["unjudged"], told["problems"]) == (2, {}, [])


def test_what_they_find_in_the_repetition_is_a_finding_of_the_folder(ran: Path) -> None:
    case = json.loads((ran / "result.json").read_text())["runs"][1]["case"]
    found = Finding(
        "elements", Severity.ERROR, "a link", "sender", "flow.0", 0, 1, 1, "", (), (), case=case, seed=1
    )
    asked: list[list[str]] = []

    def repeat(_results: object, names: list[str]) -> Repeats:
        asked.append(names)
        return Repeats(findings={(case, 1): [found]})

    told = judge_folder(ran, oracles=["elements", "late-ack"], repeat=repeat)
    assert asked == [["elements"]]
    assert found in told.findings
    written = json.loads((ran / "findings.json").read_text())["findings"]
    assert ("elements", case) in {(one["oracle"], one["case"]) for one in written}
    # The other run was not repeated.
    assert told.unjudged == {"elements": "only a run of the model in memory has the log that it reads"}


def test_a_repetition_that_is_another_run_is_not_judged(ran: Path) -> None:
    results = load(ran)
    first, second = results.runs
    trace, first["trace"] = first["trace"], "0123"
    made = repeats(results, ["elements"], 1)
    said = f"the repetition is not the same run: trace 0123 before, {trace} now"
    assert made.reasons == {(first["case"], 1): said}
    assert made.findings == {(second["case"], 1): []}


def test_one_recording_alone_cannot_be_repeated(ran: Path) -> None:
    recording = next((ran / "recordings").iterdir())
    told = judged(recording)
    assert set(told["unjudged"]) == set(MEMORY)
