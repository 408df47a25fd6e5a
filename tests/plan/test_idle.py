"""Settings without effect: the plan names them, and a run names values that gave identical runs."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tcpassay.cli import app
from tcpassay.plan import idle, read, table


def notes(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "plan.toml"
    file.write_text(f'name = "idle"\n{text}\n', encoding="utf-8")
    return [note for note in read.read_file(file).notes if "no effect" in note]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '[axes]\n"queue.ecn_threshold" = ["10KB", "20KB"]',
            ["`queue.ecn_threshold` has no effect in any case: it needs `queue.ecn_mark` = data or ack"],
        ),
        (
            '[fixed]\n"nic.hidden_long" = "10us"\n"rack.hosts" = 3',
            [
                "`nic.hidden_long` has no effect in any case: it needs `nic.adaptive` = hidden",
                "`rack.hosts` has no effect in any case: it needs `topology` = racks",
            ],
        ),
        (
            '[fixed]\n"sender/app.request" = "1KB"',
            [
                (
                    "`sender/app.request` has no effect in any case: it needs `app.workload` = rpc, rpc-open, "
                    "incast, echo, exchange, streams or mix"
                )
            ],
        ),
        # With effect in one of the cases.
        ('[fixed]\n"queue.red_max" = "95KB"\n[axes]\n"queue.kind" = ["fifo", "red"]', []),
        # The default says nothing.
        ('[fixed]\n"nic.gro_max" = "65536B"', []),
    ],
)
def test_a_setting_without_effect_in_any_case_is_named_with_what_it_needs(
    text: str, said: list[str], tmp_path: Path
) -> None:
    assert notes(tmp_path, text) == said


def test_the_rows_name_parameters_and_allowed_values() -> None:
    known = table.parameters()
    for path, (other, values) in idle.NEEDS.items():
        assert path in known
        if other != "topology":
            assert set(values) <= set(known[other].choices), path


def test_a_run_names_the_values_of_a_factor_that_gave_the_same_runs(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(
        """name = "same"
oracles = false
[fixed]
"app.duration" = "100ms"
"link.rate" = "10Mbit"
[axes]
"queue.ecn_threshold" = ["10KB", "20KB"]
"queue.limit" = ["10KB", "10MB", "20MB"]
""",
        encoding="utf-8",
    )
    done = CliRunner().invoke(app, ["run", str(plan), "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert (
        "note: All values of `queue.ecn_threshold` gave the same runs: it has no effect here\n" in done.output
    )
    assert "note: `queue.limit`: 10MB, 20MB gave the same runs\n" in done.output
