"""Cases on a real Linux in virtual time. The tests are skipped, with a reason, without a kernel or an agent."""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from lossy import LOSSY
from tcpassay import _native
from tcpassay.judge import unjudged
from tcpassay.judge.registry import ORACLES
from tcpassay.recording import Recording
from tcpassay.substrate import kernel as guest
from tcpassay.substrate.agent import check_case

pytestmark = pytest.mark.usefixtures("kernel")


def go(folder: Path, triples: dict[str, Any], *, seed: int = 1, **options: Any) -> dict[str, Any]:
    collect = {"series": None, "warmup": "0s", "deliveries": False, "events": False, "packets": True}
    answer = guest.run_case(
        triples=triples,
        seed=seed,
        base=str(folder.parent),
        collect=collect | options.pop("collect", {}),
        folder=str(folder),
        **options,
    )
    return asdict(answer)


def environment(folder: Path) -> dict[tuple[str, str], dict[str, float]]:
    """What was asked of the path and what was measured, by entity and property."""
    recording = json.loads((folder / "recording.json").read_text(encoding="utf-8"))
    return {(row["entity"], row["property"]): row for row in recording["environment"]}


def digests(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())}


def test_two_guests_leave_byte_identical_recordings_and_another_seed_another(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert go(tmp_path / name, LOSSY, seed=seed)["outcome"] == "done"
    assert digests(tmp_path / "a") == digests(tmp_path / "b")
    assert digests(tmp_path / "a")["packets.pcapng"] != digests(tmp_path / "c")["packets.pcapng"]


def test_every_collector_on_leaves_the_same_packets(tmp_path: Path) -> None:
    go(tmp_path / "few", LOSSY)
    go(tmp_path / "all", LOSSY, collect={"series": "1ms", "deliveries": True, "events": True})
    few, everything = digests(tmp_path / "few"), digests(tmp_path / "all")
    assert "series.parquet" in everything
    assert "events.parquet" in everything
    assert few["packets.pcapng"] == everything["packets.pcapng"]


def test_without_taps_what_packets_tell_is_null_and_everything_else_the_same(tmp_path: Path) -> None:
    asked = {"packets": False, "series": "10ms", "events": True}
    answers, indexes = [], []
    for name in ("seen", "unseen"):
        answers.append(go(tmp_path / name, LOSSY, collect=asked | {"taps": name == "seen"}))
        indexes.append(json.loads((tmp_path / name / "recording.json").read_text(encoding="utf-8")))
    seen, unseen = (answer["metrics"] for answer in answers)
    absent = {name for name in seen if seen[name] is not None and unseen[name] is None}
    assert {
        "throughput",
        "retransmissions",
        "loss_rate",
        "rtt_p50",
        "one_way_p99",
        "acks_per_segment",
    } <= absent
    assert seen["retransmissions"] > 0
    kept = [name for name in seen if name not in absent]
    assert {"goodput", "recoveries", "lost", "saturation", "cwnd_mean", "queue_max"} <= set(kept)
    # Means of the series begin with its first interval: that of the first arrival, or of the first read.
    of_intervals = {name for name in kept if name in {"cwnd_mean", "ssthresh_mean", "srtt_mean", "rto_mean"}}
    exact = [name for name in kept if name not in of_intervals]
    assert [seen[name] for name in exact] == [unseen[name] for name in exact]
    for name in of_intervals:
        assert seen[name] == pytest.approx(unseen[name], rel=0.2)
    # The kernel's counters are the same in both runs.
    assert indexes[0]["counters"]["sender"] == indexes[1]["counters"]["sender"]
    counters = [flow["counters"] for flow in indexes[1]["flows"]]
    assert {(flow["sent_bytes"], flow["ce_packets"]) for flow in counters} == {(None, None)}
    series = pl.read_parquet(tmp_path / "unseen" / "series.parquet")
    assert "read_bytes" in series.columns
    assert "wire_bytes" not in series.columns
    lacks = unjudged(Recording.open(tmp_path / "unseen"))
    assert set(lacks.values()) == {"without taps (`collect.taps`) a log has no segments"}
    assert set(lacks) == set(ORACLES)


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory, kernel: str) -> Path:
    """A run of two CUBIC flows that lose, with everything collected."""
    folder = tmp_path_factory.mktemp(kernel) / "a"
    everything = {"series": "1ms", "deliveries": True, "events": True}
    assert go(folder, LOSSY, collect=everything)["outcome"] == "done"
    return folder


