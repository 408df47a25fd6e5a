"""The oracles on runs of the model: faults of a profile or a setting, and runs that only have random losses."""

import struct
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import sealed
from tcpassay import _native
from tcpassay.judge import Finding, judge
from tcpassay.recording import Recording

COLLECT = {"series": None, "warmup": "0s", "deliveries": False, "events": True, "packets": False}

# The paper's limiter with eight flows on one receiver, whose NIC gathers packets for 20 us.
LIMITER = {
    "link.rate": "10Gbit", "link.delay": "50us", "queue.kind": "htb", "queue.rate": "2Gbit",
    "queue.ecn_threshold": "30KB", "queue.ecn_mark": "data", "stack.profile": "linux-4.6", "stack.cc": "dctcp",
    "stack.ecn": "dctcp", "nic.tso": True, "nic.gro": True, "nic.rx_usecs": "20us", "app.flows": 8,
    "app.duration": "500ms",
}  # fmt: skip
SMALL = {"link.rate": "100Mbit", "link.delay": "5ms", "app.duration": "1s"}


def run(folder: Path, *parts: dict[str, Any], packets: bool = False) -> Recording:
    triples = {name: value for part in parts for name, value in part.items()}
    _native.run_case(triples, 1, str(folder), COLLECT | {"packets": packets}, str(folder / "recording"))
    return Recording.open(folder / "recording")


def counted(recording: Recording, name: str) -> int:
    return sum(flow["tcp"][name] for flow in recording.flows)


def times(findings: list[Finding]) -> dict[str, int]:
    number: dict[str, int] = {}
    for one in findings:
        number[one.oracle] = number.get(one.oracle, 0) + one.count
    return number


def test_the_receiver_of_linux_4_6_that_forgets_acks_is_found_by_cause_and_effect(tmp_path: Path) -> None:
    recording = run(tmp_path, LIMITER, packets=True)
    timeouts = counted(recording, "timeouts")
    assert timeouts > 0
    assert sum(device["counters"]["drops"] for device in recording.index["devices"]) == 0
    # A flow that waits for a timeout in the second half of the run is starved: an effect of when it waits.
    findings = [one for one in judge(recording.folder) if one.oracle != "fairness"]
    assert times(findings)["timeout-without-loss"] == timeouts
    assert set(times(findings)) == {"timeout-without-loss", "mutual-silence", "late-ack"}
    assert {one.host for one in findings} == {"receiver"}
    late = next(one for one in findings if one.oracle == "late-ack")
    assert "neither sent nor timed" in late.text
    assert "ack_forget" in {row.kind for row in late.events}
    assert late.packets


@pytest.mark.parametrize("receiver", ["immediate", "rearm"])
def test_the_repaired_receivers_have_no_findings(tmp_path: Path, receiver: str) -> None:
    recording = run(tmp_path, LIMITER, {"stack.dctcp_receiver": receiver})
    assert counted(recording, "ece_acks") > 0
    assert judge(recording.folder) == []


def test_the_window_of_bbr_after_an_undo_is_up_to_its_own_target(tmp_path: Path) -> None:
    reordered = {"link.rate": "20Mbit", "link.delay": "10ms", "link.reorder": "1%:5", "app.duration": "1s"}
    recording = run(tmp_path, reordered, {"stack.profile": "linux", "stack.cc": "bbr"})
    # As on Linux 6.1, the first undo widens the reordering window, and no further loss is mistaken.
    assert counted(recording, "undos") == 1
    assert "window-reduction" not in times(judge(recording.folder))


def packets(file: Path) -> list[bytes]:
    """The IP packets of a capture, in order."""
    content, at, made = file.read_bytes(), 0, []
    while at < len(content):
        kind, length = struct.unpack_from("<2I", content, at)
        if kind == 6:
            (captured,) = struct.unpack_from("<I", content, at + 20)
            made.append(content[at + 28 : at + 28 + captured])
        at += length
    return made


