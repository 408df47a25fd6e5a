"""The command: its output, the files that it writes, and its exit code."""

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import jsonschema
import polars as pl
import pytest

import folders
import plans
from patience import until
from tcpassay import load

COMMAND = [sys.executable, "-m", "tcpassay"]

# The documented part of the result.
RESULT = {
    "type": "object",
    "required": [
        "format",
        "tcpassay",
        "plan",
        "folder",
        "status",
        "ok",
        "environment",
        "runs",
        "checks",
        "figures",
        "figure_problems",
    ],
    "additionalProperties": False,
    "properties": {
        "format": {"const": 3},
        "files": {"type": "object"},
        "xxh3": {"pattern": "^[0-9a-f]{16}$"},
        "tcpassay": {"type": "string"},
        "plan": {
            "type": "object",
            "required": ["name", "file", "sha256"],
            "properties": {"sha256": {"pattern": "^[0-9a-f]{64}$"}},
        },
        "folder": {"type": "string"},
        "status": {"enum": ["complete", "interrupted", "running"]},
        "ok": {"type": "boolean"},
        "environment": {
            "type": "object",
            "required": ["python", "system", "machine", "cores", "started", "jobs"],
        },
        "runs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": [
                    "case",
                    "seed",
                    "varied",
                    "triples",
                    "outcome",
                    "message",
                    "recording",
                    "trace",
                    "cpu_s",
                    "metrics",
                ],
                "properties": {
                    "case": {"pattern": "^[0-9a-f]{10}$"},
                    "seed": {"type": "integer"},
                    "outcome": {"enum": ["done", "failed", "crashed", "unwritable", "not run"]},
                    "recording": {"type": ["string", "null"]},
                    "metrics": {"type": "object", "additionalProperties": {"type": ["number", "null"]}},
                },
            },
        },
        "checks": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["metric", "op", "value", "subject", "observed", "limit", "holds", "why", "note"],
            },
        },
        "figures": {"type": "array", "items": {"type": "string"}},
        "figure_problems": {"type": "array", "items": {"type": "string"}},
        "findings": {"type": ["integer", "null"]},
        "undetermined": {"type": "array"},
        "unreached": {"type": "array", "items": {"type": "string"}},
    },
}


def tcpassay(*args: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"COLUMNS": "200"}
    command = [*COMMAND, *map(str, args)]
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=600
    )


def everything_in(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in folder.rglob("*")}