def test_the_log_holds_the_states_and_windows_that_the_kernel_traced(watched: Path) -> None:
    log = pl.read_parquet(watched / "events.parquet").filter(pl.col("flow") == 0)
    assert log["time_ns"].is_sorted()
    states = log.filter(pl.col("kind") == "state")["why"].to_list()
    assert states[0] == "SynSent->Established"
    moves = log.filter(pl.col("kind") == "congestion")
    assert moves["why"].str.contains("->Recovery: kernel").any()
    windows = log.filter(pl.col("kind") == "window")
    # CUBIC's beta is 0.7: the window before a recovery and the one after it.
    left = windows.filter(pl.col("why") == "on leaving Recovery")
    assert left.height >= 1
    first = int(left["time_ns"][0])
    most = windows.filter(pl.col("time_ns") < first)["cwnd_bytes"].max()
    assert isinstance(most, int)
    assert 0.6 * most < left["cwnd_bytes"][0] < 0.75 * most
    assert left["ssthresh_bytes"][0] >= 2 * 1448
    # Its row stands directly before the change of state.
    assert first in moves.filter(pl.col("why").str.starts_with("Recovery->"))["time_ns"].to_list()


def test_each_retransmission_says_why_the_kernel_sent_it(watched: Path) -> None:
    log = pl.read_parquet(watched / "events.parquet")
    reasons = log.filter(pl.col("kind") == "retransmit")["why"]
    assert len(reasons) >= 2
    assert set(reasons) <= {"recovery", "timeout", "tail loss probe"}
    assert "recovery" in set(reasons)


def test_the_series_hold_queues_and_memory_of_the_sockets(watched: Path) -> None:
    series = (
        pl.read_parquet(watched / "series.parquet")
        .filter(pl.col("entity") == "flow.0")
        .drop_nulls("cwnd_bytes")
    )
    late = series.tail(100)
    # The send buffer is a multiple of the window, and what is queued in it is more than what is in flight.
    assert (late["send_buffer_bytes"] > late["flight_bytes"]).all()
    assert (late["send_queue_bytes"] >= late["flight_bytes"]).all()
    assert (late["send_memory_bytes"] >= late["send_queue_bytes"]).mean() > 0.9
    assert (late["receive_buffer_bytes"] >= 131_072).all()
    assert late["receive_queue_bytes"].max() == 0


def test_the_estimates_of_bbr_are_columns_of_its_flow(tmp_path: Path) -> None:
    case = LOSSY | {"stack.cc": "bbr", "app.flows": 1}
    assert go(tmp_path / "a", case, collect={"series": "10ms"})["outcome"] == "done"
    series = pl.read_parquet(tmp_path / "a" / "series.parquet").filter(pl.col("entity") == "flow.0")
    last = series.drop_nulls("cc_bandwidth_bps").tail(1).to_dicts()[0]
    # 50 Mbit/s of IP are 48.3 of payload; the way there and back takes 10 ms.
    assert 44e6 < last["cc_bandwidth_bps"] < 50e6
    assert 10e6 <= last["cc_min_rtt_ns"] < 10.3e6


def test_a_flow_fills_the_link_that_was_asked_for_and_the_path_is_verified(tmp_path: Path) -> None:
    case = {"link.rate": "100Mbit", "link.delay": "5ms", "nic.tso": "on", "app.duration": "1s"}
    answer = go(tmp_path / "a", case)
    assert answer["outcome"] == "done", answer["message"]
    # 1448 of 1500 bytes are payload; slow start and the flight at the end are missing.
    assert 0.90 * 96.5e6 < answer["metrics"]["goodput"] < 96.6e6
    recording = json.loads((tmp_path / "a" / "recording.json").read_text(encoding="utf-8"))
    assert recording["header"]["substrate"] == "kernel"
    rows = {(row["entity"], row["property"]): row for row in recording["environment"]}
    assert abs(rows["path", "rtt"]["measured"] - 10_008_960) < 2000
    assert rows["queue.bottleneck", "rate"]["measured"] == pytest.approx(100e6, rel=1e-3)
    assert rows["path", "mtu"]["measured"] == 1500


