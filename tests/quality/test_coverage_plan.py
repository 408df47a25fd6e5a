"""Plans with other seeds than their own: checks and behaviours hold, and no oracle reports an error."""

import subprocess
import sys
from pathlib import Path

import pytest

import plans


@pytest.mark.parametrize(
    ("name", "runs", "seed"), [("coverage", 1053, 2), ("coverage", 1053, 8), ("behaviours", 128, 2)]
)
def test_a_plan_of_coverage_has_no_error_with_another_seed(
    tmp_path: Path, name: str, runs: int, seed: int
) -> None:
    command = [
        sys.executable,
        "-m",
        "tcpassay",
        "run",
        str(plans.PLANS / f"{name}.toml"),
        "--seed",
        str(seed),
    ]
    ended = subprocess.run(
        [*command, "--jobs", "1", "--out", str(tmp_path / "out")], check=False, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stdout
    assert f"{runs} of {runs} runs finished" in ended.stdout
