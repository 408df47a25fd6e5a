"""Shells complete values: metrics, parameters and cases of a folder, kinds of figures."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from folders import folder, run


def completed(*words: str) -> list[str]:
    """What bash gets for a line whose last word is incomplete."""
    environment = {
        **os.environ,
        "_TCPASSAY_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(["tcpassay", *words]),
        "COMP_CWORD": str(len(words)),
    }
    command = [sys.executable, "-m", "tcpassay"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = [
        run(case, 1, {"goodput": 1.0}, stack__cc=cc, queue__limit="1MB")
        for case, cc in (("aa11", "reno"), ("ab22", "cubic"))
    ]
    return folder(tmp_path_factory.mktemp("complete") / "results", runs)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["table", "{}", "--metric", "rtt_p99"], ["rtt_p99", "rtt_p999"]),
        (["table", "{}", "--by", ""], ["stack.cc", "queue.limit"]),
        (["plot", "{}", "--where", "stack.cc=c"], ["stack.cc=cubic"]),
        (["log", "{}", "ab"], ["ab22"]),
        (["plot", "{}", "--kind", "d"], ["distribution", "diagram"]),
        (["params", "queue.red_m"], ["queue.red_min", "queue.red_max"]),
        (["table", "/nowhere", "--by", ""], []),
    ],
)
def test_values_are_completed(words: list[str], expected: list[str], results: Path) -> None:
    assert completed(*(word.format(results) for word in words)) == expected