def test_the_path_of_a_slow_link_is_right_although_a_probe_is_longer_than_an_ack(tmp_path: Path) -> None:
    answer = go(tmp_path / "a", {"link.rate": "10Mbit", "app.duration": "5ms"})
    assert answer["outcome"] == "done", answer["message"]
    recording = json.loads((tmp_path / "a" / "recording.json").read_text(encoding="utf-8"))
    rows = {(row["entity"], row["property"]): row for row in recording["environment"]}
    # 60 bytes each way at 10 Mbit/s are 96 us, and the delays 100 us.
    assert rows["path", "rtt"]["asked"] == 196_000
    assert abs(rows["path", "rtt"]["measured"] - 196_000) < 100


@pytest.mark.parametrize(
    "case",
    [
        {"topology": "star:2", "link.rate": "20Mbit", "link.delay": "0s"},
        {"topology": "dumbbell:2", "link.rate": "5Mbit", "link.delay": "50us"},
    ],
    ids=["star", "dumbbell"],
)
def test_access_links_take_the_time_of_a_packet_on_the_wire(tmp_path: Path, case: dict[str, Any]) -> None:
    assert go(tmp_path / "a", case | {"app.duration": "20ms"})["outcome"] == "done"
    rtt = environment(tmp_path / "a")["path", "rtt"]
    assert abs(rtt["measured"] - rtt["asked"]) < 200


@pytest.mark.parametrize(
    "case",
    [
        {"topology": "star:2", "stack.ecn": "dctcp", "stack.cc": "dctcp", "queue.ecn_mark": "data"},
        {"topology": "star:8", "stack.ecn": "dctcp", "stack.cc": "dctcp", "queue.ecn_mark": "data"},
        {"topology": "dumbbell:2", "link.delay": "1ms", "link.slot": "1ms,5ms"},
        {"topology": "dumbbell:2", "queue.kind": "tbf", "queue.rate": "500Mbit", "queue.limit": "100KB"},
        {"link.rate": "100Mbit", "nic.rate": "20Mbit"},
        {"link.rate": "100Mbit", "link.policer": "50Mbit,10KB"},
        {"link.rate": "10Gbit", "link.delay": "50us", "link.jitter": "20us", "stack.mtu": "576B"},
        # The queue holds 3.2 ms of the rate.
        {"link.rate": "100Mbit", "link.delay": "5ms", "link.jitter": "2ms", "queue.limit": "40KB"},
    ],
    ids=[
        "marks-star-2",
        "marks-star-8",
        "slots",
        "bucket",
        "slow-nic",
        "policer",
        "jitter-of-many-packets",
        "jitter-beyond-the-queue",
    ],
)
def test_a_path_that_is_what_was_asked_is_not_refused(tmp_path: Path, case: dict[str, Any]) -> None:
    answer = go(tmp_path / "a", case | {"app.duration": "20ms"})
    assert answer["outcome"] == "done", answer["message"]
    if "queue.ecn_mark" in case:
        assert environment(tmp_path / "a")["queue.bottleneck", "marks"]["measured"] > 0.05


def test_a_thousand_connections_of_one_host_to_many_servers_are_told_apart(tmp_path: Path) -> None:
    incast = {"app.workload": "incast", "topology": "star:32", "app.flows": 32, "app.response": "1KB"}
    answer = go(tmp_path / "a", incast | {"app.duration": "2ms"})
    assert answer["outcome"] == "done", answer["message"]
    assert len(Recording.open(tmp_path / "a").flows) == 2048


def served(folder: Path, by: str) -> float:
    """Throughput of a flow through RED at 20 Mbit/s, over several timeouts of its slow start."""
    case = {"link.rate": "20Mbit", "link.delay": "5ms", "queue.kind": "red", "queue.served_by": by}
    answer = go(folder, case | {"app.duration": "6s"})
    assert answer["outcome"] == "done", answer["message"]
    throughput: float = answer["metrics"]["throughput"]
    return throughput


