"""`tcpassay controller check`."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import plans
from tcpassay import _native
from tcpassay.cli import app
from tcpassay.errors import UserError

RENO = plans.REPOSITORY / "plans" / "python" / "reno.py"


def check(*words: object) -> Result:
    return CliRunner().invoke(app, ["controller", "check", *map(str, words)])


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Reno that grows three times as fast in congestion avoidance and ignores idle times."""
    file = tmp_path_factory.mktemp("faulty") / "faulty.py"
    file.write_text(
        """
from tcpassay.controllers import Resume, Window

class Mine(Window):
    def grow(self, view, cwnd, acked):
        return super().grow(view, cwnd, acked) + 2 * view.mss

    def on(self, view, event):
        return None if isinstance(event, Resume) else super().on(view, event)
""",
        encoding="utf-8",
    )
    return file


def test_every_violated_clause_is_printed_in_words_with_its_reason_and_shortest_history(faulty: Path) -> None:
    found = check(f"{faulty}:Mine", "--histories", 10)
    assert found.exit_code == 1
    assert found.stdout.startswith(f"{faulty}:Mine violates 2 clauses of the contract `window`:\n")
    assert "\nGrowthIsEarned: An ACK increases cwnd by at most the bytes" in found.stdout
    assert "\nRestart: After an idle time cwnd is at most the restart window" in found.stdout
    assert (
        "  Why: The old window would be a burst into a path that may have changed (RFC 5681" in found.stdout
    )
    assert "  Found: Resume with restart " in found.stdout
    assert "\n    all data is acknowledged, and the connection idles for three RTOs\n" in found.stdout


def test_the_violations_for_programs_have_clause_rule_reason_and_history(faulty: Path) -> None:
    # As plans name controllers.
    found = check(f"python:{faulty}:Mine", "--json", "--histories", 10)
    assert found.exit_code == 1
    said = json.loads(found.stdout)
    assert (said["contract"], said["raised"]) == ("window", None)
    assert {one["clause"] for one in said["violated"]} == {"GrowthIsEarned", "Restart"}
    assert set(said["violated"][0]) == {"clause", "rule", "reason", "found", "history"}


RAISES = """
class Mine:
    def __init__(self, random): pass
    def on(self, view, event): return 1 // 0
"""


def test_a_controller_that_raises_is_shown_with_its_traceback_alone(tmp_path: Path) -> None:
    file = tmp_path / "raises.py"
    file.write_text(RAISES, encoding="utf-8")
    found = check(f"{file}:Mine", "--contract", "any")
    assert found.exit_code == 1
    assert found.stdout.splitlines() == [
        f"{file}:Mine raises an exception:",
        "Traceback (most recent call last):",
        f'  File "{file}", line 4, in on',
        "    def on(self, view, event): return 1 // 0",
        "                                      ~~^^~~",
        "ZeroDivisionError: integer division or modulo by zero",
    ]


def test_a_run_of_a_plan_prints_the_whole_traceback_once(tmp_path: Path) -> None:
    (tmp_path / "raises.py").write_text(RAISES, encoding="utf-8")
    (tmp_path / "plan.toml").write_text(
        'name = "raising"\nseeds = [1, 2]\n[fixed]\n"app.duration" = "10ms"\n"stack.cc" = "python:raises.py:Mine"\n',
        encoding="utf-8",
    )
    ran = CliRunner().invoke(
        app, ["run", str(tmp_path / "plan.toml"), "--out", str(tmp_path / "out"), "--jobs", "1"]
    )
    assert ran.exit_code == 1
    assert ran.output.count("line 4, in on") == 1
    assert ran.output.count("ZeroDivisionError: integer division or modulo by zero") == 1
    assert "the controller: Traceback (most recent call last): (as above)" in ran.output


BLOCKS = re.findall(
    r"```python\n(.*?)```",
    (plans.REPOSITORY / "docs" / "controllers-python.md").read_text(encoding="utf-8"),
    re.DOTALL,
)


@pytest.mark.parametrize(
    ("number", "name", "contract"), [(0, "Aimd", "window"), (1, "Hold", "window"), (2, "Fixed", "any")]
)
def test_the_examples_of_the_documentation_pass_their_checks(
    number: int, name: str, contract: str, tmp_path: Path
) -> None:
    assert len(BLOCKS) == 3
    file = tmp_path / "example.py"
    file.write_text(BLOCKS[number], encoding="utf-8")
    found = check(f"{file}:{name}", "--contract", contract, "--histories", 60)
    assert found.exit_code == 0, found.output


def test_the_documentation_has_every_clause_with_its_reason() -> None:
    text = (plans.REPOSITORY / "docs" / "controllers-python.md").read_text(encoding="utf-8")
    for clause, contract, rule, reason in _native.contract_clauses():
        assert f"\n| `{clause}` | {contract} | {rule} | {reason} |\n" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["reno.py"], "name a file and a class"),
        ([f"{RENO}:Cubic"], "has no class `Cubic`"),
        (["nowhere.py:Reno"], "cannot be read: No such file"),
        ([f"{RENO}:Reno", "--contract", "best"], "allowed are window, rate, any"),
    ],
)
def test_bad_input_is_refused(words: list[str], message: str) -> None:
    assert isinstance(error := check(*words).exception, UserError)
    assert message in str(error)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("reduce(self, view, cwnd, cause, flight): return flight * 0.8", "`reduce` of Mine returned "),
        (
            "reduce(self, view, cwnd, cause, flight): return -1",
            "`reduce` of Mine returned -1; a window is not negative",
        ),
        (
            "grow(self, view, cwnd, acked): pass",
            "`grow` of Mine returned None; allowed is a whole number of bytes",
        ),
        (
            "growth(self, view, cwnd, acked): return cwnd",
            "`growth` of Mine overrides nothing and is not called; did you mean `grow`?",
        ),
        ("reduse(self, view, cwnd, cause, flight): return cwnd", "did you mean `reduce`?"),
        ("Reduce(self, view, cwnd, cause, flight): return cwnd", "did you mean `reduce`?"),
        ("leaveSlowStart(self, view): return None", "did you mean `leave_slow_start`?"),
    ],
)
def test_a_method_that_returns_no_window_or_overrides_nothing_is_named(
    tmp_path: Path, method: str, message: str
) -> None:
    file = tmp_path / "m.py"
    file.write_text(
        f"from tcpassay.controllers import Window\n\nclass Mine(Window):\n    def {method}\n",
        encoding="utf-8",
    )
    found = check(f"{file}:Mine", "--histories", 10)
    assert found.exit_code != 0
    assert message in found.stdout + str(found.exception)


def test_a_method_that_the_class_calls_may_have_a_similar_name(tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    file.write_text(
        "from tcpassay.controllers import Window\n\nclass Mine(Window):\n"
        "    def reduced(self, flight): return flight // 2\n"
        "    def leave_slow_start(self, view): return self.reduced(8 * view.mss) if view.flight < 0 else None\n",
        encoding="utf-8",
    )
    assert check(f"{file}:Mine", "--histories", 10).exit_code == 0


def test_a_misspelt_switch_of_a_class_is_named(tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    file.write_text(
        "class Mine:\n    wants_send = True\n    def __init__(self, random): pass\n"
        "    def on(self, view, event): return None\n",
        encoding="utf-8",
    )
    found = check(f"{file}:Mine", "--histories", 10)
    assert "`wants_send` of `Mine` has no effect; did you mean `wants_sent`?" in found.stdout + str(
        found.exception
    )
