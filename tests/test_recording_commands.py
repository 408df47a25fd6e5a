"""`tcpassay plot`, `log` and `packets`: a recording without its plan."""

import struct
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tcpassay import capture, socket_statistics
from tcpassay.cli import app
from tcpassay.recording import DamagedError, Recording

PLAN = """
name = "shown"
keep.recordings = "all"

[fixed]
"link.rate" = "10Mbit"
"link.loss_model" = "list:20"
"app.duration" = "1s"

[axes]
"stack.cc" = ["reno", "cubic"]

[collect]
series = "10ms"
events = true
packets = true
"""


def invoke(*args: object) -> Result:
    return CliRunner().invoke(app, [str(arg) for arg in args])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shown")
    (path / "plan.toml").write_text(PLAN, encoding="utf-8")
    done = invoke("run", path / "plan.toml", "--out", path / "out")
    assert done.exit_code == 0, done.output
    return path / "out"


@pytest.fixture(scope="module")
def recording(folder: Path) -> Path:
    return min((folder / "recordings").iterdir())


def test_a_log_is_a_line_an_event_with_host_flow_and_reason(folder: Path, recording: Path) -> None:
    lines = invoke("log", recording).stdout.splitlines()
    assert lines[0].split()[:3] == ["0.000000000", "sender", "flow.0"]
    assert any(line.split()[3] == "retransmit" for line in lines)
    own = invoke("log", recording, "--flow", "flow.0").stdout.splitlines()
    assert {line.split()[2] for line in own} == {"flow.0"}
    assert 0 < len(own) < len(lines)
    # A case of a result folder by its first characters is the same run.
    assert invoke("log", folder, recording.name[:6]).stdout.splitlines() == lines


def test_a_log_as_siftr_has_its_header_its_packets_and_its_footer(recording: Path) -> None:
    lines = invoke("log", recording, "--siftr", "sender").stdout.splitlines()
    assert lines[0].startswith("enable_time_secs=0\t")
    assert lines[-1].startswith("disable_time_secs=1\t")
    assert {line[0] for line in lines[1:-1]} == {"i", "o"}


def test_one_capture_point_shows_each_segment_once(recording: Path, tmp_path: Path) -> None:
    whole = (recording / "packets.pcapng").read_bytes()
    counts = capture.counted(whole)
    assert len(counts) == 3
    listed = invoke("packets", recording).stdout
    assert all(str(count) in listed for count in counts.values())
    file = tmp_path / "sender.pcapng"
    assert invoke("packets", recording, "--point", "sender", "--out", file).exit_code == 0
    alone = file.read_bytes()
    assert capture.counted(alone) == {0: counts[0]}
    # Data that the sender sent: a sequence number stands twice only where it was retransmitted.
    seen: dict[int, int] = {}
    at = 0
    while at < len(alone):
        kind, length = struct.unpack_from("<2I", alone, at)
        if kind == 6:
            captured, original = struct.unpack_from("<2I", alone, at + 20)
            packet = alone[at + 28 : at + 28 + captured]
            seq = struct.unpack_from(">I", packet, 24)[0]
            # Packets of the sender (its address is the first) with payload.
            if original > 100 and packet[12:16] < packet[16:20]:
                seen[seq] = seen.get(seq, 0) + 1
        at += length
    assert len(seen) > 100
    assert sum(times > 1 for times in seen.values()) == 1
    assert max(seen.values()) == 2


def test_plots_are_drawn_of_a_recording_and_of_cases_side_by_side(
    folder: Path, recording: Path, tmp_path: Path
) -> None:
    for kind in ("timeline", "sequence", "distribution"):
        file = tmp_path / f"{kind}.svg"
        done = invoke("plot", recording, "--kind", kind, "--out", file)
        assert done.exit_code == 0, done.output
        assert b"<svg" in file.read_bytes()
    both = tmp_path / "both.svg"
    assert invoke("plot", folder, "--series", "cwnd", "--series", "queue", "--out", both).exit_code == 0
    drawn = both.read_text(encoding="utf-8")
    assert "reno" in drawn
    assert "cubic" in drawn


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["log", "{folder}"], "2 recordings"),
        (["log", "{folder}", "zz"], "there is no case `zz`"),
        (
            ["log", "{recording}", "--flow", "flow.9"],
            "`flow.9`: there is no such flow; existing: flow.0, flow.1",
        ),
        (
            ["log", "{recording}", "--siftr", "router"],
            "`router`: there is no such host; existing: sender, receiver",
        ),
        (["log", "{folder}/nowhere"], "there are no results"),
        (["packets", "{recording}", "--point", "x"], "`x`: there is no such capture point"),
        (["packets", "{recording}", "--point", "sender", "--out", "{folder}"], "it is a folder"),
        (["plot", "{recording}", "--kind", "pie"], "`--kind pie`: the kinds of runs are"),
        (["plot", "{recording}", "--series", "rttt"], "`--series rttt`: allowed are throughput, flows, rtt"),
        (["plot", "{recording}", "--start", "soon"], "`--start soon`: give a time with its unit"),
        (["plot", "{recording}", "--out", "x.gif"], "the name of the file ends with .svg, .pdf, .png"),
        (
            ["plot", "{recording}", "--kind", "diagram", "--series", "rtt"],
            "`--series` belongs to timeline, not to diagram",
        ),
        (["plot", "{recording}", "--seed", "7"], "it is of seed 1, not 7"),
        (["plot", "{folder}", "--seed", "7"], "no run with seed 7"),
    ],
)
def test_a_recording_that_cannot_be_shown_is_an_error_message(
    args: list[str], message: str, folder: Path, recording: Path
) -> None:
    done = invoke(*(arg.format(folder=folder, recording=recording) for arg in args))
    assert done.exception is not None
    assert message in " ".join(str(done.exception).split())
    assert type(done.exception).__name__ == "UserError"


def test_the_state_of_senders_at_the_end_has_the_form_of_ss(recording: Path) -> None:
    done = invoke("log", recording, "--ss")
    assert done.exit_code == 0, done.output
    first, second = done.stdout.splitlines()
    assert first == "sender -> receiver flow.0"
    fields = second.split()
    tcp = Recording.open(recording).flows[0]["tcp"]
    # One packet is lost on purpose.
    assert (tcp["retransmits"] or 0) >= 1
    assert fields[0] in {"reno", "cubic"}
    named = dict(field.split(":", 1) for field in fields[1:])
    assert named["retrans"] == f"0/{tcp['retransmits']}"
    assert (named["mss"], named["segs_out"]) == ("1448", str(tcp["segments_out"]))
    assert named["rtt"].split("/")[0] == f"{(tcp['srtt_ns'] or 0) / 1e6:.6g}"
    assert named["cwnd"] == str((tcp["cwnd_bytes"] or 0) // 1448)
    assert invoke("log", recording, "--ss", "--flow", "flow.0").stdout == done.stdout
    assert "there is no such flow" in str(invoke("log", recording, "--ss", "--flow", "flow.9").exception)


def test_a_recording_without_a_field_of_a_flow_has_no_state_of_senders(recording: Path) -> None:
    opened = Recording.open(recording)
    assert len(socket_statistics.lines(opened)) == 2
    del opened.flows[0]["from"]  # type: ignore[misc]
    with pytest.raises(DamagedError, match=r"its content is inconsistent: KeyError: 'from'"):
        socket_statistics.lines(opened)
