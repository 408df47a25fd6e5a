"""The script of a finding of the model behaves on Linux as on the model."""

from pathlib import Path

from typer.testing import CliRunner

from plans import STALL, write
from tcpassay.cli import app
from tcpassay.explain.scripted import scripted


def test_the_script_of_a_forgotten_ack_passes_on_linux_and_fails_with_the_repaired_receiver(
    kernel: str, tmp_path: Path
) -> None:
    assert kernel == "kernel"
    plan = write(tmp_path, STALL)
    out = tmp_path / "out"
    CliRunner().invoke(app, ["run", str(plan), "--out", str(out), "--jobs", "1"], catch_exceptions=False)
    made = scripted(out, "late-ack")
    on_linux = {one.how: one.passed for one in made.outcomes if one.where.startswith("Linux ")}
    assert on_linux == {"as in the finding": True, "stack.dctcp_receiver reset to rearm": False}
    assert made.notes == ()
