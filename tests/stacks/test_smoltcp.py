"""smoltcp as the TCP of hosts of the model: whole commands."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tcpassay import _native, load
from tcpassay.cli import app
from tcpassay.errors import UserError
from tcpassay.recording import Recording

CASE: dict[str, str] = {
    "stack.implementation": "smoltcp",
    "app.flow_size": "300KB",
    "app.duration": "30s",
    "link.rate": "20Mbit",
    "link.delay": "5ms",
    "link.loss": "2%",
}
EVERYTHING = {"series": "10ms", "warmup": "0s", "deliveries": True, "events": True, "packets": True}
PLAN = """name = "smoltcp"

[fixed]
"app.flow_size" = "300KB"
"app.duration" = "30s"
"link.rate" = "20Mbit"
"link.delay" = "5ms"
"link.loss" = "2%"

[axes]
"sender/stack.implementation" = ["model", "smoltcp"]
"receiver/stack.implementation" = ["model", "smoltcp"]

[collect]
events = true
packets = true
"""


def invoke(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    return result.exit_code, result.output


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("smoltcp")
    plan = folder / "plan.toml"
    plan.write_text(PLAN)
    code, output = invoke("run", plan, "--out", folder / "out")
    assert code == 0, output
    return folder / "out"


def runs(results: Path) -> list[dict[str, Any]]:
    return [dict(run) for run in load(results).runs]


def smoltcp_runs(results: Path) -> list[dict[str, Any]]:
    return [run for run in runs(results) if "smoltcp" in run["varied"].values()]


def test_two_processes_write_the_same_recording_of_smoltcp(tmp_path: Path) -> None:
    request = {"triples": CASE, "seed": 3, "base": ".", "collect": EVERYTHING}
    code = "import json, sys; from tcpassay import _native; _native.run_case(**json.loads(sys.argv[1]))"
    for name in ("a", "b"):
        said = json.dumps(request | {"folder": str(tmp_path / name)})
        subprocess.run([sys.executable, "-c", code, said], check=True)
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert {"recording.json", "events.parquet", "packets.pcapng"} <= set(files)
    for file in files:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes(), file


def test_a_recording_names_the_stack_its_version_and_its_features(tmp_path: Path) -> None:
    triples = dict(CASE)
    del triples["stack.implementation"]
    triples["receiver/stack.implementation"] = "smoltcp"
    _native.run_case(triples, 3, ".", EVERYTHING, str(tmp_path / "run"))
    header = Recording.open(tmp_path / "run").header
    version = "0.14.0 (socket-tcp-reno, socket-tcp-cubic)"
    assert header["stacks"] == [{"host": 1, "name": "smoltcp", "version": version}]


def test_a_plan_runs_smoltcp_and_the_model_at_either_end(results: Path) -> None:
    assert [run["outcome"] for run in runs(results)] == ["done"] * 4
    assert len(smoltcp_runs(results)) == 3
    for run in runs(results):
        recording = Recording.open(results / run["recording"])
        assert recording.flows[0]["counters"]["read_bytes"] == 300_000
        assert recording.flows[0]["counters"]["retransmitted_packets"] > 0, "the regime: packets were lost"


def test_oracles_that_need_more_than_segments_are_listed_as_not_judged(results: Path) -> None:
    for run in runs(results):
        of_smoltcp = run in smoltcp_runs(results)
        assert ("window-growth" in run["unjudged"]) == of_smoltcp
        if of_smoltcp:
            assert run["unjudged"]["window-growth"] == "the log of smoltcp has no `window`"
            # These need segments only.
            assert not {"delivery", "flow-control", "segment-contents"} & set(run["unjudged"])


def test_replay_repeats_a_run_with_smoltcp_byte_by_byte(results: Path) -> None:
    for run in smoltcp_runs(results):
        code, output = invoke("replay", results, run["case"])
        assert code == 0, output
        assert "the same run" in output


def test_the_log_and_the_packets_of_smoltcp_are_shown(results: Path) -> None:
    run = next(run for run in runs(results) if set(run["varied"].values()) == {"smoltcp"})
    code, output = invoke("log", results, run["case"])
    assert code == 0
    assert " sender flow.0 app write value 1460" in output or " sender flow.0 app write value" in output
    assert "timer_set" not in output
    code, output = invoke("rtt", results / run["recording"] / "packets.pcapng")
    assert code == 0
    assert "rtx" in output


def test_judging_a_folder_again_finds_what_the_run_found(results: Path) -> None:
    code, output = invoke("judge", results, "--json")
    assert code in {0, 1}
    judged = json.loads(output)
    assert judged["problems"] == []
    assert judged["unjudged"]["window-growth"] == "the log of smoltcp has no `window`"


def test_a_parameter_that_smoltcp_lacks_is_refused_when_the_plan_is_read(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'name = "x"\n[fixed]\n"receiver/stack.implementation" = "smoltcp"\n"stack.min_rto" = "200ms"\n'
    )
    with pytest.raises(UserError) as refused:
        invoke("run", plan, "--out", tmp_path / "out")
    text = str(refused.value)
    assert "plan.toml:4: `stack.min_rto` = `200ms`: with `receiver/stack.implementation` = `smoltcp`" in text
    assert "smoltcp has no such setting; it is a parameter of the model" in text
    assert not (tmp_path / "out").exists()
