"""`tcpassay rtt` and `tcpassay judge` on captures of runs of the model, whose recordings are the reference."""

import csv
import gzip
import io
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from tcpassay import _native, capture
from tcpassay.captured import show
from tcpassay.captured.analyse import Analysis, Wanted
from tcpassay.captured.model import ROUND, SIFTR, FlowSummary, Round, Summary
from tcpassay.cli import app
from tcpassay.interface import EcnFeedback, Place, StallCause
from tcpassay.recording import Recording

EVERYTHING: dict[str, str | bool | None] = {
    "series": None,
    "warmup": "0s",
    "deliveries": True,
    "events": True,
    "packets": True,
}
POINTS = ("sender", "receiver")


def invoke(*args: object) -> Result:
    return CliRunner().invoke(app, [str(arg) for arg in args])


@dataclass(frozen=True)
class Run:
    """A run with its recording, and a capture of each point."""

    recording: Recording
    files: dict[str, Path]

    def events(self) -> pl.DataFrame:
        return pl.read_parquet(self.recording.folder / "events.parquet")


def run(folder: Path, triples: Mapping[str, bool | float | str]) -> Run:
    made = folder / "recording"
    _native.run_case(triples, 1, ".", EVERYTHING, str(made))
    recording = Recording.open(made)
    whole = (made / "packets.pcapng").read_bytes()
    files = {}
    for place, point in enumerate(recording.index["interfaces"]):
        files[point["name"]] = folder / f"{point['name']}.pcapng"
        files[point["name"]].write_bytes(capture.one_point(whole, place))
    return Run(recording, files)


def analysed(file: Path, wanted: Wanted | None = None) -> tuple[Summary, list[Round]]:
    analysis = Analysis(file, wanted or Wanted())
    rounds = [ROUND.validate_json(line) for part in analysis.rounds(json=True) for line in part.splitlines()]
    return analysis.summary(), rounds


def of(summary: Summary) -> FlowSummary:
    """The only flow with data."""
    assert len(summary.flows) == 1
    return summary.flows[0]


LOSSES: dict[str, bool | float | str] = {
    "app.duration": "2s",
    "link.rate": "20Mbit",
    "link.delay": "10ms",
    "link.loss_model": "list:200,201,350,900",
    "queue.limit": "100KB",
    "stack.profile": "linux",
    "stack.cc": "cubic",
}


