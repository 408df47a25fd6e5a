"""Scripts as cases of a plan: journal, resume, selection, repetition, report and comparison work as for other cases."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import folders
from pkt import GOOD, LATE
from pkt import write as write_scripts
from plans import REPOSITORY
from tcpassay import cli, load
from tcpassay.errors import UserError
from tcpassay.plan.read import read_file
from tcpassay.run.session import Beginning, Session

FREEBSD = "// profile: freebsd\n" + GOOD
PLAN = """\
name = "scripts"

[[scripts]]
files = ["pkt"]
"""


def tcpassay(*words: str | Path) -> Result:
    return CliRunner().invoke(cli.app, list(map(str, words)))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "pkt").mkdir()
    bad = GOOD.replace("mss 1460", "mss 1461")
    write_scripts(
        tmp_path / "pkt", bad=bad, broken="0 socket(\n", good=GOOD, late=LATE, odd="`reboot`\n" + GOOD
    )
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path


def by_script(folder: Path) -> dict[str, dict[str, Any]]:
    return {Path(run["triples"]["script"]).stem: run for run in load(folder).runs}


def comparable(folder: Path) -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = folders.result(folder)["runs"]
    return [{k: v for k, v in run.items() if k not in {"cpu_s", "simulation_s", "message"}} for run in runs]


def test_a_mismatch_of_a_script_is_a_finding_with_file_line_and_both_packets(
    home: Path,
) -> None:
    result = tcpassay("run", home / "plan.toml", "--out", home / "out")
    assert result.exit_code == 1, result.output
    runs = by_script(home / "out")
    assert {name: run["outcome"] for name, run in runs.items()} == {
        "bad": "done",
        "broken": "failed",
        "good": "done",
        "late": "done",
        "odd": "unsupported",
    }
    assert {name: run["findings"] for name, run in runs.items()} == {
        "bad": 1,
        "broken": 0,
        "good": 0,
        "late": 1,
        "odd": 0,
    }
    assert "pkt/broken.pkt:2:1: expected an argument" in runs["broken"]["message"]
    found = {Path(one.flow.split(":")[0]).stem: one for one in load(home / "out").found}
    assert found["bad"].flow == "pkt/bad.pkt:5:1"
    assert "* options: expected mss 1461, live mss 1460" in found["bad"].text
    assert found["bad"].replay.endswith(f"out {runs['bad']['case']}")
    assert "It passes with --tolerance_usecs=2000." in found["late"].text
    assert found["late"].start_ns == 100_000_000  # where the script stood, in virtual time


def test_scripts_run_from_the_folder_alone_when_resumed_and_when_replayed(home: Path) -> None:
    assert tcpassay("run", home / "plan.toml", "--out", home / "whole").exit_code == 1
    plan = read_file(home / "plan.toml")
    Session.begin(plan, home / "cut", Beginning(), replace_=False).close()
    shutil.rmtree(home / "pkt")
    result = tcpassay("run", "--resume", home / "cut")
    assert result.exit_code == 1, result.output
    assert comparable(home / "cut") == comparable(home / "whole")
    good, bad = (by_script(home / "cut")[name] for name in ("good", "bad"))
    again = tcpassay("replay", home / "cut", good["case"])
    assert again.exit_code == 0
    assert "all tables with the same checksums" in again.output
    again = tcpassay("replay", home / "cut", bad["case"], "--json")
    made = json.loads(again.output)
    assert made["same"]
    assert [one["flow"] for one in made["findings"]] == ["pkt/bad.pkt:5:1"]
    (home / "cut" / "inputs" / "pkt" / "good.pkt").write_text(LATE)
    assert tcpassay("replay", home / "cut", good["case"]).exit_code == 1


def test_a_script_is_chosen_by_its_name_and_extended_by_another(home: Path) -> None:
    out = home / "out"
    chosen = tcpassay("run", home / "plan.toml", "--out", out, "--filter", "script=pkt/good.pkt")
    assert chosen.exit_code == 0, chosen.output
    assert [run["outcome"] for run in load(out).runs] == ["done"]
    (home / "plan.toml").write_text(PLAN.replace('"pkt"', '"pkt/[gl]*.pkt"'))
    assert tcpassay("run", home / "plan.toml", "--out", out, "--extend").exit_code == 1
    assert {name: run["findings"] for name, run in by_script(out).items()} == {"good": 0, "late": 1}


def test_profiles_vary_and_real_kernels_run_those_of_linux_only(home: Path) -> None:
    write_scripts(home / "pkt", own=FREEBSD)
    (home / "plan.toml").write_text(
        'name = "profiles"\n[[scripts]]\nfiles = ["pkt/own.pkt", "pkt/good.pkt"]\n'
        '[[scripts]]\nfiles = ["pkt/good.pkt"]\nprofile = ["rfc", "linux"]\noptions = { tolerance_usecs = 4000 }\n'
    )
    cases = read_file(home / "plan.toml").cases
    assert [(case.triples["script"], case.triples["stack.profile"]) for case in cases] == [
        ("pkt/own.pkt", "freebsd"),
        ("pkt/good.pkt", "linux"),
        ("pkt/good.pkt", "rfc"),
        ("pkt/good.pkt", "linux"),
    ]
    assert len({case.id for case in cases}) == 4


def test_two_results_with_scripts_are_compared_and_a_new_mismatch_is_a_regression(home: Path) -> None:
    (home / "plan.toml").write_text(PLAN.replace('"pkt"', '"pkt/good.pkt"'))
    assert tcpassay("run", home / "plan.toml", "--out", home / "a").exit_code == 0
    write_scripts(home / "pkt", good=GOOD.replace("mss 1460", "mss 1461"))
    assert tcpassay("run", home / "plan.toml", "--out", home / "b").exit_code == 1
    assert tcpassay("compare", home / "a", home / "a").exit_code == 0
    compared = tcpassay("compare", home / "a", home / "b")
    assert compared.exit_code == 1, compared.output
    assert "script: new in 1 run" in compared.output


def test_a_report_shows_scripts_beside_other_cases(home: Path) -> None:
    (home / "plan.toml").write_text(
        PLAN + '\n[fixed]\n"app.duration" = "20ms"\n[axes]\n"stack.cc" = ["reno", "cubic"]\n'
    )
    tcpassay("run", home / "plan.toml", "--out", home / "out")
    assert len(load(home / "out").runs) == 7
    assert tcpassay("report", home / "out").exit_code == 0
    page = (home / "out" / "report.html").read_text()
    assert "pkt/bad.pkt:5:1" in page


@pytest.mark.parametrize(
    ("entry", "line", "message"),
    [
        ('files = ["pkt/none.pkt"]', 4, "`files` = `pkt/none.pkt`: no such file or directory"),
        ('files = ["pkt/*.txt"]', 4, "`files` = `pkt/*.txt`: no script there"),
        ('files = ["pkt"]\nprofile = "linx"', 5, "`profile` = `linx`: allowed are"),
        ('files = ["pkt"]\noptions = { nonsense = 1 }', 5, "`options`: `--nonsense` is not an option"),
        ('files = ["pkt"]\noptions = { allow-shell = "" }', 5, "a plan never executes shell commands"),
        ('files = "pkt"', 4, "scripts"),
        ('file = ["pkt"]', 4, "scripts"),
    ],
)
def test_a_bad_entry_is_reported_with_file_and_line(home: Path, entry: str, line: int, message: str) -> None:
    (home / "plan.toml").write_text(f'name = "bad"\n\n[[scripts]]\n{entry}\n')
    with pytest.raises(UserError) as error:
        read_file(home / "plan.toml")
    said = "\n".join(map(str, error.value.problems))
    assert f"plan.toml:{line}: " in said
    assert message in said


def test_a_first_line_that_names_no_profile_of_ours_is_reported_with_its_place(home: Path) -> None:
    write_scripts(home / "pkt", good="// profile: plan9\n" + GOOD)
    with pytest.raises(UserError, match=r"good.pkt:1: .*`plan9` is not a profile"):
        read_file(home / "plan.toml")


def test_the_projects_own_scripts_pass_as_a_plan(tmp_path: Path) -> None:
    result = tcpassay("run", REPOSITORY / "plans" / "scripts.toml", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    runs = load(tmp_path / "out").runs
    assert len(runs) >= 20
    assert {run["outcome"] for run in runs} == {"done"}


def test_an_extended_plan_finds_the_scripts_of_its_base(tmp_path: Path) -> None:
    base = REPOSITORY / "plans" / "scripts.toml"
    (tmp_path / "plan.toml").write_text(f'name = "more"\nextends = "{base}"\n')
    assert len(read_file(tmp_path / "plan.toml").cases) == len(read_file(base).cases)


def test_a_folder_is_left_as_it_was_when_a_script_cannot_be_found(home: Path) -> None:
    (home / "plan.toml").write_text(PLAN.replace('"pkt"', '"nowhere"'))
    result = tcpassay("run", home / "plan.toml", "--out", home / "out")
    assert isinstance(result.exception, UserError)
    assert not (home / "out").exists()
