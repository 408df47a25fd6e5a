"""The parts of an explanation, from hand-written logs."""

from typing import Any

from tcpassay.explain.arrows import Arrow, arrows
from tcpassay.explain.lines import Gap, Line, Omitted, lines, shortened, with_gaps
from tcpassay.explain.moments import Connection, End, Moment
from tcpassay.explain.waiting import waits

ACK, ECE, CE_NOW = 16, 64, {"ce": True}
SENDER, RECEIVER = End.SENDER, End.RECEIVER
MS = 1_000_000


def moments(*rows: tuple[int, End, str, str, dict[str, Any]], end_ms: int = 100) -> Connection:
    made = tuple(
        Moment(
            n,
            time * 1000,
            end,
            kind,
            why,
            {"flags": ACK} | values if kind in {"in", "out", "retransmit"} else values,
        )
        for n, (time, end, kind, why, values) in enumerate(rows)
    )
    return Connection(("client", "server"), "flow.0", made, end_ms * MS)


def data(start: int, length: int) -> dict[str, Any]:
    return {"seq": start, "len": length, "ack": 1}


def ack(position: int, **more: Any) -> dict[str, Any]:
    return {"seq": 1, "len": 0, "ack": position, **more}


def test_segments_that_gro_merged_have_an_arrow_each_to_the_one_that_arrived() -> None:
    log = moments(
        (0, SENDER, "out", "", data(1, 1000)),
        (0, SENDER, "out", "", data(1001, 1000)),
        (50, RECEIVER, "in", "", data(1, 2000)),
    )
    assert arrows(log) == [Arrow(0, 2, 1000), Arrow(1, 2, 1000)]


def test_a_super_segment_has_an_arrow_to_each_part_that_arrived() -> None:
    log = moments(
        (0, SENDER, "out", "", data(1, 3000)),
        (50, RECEIVER, "in", "", data(1, 1000)),
        (60, RECEIVER, "in", "", data(1001, 2000)),
    )
    assert arrows(log) == [Arrow(0, 1, 1000), Arrow(0, 2, 2000)]


def test_after_a_loss_the_arrival_belongs_to_the_retransmission() -> None:
    log = moments(
        (0, SENDER, "out", "", data(1, 1000)),
        (0, SENDER, "out", "", data(1001, 1000)),
        (50, RECEIVER, "in", "", data(1001, 1000)),
        (900, SENDER, "retransmit", "", data(1, 1000)),
        (950, RECEIVER, "in", "", data(1, 1000)),
    )
    assert arrows(log) == [Arrow(0, None, 0), Arrow(1, 2, 1000), Arrow(3, 4, 1000)]


def test_an_original_that_arrives_after_its_retransmission_left_is_not_taken_for_it() -> None:
    # The way takes 50 us at least; the retransmission left 10 us before the arrival.
    log = moments(
        (0, SENDER, "out", "", data(2001, 1000)),
        (50, RECEIVER, "in", "", data(2001, 1000)),
        (100, SENDER, "out", "", data(1, 1000)),
        (440, SENDER, "retransmit", "", data(1, 1000)),
        (450, RECEIVER, "in", "", data(1, 1000)),
        (490, RECEIVER, "in", "", data(1, 1000)),
    )
    assert arrows(log) == [Arrow(0, 1, 1000), Arrow(2, 4, 1000), Arrow(3, 5, 1000)]


def test_a_short_segment_arrives_although_all_longer_ones_take_more_time() -> None:
    # A SYN takes 20 us, a full segment 50 us, one of 100 bytes 22 us.
    syn = {"seq": 0, "len": 0, "flags": 2}
    log = moments(
        (0, SENDER, "out", "", syn),
        (20, RECEIVER, "in", "", syn),
        (100, SENDER, "out", "", data(1, 1000)),
        (150, RECEIVER, "in", "", data(1, 1000)),
        (200, SENDER, "out", "", data(1001, 100)),
        (900, SENDER, "retransmit", "", data(1001, 100)),
        (922, RECEIVER, "in", "", data(1001, 100)),
    )
    assert arrows(log)[2:] == [Arrow(4, None, 0), Arrow(5, 6, 100)]


def test_pure_acks_arrive_in_order_and_a_lost_one_has_no_arrival() -> None:
    log = moments(
        (0, RECEIVER, "out", "", ack(1001)),
        (10, RECEIVER, "out", "", ack(2001)),
        (60, SENDER, "in", "", ack(2001)),
    )
    assert arrows(log) == [Arrow(0, None, 0), Arrow(1, 2, 0)]


def stall(*, forgotten: bool) -> Connection:
    """The paper's Figure 6: the ACK of the segment that changed the CE state is neither sent nor timed."""
    decision = (
        ("ack_forget", {"ack": 3001}) if forgotten else ("ack_delay", {"ack": 3001, "value_ns": 40 * MS})
    )
    return moments(
        (0, SENDER, "window", "ack", {"cwnd_bytes": 3000}),
        (0, SENDER, "out", "", data(1, 1000)),
        (0, SENDER, "out", "", data(1001, 2000)),
        (0, SENDER, "timer_set", "Tlp", {"value_ns": 12 * MS}),
        (0, SENDER, "timer_set", "Rto", {"value_ns": 200 * MS}),
        (50, RECEIVER, "in", "", data(1, 1000) | CE_NOW),
        (50, RECEIVER, "ack_delay", "Delay", {"ack": 1001, "value_ns": 40 * MS}),
        (60, RECEIVER, "in", "", data(1001, 2000)),
        (60, RECEIVER, "ack_now", "CeChange", {"ack": 1001}),
        (60, RECEIVER, "out", "", ack(1001, flags=ACK | ECE)),
        (60, RECEIVER, decision[0], "CeChange", decision[1]),
        (110, SENDER, "in", "", ack(1001, flags=ACK | ECE, window_bytes=65535)),
        (200_000, SENDER, "timer_fire", "Rto", {}),
        end_ms=300,
    )


