"""Parameters that Linux supports: each changes the behaviour of the kernel."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tcpassay.substrate import kernel as guest

pytestmark = pytest.mark.usefixtures("kernel")

BASE = {
    "link.rate": "100Mbit",
    "link.delay": "5ms",
    "nic.tso": "on",
    "stack.cc": "cubic",
    "app.duration": "400ms",
}


def go(folder: Path, triples: dict[str, Any], **collect: Any) -> tuple[dict[str, float], dict[str, Any]]:
    """The metrics and the index of the recording."""
    nothing = {"series": None, "warmup": "0s", "deliveries": False, "events": False, "packets": False}
    answer = guest.run_case(
        triples=BASE | triples,
        seed=1,
        base=str(folder.parent),
        collect=nothing | collect,
        folder=str(folder),
    )
    assert answer.outcome == "done", answer.message
    return answer.metrics, json.loads((folder / "recording.json").read_text(encoding="utf-8"))


def test_a_controllers_parameter_reaches_its_module(tmp_path: Path) -> None:
    share = {}
    for beta in (0.6, 0.9):
        folder = tmp_path / str(beta)
        go(folder, {"stack.cc.beta": beta, "queue.limit": "60KB", "app.duration": "600ms"}, events=True)
        windows = pl.read_parquet(folder / "events.parquet").filter(
            (pl.col("flow") == 0) & (pl.col("kind") == "window")
        )
        left = windows.with_row_index().filter(pl.col("why") == "on leaving Recovery").tail(1)
        before = windows.head(int(left["index"][0])).filter(pl.col("why") != "on leaving Recovery")
        # The largest window of the second before the last recovery.
        most = before.tail(200)["cwnd_bytes"].max()
        assert isinstance(most, int)
        share[beta] = left["cwnd_bytes"][0] / most
    assert share[0.9] > share[0.6] + 0.15


def test_without_hystart_cubic_overflows_the_queue_at_the_end_of_slow_start(tmp_path: Path) -> None:
    lost = {
        on: go(tmp_path / on, {"stack.hystart": on, "queue.limit": "125KB"})[0]["lost"]
        for on in ("linux", "off")
    }
    assert lost["off"] > 2 * lost["linux"]
    assert lost["off"] > 20


def test_without_delayed_acks_every_packet_is_acknowledged(tmp_path: Path) -> None:
    acks = {}
    for rule in ("profile", "off"):
        flows = go(tmp_path / rule, {"stack.delayed_ack": rule})[1]["flows"]
        acks[rule] = flows[1]["counters"]["acks_sent"] / flows[0]["counters"]["delivered_packets"]
    assert acks["off"] > 0.95
    assert acks["profile"] < 0.7


def test_a_sender_that_is_paced_below_its_window_is_slower(tmp_path: Path) -> None:
    paced = go(tmp_path / "a", {"stack.pacing": "10%,10%"})[0]["goodput"]
    assert paced < 0.3 * go(tmp_path / "b", {})[0]["goodput"]


def test_the_send_buffer_grows_to_its_bound_and_not_beyond(tmp_path: Path) -> None:
    most = {}
    for bound in ("profile", "64KB"):
        rows = {"stack.max_sndbuf": bound, "stack.tso_autosize": "rate", "stack.fin_wait2": "5s"}
        go(tmp_path / bound, rows, series="1ms")
        series = pl.read_parquet(tmp_path / bound / "series.parquet").filter(pl.col("entity") == "flow.0")
        most[bound] = series["send_buffer_bytes"].max()
    assert most["64KB"] == 64_000
    assert most["profile"] > 300_000


def test_a_policer_lets_its_rate_through_and_drops_the_rest(tmp_path: Path) -> None:
    metrics, recording = go(tmp_path / "a", {"link.policer": "40Mbit,50KB", "app.duration": "1s"})
    assert 20e6 < metrics["throughput"] < 43e6
    assert recording["flows"][0]["counters"]["retransmitted_packets"] > 0


def test_marks_on_returning_acks_keep_the_queue_near_the_threshold(tmp_path: Path) -> None:
    case = {"link.delay": "1ms", "stack.cc": "dctcp", "stack.ecn": "dctcp", "queue.ecn_threshold": "30KB"}
    plain, _ = go(tmp_path / "off", case)
    marked, index = go(tmp_path / "ack", case | {"queue.ecn_mark": "ack"})
    (queue,) = (one for one in index["devices"] if one["name"] == "queue.bottleneck")
    assert (plain["marks"], marked["lost"]) == (0, 0)
    assert marked["marks"] == queue["counters"]["marks"] > 50
    # 30 KB take 2.4 ms at 100 Mbit/s.
    assert plain["rtt_p99"] > 10e-3
    assert marked["rtt_p50"] < 6e-3
    assert marked["goodput"] > 0.9 * plain["goodput"]


def test_datagrams_in_the_background_take_their_rate(tmp_path: Path) -> None:
    metrics, recording = go(tmp_path / "a", {"app.background": "udp:50Mbit"})
    # 1000 bytes each in 160 us for 400 ms, and headers that take more of the link than that.
    assert 2490 <= recording["counters"]["datagrams"]["sent"] <= 2501
    assert 25e6 < metrics["throughput"] < 50e6


def test_blocking_writes_wait_for_room_and_all_requests_are_answered(tmp_path: Path) -> None:
    rpc = {"app.workload": "rpc", "app.request": "1MB", "app.sndbuf": "128KB", "app.flows": 2}
    done = {}
    for blocking in ("on", "off"):
        folder = tmp_path / blocking
        recording = go(folder, rpc | {"app.blocking": blocking})[1]
        # The regime: a request does not fit the send buffer.
        waited = recording["counters"]["run"].get("waited_writes", 0)
        assert (waited > 3) == (blocking == "on")
        completions = pl.read_parquet(folder / "completions.parquet")
        assert completions["ok"].all()
        done[blocking] = completions.height
    assert done["on"] >= 3
    assert abs(done["on"] - done["off"]) <= 1


def test_a_host_that_reboots_opens_its_connection_again_from_the_same_port(tmp_path: Path) -> None:
    rows = {"app.workload": "rpc", "app.concurrency": 3, "app.reboot": "150ms:50ms"}
    metrics, index = go(tmp_path / "run", rows, events=True, packets=True)
    # The peer knows of nothing: the ACK of its own connection answers the SYN, and is reset (RFC 9293 section 3.5.1).
    log = pl.read_parquet(tmp_path / "run" / "events.parquet").sort("time_ns")
    syns = log.filter((pl.col("host") == 0) & (pl.col("flags") == 2))
    assert syns["flow"].unique().sort().to_list() == [0, 2]
    assert syns.filter(pl.col("flow") == 2)["time_ns"].min() == pytest.approx(200e6, abs=5e6)
    first = log.filter((pl.col("host") == 0) & (pl.col("flow") == 2) & pl.col("flags").is_not_null())
    assert first["flags"].head(3).to_list() == [2, 16, 4]
    quiet = log.filter((pl.col("host") == 0) & pl.col("flags").is_not_null() & (pl.col("kind") != "in"))
    assert quiet.filter((pl.col("time_ns") > 150e6) & (pl.col("time_ns") < 195e6)).is_empty()
    assert [flow["counters"]["read_bytes"] > 10_000 for flow in index["flows"][::2]] == [True, True]
    assert metrics["failures"] == 3


def test_the_response_to_a_half_closed_connection_arrives(tmp_path: Path) -> None:
    rows = {"app.workload": "rpc", "app.reuse": "off", "app.half_close": "on", "app.response": "50KB"}
    metrics, index = go(tmp_path / "run", rows, events=True)
    log = pl.read_parquet(tmp_path / "run" / "events.parquet")
    half = log.filter((pl.col("host") == 0) & (pl.col("why") == "Established->FinWait1"))
    assert half.height > 3
    assert metrics["failures"] == 0
    assert sum(flow["counters"]["read_bytes"] for flow in index["flows"][1::2]) >= 3 * 50_000
