"""docs/ci.md: the page and the steps of both workflows work in a clean folder."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml

from plans import REPOSITORY
from repositories import git

sys.path.insert(0, str(REPOSITORY / "tools" / "site"))
import play

FILES = REPOSITORY / "docs" / "examples" / "ci"
GITHUB: dict[str, Any] = yaml.safe_load((FILES / "github.yml").read_text(encoding="utf-8"))
GITLAB: dict[str, Any] = yaml.safe_load((FILES / "gitlab.yml").read_text(encoding="utf-8"))


def steps(job: str) -> list[str]:
    """The commands of a job on GitHub that call tcpassay, without its installation."""
    run = [step["run"].strip() for step in GITHUB["jobs"][job]["steps"] if "run" in step]
    return [one for one in run if one.startswith("tcpassay ")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository as the page sets it up: the folder `ci` with its baseline."""
    text = (REPOSITORY / "docs" / "ci.md").read_text(encoding="utf-8")
    made = play.prepared(tmp_path_factory.mktemp("user"))
    assert play.play(text, made) == text
    return made


def shell(folder: Path, command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    path = f"{folder / '.bin'}:{os.environ['PATH']}"
    return subprocess.run(
        ["/bin/bash", "-e", "-o", "pipefail", "-c", command],
        cwd=folder, env=os.environ | {"PATH": path} | variables, capture_output=True, text=True, check=False,
    )  # fmt: skip


def counted(file: Path) -> dict[str, int]:
    """How many tests of a JUnit file there are, and how many failed."""
    root = ET.parse(file).getroot()  # noqa: S314 - the own output
    return {
        "tests": len(root.findall(".//testcase")),
        "failures": len(root.findall(".//failure")) + len(root.findall(".//error")),
    }


def test_both_workflows_have_the_same_commands() -> None:
    assert len(steps("plans")) == 4
    assert steps("plans") == [line for line in GITLAB["plans"]["script"] if line.startswith("tcpassay ")]
    series = [steps("series")[0].partition(" > ")[0], GITLAB["series"]["script"][0].partition(" | ")[0]]
    assert series[0].replace("$GITHUB_BASE_REF", "X") == series[1].replace(
        "$CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "X"
    )


def test_junit_files_and_results_are_artefacts_also_of_a_job_that_failed() -> None:
    for job in ("plans", "series"):
        kept = GITHUB["jobs"][job]["steps"][-1]
        assert kept["if"] == "always()"
        assert {"junit", "results"} <= set(kept["with"]["path"].split())
        assert GITLAB[job]["artifacts"]["when"] == "always"
        assert GITLAB[job]["artifacts"]["reports"] == {"junit": "junit/*.xml"}


def test_the_steps_of_a_change_without_effect_pass_and_one_that_is_worse_fails_in_compare(
    folder: Path,
) -> None:
    run, compare, script, report = steps("plans")
    for command in (run, compare, script, report):
        done = shell(folder, command)
        assert done.returncode == 0, done.stdout + done.stderr
    assert counted(folder / "junit/run.xml") == {"tests": 32, "failures": 0}
    assert counted(folder / "junit/compare.xml") == {"tests": 4, "failures": 0}
    assert counted(folder / "junit/scripts.xml") == {"tests": 1, "failures": 0}
    plan = folder / "ci" / "plan.toml"
    plan.write_text(
        plan.read_text().replace('"stack.cc" = "cubic"', '"stack.cc" = "cubic"\n"stack.max_rwnd" = "20KB"')
    )
    assert shell(folder, f"{run} --force").returncode == 1
    assert counted(folder / "junit/run.xml")["failures"] == 8
    assert shell(folder, compare).returncode == 1
    assert counted(folder / "junit/compare.xml")["failures"] >= 1


@pytest.mark.parametrize(
    ("command", "variable"),
    [
        (steps("series")[0], "GITHUB_BASE_REF"),
        (GITLAB["series"]["script"][0], "CI_MERGE_REQUEST_TARGET_BRANCH_NAME"),
    ],
    ids=["github", "gitlab"],
)
def test_the_step_for_a_series_reads_the_commits_of_the_request(
    folder: Path, command: str, variable: str
) -> None:
    if not (folder / ".git").exists():
        git(folder, "init", "-q")
        git(folder, "add", "ci")
        git(folder, "commit", "-q", "-m", "one")
        git(folder, "update-ref", "refs/remotes/origin/main", "HEAD")
    done = shell(folder, command, **{variable: "main"})
    assert done.returncode == 2
    assert "it is not a Linux tree" in done.stderr
