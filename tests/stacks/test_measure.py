"""`tcpassay stack measure`: facts of a TCP, by probes of a scripted peer."""

import json
import struct
from pathlib import Path

import pytest
from typer.testing import CliRunner

import plans
from tcpassay.cli import app
from tcpassay.errors import UserError
from tcpassay.stacks.measure import peer
from tcpassay.stacks.measure import segment as wire
from tcpassay.stacks.measure.facts import FACTS, Measured, measure
from tcpassay.stacks.measure.peer import PORT, SCALE_7
from tcpassay.stacks.measure.segment import Flag, Segment
from tcpassay.stacks.measure.table import BEGIN, END, markdown

DOCUMENT = plans.REPOSITORY / "docs" / "stacks-measured.md"


@pytest.fixture(scope="module")
def smoltcp() -> list[Measured]:
    """All facts of smoltcp."""
    return list(measure("smoltcp"))


def test_a_process_that_ends_is_an_error_with_its_reason() -> None:
    result = CliRunner().invoke(app, ["stack", "measure", "exec:/bin/true"])
    assert isinstance(result.exception, UserError)
    assert str(result.exception).startswith("`exec:/bin/true`: outcome `crashed`: /bin/true: it ended")


def test_facts_of_smoltcp_are_those_of_its_source(smoltcp: list[Measured]) -> None:
    values = {one.fact.what: one.value for one in smoltcp}
    # CLOSE_DELAY, ACK_DELAY_DEFAULT, RTTE_INITIAL_RTO, ASSEMBLER_MAX_SEGMENT_COUNT of smoltcp 0.14.
    assert values["TIME-WAIT"] == "10 s"
    assert values["ACK of a single segment later"] == "10 ms"
    assert values["SYN sent again"] == "1 s"
    assert values["segments beyond different holes that are kept"] == "4 of 40"
    assert values["duplicate ACKs before a retransmission"] == "3"
    assert values["SYN to a closed port"] == "RST"
    # It has timestamps if a setting switches them on, and no PAWS.
    assert values["data with an old timestamp"] == "accepted"
    assert values["options of a SYN"] == "MSS 1460, window scale 0, SACK permitted"


class Unscaled:
    """A stack that answers a SYN, with or without the window scale option, and notes the windows that it gets."""

    def __init__(self, options: list[tuple[int, bytes]]) -> None:
        self.options = options
        self.windows: list[int] = []
        self.out: list[bytes] = []
        self.accepted: list[tuple[int, int]] = []

    def listen(self, _now: int, _port: int) -> None:
        """Nothing to do."""

    def input(self, _now: int, packet: bytes) -> None:
        """A SYN gets its SYN-ACK."""
        one = wire.decode(packet)
        if one.has(Flag.SYN):
            answer = Segment(
                one.target, one.source, 7000, one.seq + 1, Flag.SYN | Flag.ACK, 5000, self.options
            )
            self.out.append(wire.encode("10.0.0.1", "10.0.0.2", answer))
        else:
            self.windows.append(one.window)
            self.accepted.append((1, PORT))

    def drain(self) -> tuple[list[bytes], list[tuple[int, int]], list[tuple[int, ...]]]:
        """What it sent and accepted since the last call."""
        done = (self.out, self.accepted, [])
        self.out, self.accepted = [], []
        return done


@pytest.mark.parametrize(
    ("options", "field"), [([SCALE_7], 2000), ([(wire.SCALE, bytes([0]))], 2000), ([], 65_535)]
)
def test_the_peer_scales_its_windows_only_if_both_syns_have_the_option(
    options: list[tuple[int, bytes]], field: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = Unscaled(options)
    monkeypatch.setattr("tcpassay._native.StackHost", lambda *_: stack)
    peer.Peer("smoltcp").open(peer.USUAL, window=256_000)
    assert stack.windows == [field]


def test_the_syns_of_an_open_connection_lie_in_its_window_and_outside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[Segment] = []
    encode = wire.encode

    def noted(source: str, target: str, segment: Segment) -> bytes:
        sent.append(segment)
        return encode(source, target, segment)

    monkeypatch.setattr(wire, "encode", noted)
    probes = {one.what: one.probe for one in FACTS}
    offsets = {}
    for where in ("in the window", "outside of the window"):
        probes[f"SYN {where} of an open connection"](lambda: peer.Peer("smoltcp"))
        offsets[where] = (sent[-1].seq - peer.ISS - 1) % 2**32
        assert sent[-1].flags == Flag.SYN
    # smoltcp announces 65,535 bytes; no window has 2^30 (RFC 7323 section 2.3).
    assert offsets == {"in the window": 10, "outside of the window": 3 * 2**29}


def test_no_probe_of_smoltcp_fails(smoltcp: list[Measured]) -> None:
    assert len(smoltcp) == len(FACTS) > 30
    assert [
        one for one in smoltcp if one.value.startswith(("not measured", "stack:", "crashed:", "hung:"))
    ] == []


def test_the_table_of_the_documentation_has_the_facts_of_smoltcp(smoltcp: list[Measured]) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    table = text[text.index(BEGIN) + len(BEGIN) : text.index(END)].strip().splitlines()
    shown = [[cell.strip() for cell in line.strip("|").split(" | ")][:3] for line in table]
    mine = markdown({"smoltcp 0.14.0 (socket-tcp-reno, socket-tcp-cubic)": smoltcp}).strip().splitlines()
    assert shown[0] == ["fact", "section", "smoltcp 0.14.0 (socket-tcp-reno, socket-tcp-cubic)"]
    assert shown[2:] == [[cell.strip() for cell in line.strip("|").split(" | ")] for line in mine[2:]]


def test_a_process_has_the_facts_of_the_same_stack_in_the_process(
    adapter: Path, smoltcp: list[Measured]
) -> None:
    assert [one.value for one in measure(f"exec:{adapter}")] == [one.value for one in smoltcp]


def test_a_name_that_cannot_be_measured_is_refused() -> None:
    result = CliRunner().invoke(app, ["stack", "measure", "linux"])
    assert result.exit_code != 0
    assert "`linux` is not another TCP; allowed are smoltcp, gvisor, lwip, pytcp" in str(result.exception)


def test_a_segment_is_read_as_it_was_written() -> None:
    options = [(wire.MSS, struct.pack("!H", 1460)), (wire.SCALE, b"\7"), (wire.TIMESTAMPS, bytes(8))]
    made = Segment(1, 2, 2**32 - 1, 7, Flag.ACK | Flag.PSH, 500, options, b"abc", wire.CE)
    packet = wire.encode("10.0.0.2", "10.0.0.1", made)
    assert wire.decode(packet) == made
    assert (made.mss, made.scale, made.stamps, made.blocks) == (1460, 7, (0, 0), [])
    # The sums of a header and of a segment with their checksums are zero (RFC 1071).
    words = struct.unpack(f"!{len(packet) // 2}H", packet[: len(packet) // 2 * 2])
    assert sum(words[:10]) % 0xFFFF == 0


def test_the_command_prints_json() -> None:
    result = CliRunner().invoke(app, ["stack", "measure", "smoltcp", "--json"], catch_exceptions=False)
    assert json.loads(result.output).popitem()[1]["TIME-WAIT"] == "10 s"