def test_red_below_a_token_bucket_never_sees_itself_idle_and_below_a_link_it_does(tmp_path: Path) -> None:
    link, bucket = (served(tmp_path / by, by) for by in ("link", "token-bucket"))
    assert link > 10e6
    assert bucket < 0.3 * link


def test_what_the_substrate_cannot_do_is_refused_with_who_can(tmp_path: Path) -> None:
    answer = go(tmp_path / "a", {"stack.delayed_ack": "2,40ms"})
    assert answer["outcome"] == "refused"
    assert "Linux delays ACKs by its own rule" in answer["message"]
    with pytest.raises(_native.CaseError) as wrong:
        check_case({"stack.cc": "bbr3"}, ".")
    assert [(path, "the model supports it" in why) for path, _, _, why in wrong.value.args[0]] == [
        ("stack.cc", True)
    ]
    assert check_case({"stack.cc": "bbr", "link.rate": "2Gbit"}, ".") == {
        "stack.cc": "bbr",
        "link.rate": "2Gbit",
    }


@pytest.mark.parametrize("receiver", ["clear-timer", "rearm"])
def test_the_old_dctcp_receiver_stalls_senders_for_200_ms_and_the_rearmed_one_does_not(
    tmp_path: Path, receiver: str
) -> None:
    case = {
        "link.rate": "10Gbit",
        "link.delay": "25us",
        "nic.tso": "on",
        "nic.gro": "on",
        "nic.gro_timeout": "20us",
        "queue.kind": "htb",
        "queue.rate": "2Gbit",
        "queue.ecn_threshold": "30KB",
        "queue.ecn_mark": "data",
        "stack.cc": "dctcp",
        "stack.ecn": "dctcp",
        "stack.tlp": "off",
        "stack.dctcp_receiver": receiver,
        "app.flows": 6,
        "app.duration": "700ms",
    }
    # Whether connections stall depends on the seed: on 6.1 and 6.12 two do with seed 3, on 7.3 with seed 1.
    for seed in (3, 1):
        place = tmp_path / str(seed)
        answer = go(place, case, seed=seed)
        assert answer["outcome"] == "done", answer["message"]
        recording = json.loads((place / "recording.json").read_text(encoding="utf-8"))
        # The regime: marks came and went while ACKs were delayed, and nothing was lost.
        assert recording["counters"]["run"]["dctcp_prior_acks"] > 100
        assert answer["metrics"]["lost"] == 0
        timeouts = answer["metrics"]["timeouts"]
        if receiver == "rearm" or timeouts >= 2:
            break
    if receiver == "clear-timer":
        assert timeouts >= 2
    else:
        assert timeouts == 0


def test_a_guest_that_takes_too_long_is_an_outcome_with_its_console(tmp_path: Path) -> None:
    answer = go(tmp_path / "a", LOSSY | {"app.duration": "3000s"}, patience_s=2.0)
    assert answer["outcome"] == "timeout"
    assert "ended after 2 s" in answer["message"]
    assert not (tmp_path / "a").exists()


