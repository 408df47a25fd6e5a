"""Impairments of single packets on a link: on a real Linux the same packets are delayed and lost as on the model."""

import json
import struct
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from tcpassay import _native
from tcpassay.kernel import store
from tcpassay.substrate import kernel as guest

pytestmark = pytest.mark.usefixtures("kernel")

COLLECT = {"series": None, "warmup": "0s", "deliveries": False, "events": False, "packets": True}
# The initial window of ten packets does not depend on ACKs: both stacks send the same until a fault affects them.
CASE = {"link.rate": "20Mbit", "link.delay": "20ms", "app.duration": "1s"}
MSS = 1448


def on_kernel(folder: Path, triples: dict[str, Any], seed: int = 1) -> Path:
    answer = guest.run_case(triples=triples, seed=seed, base=".", collect=COLLECT, folder=str(folder))
    assert answer.outcome == "done", answer.message
    return folder


def on_model(folder: Path, triples: dict[str, Any], seed: int = 1) -> Path:
    model = triples | {"stack.profile": "linux"}
    _native.run_case(model, seed, str(folder.parent), COLLECT, str(folder))
    return folder


def segments(folder: Path, host: int) -> list[int]:
    """Numbers of the full segments of the first flow that left a host or arrived there, in order of time."""
    content, at, found, first = (folder / "packets.pcapng").read_bytes(), 0, [], None
    while at < len(content):
        kind, length = struct.unpack_from("<2I", content, at)
        if kind == 6:
            (interface,) = struct.unpack_from("<I", content, at + 8)
            packet = content[at + 28 : at + 28 + 60]
            header = 4 * (packet[0] & 15)
            to_receiver = packet[header : header + 2] > packet[header + 2 : header + 4]
            seq = int.from_bytes(packet[header + 4 : header + 8])
            size = int.from_bytes(packet[2:4]) - header - 4 * (packet[header + 12] >> 4)
            if to_receiver and packet[header + 13] & 2 and first is None:
                first = seq + 1
            if to_receiver and size > 0 and interface == host and first is not None:
                found.append((seq - first) // MSS)
        at += length
    return found


def windows_of(folder: Path) -> list[int]:
    """Windows that the receiver announces, in order of time."""
    content, at, found = (folder / "packets.pcapng").read_bytes(), 0, []
    while at < len(content):
        kind, length = struct.unpack_from("<2I", content, at)
        if kind == 6 and struct.unpack_from("<I", content, at + 8) == (1,):
            packet = content[at + 28 : at + 28 + 60]
            header = 4 * (packet[0] & 15)
            if packet[header : header + 2] < packet[header + 2 : header + 4]:
                found.append(int.from_bytes(packet[header + 14 : header + 16]))
        at += length
    return found


def gaps(folder: Path) -> list[tuple[float, float]]:
    """Seconds from the first packet of the run between which the receiver got nothing for 80 ms or more."""
    content, at, times, first = (folder / "packets.pcapng").read_bytes(), 0, [], None
    while at < len(content):
        kind, length = struct.unpack_from("<2I", content, at)
        if kind == 6:
            interface, high, low = struct.unpack_from("<3I", content, at + 8)
            time = (high << 32 | low) / 1e9
            first = time if first is None else first
            if interface == 1:
                times.append(time - first)
        at += length
    return [(before, after) for before, after in pairwise(times) if after - before > 0.08]


def counters(folder: Path) -> dict[str, int]:
    index = json.loads((folder / "recording.json").read_text(encoding="utf-8"))
    faults: dict[str, int] = index["counters"]["faults"]
    return faults


# The receive buffer of Linux grows at another packet than the model's, and with it the number of ACKs:
# in the second case both send other packets from the 67th on.
@pytest.mark.parametrize(("reorder", "same"), [("5%:2", 200), ("reverse-burst:3", 60)])
def test_the_same_packets_arrive_late_as_on_the_model(tmp_path: Path, reorder: str, same: int) -> None:
    case = CASE | {"link.reorder": reorder}
    arrivals = [segments(go(tmp_path / go.__name__, case), 1)[:same] for go in (on_kernel, on_model)]
    assert arrivals[0] == arrivals[1]
    assert len(arrivals[0]) == same
    # Regime: packets were reordered.
    assert sum(b < a for a, b in zip(arrivals[0], arrivals[0][1:], strict=False)) > 5


DRAWN = [
    {"link.loss": "3%"},
    {"link.loss": "10%", "link.loss_correlation": "30%"},
    {"link.loss_model": "gilbert-elliott:2%,40%"},
    {"link.duplicate": "5%"},
    {"link.jitter": "2ms"},
    {"link.jitter": "1ms", "link.jitter_distribution": "pareto"},
]


@pytest.mark.parametrize(
    "drawn", DRAWN, ids=["loss", "correlated", "bursts", "duplicate", "jitter", "pareto"]
)
def test_the_same_packets_are_lost_come_twice_or_late_as_on_the_model(
    tmp_path: Path, drawn: dict[str, str]
) -> None:
    # The number of quick ACKs depends on the receive window, which differs between series of Linux.
    case = CASE | drawn | {"stack.delayed_ack": "off"}
    kernel, model = (segments(go(tmp_path / go.__name__, case), 1) for go in (on_kernel, on_model))
    assert kernel[:200] == model[:200]
    # Regime: packets were lost or delayed.
    sent = segments(tmp_path / "on_kernel", 0)
    assert kernel[:200] != sent[:200]


@pytest.mark.parametrize("mtu", ["1500B", "9000B"])
def test_a_packet_that_a_relay_carries_costs_its_receiver_no_more_memory(tmp_path: Path, mtu: str) -> None:
    # No packet of the list is ever sent. With a reader that is slow the window tells what the packets cost.
    case = CASE | {"stack.mtu": mtu, "app.rcvbuf": "64KB", "app.read_rate": "4Mbit"}
    relayed = on_kernel(tmp_path / "relayed", case | {"link.loss_model": "list:1000000"})
    direct = on_kernel(tmp_path / "direct", case)
    assert sum(counters(relayed).values()) == 0
    assert len(segments(direct, 1)) > 30
    windows = {folder: windows_of(folder) for folder in (relayed, direct)}
    assert min(windows[direct]) < 0.7 * max(windows[direct])
    if store.find().release.startswith("6.1."):
        assert windows[relayed] == windows[direct]
    else:
        # On 6.12 a packet of the relay takes less memory than one of TCP: windows are larger.
        assert fmean(windows[relayed]) >= fmean(windows[direct])


def test_a_path_pauses_at_the_same_times_of_a_run_as_on_the_model(tmp_path: Path) -> None:
    case = CASE | {"link.pause": "400ms,150ms"}
    for go in (on_kernel, on_model):
        found = gaps(go(tmp_path / go.__name__, case))
        wanted = [(0.4, 0.55), (0.8, 0.95)]
        assert [end for gap in found for end in gap] == pytest.approx(
            [end for gap in wanted for end in gap], abs=0.01
        )


def test_netem_draws_losses_of_its_own(tmp_path: Path) -> None:
    case = CASE | {"link.loss": "3%"}
    relay = segments(on_kernel(tmp_path / "relay", case), 1)
    netem = segments(on_kernel(tmp_path / "netem", case | {"link.drawn_by": "netem"}), 1)
    assert relay[:200] != netem[:200]
    index = json.loads((tmp_path / "netem" / "recording.json").read_text(encoding="utf-8"))
    assert "faults" not in index["counters"]


def test_damaged_packets_reach_the_host_which_drops_them(tmp_path: Path) -> None:
    folder = on_kernel(tmp_path / "damage", CASE | {"link.corrupt": "2%"})
    damaged = counters(folder)["damaged"]
    index = json.loads((folder / "recording.json").read_text(encoding="utf-8"))
    assert damaged > 5
    assert index["counters"]["receiver"]["TcpInCsumErrors"] == damaged


def test_reordering_draws_by_the_seed(tmp_path: Path) -> None:
    case = CASE | {"link.reorder": "5%:2"}
    seeds = [segments(on_kernel(tmp_path / str(n), case, seed), 1)[:200] for n, seed in enumerate((1, 1, 2))]
    assert seeds[0] == seeds[1]
    assert seeds[0] != seeds[2]


def test_exactly_the_data_packets_of_a_list_are_lost(tmp_path: Path) -> None:
    folder = on_kernel(tmp_path / "list", CASE | {"link.loss_model": "list:5,30,31"})
    sent, arrived = segments(folder, 0), segments(folder, 1)
    assert counters(folder)["lost"] == 3
    # Counted from 1, as they left.
    lost = [sent[n - 1] for n in (5, 30, 31)]
    assert all(arrived.count(segment) == sent.count(segment) - 1 for segment in lost)
    # The last twentieth is still on its way at the end.
    early = sent[: len(sent) * 4 // 5]
    assert {segment for segment in early if arrived.count(segment) < sent.count(segment)} == set(lost)
    model = on_model(tmp_path / "model", CASE | {"link.loss_model": "list:5,30,31"})
    assert segments(model, 1)[:60] == arrived[:60]


def test_of_the_acks_on_their_way_back_one_in_so_many_arrives(tmp_path: Path) -> None:
    # Nothing is lost, so that every ACK says that data arrived, and nothing else.
    case = CASE | {"queue.limit": "10MB"}
    whole = on_kernel(tmp_path / "all", case)
    thin = on_kernel(tmp_path / "thin", case | {"link.ack_thinning": 4})
    assert "faults" not in json.loads((whole / "recording.json").read_text(encoding="utf-8"))["counters"]
    received = {
        folder.name: json.loads((folder / "recording.json").read_text(encoding="utf-8"))["counters"][
            "sender"
        ]["IpInReceives"]
        for folder in (whole, thin)
    }
    thinned = counters(thin)["thinned"]
    assert thinned > 300
    assert received["thin"] < received["all"] / 3
    assert abs(3 * received["thin"] - thinned) < 0.1 * thinned


def test_faults_hold_in_a_star_and_on_an_access_link(tmp_path: Path) -> None:
    star = CASE | {"topology": "star:2"}
    folder = on_kernel(tmp_path / "star", star | {"link.loss_model": "list:40"})
    assert counters(folder)["lost"] == 1
    folder = on_kernel(tmp_path / "access", star | {"access-sender1/link.reorder": "reverse-burst:2"})
    assert counters(folder)["held"] > 100


def batches(folder: Path, host: int) -> list[int]:
    """The numbers of packets that arrived at a host at one instant, in order of time."""
    content, at, found, last = (folder / "packets.pcapng").read_bytes(), 0, [], None
    while at < len(content):
        kind, length = struct.unpack_from("<2I", content, at)
        if kind == 6:
            interface, high, low = struct.unpack_from("<3I", content, at + 8)
            packet = content[at + 28 : at + 28 + 60]
            header = 4 * (packet[0] & 15)
            if interface == host and packet[header : header + 2] > packet[header + 2 : header + 4]:
                time = high << 32 | low
                if last is not None and time - last < 1000:
                    found[-1] += 1
                else:
                    found.append(1)
                last = time
        at += length
    return found


def test_a_driver_with_a_stale_hash_reverses_the_same_groups_as_on_the_model(tmp_path: Path) -> None:
    case = CASE | {
        "app.flow_size": "14480B",
        "receiver/nic.gro": True,
        "receiver/nic.rx_usecs": "6ms",
        "receiver/nic.lro_order": "stale-hash",
    }
    kernel, model = (
        segments(run(tmp_path / name, case), 1) for name, run in (("k", on_kernel), ("m", on_model))
    )
    assert sorted(kernel) == list(range(10))
    assert kernel == model
    assert kernel[:4] == [3, 2, 1, 0]


def test_a_firmware_that_hides_its_coalescing_raises_the_same_interrupts_as_on_the_model(
    tmp_path: Path,
) -> None:
    # SYN, ACK, ten segments, FIN. At 20 Mbit/s full packets are 0.6 ms apart: a packet after a pause waits
    # 1.16 ms, in which the next one arrives, unless one packet is enough for an interrupt.
    for frames, expected in ((0, [1, 2, 2, 2, 2, 2, 2]), (1, [1] * 13)):
        case = CASE | {
            "app.flow_size": "14480B",
            "receiver/nic.adaptive": "hidden",
            "receiver/nic.hidden_frames": frames,
        }
        for name, run in (("k", on_kernel), ("m", on_model)):
            assert batches(run(tmp_path / f"{name}{frames}", case), 1) == expected, (name, frames)