@pytest.fixture(scope="module")
def losses(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(tmp_path_factory.mktemp("losses"), LOSSES)


@pytest.mark.parametrize("point", POINTS)
def test_retransmissions_and_bytes_are_those_of_the_recording(losses: Run, point: str) -> None:
    counters = losses.recording.flows[0]["counters"]
    assert (counters["retransmitted_packets"] or 0) >= 4
    found = of(analysed(losses.files[point])[0]).counters
    # What a full queue drops does not reach the points behind it.
    lost = (counters["sent_packets"] or 0) - (counters["delivered_packets"] or 0)
    assert found.reordered == 0
    if point == "sender":
        assert found.packets == counters["sent_packets"]
        assert found.bytes == counters["sent_bytes"]
        assert (found.retransmissions, found.lost_before) == (counters["retransmitted_packets"], 0)
    if point == "receiver":
        assert found.packets == counters["delivered_packets"]
        assert found.lost_before <= lost
        assert abs(found.retransmissions - (counters["retransmitted_packets"] or 0)) <= 2


def test_the_place_of_each_capture_is_recognised(losses: Run) -> None:
    places = {point: of(analysed(file)[0]).place for point, file in losses.files.items()}
    assert places["sender"] is Place.SENDER
    assert places["receiver"] is Place.RECEIVER


def test_round_trip_times_are_those_that_the_sender_measured(losses: Run) -> None:
    truth = losses.events().filter((pl.col("kind") == "rtt") & (pl.col("flow") == 0))["value_ns"]
    # The queue of 100 KB holds 40 ms of 20 Mbit/s on top of 20 ms.
    assert truth.to_list()
    least, most = min(truth), max(truth)
    assert most > 1.9 * least
    trips = {point: of(analysed(file)[0]).round_trips for point, file in losses.files.items()}
    sender, receiver = trips["sender"], trips["receiver"]
    assert sender is not None
    assert receiver is not None
    # Linux measures in whole microseconds.
    assert least <= sender.min_ns < least + 1_000
    assert sender.count > 50
    # At the receiver the queue before it shows in echoed timestamps, which count milliseconds.
    assert receiver.min_ns == pytest.approx(least, rel=0.1)
    assert receiver.median_ns == pytest.approx(sender.median_ns, rel=0.1)
    assert receiver.max_ns == pytest.approx(sender.max_ns, rel=0.2)


def test_each_round_at_the_sender_is_one_of_its_samples(losses: Run) -> None:
    """The first packet of a round is timed by the stack, too, unless it was sent again."""
    events = losses.events().filter((pl.col("kind") == "rtt") & (pl.col("flow") == 0))
    truth = dict(zip(events["time_ns"], events["value_ns"], strict=True))
    first = int(losses.events().filter(pl.col("kind") == "out")["time_ns"][0])
    _, rounds = analysed(losses.files["sender"])
    timed = [one for one in rounds if one.end_ns + first in truth and not one.ambiguous]
    assert len(timed) > 0.8 * len(rounds)
    equal = [one for one in timed if abs(truth[one.end_ns + first] - one.duration_ns) < 2_000_000]
    assert len(equal) > 0.9 * len(timed)


def test_marks_are_those_that_reached_the_receiver(tmp_path: Path) -> None:
    marked = run(
        tmp_path,
        {
            "app.duration": "1s",
            "link.rate": "50Mbit",
            "link.delay": "2ms",
            "queue.kind": "red",
            "queue.ecn": True,
            "stack.ecn": "dctcp",
            "stack.cc": "dctcp",
            "stack.profile": "linux",
        },
    )
    counters = marked.recording.flows[0]["counters"]
    assert (counters["ce_packets"] or 0) > 50
    found = of(analysed(marked.files["receiver"])[0]).counters
    assert (found.ce, found.packets) == (counters["ce_packets"], counters["delivered_packets"])
    ece = marked.events().filter(
        (pl.col("kind") == "in") & (pl.col("flow") == 0) & (pl.col("flags") & 0x42 == 0x40)
    )
    assert len(ece) > 10
    assert of(analysed(marked.files["sender"])[0]).counters.ece == len(ece)


@pytest.mark.parametrize("form", ["rfc", "linux"])
@pytest.mark.parametrize("queue", ["fifo", "red"])
def test_accurate_ecn_reports_the_marks_and_its_counter_is_no_echo(
    tmp_path: Path, form: str, queue: str
) -> None:
    made = run(
        tmp_path,
        {
            "app.duration": "1s",
            "link.rate": "50Mbit",
            "link.delay": "2ms",
            "queue.kind": queue,
            "queue.ecn": queue == "red",
            "stack.ecn": "accurate",
            "stack.ecn_form": form,
            "stack.profile": "linux",
        },
    )
    marks = made.recording.flows[0]["counters"]["ce_packets"] or 0
    assert (marks > 20) == (queue == "red")
    flow = of(analysed(made.files["sender"])[0])
    assert (flow.ecn_feedback, flow.counters.ece) == (EcnFeedback.ACCURATE, 0)
    # Marks of the last packets are not reported before the end.
    assert marks - 10 <= flow.counters.ce_reported <= marks
    assert (flow.counters.ce_reported_bytes > 0) == (marks > 0)


def test_late_packets_are_those_that_arrived_after_later_ones(tmp_path: Path) -> None:
    made = run(
        tmp_path,
        {
            "app.duration": "1s",
            "link.rate": "20Mbit",
            "link.delay": "10ms",
            "link.reorder": "1%:3",
            "queue.limit": "10MB",
            "stack.profile": "linux",
            "stack.loss_detection": "rack",
        },
    )
    arrived = made.events().filter((pl.col("kind") == "in") & (pl.col("flow") == 1) & (pl.col("len") > 0))
    highest = arrived["seq"].cum_max().shift(1).fill_null(0)
    truth = int((arrived["seq"] < highest).sum())
    again = made.recording.flows[0]["counters"]["retransmitted_packets"] or 0
    assert truth > 10
    flow = of(analysed(made.files["receiver"])[0])
    found = flow.counters
    # Nothing is lost: what arrives below the highest position is late, or was sent again without need.
    assert found.reordered + found.retransmissions == truth
    assert 0 < found.retransmissions <= again
    assert flow.spurious.total == found.retransmissions
    # Three packets overtake.
    assert (found.largest_extent, found.sum_of_extents) == (3, 3 * found.reordered)
    assert of(analysed(made.files["sender"])[0]).counters.reordered == 0


def test_a_lost_tail_is_a_stall_in_which_the_sender_waited_for_its_timer(tmp_path: Path) -> None:
    made = run(
        tmp_path,
        {
            "app.workload": "rpc",
            "app.request": "20KB",
            "app.duration": "1s",
            "link.rate": "100Mbit",
            "link.delay": "1ms",
            "link.loss_model": "list:14",
            "stack.profile": "linux",
            "stack.tlp": "off",
        },
    )
    fired = made.events().filter((pl.col("kind") == "timer_fire") & (pl.col("why") == "Rto"))
    assert len(fired) >= 1
    summary, _ = analysed(made.files["sender"])
    stalls = {one.cause: one for flow in summary.flows for one in flow.stalls}
    assert stalls[StallCause.RETRANSMISSION_TIMER].count == len(fired) == 1
    assert 190_000_000 < stalls[StallCause.RETRANSMISSION_TIMER].longest_ns < 210_000_000
    assert set(stalls) == {StallCause.RETRANSMISSION_TIMER}


def test_nagle_and_a_delayed_ack_are_stalls_in_which_the_sender_waited_for_the_receiver(
    tmp_path: Path,
) -> None:
    made = run(
        tmp_path,
        {
            "app.workload": "rpc",
            "app.request": "5KB",
            "app.duration": "1s",
            "link.rate": "100Mbit",
            "link.delay": "1ms",
            "stack.profile": "rfc",
        },
    )
    delayed = made.events().filter((pl.col("kind") == "timer_fire") & (pl.col("why") == "DelayedAck"))
    summary, _ = analysed(made.files["sender"])
    stalls = {one.cause: one for flow in summary.flows for one in flow.stalls}
    # The first ACK comes before the clock of the receiver's timestamps is known.
    assert set(stalls) == {StallCause.DELAYED_ACK, StallCause.POSSIBLE_DELAYED_ACK}
    assert stalls[StallCause.POSSIBLE_DELAYED_ACK].count == 1
    assert sum(one.count for one in stalls.values()) == len(delayed) == 4
    assert 195_000_000 < stalls[StallCause.DELAYED_ACK].longest_ns < 205_000_000


def test_the_command_prints_rounds_and_findings(losses: Run) -> None:
    done = invoke("rtt", losses.files["sender"])
    assert done.exit_code == 0, done.output
    rounds = [line for line in done.stdout.splitlines() if line.startswith("RTT 1.")]
    assert len(rounds) > 20
    assert "Captured at the sender" in done.stdout
    counters = losses.recording.flows[0]["counters"]
    assert counters["retransmitted_packets"] == 4
    assert f"4 of {counters['sent_packets']} data packets (5.8KB) retransmitted" in done.stdout
    assert "RTT 1." not in invoke("rtt", losses.files["sender"], "--summary").stdout


def test_a_capture_may_come_from_a_pipe(losses: Run) -> None:
    file = losses.files["sender"]
    done = CliRunner().invoke(app, ["rtt", "-", "--summary"], input=file.read_bytes())
    assert done.exit_code == 0, done.output
    assert done.stdout == invoke("rtt", file, "--summary").stdout
    done = CliRunner().invoke(app, ["rtt", "-"], input=b"nothing")
    assert str(done.exception).startswith("-: it cannot be analysed: ")


def test_flows_are_rows_of_a_table_for_scripts(losses: Run) -> None:
    done = invoke("rtt", losses.files["sender"], "--csv")
    assert done.exit_code == 0, done.output
    [row] = csv.DictReader(io.StringIO(done.stdout))
    flow = of(analysed(losses.files["sender"])[0])
    assert (row["sender"], row["place"], row["ending_how"]) == (flow.sender, "sender", str(flow.ending.how))
    assert int(row["retransmissions"]) == flow.counters.retransmissions == 4
    assert flow.round_trips is not None
    assert int(row["rtt_median_ns"]) == flow.round_trips.median_ns
    assert {"time_recovery", "time_unknown", "stalls_late_ack_ns"} <= set(row)


def test_a_connection_without_an_answer_is_in_text_csv_and_json(tmp_path: Path) -> None:
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40, 0, 0, 64, 6, 0, bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]))
    syn = ip + struct.pack("!HHIIBBHHH", 40_000, 81, 1000, 0, 0x50, 0x02, 64_000, 0, 0)
    packets = [struct.pack("<IIII", second, 0, 40, 40) + syn for second in (1000, 1001, 1003)]
    file = tmp_path / "syns.pcap"
    file.write_bytes(struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 101) + b"".join(packets))
    assert "10.0.0.1:40000 > 10.0.0.2:81: 3 SYNs in 3.00s, no answer" in invoke("rtt", file).stdout
    made = json.loads(invoke("rtt", file, "--json").stdout)
    assert (made["unopened_connections"], made["unopened"][0]["syns"], made["flows"]) == (1, 3, [])
    [row] = csv.DictReader(io.StringIO(invoke("rtt", file, "--csv").stdout))
    found = (row["flow"], row["receiver"], row["syn_retransmissions"], row["ending_how"])
    assert found == ("", "10.0.0.2:81", "2", "no_answer")


