"""`tcpassay init`: every start is a plan that runs as it is, with comments that say what its settings are for."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tcpassay import load, starting
from tcpassay.cli import app
from tcpassay.plan import read


def invoke(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.parametrize("name", starting.STARTS)
def test_a_start_runs_as_it_is_and_its_runs_complete(name: str, tmp_path: Path) -> None:
    assert invoke("init", name, tmp_path).output.endswith(f"Next: tcpassay run {tmp_path / name}.toml\n")
    text = (tmp_path / f"{name}.toml").read_text(encoding="utf-8")
    assert sum(line.startswith("#") for line in text.splitlines()) >= 6
    plan = read.read_file(tmp_path / f"{name}.toml")
    assert plan.spec.name == name
    assert not [note for note in plan.notes if "no effect" in note]
    done = invoke("run", tmp_path / f"{name}.toml", "--seed", 1, "--out", tmp_path / "out", "--jobs", 1)
    assert done.exit_code in {0, 1}, done.output
    runs = load(tmp_path / "out").runs
    assert {run["outcome"] for run in runs} == {"done"}, done.output
    # Findings are what the start for other TCPs is for; the others have none.
    assert done.exit_code == 0 or name == "stack", done.output


def test_a_setting_of_a_start_can_have_another_value(tmp_path: Path) -> None:
    assert invoke("init", "rack", tmp_path, "--set", "link.rate=25Gbit").exit_code == 0
    assert read.read_file(tmp_path / "rack.toml").spec.fixed["link.rate"] == "25Gbit"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rac"], "`rac`: there are rack, wan, patch, controller, stack, ci; did you mean `rack`?"),
        (
            ["rack", "--set", "link.rtt=1ms"],
            "`--set link.rtt=...`: no such parameter; did you mean `link.delay`",
        ),
        (["rack", "--set", "stack.cc=bbr"], "`--set stack.cc=...`: the plan varies it"),
        (["rack", "--set", "link.rate=fast"], "`link.rate` = `fast`: `fast` is not a rate"),
        (["rack", "--set", "link.rate"], "give a parameter and its value, as in `link.rate=25Gbit`"),
    ],
)
def test_a_start_that_cannot_be_written_is_one_message_and_no_file(
    words: list[str], message: str, tmp_path: Path
) -> None:
    done = invoke("init", words[0], tmp_path, *words[1:])
    assert message in str(done.exception)
    assert list(tmp_path.iterdir()) == []


def test_existing_files_are_not_replaced_without_force(tmp_path: Path) -> None:
    (tmp_path / "wan.toml").write_text("mine", encoding="utf-8")
    assert "it exists; --force replaces it" in str(invoke("init", "wan", tmp_path).exception)
    assert (tmp_path / "wan.toml").read_text(encoding="utf-8") == "mine"
    assert invoke("init", "wan", tmp_path, "--force").exit_code == 0