def test_a_forgotten_ack_leaves_the_receiver_waiting_for_another_segment() -> None:
    said = waits(stall(forgotten=True), 110_000, 200 * MS, 1)
    assert said[SENDER] == (
        "waits for an ACK of 2000 bytes from position 1001; cwnd is 3000 bytes; "
        "its retransmission timer fires at 200 ms"
    )
    assert said[RECEIVER] == (
        "has not acknowledged 2000 bytes up to position 3001; no timer is set: "
        "only another segment causes an ACK"
    )


def test_a_delayed_ack_names_its_timer() -> None:
    said = waits(stall(forgotten=False), 110_000, 30 * MS, 1001)
    assert (
        said[RECEIVER]
        == "has not acknowledged 2000 bytes up to position 2001; its delayed-ACK timer fires at 40 ms"
    )


def test_a_closed_window_a_full_cwnd_and_an_idle_application_are_told_apart() -> None:
    def sender(*rows: tuple[int, End, str, str, dict[str, Any]]) -> str:
        return waits(moments(*rows), MS, 2 * MS, 1)[SENDER]

    sent = (0, SENDER, "out", "", data(1, 1000))
    assert "cwnd of 1000 bytes is full" in sender((0, SENDER, "window", "ack", {"cwnd_bytes": 1000}), sent)
    assert "the receive window of 1000 bytes is full" in sender(
        sent, (1, SENDER, "in", "", ack(1, window_bytes=1000))
    )
    idle = "nothing is outstanding: it waits for data from its application"
    assert sender(sent, (1, SENDER, "in", "", ack(1001, window_bytes=1000))).startswith(f"{idle}; ")
    assert sender(sent, (1, SENDER, "in", "", ack(1001, window_bytes=0))).startswith(
        "nothing is outstanding: the receive window is closed"
    )
    assert sender(sent, (1, SENDER, "in", "", ack(1001, window_bytes=600))).startswith(
        f"{idle}, or for more than the receive window of 600 bytes"
    )


def test_data_above_a_gap_make_the_receiver_wait_for_the_gap() -> None:
    log = moments((0, RECEIVER, "in", "", data(1001, 1000)))
    assert waits(log, MS, 2 * MS, 1)[RECEIVER] == "waits for the gap from position 1 to 1001 to be filled"


def shown(log: Connection, base: int = 1) -> list[Line]:
    return lines(log, arrows(log), (0, log.end_ns), base, None)


def test_a_diagram_has_segments_decisions_and_what_was_forgotten() -> None:
    said = [(one.end.name, one.text) for one in shown(stall(forgotten=True))]
    assert said == [
        ("SENDER", "data 1:3001 in 2 segments"),
        ("RECEIVER", "data 1:1001 CE"),
        ("RECEIVER", "ACK 1001 may wait until 40 ms"),
        ("RECEIVER", "data 1001:3001"),
        ("RECEIVER", "ACK 1001 ECE (the CE mark changed)"),
        ("RECEIVER", "ACK 3001 is pending: not sent, no timer set"),
        ("SENDER", "ACK 1001 ECE"),
        ("SENDER", "the retransmission timer fires"),
    ]


def test_silence_is_one_gap_and_counts_positions_from_the_first_shown() -> None:
    log = stall(forgotten=True)
    gaps = [one for one in with_gaps(log, shown(log, 1001), 1001) if isinstance(one, Gap)]
    assert [(gap.start_ns, gap.end_ns) for gap in gaps] == [(110_000, 200 * MS), (200 * MS, 300 * MS)]
    assert "from position 1;" in gaps[0].waits[SENDER]


def test_a_long_diagram_keeps_both_ends_and_the_evidence() -> None:
    log = moments(*((n, SENDER, "out", "", data(1 + 3000 * n, 1000)) for n in range(300)))
    cut = shortened(shown(log), 30, frozenset({150}))
    places = [one.places[0] for one in cut if isinstance(one, Line)]
    assert places == [*range(10), *range(147, 154), *range(290, 300)]
    assert [one.count for one in cut if isinstance(one, Omitted)] == [137, 136]


def test_a_line_has_the_sack_blocks_of_its_ack_and_tells_a_syn_ack_from_a_syn() -> None:
    log = moments(
        (0, SENDER, "out", "", {"seq": 0, "len": 0, "flags": 2}),
        (10, RECEIVER, "out", "", {"seq": 0, "len": 0, "ack": 1, "flags": 18}),
        (20, RECEIVER, "retransmit", "", {"seq": 0, "len": 0, "ack": 1, "flags": 18}),
        (30, RECEIVER, "out", "", ack(1)),
        (30, RECEIVER, "sack", "", {"seq": 2001, "len": 1000}),
        (30, RECEIVER, "sack", "", {"seq": 4001, "len": 500}),
    )
    said = [one.text for one in lines(log, [], (0, MS), 1, None)]
    assert said == ["SYN", "SYN-ACK", "again: SYN-ACK", "ACK 1 SACK 2001:3001 4001:4501"]