def test_the_answer_of_judge_is_in_its_first_line(losses: Run) -> None:
    done = invoke("judge", losses.files["receiver"])
    assert done.stdout.splitlines()[0] == "no findings; 1 capture judged"
    assert "oracles that need events or settings, which no capture has (`--json`)" in done.stdout


def test_the_output_fits_a_terminal_of_eighty_columns(losses: Run) -> None:
    analysis = Analysis(losses.files["sender"], Wanted())
    told = "".join(show.lines(analysis, rounds=True)).splitlines()
    text = io.StringIO()
    show.show(analysis.summary(), Console(file=text, width=80))
    told += text.getvalue().splitlines()
    assert len(told) > 80
    assert max(map(len, told)) <= 80, max(told, key=len)


def test_json_is_one_object_with_rounds_and_flows(losses: Run) -> None:
    done = json.loads(invoke("rtt", losses.files["sender"], "--json", "--flow", "1").stdout)
    assert {
        "rounds",
        "flows",
        "flows_with_data",
        "packets",
        "unopened",
        "unopened_connections",
        "notes",
        "connections",
        "interfaces",
        "clock_ns",
    } == set(done)
    assert {one["flow"] for one in done["rounds"]} == {1}
    assert done["flows"][0]["place"] == "sender"
    assert json.loads(invoke("rtt", losses.files["sender"], "--json", "--summary").stdout)["rounds"] == []


