"""`tcpassay explain` on runs of the model: the stall of the old DCTCP receiver, compared with the corrected one."""

import base64
import json
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from typer.testing import CliRunner

from plans import write
from tcpassay import load
from tcpassay.cli import app
from tcpassay.errors import UserError
from tcpassay.explain import explain
from tcpassay.explain.svg import drawn
from tcpassay.report import model
from tcpassay.seal import seal

PLAN = """\
name = "stall"
seeds = [1]
[fixed]
"link.rate" = "10Gbit"
"nic.gro" = true
"nic.rx_usecs" = "50us"
"queue.ecn_mark" = "data"
"stack.ecn" = "dctcp"
"app.duration" = "300ms"
[axes]
"stack.dctcp_receiver" = ["clear-timer", "rearm"]
[keep]
recordings = "none"
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explain")
    plan = write(folder, PLAN)
    CliRunner().invoke(
        app, ["run", str(plan), "--out", str(folder / "out"), "--jobs", "1"], catch_exceptions=False
    )
    return folder / "out"


def isolated(results: Path) -> None:
    """What `isolate` writes for the cause, with one row of its proof."""
    found = [one for one in load(results).found if one.oracle == "late-ack"]
    case, seed = found[0].case, found[0].seed
    triples = next(dict(run["triples"]) for run in load(results).runs if run["case"] == case)
    cause = {
        "format": 2,
        "explains": [{"case": case, "seed": seed, "oracle": "late-ack"}],
        "cause": [{"path": "stack.dctcp_receiver", "value": "clear-timer"}],
        "run": {path: value for path, value in triples.items() if path != "stack.dctcp_receiver"},
        "produces": [{"oracle": "late-ack", "severity": "error", "title": found[0].title}],
        "proof": [
            {
                "path": "stack.dctcp_receiver", "value": "clear-timer",
                "reset_to": "rearm", "also_reset": [], "gone": True,
                "triples": triples | {"stack.dctcp_receiver": "rearm"},
            }
        ],
    }  # fmt: skip
    (results / "isolate").mkdir(exist_ok=True)
    (results / "isolate" / "late-ack.json").write_text(seal(json.dumps(cause, indent=1) + "\n"))


def test_without_a_cause_the_diagram_shows_the_stall_and_names_the_command(results: Path) -> None:
    told = explain(results, "late-ack")
    texts = [one.text for one in told.written]
    assert any(text.endswith("is pending: not sent, no timer set") for text in texts)
    assert told.neighbour is None
    assert "its cause has not been isolated" in told.notes[-1]


def test_the_first_difference_is_the_ack_that_the_repaired_receiver_sends(results: Path) -> None:
    isolated(results)
    told = explain(results, "late-ack")
    assert told.isolated
    assert told.neighbour is not None
    assert not told.neighbour.finds
    difference = told.neighbour.difference
    assert difference is not None
    assert difference.here is not None
    assert difference.there is not None
    assert difference.here.text.endswith("is pending: not sent, no timer set")
    assert difference.there.text.endswith("is sent at once (two full-sized segments are unacknowledged)")
    assert difference.here.time_ns == difference.there.time_ns


def test_terminal_json_and_drawing_have_the_same_content(results: Path, tmp_path: Path) -> None:
    isolated(results)
    ran = CliRunner().invoke(
        app, ["explain", str(results), "late-ack", "--json", "--svg", str(tmp_path / "a.svg")]
    )
    assert ran.exit_code == 0, ran.output
    value = json.loads(ran.stdout)
    lines = [one["text"] for one in value["lines"] if one["is"] == "line"]
    assert any(text.endswith("is pending: not sent, no timer set") for text in lines)
    assert any(one["is"] == "gap" for one in value["lines"])
    drawing = ET.fromstring((tmp_path / "a.svg").read_text())  # noqa: S314 - written by this test
    texts = " ".join(
        "".join(element.itertext()) for element in drawing.iter("{http://www.w3.org/2000/svg}text")
    )
    assert "silence of" in texts
    assert "is pending: not sent, no timer set" in texts


def test_the_report_shows_the_drawing_with_its_finding(results: Path) -> None:
    shutil.rmtree(results / "explain", ignore_errors=True)
    assert not any(one["drawing"] for one in model.build(load(results)).data["findings"])
    assert CliRunner().invoke(app, ["explain", str(results), "late-ack"]).exit_code == 0
    shown = [one for one in model.build(load(results)).data["findings"] if one["drawing"]]
    assert [one["oracle"] for one in shown] == ["late-ack"]
    assert b"silence of" in base64.b64decode(shown[0]["drawing"])


def test_names_in_a_drawing_are_text(results: Path) -> None:
    told = explain(results, "late-ack")
    object.__setattr__(told.connection, "names", ("<script>", "a&b"))
    assert "<script>" not in drawn(told)


def test_a_finding_that_there_is_not_is_refused_with_those_that_there_are(results: Path) -> None:
    with pytest.raises(UserError, match="`nothing` is not a finding of these results"):
        explain(results, "nothing")
