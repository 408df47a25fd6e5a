"""`plans/coverage.toml` with other seeds than its own: checks and behaviours hold, and no oracle reports an error."""

import subprocess
import sys
from pathlib import Path

import pytest

import plans


@pytest.mark.parametrize("seed", [2, 8])
def test_the_plan_of_coverage_has_no_error_with_another_seed(tmp_path: Path, seed: int) -> None:
    command = [
        sys.executable,
        "-m",
        "tcpassay",
        "run",
        str(plans.PLANS / "coverage.toml"),
        "--seed",
        str(seed),
    ]
    ended = subprocess.run(
        [*command, "--jobs", "1", "--out", str(tmp_path / "out")], check=False, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stdout
    assert "1053 of 1053 runs finished" in ended.stdout
