"""`tcpassay explain --report`: a page about a finding for the maintainers of a TCP."""

from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from typer.testing import CliRunner

from plans import write
from tcpassay.cli import app
from tcpassay.explain.page import proven

if TYPE_CHECKING:
    from tcpassay.isolate.cause import CauseRow

# Every second segment of a flight is lost: smoltcp sends no duplicate ACK for data beyond the fourth hole.
PLAN = """\
name = "holes"
seeds = [1]
[fixed]
"receiver/stack.implementation" = "smoltcp"
"link.rate" = "20Mbit"
"link.delay" = "10ms"
"app.flow_size" = "150KB"
"app.duration" = "20s"
[axes]
"link.loss_model" = ["list:40,42,44,46,48,50,52,54,56,58"]
[collect]
events = true
packets = true
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a report."""
    folder = tmp_path_factory.mktemp("page")
    plan = write(folder, PLAN)
    run = CliRunner().invoke
    run(app, ["run", str(plan), "--out", str(folder / "out"), "--jobs", "1"], catch_exceptions=False)
    arguments = ["explain", str(folder / "out"), "ack-timing", "--report", str(folder / "page")]
    done = run(app, arguments, catch_exceptions=False)
    assert str(folder / "page" / "report.md") in done.output
    return folder / "page"


def test_a_page_has_the_rule_the_versions_the_settings_and_the_sequence_of_events(report: Path) -> None:
    text = (report / "report.md").read_text(encoding="utf-8")
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings == [
        "## The rule",
        "## Versions",
        "## Settings",
        "## What happened",
        "## Without tcpassay",
    ]
    assert "received data out of order" in text
    assert "RFC 5681 section 4.2 (out-of-order data at once)" in text
    assert "* receiver: smoltcp 0.14.0 (socket-tcp-reno, socket-tcp-cubic)" in text
    assert "* sender: the model of tcpassay" in text
    assert '"receiver/stack.implementation" = "smoltcp"' in text
    assert "# seed 1" in text
    assert "──▶" in text


def test_beside_it_are_a_script_of_the_end_and_the_packets(report: Path) -> None:
    script = (report / "script.pkt").read_text(encoding="utf-8").splitlines()
    segments = [line for line in script if " < " in line or " > " in line]
    assert " < S 0:0(0) " in segments[0]
    assert " > S. 0:0(0) ack 1 " in segments[1]
    # The options of the model's SYN in the run, without its timestamps.
    assert segments[0].split(" win ")[1] == "65535 <mss 1460,nop,nop,sackOK,nop,wscale 9>"
    own = [line for line in segments[2:] if " > " in line]
    assert own
    assert all(" win " in line for line in own)
    assert any("<sack " in line or "sack " in line for line in segments if " > " in line)
    # The block type of a section header of pcapng.
    assert (report / "packets.pcapng").read_bytes()[:4] == bytes.fromhex("0a0d0d0a")


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            {"proven": True},
            "The smallest set of settings that shows it; it is gone whichever of them is reset:",
        ),
        (
            {"why_not": "the budget is used up"},
            "so far that shows it (the budget is used up). It is not proven that each of them is needed:",
        ),
        (
            {"complete": True, "why_not": "interrupted"},
            "was found that does (interrupted). It is not shown that it is gone without `link.loss`:",
        ),
    ],
)
def test_a_page_says_of_its_settings_what_was_proven(found: dict[str, object], said: str) -> None:
    row = {"proven": False, "complete": False, "why_not": ""} | found
    row["cause"] = [{"path": "link.loss"}, {"path": "link.rate"}]
    row["proof"] = [{"path": "link.loss", "gone": False}, {"path": "link.rate", "gone": True}]
    assert proven(cast("CauseRow", row)).endswith(said)