def payload(packet: bytes) -> int:
    header = 4 * (packet[0] & 15)
    return int.from_bytes(packet[2:4]) - header - 4 * (packet[header + 12] >> 4)


def test_frames_are_the_packets_of_the_rows_that_are_cited(tmp_path: Path) -> None:
    recording = run(tmp_path, LIMITER, packets=True)
    captured = packets(recording.folder / "packets.pcapng")
    findings = judge(recording.folder)
    whole = [
        f
        for f in findings
        if len(f.packets) == sum(row.kind in {"in", "out", "retransmit"} for row in f.events)
    ]
    assert len(whole) > len(findings) / 2
    for finding in whole:
        rows = [row.values["len"] for row in finding.events if row.kind in {"in", "out", "retransmit"}]
        assert [payload(captured[number - 1]) for number in finding.packets] == rows


# Bursts of five arrive in reverse. The last of a flight waits for the next burst, so the path must be long enough for a
# quarter of its round trip, which is what a sender by RFC 8985 (section 6.2, step 4) waits, to be longer than that.
REVERSED = {
    "link.rate": "100Mbit",
    "link.delay": "10ms",
    "link.reorder": "reverse-burst:5",
    "app.duration": "12s",
}


def test_a_stack_that_takes_reordering_for_loss_is_found(tmp_path: Path) -> None:
    recording = run(tmp_path, REVERSED, {"stack.profile": "freebsd"})
    recoveries = counted(recording, "recoveries")
    assert recoveries > 100
    number = times(judge(recording.folder))
    assert set(number) == {"needless-fast-retransmit"}
    assert recoveries - 5 <= number["needless-fast-retransmit"] <= recoveries


def test_a_stack_that_waits_for_a_reordering_window_has_no_finding(tmp_path: Path) -> None:
    # With FreeBSD's 2 MB of send buffer the sender pauses for 15 ms once, when the window is full; a burst that holds
    # packets from before and after the pause is then wider in sending times than RACK's window of 5 ms.
    parts = {"stack.profile": "freebsd-rack", "stack.max_sndbuf": "16MB", "app.duration": "4s"}
    recording = run(tmp_path, REVERSED, parts)
    arrivals = recording.events.filter(pl.col("host") == 1, pl.col("kind") == "in", pl.col("len") > 0)["seq"]
    assert (arrivals < arrivals.cum_max()).sum() > 1000
    assert judge(recording.folder) == []


def test_reordering_beyond_the_window_is_taken_for_loss_once_and_then_the_window_is_wider(
    tmp_path: Path,
) -> None:
    """A flight's last packet waits longer than a quarter of 10 ms; the DSACK tells (RFC 8985 section 6.2, step 4)."""
    beyond = REVERSED | {"link.delay": "5ms", "app.duration": "4s", "stack.profile": "freebsd-rack"}
    assert times(judge(run(tmp_path, beyond).folder)) == {"needless-fast-retransmit": 1}


# Ninety connections at once fill a RED queue: what a flow retransmits can be faster than all that it had sent before.
CROWD = {
    "link.rate": "100Mbit", "link.delay": "50ms", "queue.kind": "red", "queue.red_max": "200KB",
    "app.flows": 100, "app.duration": "400ms", "app.background": "poisson:30%",
    "stack.profile": "linux-4.6", "stack.delayed_ack": "off", "stack.recovery": "newreno",
}  # fmt: skip


def test_a_retransmission_that_meets_a_shorter_queue_than_the_original_is_not_needless(
    tmp_path: Path,
) -> None:
    recording = run(tmp_path, CROWD)
    assert counted(recording, "recoveries") > 20
    assert sum(device["counters"]["drops"] for device in recording.index["devices"]) > 100
    assert judge(recording.folder) == []


EXIT = {
    "link.rate": "1Gbit", "link.delay": "20ms", "link.ack_thinning": 3, "link.loss_model": "list:60",
    "app.rcvbuf": "20KB", "app.duration": "800ms", "stack.profile": "freebsd", "stack.recovery": "sack",
}  # fmt: skip