def test_a_recording_with_all_points_names_them_and_one_can_be_chosen(losses: Run) -> None:
    whole = losses.recording.folder / "packets.pcapng"
    done = invoke("rtt", whole, "--summary")
    assert "3 points" in " ".join(done.stdout.split())
    chosen, _ = analysed(whole, Wanted(point="receiver"))
    alone, _ = analysed(losses.files["receiver"])
    assert of(chosen).counters == of(alone).counters


def test_wrong_input_is_one_message_with_value_and_place(losses: Run, tmp_path: Path) -> None:
    file = losses.files["sender"]
    (tmp_path / "empty.pcap").write_bytes(b"")
    (tmp_path / "text.pcap").write_text("hello", encoding="utf-8")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(file.read_bytes())[:40])
    for arguments, said in (
        ((tmp_path / "none.pcap",), "no such file"),
        ((tmp_path,), "it cannot be analysed: it is a folder, not a regular file"),
        ((tmp_path / "empty.pcap",), "the file is empty"),
        ((tmp_path / "text.pcap",), "neither pcap nor pcapng: it begins with 68 65 6c 6c"),
        ((file, "--flow", "7"), "`--flow 7`: the capture has no such flow; flows 1 to 1 carry data"),
        ((file, "--point", "eth0"), "`--point eth0`: the capture has no such point; there are: sender"),
    ):
        for form in ((), ("--json",)):
            done = invoke("rtt", *arguments, *form)
            assert said in str(done.exception), (arguments, done.output, done.exception)
            assert '"rounds"' not in done.stdout
    cut = file.read_bytes()[:50_001]
    (tmp_path / "cut.pcapng").write_bytes(cut)
    done = invoke("rtt", tmp_path / "cut.pcapng", "--summary")
    assert done.exit_code == 0
    assert "the file ends inside a block" in " ".join(done.stdout.split())


