"""JUnit XML of a plan, as used by continuous integration."""

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

PLAN = """
name = "ci"
seeds = [1, 2]
[fixed]
"app.duration" = "20ms"
[axes]
"stack.cc" = ["reno", "cubic"]
[[check]]
metric = "goodput"
where = { "stack.cc" = "reno" }
op = ">="
value = "1000Gbit"
why = "more than the link carries"
"""


def tcpassay(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tcpassay", *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=600, cwd=folder)


def test_runs_and_checks_are_tests_and_a_failure_has_the_command_that_repeats_it(tmp_path: Path) -> None:
    (tmp_path / "ci.toml").write_text(PLAN.replace("1000Gbit", "1000Gbit"), encoding="utf-8")
    done = tcpassay(tmp_path, "run", "ci.toml", "--out", "results", "--junit", "made/ci.xml")
    assert done.returncode == 1, done.stderr
    root = ET.parse(tmp_path / "made" / "ci.xml").getroot()  # noqa: S314 - our own
    counts = {suite.get("name"): [suite.get(k) for k in ("tests", "failures", "errors")] for suite in root}
    assert counts == {"runs": ["4", "0", "0"], "checks": ["2", "2", "0"]}
    failure = root.find("testsuite[@name='checks']/testcase/failure")
    assert failure is not None
    assert "must be >= 1e+12" in str(failure.get("message")) or "1000000000000" in str(failure.get("message"))
    assert str(failure.text).startswith("tcpassay replay results ")
    assert "--seed 1" in str(failure.text)
    # The summary says the same, with the case.
    assert "goodput >= 1000 Gbit/s fails in" in done.stdout
    assert "Report:  tcpassay report results" in done.stdout


def test_a_file_that_cannot_be_written_is_reported_before_anything_is_run(tmp_path: Path) -> None:
    (tmp_path / "ci.toml").write_text(PLAN, encoding="utf-8")
    done = tcpassay(tmp_path, "run", "ci.toml", "--out", "results", "--junit", ".")
    assert done.returncode == 2
    assert "cannot write the JUnit file: it is a folder" in done.stderr
    assert not (tmp_path / "results").exists()
