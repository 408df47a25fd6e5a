"""docs/python.md: its examples run, in order, on the results of its plan."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tcpassay.cli import app

DOC = Path(__file__).parents[1] / "docs" / "python.md"


def blocks(language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```$", DOC.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )


def test_every_example_of_the_page_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (plan,) = blocks("toml")
    Path("plan.toml").write_text(plan, encoding="utf-8")
    done = CliRunner().invoke(app, ["run", "plan.toml"])
    assert done.exit_code == 0, done.output
    examples = blocks("python")
    assert len(examples) == 6
    names: dict[str, object] = {}
    for example in examples:
        assert "assert" in example or "import" in example
        exec(compile(example, str(DOC), "exec"), names)  # noqa: S102 - the page's own examples
