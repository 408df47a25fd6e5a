"""`tcpassay kernel compare` on real guests: one kernel under two names, so that nothing may differ."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tcpassay.cli import app
from tcpassay.kernel import store

PLAN = """
name = "twice"
seeds = [1]
[fixed]
"app.duration" = "50ms"
"link.rate" = "100Mbit"
"link.loss" = "1%"
[axes]
"stack.cc" = ["reno", "cubic"]
"""


def test_one_kernel_under_two_names_has_no_difference_and_that_is_a_result(
    kernel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kernel == "kernel"
    built = store.find()
    for name in ("base", "head"):
        place = tmp_path / "cache/kernels" / name
        place.mkdir(parents=True)
        shutil.copy(built.image, place / "linux")
        said = json.loads((built.folder / "kernel.json").read_text())
        (place / "kernel.json").write_text(json.dumps(said | {"name": name}))
    monkeypatch.setenv("TCPASSAY_CACHE", str(tmp_path / "cache"))
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    xml = tmp_path / "junit.xml"
    command = ["kernel", "compare", "base", "head", "--plan", str(plan), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, [*command, "--junit", str(xml)])
    assert done.exit_code == 0, done.output
    assert "No difference in 2 cases (2 pairs of runs)." in done.output
    assert xml.read_text().count("<testcase") == 2
    resumed = ["kernel", "compare", "base", "head", "--out", str(tmp_path / "out"), "--resume", "--json"]
    again = CliRunner().invoke(app, resumed)
    assert again.exit_code == 0, again.output
    said = json.loads(again.stdout)
    assert (said["pairs"], said["identical"], said["causes"]) == (2, 2, [])
    one = said["base"]["key"]
    assert one == said["head"]["key"]
