"""`tcpassay isolate` on a plan with a known cause: bursts that arrive in reverse order."""

import io
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import folders
from tcpassay.errors import UserError
from tcpassay.isolate import Options, isolate
from tcpassay.isolate.show import show

PLAN = """\
name = "small"
seeds = [3]

[fixed]
"app.duration" = "300ms"
"link.rate" = "100Mbit"
"link.delay" = "5ms"
"stack.mtu" = "9000B"

[axes]
"stack.profile" = ["freebsd", "linux"]
"stack.cc" = ["reno", "cubic"]
"link.reorder" = ["off", "reverse-burst:5"]
"""
ORACLE = "needless-fast-retransmit"


def tcpassay(*args: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tcpassay", *map(str, args)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=600)


def run(folder: Path, plan: str) -> None:
    (folder / "plan.toml").write_text(plan, encoding="utf-8")
    done = tcpassay("run", "plan.toml", "--out", "out", cwd=folder)
    assert done.returncode in {0, 1}, done.stderr


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ran")
    run(folder, PLAN)
    return folder


@pytest.fixture(scope="module")
def isolated(ran: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("isolated")
    shutil.copytree(ran / "out", folder / "out")
    done = tcpassay("isolate", "out", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return folder, told


@pytest.fixture
def copy(ran: Path, tmp_path: Path) -> Path:
    shutil.copytree(ran / "out", tmp_path / "out")
    return tmp_path


def answer(told: dict[str, Any]) -> list[dict[str, Any]]:
    """The result of an isolation without its cost."""
    cost = {"cpu_s", "plan"}
    return [{name: value for name, value in cause.items() if name not in cost} for cause in told["causes"]]


def test_the_cause_is_the_one_setting_without_which_nothing_is_found(
    isolated: tuple[Path, dict[str, Any]],
) -> None:
    (cause,) = isolated[1]["causes"]
    assert [(t["entity"], t["parameter"], t["value"], t["default"]) for t in cause["cause"]] == [
        ("link", "reorder", "reverse-burst:5", "off")
    ]
    assert (cause["oracle"], cause["severity"]) == (ORACLE, "warning")
    assert cause["run"] == {"app.duration": "300ms"}


def test_it_explains_every_run_that_has_the_setting_and_merges_their_findings(
    isolated: tuple[Path, dict[str, Any]],
) -> None:
    folder, told = isolated
    result = folders.result(folder / "out")
    reversed_ = {r["case"] for r in result["runs"] if r["varied"]["link.reorder"] == "reverse-burst:5"}
    assert len(reversed_) == 4
    assert {one["case"] for one in told["causes"][0]["explains"]} == reversed_
    assert told["left"] == []


def test_the_reverse_is_proven_by_a_run_with_the_setting_reset(isolated: tuple[Path, dict[str, Any]]) -> None:
    (cause,) = isolated[1]["causes"]
    (row,) = cause["proof"]
    assert (row["path"], row["reset_to"], row["shown"], row["gone"]) == ("link.reorder", "off", 0, True)
    assert row["triples"] == {"app.duration": "300ms"}
    assert cause["proven"] is True


def test_the_plan_it_leaves_is_one_small_run_with_the_finding(
    isolated: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    (cause,) = isolated[1]["causes"]
    small = cause["smallest_run"]["triples"]
    assert small["link.reorder"] == "reverse-burst:5"
    assert small["app.duration"] == "1ms"
    assert {"stack.mtu", "stack.profile", "stack.cc", "link.delay"}.isdisjoint(small)
    done = tcpassay("run", isolated[0] / cause["plan"], "--out", tmp_path / "again", "--json", cwd=tmp_path)
    made = json.loads(done.stdout)
    assert [one["findings"] for one in made["runs"]] == [1]
    assert made["runs"][0]["case"] == cause["smallest_run"]["case"]


def test_the_terminal_shows_cause_proof_and_command_in_80_columns(
    isolated: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(isolated[0])
    shown = io.StringIO()
    show(isolate(Path("out"), None, Options()), Console(file=shown, width=80))
    lines = [line.rstrip() for line in shown.getvalue().splitlines()]
    assert lines[0] == f"Cause: fast retransmit of what was only reordered ({ORACLE})"
    assert "  link    reorder    reverse-burst:5  off" in lines
    assert "  With any one triple reset the finding is gone:" in lines
    (command,) = [line for line in lines if line.startswith(f"  tcpassay run out/isolate/{ORACLE}-")]
    assert max(len(line) for line in lines if line != command) <= 80


def test_a_budget_ends_with_the_smallest_set_so_far_and_the_same_command_continues(
    copy: Path, isolated: tuple[Path, dict[str, Any]]
) -> None:
    first = tcpassay("isolate", "out", "--json", "--budget", "2", "--jobs", "1", cwd=copy)
    assert first.returncode == 130
    told = json.loads(first.stdout)
    assert told["stopped"] == "the budget is used up"
    assert told["runs_made"] == 2
    (cause,) = told["causes"]
    assert cause["complete"] is False
    assert cause["proven"] is False
    assert "link.reorder" in {one["path"] for one in cause["cause"]}
    assert len(told["left"]) == 3
    for _ in range(20):
        done = tcpassay("isolate", "out", "--json", "--budget", "2", "--jobs", "1", cwd=copy)
        if done.returncode != 130:
            break
    assert done.returncode == 0
    assert answer(json.loads(done.stdout)) == answer(isolated[1])


KILLED = """
import os, signal, sys
from pathlib import Path
from tcpassay.isolate import Options, isolate

if __name__ == "__main__":
    made = []
    def watch(said):
        made.append(said)
        if len(made) == 5:
            os.kill(os.getpid(), signal.SIGKILL)
    isolate(Path("out"), None, Options(jobs=2), watch)
"""


def test_an_isolation_that_was_killed_and_continued_has_the_same_result(
    copy: Path, isolated: tuple[Path, dict[str, Any]]
) -> None:
    (copy / "killed.py").write_text(KILLED, encoding="utf-8")
    killed = subprocess.run(
        [sys.executable, "killed.py"], cwd=copy, capture_output=True, check=False, timeout=600
    )
    assert killed.returncode == -9
    done = json.loads(tcpassay("isolate", "out", "--json", cwd=copy).stdout)
    assert done["runs"] - done["runs_made"] >= 5
    assert answer(done) == answer(isolated[1])


def test_a_repeated_isolation_makes_no_further_run(isolated: tuple[Path, dict[str, Any]]) -> None:
    again = json.loads(tcpassay("isolate", "out", "--json", cwd=isolated[0]).stdout)
    assert again["runs_made"] == 0
    assert answer(again) == answer(isolated[1])


def test_a_finding_can_be_named_by_run_by_its_beginning_and_by_oracle(copy: Path) -> None:
    (case, *_) = [row["case"] for row in json.loads((copy / "out" / "findings.json").read_text())["findings"]]
    for text in (f"{case}-3/{ORACLE}", case[:6], ORACLE):
        told = json.loads(tcpassay("isolate", "out", text, "--json", cwd=copy).stdout)
        assert told["causes"][0]["isolated_from"] == {"case": case, "seed": 3}


def test_a_part_of_its_title_chooses_one_of_several_findings(copy: Path) -> None:
    folder = copy / "out"
    assert (
        isolate(folder, f"{ORACLE}: ONLY REORDERED", Options(reduce=False)).causes[0].effect.oracle == ORACLE
    )
    with pytest.raises(UserError, match="is not a finding of these results"):
        isolate(folder, f"{ORACLE}: another title", Options())


def test_run_with_isolate_prints_the_cause_and_explains_it_and_refuses_json(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8")
    done = tcpassay("run", "plan.toml", "--isolate", "--out", "out", cwd=tmp_path)
    assert done.stdout.count("Cause: ") == 1
    assert "reverse-burst:5" in done.stdout.partition("Cause: ")[2]
    assert done.stdout.count("Cause, by isolation:") == 1
    refused = tcpassay("run", "plan.toml", "--isolate", "--json", cwd=tmp_path)
    assert refused.returncode == 2
    assert "with `--json` use `tcpassay isolate DIR --json` afterwards" in refused.stderr


def test_an_unknown_finding_is_an_error_that_lists_the_known_ones(copy: Path) -> None:
    done = tcpassay("isolate", "out", "ffffff", cwd=copy)
    assert done.returncode == 2
    assert "`ffffff` is not a finding of these results" in done.stderr
    assert done.stderr.count(f"-3/{ORACLE}") == 4


def test_a_finding_in_every_case_is_reported_and_isolated_on_demand_only(
    tmp_path: Path,
) -> None:
    run(tmp_path, PLAN.replace('["off", "reverse-burst:5"]', '["reverse-burst:5"]'))
    done = tcpassay("isolate", "out", "--json", cwd=tmp_path)
    told = json.loads(done.stdout)
    assert done.returncode == 1
    assert told["in_every_run"] == [
        {"oracle": ORACLE, "title": "fast retransmit of what was only reordered", "runs": 4}
    ]
    assert (told["causes"], told["runs"]) == ([], 0)
    forced = json.loads(tcpassay("isolate", "out", "--json", "--force", cwd=tmp_path).stdout)
    assert [one["path"] for one in forced["causes"][0]["cause"]] == ["link.reorder"]


def test_a_finding_that_does_not_reproduce_is_reported_with_the_difference(copy: Path) -> None:
    """Changes the results: they name another version, and a run has other settings."""
    result = folders.result(copy / "out")
    result["environment"]["tcpassay"] = "0.0.9"
    for one in result["runs"]:
        one["triples"]["link.reorder"] = "off"
    folders.write(copy / "out", result)
    done = tcpassay("isolate", "out", "--json", cwd=copy)
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert told["causes"] == []
    assert len(told["unreproduced"]) == 3
    why = told["unreproduced"][0]["why"]
    assert "the plan was run with tcpassay 0.0.9, this is" in why
    assert "with seed 3 the run takes other steps than the first time" in why


def test_results_without_findings_have_no_cause(tmp_path: Path) -> None:
    run(tmp_path, PLAN.replace('["off", "reverse-burst:5"]', '["off"]'))
    done = tcpassay("isolate", "out", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "The runs there have no findings.\n")


def damage(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-40] + b"x" * 20)


@pytest.mark.parametrize("name", ["findings.json", "plan.toml"])
def test_a_damaged_file_is_named(copy: Path, name: str) -> None:
    damage(copy / "out" / name)
    done = tcpassay("isolate", "out", cwd=copy)
    assert done.returncode == 2, done.stdout
    assert name in done.stderr
    assert "damaged" in done.stderr or "not JSON" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_the_list_of_runs_the_recordings_tell_what_ran_and_the_damage_is_noted(copy: Path) -> None:
    damage(copy / "out" / "result.json")
    told = json.loads(tcpassay("isolate", "out", "--json", cwd=copy).stdout)
    assert any("result.json" in note for note in told["notes"])
    assert [one["path"] for one in told["causes"][0]["cause"]] == ["link.reorder"]


def test_remembered_runs_that_are_damaged_are_made_again(
    isolated: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    shutil.copytree(isolated[0] / "out", tmp_path / "out")
    (tmp_path / "out" / "isolate" / "runs.sqlite").write_bytes(b"no database" * 100)
    told = json.loads(tcpassay("isolate", "out", "--json", cwd=tmp_path).stdout)
    assert told["runs_made"] == told["runs"]
    assert "damaged" in told["notes"][0]
    assert answer(told) == answer(isolated[1])


@pytest.mark.parametrize("text", ["soon", "10MB", "-5s", "1.5"])
def test_a_budget_is_a_time_or_a_number_of_runs(copy: Path, text: str) -> None:
    done = tcpassay("isolate", "out", f"--budget={text}", cwd=copy)
    assert done.returncode == 2
    assert done.stderr.startswith(f"tcpassay: `--budget {text}`: give a time")
