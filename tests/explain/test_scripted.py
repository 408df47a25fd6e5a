"""A finding as a packetdrill script of one end, run on the model with the settings of the finding and with others."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from plans import STALL, write
from tcpassay.cli import app
from tcpassay.explain.adapted import adapted, cut
from tcpassay.explain.moments import Connection, End, Moment
from tcpassay.explain.packetdrill import Change, Side, Span, commands, written
from tcpassay.explain.scripted import Scripted, scripted
from tcpassay.script.model import answer
from tcpassay.script.report import Packetdrill, Report


def made(folder: Path) -> Path:
    """A result folder of the plan."""
    plan = write(folder, STALL)
    CliRunner().invoke(
        app, ["run", str(plan), "--out", str(folder / "out"), "--jobs", "1"], catch_exceptions=False
    )
    return folder / "out"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("scripted"))


@pytest.fixture(scope="module")
def script(results: Path) -> Scripted:
    return scripted(results, "late-ack")


def on_model(text: str) -> Report:
    return answer(Packetdrill(text, "linux", loose=True, options=(("tolerance_usecs", "4000"),)))


def test_the_script_is_of_the_end_at_fault_and_passes_with_the_settings_of_the_finding(
    script: Scripted,
) -> None:
    assert script.end == "receiver"
    assert script.shows
    assert on_model(script.text)["status"] == "pass"
    assert "echo 1 > /sys/module/tcp_dctcp/parameters/dctcp_receiver" in script.text
    assert "sysctl -q net.ipv4.tcp_congestion_control=dctcp" in script.text


def test_the_script_fails_where_the_receiver_arms_its_timer_again(script: Scripted) -> None:
    assert script.distinguishes
    repaired = script.text.replace("echo 1 >", "echo 2 >")
    report = on_model(repaired)
    assert report["status"] in {"fail", "time"}
    # It fails at the ACK after the silence, because an ACK was sent long before.
    assert report["line"] == len(script.text.splitlines())


def test_the_script_ends_with_the_silence_that_is_the_fault(script: Scripted) -> None:
    lines = script.text.splitlines()
    assert (
        lines[-3]
        == "// Nothing is sent for 1 s. Then an old segment elicits an ACK with the state of the end."
    )
    assert "[ce]" in script.text
    assert len(lines) < 150


def test_the_command_writes_the_script_and_says_where_it_passes(results: Path, tmp_path: Path) -> None:
    file = tmp_path / "stall.pkt"
    done = CliRunner().invoke(app, ["explain", str(results), "late-ack", "--script", str(file)])
    assert done.exit_code == 0, done.output
    assert file.read_text(encoding="utf-8").startswith("// profile: linux\n// ACK later than its limit")
    assert "model, as in the finding: pass" in done.output
    assert "model, stack.dctcp_receiver reset to rearm: " in done.output


def of_a_kernel(*, ecn: bool) -> Connection:
    """Two segments of data, and the first one again; the log has no reasons and no reads."""
    syn, answer = (0xC2, 0x52) if ecn else (0x02, 0x12)
    flights = [
        (0, End.SENDER, "out", {"seq": 0, "flags": syn}),
        (1, End.RECEIVER, "out", {"seq": 0, "ack": 1, "flags": answer}),
        (2, End.SENDER, "out", {"seq": 1, "ack": 1, "flags": 0x10}),
        (3, End.SENDER, "out", {"seq": 1, "ack": 1, "flags": 0x10, "len": 1000}),
        (4, End.SENDER, "out", {"seq": 1001, "ack": 1, "flags": 0x90 if ecn else 0x10, "len": 1000}),
        (9, End.SENDER, "retransmit", {"seq": 1, "ack": 1, "flags": 0x10, "len": 1000}),
    ]
    moments = []
    for ms, end, kind, values in flights:
        other = End.RECEIVER if end is End.SENDER else End.SENDER
        for late, at, what in ((0, end, kind), (500_000, other, "in")):
            moments.append(Moment(len(moments), ms * 1_000_000 + late, at, what, "", {"len": 0} | values))
    return Connection(("sender", "receiver"), "flow.0", tuple(moments), 20_000_000)


@pytest.mark.parametrize(("ecn", "new"), [(True, "[ect0] "), (False, "")])
def test_where_a_kernel_agreed_on_ecn_new_data_are_injected_as_ecn_capable_and_retransmissions_are_not(
    *, ecn: bool, new: str
) -> None:
    side = Side(End.RECEIVER, 1000, [], reads=True)
    lines = written(of_a_kernel(ecn=ecn), side, Span(0, 20_000_000, None), []).splitlines()
    assert [line.split(" ack")[0] for line in lines if "(1000)" in line] == [
        f"0.003000 < {new}. 1:1001(1000)",
        f"0.004000 < {new}{'W' if ecn else ''}. 1001:2001(1000)",
        "0.009000 < . 1:1001(1000)",
    ]


def test_two_scripts_of_a_finding_are_identical(results: Path, script: Scripted) -> None:
    assert scripted(results, "late-ack").text == script.text


def test_changes_of_linux_become_commands_of_a_script() -> None:
    wanted = [
        Change(kind="sysctl", name="tcp_rmem", value="4096 1 2", path="app.rcvbuf"),
        Change(
            kind="module", name="tcp_dctcp/parameters/dctcp_receiver", value="1", path="stack.dctcp_receiver"
        ),
        Change(kind="route", name="initcwnd", value="4", path="stack.initial_window"),
        Change(kind="route", name="quickack", value="1", path="stack.delayed_ack"),
    ]
    assert commands(wanted) == [
        'sysctl -q net.ipv4.tcp_rmem="4096 1 2"',
        "echo 1 > /sys/module/tcp_dctcp/parameters/dctcp_receiver",
        "ip route change 192.0.2.1 via 192.168.0.2 dev tun0 initcwnd 4 quickack 1",
    ]


HANDSHAKE = """\
0.000000 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 65535 <mss 1000,nop,nop,sackOK>
+0 > S. 0:0(0) ack 1 <...>
+.001 < . 1:1(0) ack 1 win 65535
+0 accept(3, ..., ...) = 4
"""


@pytest.mark.parametrize(
    "expected",
    [
        pytest.param("", id="an ACK is missing in the script"),
        pytest.param("0.010000 > . 1:1(0) ack 500\n", id="the script has another ACK"),
        pytest.param(
            "0.010000 > . 1:1(0) ack 1001\n0.010500 > . 1:1(0) ack 1001\n", id="the script has one too many"
        ),
    ],
)
def test_expectations_become_what_the_stack_sends(expected: str) -> None:
    arrives = "0.010000 < P. 1:1001(1000) ack 1 win 65535\n"
    end = "0.020000 < P. 1001:2001(1000) ack 1 win 65535\n0.020000 > . 1:1(0) ack 2001\n"
    text = adapted(HANDSHAKE + arrives + expected + end, on_model)
    assert text == HANDSHAKE + arrives + "0.010000 > . 1:1(0) ack 1001\n" + end


def test_a_script_that_the_runner_cannot_read_is_not_adapted() -> None:
    assert adapted("0 nonsense", on_model) is None


def test_a_script_ends_before_the_packet_that_precedes_the_line_and_asserts_after_a_silence() -> None:
    data = "0.010000 < P. 1:1001(1000) ack 1 win 9\n0.010000 > . 1:1(0) ack 1001\n"
    text = HANDSHAKE + data + "0.020000 < . 1001:1002(1) ack 1\n+0 > . 1:1(0) ack 1002\n"
    line = len(text.splitlines())
    short = cut(text, line, 500_000)
    assert short is not None
    assert short.splitlines()[-3:] == [
        "// Nothing is sent for 0.5 s. Then an old segment elicits an ACK with the state of the end.",
        "0.510000 < . 1:1(0) ack 1 win 64",
        "+0 > . 1:1(0) ack 1001",
    ]
    assert "1002" not in short
    assert cut(HANDSHAKE, 1, 1) is None
