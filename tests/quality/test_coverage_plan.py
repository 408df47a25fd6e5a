"""Plans with other seeds than their own: checks and behaviours hold, and no oracle reports an error."""

import subprocess
import sys
from pathlib import Path

import pytest

import plans


# The seeds of a plan are one command: its cases are generated once.
@pytest.mark.parametrize(("name", "runs", "seeds"), [("coverage", 2106, [2, 8]), ("behaviours", 128, [2])])
def test_a_plan_of_coverage_has_no_error_with_another_seed(
    tmp_path: Path, name: str, runs: int, seeds: list[int]
) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(
        f'extends = "{plans.PLANS / name}.toml"\nname = "again"\nseeds = {seeds}\n', encoding="utf-8"
    )
    command = [
        sys.executable,
        "-m",
        "tcpassay",
        "run",
        str(plan),
        "--jobs",
        "1",
        "--out",
        str(tmp_path / "out"),
    ]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout
    assert f"{runs} of {runs} runs finished" in ended.stdout