def test_the_oracles_that_packets_can_feed_judge_a_capture_and_the_others_are_named(losses: Run) -> None:
    done = invoke("judge", losses.files["sender"], "--json")
    judged = json.loads(done.stdout)
    assert judged["judged"] == 1
    assert {"reduction", "window-growth"} & set(judged["unjudged"]) or len(judged["unjudged"]) >= 5
    assert {"flow-control", "ack-timing"}.isdisjoint(judged["unjudged"])
    assert [one for one in judged["findings"] if one["severity"] == "error"] == []


def test_an_ack_that_is_due_at_once_and_missing_is_found_in_a_capture(losses: Run, tmp_path: Path) -> None:
    """At the receiver all duplicate ACKs after the first loss are cut out of the capture."""
    whole = losses.files["receiver"].read_bytes()
    events = losses.events().filter(pl.col("host") == 1)
    late = events.filter((pl.col("kind") == "in") & (pl.col("len") > 0))
    gap = late.filter(pl.col("seq") > (late["seq"] + late["len"]).cum_max().shift(1).fill_null(0) + 1)
    begin = int(gap["time_ns"][0])
    kept = bytearray()
    dropped = 0
    for _, block in capture.blocks(whole):
        if int.from_bytes(block[:4], "little") == 6:
            at = int.from_bytes(block[12:16], "little") << 32 | int.from_bytes(block[16:20], "little")
            leaves = block[28 + 12 : 28 + 16] == bytes([10, 0, 0, 2])
            if leaves and begin <= at < begin + 80_000_000:
                dropped += 1
                continue
        kept += block
    assert dropped > 3
    (tmp_path / "silent.pcapng").write_bytes(kept)
    judged = json.loads(invoke("judge", tmp_path / "silent.pcapng", "--json").stdout)
    found = [one for one in judged["findings"] if "an ACK that is due at once is missing" in one["title"]]
    # The first frame is that of the data, and there are no rows of a recording.
    assert len(found) == 1
    assert found[0]["events"] == []
    assert len(found[0]["packets"]) == 2
    assert found[0]["packets"][0] == _frame(kept, begin)


def _frame(content: bytes, at: int) -> int:
    """The number of the first packet at a time."""
    packets = [block for kind, block in capture.blocks(bytes(content)) if kind == 6]
    times = [
        int.from_bytes(one[12:16], "little") << 32 | int.from_bytes(one[16:20], "little") for one in packets
    ]
    return times.index(at) + 1