def test_leaving_recovery_with_one_segment_is_found_under_the_old_rule_only(tmp_path: Path) -> None:
    old = run(tmp_path / "old", EXIT, {"stack.recovery_exit": "rfc3782-less-careful"})
    new = run(tmp_path / "new", EXIT, {"stack.recovery_exit": "rfc6582"})
    assert counted(old, "recoveries") == counted(new, "recoveries") == 1
    assert times(judge(old.folder)) == {"small-window-after-recovery": 1}
    assert judge(new.folder) == []


LUCK: dict[str, dict[str, Any]] = {
    "loss": {"link.loss": "1%"},
    "lost ACKs": {"link.loss": "0.5%", "link.ack_loss": "30%"},
    "duplicates": {"link.loss": "1%", "link.duplicate": "1%"},
    "offload": {"link.loss": "1%", "nic.gro": True, "nic.tso": True},
    "requests": {"link.loss": "1%", "app.workload": "rpc", "app.flows": 4},
    "short flows": {"link.loss": "2%", "app.flow_size": "100KB", "app.flows": 4},
    "a slow reader": {"link.loss": "0.5%", "app.read_rate": "5Mbit"},
    "bursts": {"link.loss": "0.5%", "app.workload": "onoff"},
    "a full queue": {"topology": "star:8", "app.workload": "incast", "queue.limit": "30KB"},
}


@pytest.mark.parametrize("profile", ["rfc", "linux", "freebsd-rack"])
@pytest.mark.parametrize("luck", LUCK)
def test_effects_of_random_losses_and_reordering_are_no_findings(
    tmp_path: Path, luck: str, profile: str
) -> None:
    # With Nagle's algorithm and without quick ACKs (`rfc`) requests wait for delayed ACKs, which is not a random
    # effect.
    common = {"stack.profile": profile, "stack.cc": "cubic", "app.nodelay": "on"}
    recording = run(tmp_path, SMALL, LUCK[luck], common)
    assert len(recording.events) > 100
    assert [one.text for one in judge(recording.folder)] == []


def test_requests_that_nagle_holds_until_a_delayed_ack_comes_are_found(tmp_path: Path) -> None:
    recording = run(tmp_path, SMALL, LUCK["a full queue"], {"stack.profile": "rfc", "stack.cc": "cubic"})
    assert times(judge(recording.folder)) == {"latency-tail": 2}


def rewrite(recording: Recording, events: pl.DataFrame) -> Path:
    """The same recording with another event log."""
    events.write_parquet(recording.file("events"), compression="snappy")
    recording.index["files"]["events.parquet"]["rows"] = len(events)
    sealed.recording(recording.folder, recording.index)
    return recording.folder


def test_one_arrival_taken_out_of_a_real_log_is_an_ack_of_what_never_came(tmp_path: Path) -> None:
    recording = run(tmp_path, SMALL)
    events = recording.events.with_row_index("index")
    arrivals = events.filter(pl.col("host") == 1, pl.col("kind") == "in", pl.col("len") > 0)
    position = arrivals["seq"][500]
    folder = rewrite(recording, events.filter(pl.col("index") != arrivals["index"][500]).drop("index"))
    findings = judge(folder, oracles=["delivery"])
    assert "bytes not delivered once and in order: acknowledged before it arrived" in {
        f.title for f in findings
    }
    assert findings[0].events[0].values["ack"] > position


def test_a_sender_that_stops_in_a_real_log_is_a_timer_that_does_not_fire(tmp_path: Path) -> None:
    """After half a second both ends are mute: nothing arrives, nothing fires."""
    recording = run(tmp_path, SMALL, {"app.duration": "3s", "stack.profile": "linux"})
    folder = rewrite(recording, recording.events.filter(pl.col("time_ns") < 500_000_000))
    titles = {f.title for f in judge(folder, oracles=["mutual-silence"])}
    assert titles == {"both sides silent with data outstanding: the retransmission timer did not fire"}