def test_the_version_is_the_data_planes() -> None:
    from tcpassay import _native  # noqa: PLC0415

    done = tcpassay("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"tcpassay {_native.__version__}\n", "")


def test_a_run_leaves_plan_result_metrics_and_a_recording_of_each_case(tmp_path: Path) -> None:
    plan = plans.write(tmp_path, plans.KEPT)
    done = tcpassay("run", plan, "--out", tmp_path / "out", "--jobs", "2")
    assert done.returncode == 0, done.stderr
    out = tmp_path / "out"
    assert (out / "plan.toml").read_bytes() == plan.read_bytes()
    result = folders.result(out)
    assert [run["varied"] for run in result["runs"]] == [{"stack.cc": "reno"}, {"stack.cc": "cubic"}]
    for run in result["runs"]:
        assert any((out / run["recording"]).iterdir())
    table = pl.read_parquet(out / "metrics.parquet")
    assert table["stack.cc"].to_list() == ["reno", "cubic"]
    assert table["timeouts"].to_list() == [0, 0]
    assert {path.parts[0] for path in everything_in(out)} == {
        "plan.toml",
        "journal.sqlite",
        "result.json",
        "runs.parquet",
        "metrics.parquet",
        "recordings",
    }
    assert not [path for path in everything_in(out) if path.name.endswith(".partial")]


def test_the_summary_names_runs_checks_and_where_to_look(tmp_path: Path) -> None:
    plan = plans.write(tmp_path)
    done = tcpassay("run", plan, "--out", tmp_path / "out")
    assert "reno" in done.stdout
    assert "cubic" in done.stdout
    assert "2 of 2 checks hold" in done.stdout
    assert f"Results: {tmp_path / 'out'}" in done.stdout


def test_json_prints_exactly_one_value_of_the_documented_shape_and_the_same_is_in_the_folder(
    tmp_path: Path,
) -> None:
    plan = plans.write(tmp_path)
    done = tcpassay("run", plan, "--out", tmp_path / "out", "--json")
    result = json.loads(done.stdout)
    jsonschema.Draft202012Validator(RESULT).validate(result)
    written = folders.result(tmp_path / "out")
    assert written.pop("xxh3")  # of the file
    assert result == written
    assert result["ok"] is True
    assert result["status"] == "complete"


def test_without_a_terminal_nothing_but_text_is_printed(tmp_path: Path) -> None:
    done = tcpassay("run", plans.write(tmp_path), "--out", tmp_path / "out")
    assert "\x1b" not in done.stdout + done.stderr
    assert "\r" not in done.stdout + done.stderr
    assert done.stderr == ""


def test_a_failed_check_is_exit_code_1_and_is_shown_with_its_reason(tmp_path: Path) -> None:
    text = plans.SMALL.replace("value = 0", "value = 1")
    done = tcpassay("run", plans.write(tmp_path, text), "--out", tmp_path / "out")
    assert done.returncode == 1
    assert "FAILS" in done.stdout
    assert "nothing is lost" in done.stdout
    assert "0 of 2 checks hold" in done.stdout


def test_a_seed_of_the_command_line_replaces_the_plans(tmp_path: Path) -> None:
    done = tcpassay("run", plans.write(tmp_path), "--out", tmp_path / "out", "--seed", "99", "--json")
    assert {run["seed"] for run in json.loads(done.stdout)["runs"]} == {99}


def test_results_go_to_results_and_the_plans_name_when_nothing_is_said(tmp_path: Path) -> None:
    done = tcpassay("run", plans.write(tmp_path), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "results" / "small" / "result.json").is_file()


def refused(done: subprocess.CompletedProcess[str], *parts: str) -> None:
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    for part in parts:
        assert part in done.stderr


def test_an_error_in_the_plan_is_one_line_exit_code_2_and_nothing_is_written(tmp_path: Path) -> None:
    plan = plans.write(tmp_path, plans.SMALL.replace('"100Mbit"', '"100"'))
    done = tcpassay("run", plan, "--out", tmp_path / "out")
    refused(done, f"tcpassay: {plan}:7: `link.rate` = `100`", "as in `1Gbit`")
    assert everything_in(tmp_path) == {Path("plan.toml")}


def test_a_missing_plan_is_reported(tmp_path: Path) -> None:
    refused(
        tcpassay("run", tmp_path / "no.toml"), f"{tmp_path / 'no.toml'}: cannot read the file", "no such file"
    )


def test_a_folder_for_a_plan_is_reported(tmp_path: Path) -> None:
    refused(
        tcpassay("run", tmp_path), f"{tmp_path}: cannot read the file: it is a folder, not a regular file"
    )


def test_a_plan_that_is_not_text_is_reported(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_bytes(b"name = \xff")
    refused(tcpassay("run", tmp_path / "plan.toml"), "not UTF-8 text (byte 7)")


def test_a_missing_file_that_a_value_names_is_reported_with_the_line(tmp_path: Path) -> None:
    plan = plans.write(tmp_path, plans.SMALL.replace('"100Mbit"', '"trace:no.trace"'))
    done = tcpassay("run", plan, "--out", tmp_path / "out")
    refused(done, "plan.toml:7: `link.rate` = `trace:no.trace`", "cannot read `no.trace`")
    assert not (tmp_path / "out").exists()


def test_a_file_that_a_value_names_is_looked_for_beside_the_plan(tmp_path: Path) -> None:
    (tmp_path / "link.trace").write_text("".join(f"{ms}\n" for ms in range(1, 100)), encoding="utf-8")
    plan = plans.write(tmp_path, plans.SMALL.replace('"100Mbit"', '"trace:link.trace"'))
    assert tcpassay("run", plan, "--out", tmp_path / "out", cwd=Path("/")).returncode == 0


def test_results_are_replaced_only_by_force(tmp_path: Path) -> None:
    plan = plans.write(tmp_path)
    assert tcpassay("run", plan, "--out", tmp_path / "out").returncode == 0
    before = (tmp_path / "out" / "result.json").read_bytes()
    refused(
        tcpassay("run", plan, "--out", tmp_path / "out"),
        f"{tmp_path / 'out'}: ",
        "already has results",
        "--force",
    )
    assert (tmp_path / "out" / "result.json").read_bytes() == before
    assert tcpassay("run", plan, "--out", tmp_path / "out", "--force").returncode == 0


def test_not_even_force_replaces_a_folder_that_holds_something_else(tmp_path: Path) -> None:
    plan = plans.write(tmp_path)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("years", encoding="utf-8")
    done = tcpassay("run", plan, "--out", tmp_path / "home", "--force")
    refused(done, "not empty and holds no results")
    assert everything_in(tmp_path / "home") == {Path("thesis.tex")}


def test_a_place_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    plan = plans.write(tmp_path)
    refused(tcpassay("run", plan, "--out", plan), f"{plan}: not a folder")
    refused(tcpassay("run", plan, "--out", plan / "deeper"), f"{plan / 'deeper'}: cannot write results there")
    refused(tcpassay("run", plan, "--out", "/proc/results"), "/proc/results: cannot write results there")


def test_wrong_options_are_exit_code_2(tmp_path: Path) -> None:
    plan = plans.write(tmp_path)
    for options in (["--jobs", "0"], ["--jobs", "many"], ["--seed", "-1"], ["--colour"]):
        done = tcpassay("run", plan, "--out", tmp_path / "out", *options)
        assert (done.returncode, done.stdout) == (2, "")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_a_readable_result_of_what_finished(tmp_path: Path, stop: signal.Signals) -> None:
    # The short cases end at once; one would run for half an hour.
    text = plans.SMALL.replace('["reno", "cubic"]', '["reno"]').replace('"app.duration" = "20ms"\n', "")
    text = text.replace("100Mbit", "10Gbit")
    text = text.replace("[axes]\n", '[axes]\n"app.duration" = ["20ms", "30ms", "3600s"]\n')
    # Where the tests run in the background of a shell, interrupts are ignored, and children inherit that.
    heeding = ["env", "--default-signal=INT", *COMMAND]
    process = subprocess.Popen(
        [*heeding, "run", str(plans.write(tmp_path, text)), "--out", str(tmp_path / "out"), "--jobs", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    file = tmp_path / "out" / "result.json"

    def two_done() -> bool:
        assert process.poll() is None, process.communicate()
        return file.exists() and [run["outcome"] for run in load(file.parent).runs].count("done") >= 2

    until(two_done, "the short cases end")
    process.send_signal(stop)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "interrupted; 2 of 3 runs finished" in out
    result = folders.result(tmp_path / "out")
    assert (result["status"], result["ok"]) == ("interrupted", False)
    assert [run["outcome"] for run in result["runs"]] == ["done", "done", "not run"]
    assert pl.read_parquet(tmp_path / "out" / "metrics.parquet").height == 2
    assert not (tmp_path / "out" / ".work").exists()


def on_a_terminal(*arguments: str) -> tuple[bytes, str]:
    """What a command shows on standard error, which is a terminal, and its standard output."""
    main, other = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=other,
        env=os.environ | {"TERM": "xterm"},
        text=True,
    )
    os.close(other)
    shown = b""
    try:
        while chunk := os.read(main, 4096):
            shown += chunk
    except OSError:  # how a pseudo-terminal says that the other side is closed
        pass
    out, _ = process.communicate(timeout=600)
    os.close(main)
    return shown, out


def test_on_a_terminal_the_progress_is_shown_and_taken_away(tmp_path: Path) -> None:
    plan = plans.write(tmp_path)
    shown, out = on_a_terminal("run", str(plan), "--out", str(tmp_path / "out"), "--json")
    assert b"small" in shown
    assert b"/2" in shown
    assert json.loads(out)["ok"] is True
    reported, out = on_a_terminal("report", str(tmp_path / "out"))
    # Each update is drawn at once; what is there before it only after a while.
    assert b"Drawing recording 2 of 2" in reported
    assert "report.html" in out
    # What erases and colours reaches the terminal as itself.
    for seen in (shown, reported):
        assert b"\x1b[" in seen
        assert b"\\u" not in seen


def test_the_tables_are_listed_for_people_and_programs() -> None:
    assert "queue.ecn_threshold" in tcpassay("params").stdout
    rows = json.loads(tcpassay("params", "--json").stdout)
    assert {"path", "kind", "allowed", "default", "levels", "substrates", "constraints", "doc"} <= set(
        rows[0]
    )
    assert "timeouts" in tcpassay("metrics").stdout
    assert {"name", "unit", "doc"} <= set(json.loads(tcpassay("metrics", "--json").stdout)[0])


def test_the_documented_parameters_are_the_tables() -> None:
    documented = (plans.REPOSITORY / "docs" / "parameters.md").read_text(encoding="utf-8")
    assert documented == tcpassay("params", "--markdown").stdout, (
        "run: tcpassay params --markdown > docs/parameters.md"
    )


def test_the_committed_schema_is_the_formats() -> None:
    committed = (plans.REPOSITORY / "docs" / "plan.schema.json").read_text(encoding="utf-8")
    assert committed == tcpassay("schema").stdout, "run: tcpassay schema > docs/plan.schema.json"


def test_help_texts_are_wrapped_at_the_width_of_the_terminal() -> None:
    environment = os.environ | {"COLUMNS": "80"}
    done = subprocess.run(
        [*COMMAND, "isolate", "--help"], check=True, capture_output=True, text=True, env=environment
    )
    lines = [line.strip() for line in done.stdout.splitlines()]
    at = lines.index("Each candidate set is run and evaluated by the oracles, or by the metric. The")
    assert lines[at + 1] == "runs are stored in DIR/isolate, so that the same command continues after an"
    assert lines[at + 2] == "interrupt or after the budget was used up."