def test_a_capture_between_the_ends_is_judged_as_far_as_it_allows_and_says_why_not_further(
    tmp_path: Path,
) -> None:
    made = run(
        tmp_path,
        {"app.duration": "200ms", "link.rate": "20Mbit", "link.delay": "10ms", "topology": "pair"},
    )
    header = b""
    packets: list[tuple[int, bytes]] = []
    for kind, block in capture.blocks(made.files["sender"].read_bytes()):
        if kind != 6:
            header += block
            continue
        at = int.from_bytes(block[12:16], "little") << 32 | int.from_bytes(block[16:20], "little")
        # The sender's packets pass the point 5 ms later, those of the receiver 5 ms earlier.
        leaves = block[28 + 12 : 28 + 16] == bytes([10, 0, 0, 1])
        at += 15_000_000 if leaves else 5_000_000
        stamp = (at >> 32).to_bytes(4, "little") + (at & 0xFFFFFFFF).to_bytes(4, "little")
        packets.append((at, block[:12] + stamp + block[20:]))
    packets.sort(key=lambda one: one[0])
    (tmp_path / "between.pcapng").write_bytes(header + b"".join(block for _, block in packets))
    judged = json.loads(invoke("judge", tmp_path / "between.pcapng", "--json").stdout)
    assert judged["findings"] == []
    assert {"delivery", "late-ack", "beyond-window", "timestamp-missing"} <= set(judged["unjudged"])
    # What holds at every place of the path is judged.
    assert {"sack-blocks-touch", "timeout-back-off"}.isdisjoint(judged["unjudged"])
    reasons = {end["why"]: end["oracles"] for end in judged["unjudged_ends"]}
    assert any("late-ack" in oracles for why, oracles in reasons.items() if "answers within 500 us" in why)
    assert set(judged["unjudged"]["late-ack"].split("; or ")) == {
        why for why, oracles in reasons.items() if "late-ack" in oracles
    }


def test_a_connection_whose_syns_lack_their_options_is_judged_by_what_needs_no_handshake(
    losses: Run, tmp_path: Path
) -> None:
    content = b""
    for kind, block in capture.blocks(losses.files["sender"].read_bytes()):
        if kind == 6:  # two bytes of options behind 40 bytes of headers; padding
            length = (76).to_bytes(4, "little")
            captured = (42).to_bytes(4, "little")
            block = block[:4] + length + block[8:20] + captured + block[24:70] + bytes(2) + length  # noqa: PLW2901
        content += block
    (tmp_path / "cut.pcapng").write_bytes(content)
    judged = json.loads(invoke("judge", tmp_path / "cut.pcapng", "--json").stdout)
    assert judged["findings"] == []
    assert judged["unjudged"]["beyond-window"] == "the capture has no whole handshake of the connection"
    assert "timeout-back-off" not in judged["unjudged"]


def test_a_log_of_siftr_that_a_recording_wrote_is_read_again(losses: Run, tmp_path: Path) -> None:
    file = tmp_path / "log.siftr"
    assert invoke("log", losses.recording.folder, "--siftr", "sender", "--out", file).exit_code == 0
    log = SIFTR.validate_json(_native.siftr_summary(str(file), 10, 1 << 20) or "")
    rows = losses.events().filter((pl.col("host") == 0) & pl.col("kind").is_in(["in", "out", "retransmit"]))
    assert log.lines == len(rows)
    assert log.notes == []
    most = losses.events().filter(pl.col("flow") == 0)["cwnd_bytes"].max()
    assert log.flows[0].cwnd[1] == most
    done = invoke("rtt", file)
    assert done.exit_code == 0
    assert "Smoothed round-trip time" in done.stdout


def test_a_capture_whose_time_goes_backwards_is_judged_in_its_order(losses: Run, tmp_path: Path) -> None:
    content = b""
    for number, (kind, block) in enumerate(capture.blocks(losses.files["sender"].read_bytes())):
        early = kind == 6 and number % 50 == 0
        content += block[:12] + bytes(8) + block[20:] if early else block
    (tmp_path / "back.pcapng").write_bytes(content)
    judged = json.loads(invoke("judge", tmp_path / "back.pcapng", "--json").stdout)
    assert judged["judged"] == 1
    assert any("Time goes backwards" in note for note in judged["notes"])