def test_a_guest_that_dies_is_an_outcome_with_its_console(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = tmp_path / "agent"
    dead.write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
    dead.chmod(0o755)
    monkeypatch.setenv("TCPASSAY_AGENT", str(dead))
    answer = go(tmp_path / "a", LOSSY)
    assert answer["outcome"] == "crashed"
    assert "the guest's kernel panicked: Attempted to kill init" in answer["message"]


def test_a_guest_that_exhausts_its_memory_is_an_outcome_with_its_console(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    greedy = tmp_path / "agent"
    # What lies in a tmpfs is memory that killing processes does not free.
    greedy.write_text(
        "#!/bin/sh\nmount -t tmpfs -o size=200% none /mnt\nexec dd if=/dev/zero of=/mnt/all bs=1M\n",
        encoding="utf-8",
    )
    greedy.chmod(0o755)
    monkeypatch.setenv("TCPASSAY_AGENT", str(greedy))
    answer = go(tmp_path / "a", LOSSY)
    assert answer["outcome"] == "memory"
    assert answer["message"].startswith("the guest ran out of its 512M\n")
    assert "Out of memory" in answer["message"]
    assert not (tmp_path / "a").exists()


# A path of 100 Mbit/s and 10 ms, and changes of it of which the agent is not informed.
PATH = {"link.rate": "100Mbit", "link.delay": "5ms", "link.loss": "1%", "app.duration": "100ms"}
MARKED = {"queue.ecn_mark": "data", "queue.ecn_threshold": "30KB", "stack.ecn": "dctcp", "stack.cc": "dctcp"}
Tamper = tuple[str, str, str]


def step(verb: str, above: int) -> str:
    """A queue that marks above this number of bytes."""
    red = f"red limit 90000000 min {above} max {above + 1} avpkt {above} burst 1 probability 1 bandwidth 100mbit"
    return f"qdisc {verb} dev c1a parent 1:1 handle 10: {red} ecn nodrop"


@pytest.mark.parametrize(
    ("case", "tamper", "why"),
    [
        (
            {},
            (
                "wire-bottleneck",
                "tc",
                "qdisc change dev c2a root netem limit 1000000 rate 100mbit delay 6ms",
            ),
            "the round-trip time is 11",
        ),
        (
            {},
            (
                "wire-bottleneck",
                "tc",
                "qdisc change dev c2a root netem limit 1000000 rate 90mbit delay 5ms",
            ),
            "the rate is 89.",
        ),
        # The tolerance with jitter is 30 %, and the train is sent at 150 Mbit/s.
        (
            {"link.jitter": "1ms", "queue.limit": "40KB"},
            ("wire-bottleneck", "tc", "qdisc change dev c2a root netem limit 1000000 rate 60mbit delay 5ms"),
            "the rate is 58.",
        ),
        (
            {"link.jitter": "1ms", "queue.limit": "40KB"},
            [
                (
                    "shaper-bottleneck",
                    "tc",
                    "qdisc change dev c1a root tbf rate 300mbit burst 3000b limit 1g",
                ),
                (
                    "wire-bottleneck",
                    "tc",
                    "qdisc change dev c2a root netem limit 1000000 rate 300mbit delay 5ms",
                ),
            ],
            "the rate is 14",
        ),
        (
            {},
            (
                "wire-bottleneck",
                "tc",
                "qdisc change dev c2a root netem limit 1000000 rate 100mbit delay 5ms loss 3%",
            ),
            "of 5000 probes were lost instead of 50.0",
        ),
        ({}, ("wire-bottleneck", "ip", "link set dev c2a mtu 1400"), "no packet of 1500 bytes arrives"),
        (
            {},
            ("sender", "ip", "link set dev c0a mtu 2000"),
            "a packet of 1501 bytes leaves, with an MTU of 1500",
        ),
        (
            {},
            [
                ("shaper-bottleneck", "tc", "qdisc del dev c1a parent 1:1 handle 10:"),
                (
                    "shaper-bottleneck",
                    "tc",
                    step("add", 30_000),
                ),
            ],
            "probes were marked although no queue of the case marks",
        ),
        (
            MARKED,
            (
                "shaper-bottleneck",
                "tc",
                step("change", 9_000_000),
            ),
            "nothing was marked of ",
        ),
    ],
    ids=[
        "rtt",
        "rate",
        "slow-with-jitter",
        "fast-with-jitter",
        "loss",
        "smaller-mtu",
        "larger-mtu",
        "marks",
        "no-marks",
    ],
)
def test_a_path_that_is_not_what_was_asked_stops_the_case_with_that_outcome(
    tmp_path: Path, case: dict[str, Any], tamper: Tamper | list[Tamper], why: str
) -> None:
    answer = go(tmp_path / "a", PATH | case, tamper=tamper if isinstance(tamper, list) else [tamper])
    assert answer["outcome"] == "path", answer["message"]
    assert answer["message"].startswith("the path is not that of the case: ")
    assert why in answer["message"]


def test_the_measured_properties_of_the_path_are_part_of_the_recording(tmp_path: Path) -> None:
    answer = go(tmp_path / "a", PATH | MARKED)
    assert answer["outcome"] == "done", answer["message"]
    recording = json.loads((tmp_path / "a" / "recording.json").read_text(encoding="utf-8"))
    rows = {(row["entity"], row["property"]): row for row in recording["environment"]}
    assert abs(rows["path", "rtt"]["measured"] - 10_009_600) < 2000
    assert rows["queue.bottleneck", "rate"]["measured"] == pytest.approx(100e6, rel=1e-3)
    assert 0.003 < rows["link.bottleneck", "loss"]["measured"] < 0.017
    assert 0.1 < rows["queue.bottleneck", "marks"]["measured"] < 1
    assert rows["path", "mtu"]["measured"] == 1500


@pytest.mark.parametrize(("rate", "flows", "least"), [("25Gbit", 8, 24e9), ("100Gbit", 16, 95e9)])
def test_a_link_may_be_as_fast_as_a_virtual_clock_has_time_for(
    tmp_path: Path, rate: str, flows: int, least: float
) -> None:
    case = {
        "link.rate": rate,
        "link.delay": "20us",
        "nic.tso": "on",
        "queue.limit": "4000p",
        "stack.cc": "cubic",
        "app.flows": flows,
        "app.duration": "10ms",
    }
    answer = go(tmp_path / "a", case, collect={"packets": False})
    assert answer["outcome"] == "done", answer["message"]
    assert least < answer["metrics"]["throughput"] < int(rate.removesuffix("Gbit")) * 1e9
    recording = json.loads((tmp_path / "a" / "recording.json").read_text(encoding="utf-8"))
    # The taps recorded every packet.
    assert recording["header"]["complete"] is True


# Four connections through a slow link. Without management they fill the 1000 packets of its queue: 240 ms.
CROWDED = {
    "link.rate": "50Mbit",
    "link.delay": "5ms",
    "nic.tso": "on",
    "stack.cc": "cubic",
    "app.flows": 4,
    "app.duration": "1s",
}


def test_an_unmanaged_queue_fills(tmp_path: Path) -> None:
    answer = go(tmp_path / "a", CROWDED)
    assert answer["outcome"] == "done", answer["message"]
    assert answer["metrics"]["rtt_max"] > 0.1


@pytest.mark.parametrize("kind", ["red", "codel", "fq_codel", "pie"])
def test_an_aqm_keeps_the_queue_short_by_drops_and_with_ecn_by_marks(tmp_path: Path, kind: str) -> None:
    drops = go(tmp_path / "drops", CROWDED | {"queue.kind": kind})
    assert drops["outcome"] == "done", drops["message"]
    assert drops["metrics"]["lost"] > 0
    assert drops["metrics"]["marks"] == 0
    assert drops["metrics"]["rtt_p50"] < 0.08
    marks = go(tmp_path / "marks", CROWDED | {"queue.kind": kind, "queue.ecn": "on", "stack.ecn": "classic"})
    assert marks["outcome"] == "done", marks["message"]
    assert marks["metrics"]["marks"] > 0
    assert marks["metrics"]["lost"] < drops["metrics"]["lost"]


def test_a_star_carries_the_traffic_of_all_its_hosts(tmp_path: Path) -> None:
    case = {"topology": "star:4", "link.rate": "100Mbit", "link.delay": "1ms", "app.duration": "300ms"}
    answer = go(tmp_path / "a", case)
    assert answer["outcome"] == "done", answer["message"]
    recording = json.loads((tmp_path / "a" / "recording.json").read_text(encoding="utf-8"))
    assert recording["hosts"] == ["receiver", "sender0", "sender1", "sender2", "sender3"]
    assert answer["metrics"]["goodput"] > 50e6


def test_jitter_spreads_round_trip_times(tmp_path: Path) -> None:
    case = {"link.rate": "50Mbit", "link.delay": "10ms", "link.jitter": "2ms", "app.duration": "500ms"}
    answer = go(tmp_path / "a", case | {"stack.cc": "vegas"})
    assert answer["outcome"] == "done", answer["message"]
    # 20 ms, give or take 2.
    assert 0.017 < answer["metrics"]["rtt_min"] < 0.020
    assert answer["metrics"]["rtt_p50"] > answer["metrics"]["rtt_min"] + 0.001
