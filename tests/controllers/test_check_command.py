"""`tcpassay controller check`."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import plans
from tcpassay.cli import app
from tcpassay.errors import UserError

RENO = plans.REPOSITORY / "plans" / "python" / "reno.py"


def check(*words: object) -> Result:
    return CliRunner().invoke(app, ["controller", "check", *map(str, words)])


@pytest.fixture
def faulty(tmp_path: Path) -> Path:
    """Reno that grows three times as fast."""
    text = RENO.read_text(encoding="utf-8")
    file = tmp_path / "faulty.py"
    file.write_text(
        text.replace("return cwnd + counted, ssthresh", "return cwnd + 3 * counted, ssthresh"),
        encoding="utf-8",
    )
    assert file.read_text(encoding="utf-8") != text
    return file


def test_the_shortest_history_that_violates_the_contract_is_printed(faulty: Path) -> None:
    found = check(f"{faulty}:Reno")
    assert found.exit_code == 1
    assert "violates the contract `window`" in found.stdout
    assert "GrowthIsEarned" in found.stdout
    # As plans name controllers, and for programs.
    found = check(f"python:{faulty}:Reno", "--json")
    assert found.exit_code == 1
    said = json.loads(found.stdout)
    assert said["contract"] == "window"
    assert "GrowthIsEarned" in said["broken"]


def test_a_controller_that_raises_is_shown_with_its_traceback(tmp_path: Path) -> None:
    file = tmp_path / "raises.py"
    file.write_text(
        "class Mine:\n    def __init__(self, random): pass\n    def on(self, view, event): return 1 // 0\n",
        encoding="utf-8",
    )
    found = check(f"{file}:Mine", "--contract", "any")
    assert found.exit_code == 1
    assert "ZeroDivisionError" in found.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["reno.py"], "name a file and a class"),
        (["nowhere.py:Reno"], "cannot be read: No such file"),
        ([f"{RENO}:Reno", "--contract", "best"], "allowed are window, rate, any"),
    ],
)
def test_bad_input_is_refused(words: list[str], message: str) -> None:
    assert isinstance(error := check(*words).exception, UserError)
    assert message in str(error)