def test_packets_that_the_capture_lost_are_a_note(losses: Run, tmp_path: Path) -> None:
    # The statistics of the first interface: isb_ifdrop is 250.
    statistics = struct.pack("<IIIIIHHQI", 5, 36, 0, 0, 0, 5, 8, 250, 36)
    (tmp_path / "lost.pcapng").write_bytes(losses.files["sender"].read_bytes() + statistics)
    said = "The capture lost 250 packets, as the file says: data and ACKs that are not in it may have been on the wire."
    for command in (["judge"], ["rtt", "--summary"]):
        assert said in json.loads(invoke(*command, tmp_path / "lost.pcapng", "--json").stdout)["notes"]


def test_a_clock_that_goes_back_by_microseconds_takes_no_oracle_away(losses: Run, tmp_path: Path) -> None:
    def reasons(back_ns: int) -> set[str]:
        content, latest = b"", 0
        for number, (kind, block) in enumerate(capture.blocks(losses.files["sender"].read_bytes())):
            if kind == 6:
                at = int.from_bytes(block[12:16], "little") << 32 | int.from_bytes(block[16:20], "little")
                at, latest = (max(latest - back_ns, 0) if number % 50 == 0 else at), at
                stamp = (at >> 32).to_bytes(4, "little") + (at & 0xFFFFFFFF).to_bytes(4, "little")
                content += block[:12] + stamp + block[20:]
            else:
                content += block
        (tmp_path / "back.pcapng").write_bytes(content)
        judged = json.loads(invoke("judge", tmp_path / "back.pcapng", "--json").stdout)
        assert any("Time goes backwards" in note for note in judged["notes"])
        return {end["why"] for end in judged["unjudged_ends"]}

    why = "times of the capture are missing or go backwards"
    assert why not in reasons(10_000)
    assert why in reasons(10_001)


def test_a_capture_with_stalls_and_without_findings_names_the_command_that_explains_them(
    losses: Run, tmp_path: Path
) -> None:
    content = first = b""
    for kind, block in capture.blocks(losses.files["sender"].read_bytes()):
        if kind == 6:
            at = int.from_bytes(block[12:16], "little") << 32 | int.from_bytes(block[16:20], "little")
            at += 1_000_000_000
            stamp = (at >> 32).to_bytes(4, "little") + (at & 0xFFFFFFFF).to_bytes(4, "little")
            # The first SYN is lost, and sent again after a second.
            content += b"" if first else block
            first = first or block
            content += block[:12] + stamp + block[20:]
        else:
            content += block
    file = tmp_path / "stalled.pcapng"
    file.write_bytes(content)
    stalls = [flow["stalls"] for flow in json.loads(invoke("rtt", file, "--json").stdout)["flows"]]
    assert [one["cause"] for one in stalls[0]] == ["syn_timer"]
    judged = json.loads(invoke("judge", file, "--json").stdout)
    assert judged["findings"] == []
    hint = "connections stalled: `tcpassay rtt {} --summary` says what they waited for"
    assert hint.format(file) in judged["notes"]
    quiet = losses.files["sender"]
    assert hint.format(quiet) not in json.loads(invoke("judge", quiet, "--json").stdout)["notes"]


def test_the_packets_that_are_judged_have_a_limit_with_a_message(losses: Run) -> None:
    told = invoke("judge", losses.files["sender"], "--json", "--max-packets", 100)
    notes = json.loads(told.stdout)["notes"]
    assert "only the first 100 packets are judged, which are in memory: `--max-packets` raises it" in notes
    notes = json.loads(invoke("judge", losses.files["sender"], "--json").stdout)["notes"]
    assert not any("--max-packets" in note for note in notes)


def test_flows_that_are_described_in_parts_are_those_of_the_summary(
    losses: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, _ = analysed(losses.files["sender"].with_name("recording") / "packets.pcapng")
    monkeypatch.setattr("tcpassay.captured.analyse.PART", 2)
    told = invoke(
        "rtt", losses.files["sender"].with_name("recording") / "packets.pcapng", "--json", "--summary"
    )
    flows = json.loads(told.stdout)["flows"]
    assert [one["flow"] for one in flows] == [1, 2, 3]
    assert [one["counters"]["bytes"] for one in flows] == [one.counters.bytes for one in whole.flows]
