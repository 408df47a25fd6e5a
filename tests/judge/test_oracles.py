"""Each oracle finds its planted fault with its place, and finds nothing in a similar log without the fault."""

from pathlib import Path

import pytest

from tcpassay.errors import UserError
from tcpassay.judge import ORACLES, Severity, judge
from tcpassay.judge.registry import chosen
from written import ACK, FIN, Written, cited, ns, one

# A timeout although nothing was lost.

TIMEOUT = "timeout-without-loss"


def stalled() -> Written:
    """Two segments arrive; the second is never acknowledged, until the timer sends it again."""
    log = Written(duration=400).transfer(0, 10).waits(10.5, 50.5)
    log.data(10, 10.5, 10001).ack(10.5, 11, 11001)
    log.data(11, 11.5, 11001).event(11.5, 1, "ack_forget", "CeChange", ack=12001)
    log.set_rto(11, 211).fires(211)
    return log.data(211, 211.5, 11001, again=True).ack(211.5, 212, 12001)


def test_a_timeout_while_the_receiver_has_all_data_and_sends_nothing_is_a_fault_of_the_receiver(
    folder: Path,
) -> None:
    finding = one(stalled().judged(folder, TIMEOUT))
    assert finding.severity is Severity.ERROR
    assert finding.title == "timeout although nothing was lost"
    assert (finding.host, finding.flow) == ("receiver", "flow.0")
    assert (finding.start_ns, finding.end_ns) == (ns(11.5), ns(211))
    assert "1000 bytes of flow.0 outstanding (from position 11001)" in finding.text
    assert "199.5 ms" in finding.text
    assert "neither sent the ACK nor set a timer" in finding.text
    assert cited(finding) == [
        ("out", ns(10.5)),
        ("in", ns(11.5)),
        ("ack_forget", ns(11.5)),
        ("timer_fire", ns(211)),
        ("retransmit", ns(211)),
    ]


def test_evidence_rows_are_rows_of_the_file_with_their_values(folder: Path) -> None:
    log = stalled()
    finding = one(log.judged(folder, TIMEOUT))
    again = finding.events[-1]
    assert again.values == {"seq": 11001, "ack": 1, "len": 1000, "flags": 16}
    assert log.rows[again.index]["kind"] == "retransmit"


def test_a_timeout_after_a_loss_is_no_finding(folder: Path) -> None:
    log = Written(duration=400).transfer(0, 10)
    log.data(10, None, 10001).set_rto(10, 210).fires(210)
    log.data(210, 210.5, 10001, again=True).ack(210.5, 211, 11001)
    assert log.judged(folder, TIMEOUT) == []


def test_a_timeout_after_a_lost_ack_is_no_finding(folder: Path) -> None:
    log = Written(duration=400).transfer(0, 10)
    log.data(10, 10.5, 10001).ack(10.5, None, 11001).set_rto(10, 210).fires(210)
    log.data(210, 210.5, 10001, again=True).ack(210.5, 211, 11001)
    assert log.judged(folder, TIMEOUT) == []


def test_a_timeout_with_a_hole_is_not_reported_though_the_rest_arrived(folder: Path) -> None:
    log = Written(duration=400).transfer(0, 10)
    log.data(10, None, 10001).data(10, 10.6, 11001).ack(10.6, 11.1, 10001).set_rto(10, 210).fires(210)
    log.data(210, 210.5, 10001, again=True).ack(210.5, 211, 12001)
    assert log.judged(folder, TIMEOUT) == []


def test_a_timeout_while_data_wait_in_a_queue_says_that_the_rto_was_too_short(folder: Path) -> None:
    log = Written(duration=600).transfer(0, 10)
    log.data(10, 230, 10001).set_rto(10, 210).fires(210).data(210, 231, 10001, again=True)
    log.ack(230, 230.5, 11001).ack(231, 231.5, 11001)
    finding = one(log.judged(folder, TIMEOUT))
    assert finding.severity is Severity.WARNING
    assert finding.title == "timeout although nothing was lost: the RTO was too short"
    assert (finding.start_ns, finding.end_ns) == (ns(210), ns(230))


def test_a_timeout_just_before_the_ack_comes_says_that_the_rto_was_too_short(folder: Path) -> None:
    log = Written(duration=600).transfer(0, 10)
    log.data(10, 10.5, 10001).ack(10.5, 210.2, 11001).set_rto(10, 210).fires(210)
    log.data(210, 210.5, 10001, again=True).ack(210.5, 211, 11001)
    assert one(log.judged(folder, TIMEOUT)).severity is Severity.WARNING


def test_an_ack_of_the_retransmission_is_not_the_one_that_was_lost_however_soon_it_comes(
    folder: Path,
) -> None:
    # The data are large and take 0.5 ms, pure ACKs 0.1 ms: the answer comes sooner than any round trip before it.
    log = Written(duration=600).transfer(0, 10)
    log.data(10, 10.5, 10001).ack(10.5, None, 11001).set_rto(10, 210).fires(210)
    log.data(210, 210.1, 10001, again=True).ack(210.1, 210.2, 11001)
    assert log.judged(folder, TIMEOUT) == []


def test_a_short_retransmission_that_is_faster_than_any_long_segment_was_is_no_original(folder: Path) -> None:
    # Whole segments take 0.5 ms; the SYN shows that a short one takes less.
    log = (
        Written(duration=600)
        .segment(0, 0, "out", 0, 0, 0, 2)
        .segment(0.2, 1, "in", 0, 0, 0, 2)
        .transfer(1, 10)
    )
    log.data(20, None, 10001).data(30, 30.6, 10201, 800, again=True).set_rto(20, 220).fires(220)
    log.data(220, 220.2, 10001, 200, again=True).ack(220.2, 220.7, 11001)
    assert log.judged(folder, TIMEOUT) == []


def test_a_timeout_before_the_receivers_longest_ack_delay_is_a_fault_of_the_sender(
    folder: Path,
) -> None:
    log = Written(duration=600).transfer(0, 10)
    log.data(10, 10.5, 10001).waits(10.5, 210.5).set_rto(10, 210).fires(210)
    log.data(210, 210.5, 10001, again=True).ack(210.5, 211, 11001)
    finding = one(log.judged(folder, TIMEOUT))
    assert (finding.severity, finding.host) == (Severity.WARNING, "sender")
    assert finding.title == "timeout although nothing was lost: the RTO was too short"
    assert "delays its ACK until 210.5 ms" in finding.text
    assert ("ack_delay", ns(10.5)) in cited(finding)


def test_a_timeout_after_the_receivers_own_timer_was_due_is_still_the_receivers_error(folder: Path) -> None:
    log = Written(duration=600).transfer(0, 10)
    log.data(10, 10.5, 10001).waits(10.5, 50.5).set_rto(10, 210).fires(210)
    log.data(210, 210.5, 10001, again=True).ack(210.5, 211, 11001)
    finding = one(log.judged(folder, TIMEOUT))
    assert (finding.severity, finding.host) == (Severity.ERROR, "receiver")


def test_a_receiver_that_answers_without_the_data_delays_no_ack_and_has_not_kept_them(folder: Path) -> None:
    log = Written(duration=600).of_another_tcp(1).transfer(0, 10)
    log.stacks = [stack | {"shows": ["timer"]} for stack in log.stacks]
    log.data(10, 10.5, 10001).set_rto(10, 210).fires(210).data(210, 210.5, 10001, again=True)
    waited = one(log.ack(210.5, 211, 11001).judged(folder / "waits", TIMEOUT))
    assert (waited.severity, waited.host) == (Severity.WARNING, "sender")
    assert "delays its ACK until 510.5 ms" in waited.text
    # An ACK of the data before may have been due before these data came, as with marks that change.
    unchanged = one(log.ack(10.5, 11, 10001).judged(folder / "before", TIMEOUT))
    assert "delays its ACK until 510.5 ms" in unchanged.text
    log = Written(duration=600).of_another_tcp(1).transfer(0, 10)
    log.stacks = [stack | {"shows": ["timer"]} for stack in log.stacks]
    log.data(10, 10.8, 10001, 500).data(10, 10.5, 10501, 500).ack(10.8, 11, 10501).set_rto(11, 211).fires(211)
    log.data(211, 211.5, 10501, 500, again=True)
    answered = one(log.ack(211.5, 212, 11001).judged(folder / "answers", TIMEOUT))
    assert (answered.severity, answered.host) == (Severity.ERROR, "receiver")
    assert "receiver has not kept what arrived" in answered.text


def test_a_copy_that_the_path_made_does_not_hide_a_loss(folder: Path) -> None:
    log = Written(duration=400).transfer(0, 10).segment(5.6, 1, "in", 5001, 1000, 1)
    log.data(10, None, 10001).set_rto(10, 210).fires(210)
    log.data(210, 210.5, 10001, again=True).segment(210.6, 1, "in", 10001, 1000, 1).ack(210.6, 211, 11001)
    assert log.judged(folder, TIMEOUT) == []


def test_the_timer_of_a_tail_loss_probe_is_no_timeout(folder: Path) -> None:
    log = Written(duration=400).transfer(0, 10)
    log.data(10, 10.5, 10001).fires(20, "Tlp").data(20, 20.5, 10001, again=True).ack(20.5, 21, 11001)
    assert log.judged(folder, TIMEOUT) == []


def test_repeated_occurrences_in_a_flow_are_one_finding_with_their_number(folder: Path) -> None:
    log = stalled()
    log.data(212, 212.5, 12001).set_rto(212, 412).fires(412).data(412, 412.5, 12001, again=True)
    log.ack(412.5, 413, 13001)
    finding = one(log.judged(folder, TIMEOUT))
    assert finding.count == 2
    assert (finding.start_ns, finding.end_ns) == (ns(11.5), ns(412))
    assert "first of 2" in finding.text


# Silence of both sides.

SILENCE = "mutual-silence"


def test_silence_while_the_receiver_owes_an_ack_is_a_deadlock(folder: Path) -> None:
    finding = one(stalled().judged(folder, SILENCE))
    assert finding.title == "both sides silent with data outstanding: everything had arrived"
    assert (finding.start_ns, finding.end_ns) == (ns(11.5), ns(211))
    assert (finding.host, finding.severity) == ("receiver", Severity.ERROR)
    assert cited(finding) == [("in", ns(11.5)), ("retransmit", ns(211))]


def test_silence_after_a_loss_until_the_timer_fires_is_no_finding(folder: Path) -> None:
    log = Written(duration=400).transfer(0, 10).waits(9.5, 49.5)
    log.data(10, None, 10001).set_rto(10, 210).fires(210)
    log.data(210, 210.5, 10001, again=True).ack(210.5, 211, 11001)
    assert log.judged(folder, SILENCE) == []


def test_silence_with_nothing_outstanding_is_no_finding(folder: Path) -> None:
    log = Written(duration=9000).transfer(0, 10).transfer(5000, 3, first=10001)
    assert log.judged(folder, SILENCE) == []


def test_silence_beyond_the_time_of_a_timer_shows_that_it_did_not_fire(folder: Path) -> None:
    log = Written(duration=900).transfer(0, 10).data(10, None, 10001).set_rto(10, 210)
    finding = one(log.judged(folder, SILENCE))
    assert finding.title == "both sides silent with data outstanding: the retransmission timer did not fire"
    assert (finding.host, finding.start_ns, finding.end_ns) == ("sender", ns(10), ns(900))
    assert "was to fire at 210 ms" in finding.text
    assert cited(finding) == [("out", ns(10)), ("timer_set", ns(10))]


def test_silence_after_a_timer_fired_is_not_a_fault_of_the_timer(folder: Path) -> None:
    log = Written(duration=900).transfer(0, 10).waits(9.5, 49.5)
    log.data(10, None, 10001).set_rto(10, 210).fires(210)
    log.data(300, 300.5, 10001, again=True).ack(300.5, 301, 11001)
    assert log.judged(folder, SILENCE) == []


def test_each_receiver_is_held_to_its_own_delayed_ack_time(folder: Path) -> None:
    log = Written(duration=300).transfer(0, 10).event(5, 0, "ack_delay", "Delay", value_ns=ns(10))
    log.data(10, 10.5, 10001).waits(10.5, 50.5).ack(50.5, 51, 11001)
    assert log.judged(folder, SILENCE) == []


def test_a_host_that_has_stopped_owes_nothing(folder: Path) -> None:
    log = Written(duration=3000).transfer(0, 10).data(10, None, 10001).event(10, 0, "timer_cancel", "Rto")
    assert log.event(11, 0, "app", "reboot").judged(folder, SILENCE) == []


def test_silence_without_a_timer_is_a_deadlock_without_end(folder: Path) -> None:
    log = Written(duration=3000).transfer(0, 10).data(10, None, 10001).event(10, 0, "timer_cancel", "Rto")
    finding = one(log.judged(folder, SILENCE))
    assert finding.title == "both sides silent with data outstanding: no retransmission timer"
    assert "to the end of the run" in finding.text


def test_silence_after_the_connection_was_aborted_is_no_finding(folder: Path) -> None:
    log = Written(duration=3000).transfer(0, 10).data(10, None, 10001).event(10, 0, "timer_cancel", "Rto")
    log.event(11, 0, "state", "aborted: user timeout")
    assert log.judged(folder, SILENCE) == []


# An ACK beyond its limit.

LATE = "late-ack"


def test_an_ack_that_was_neither_sent_nor_timed_is_late(folder: Path) -> None:
    finding = one(stalled().judged(folder, LATE))
    assert (finding.start_ns, finding.end_ns) == (ns(11.5), ns(211.5))
    assert "neither sent nor timed" in finding.text
    assert "Elsewhere in this run the timer of this receiver waits 40 ms at most" in finding.text
    assert cited(finding) == [("in", ns(11.5)), ("ack_forget", ns(11.5)), ("out", ns(211.5))]


def test_an_ack_that_its_timer_sends_in_time_is_a_delayed_ack(folder: Path) -> None:
    log = Written().transfer(0, 10).data(10, 10.5, 10001).waits(10.5, 50.5)
    log.event(50.5, 1, "timer_fire", "DelayedAck").ack(50.5, 51, 11001)
    assert log.judged(folder, LATE) == []


def test_an_ack_after_half_a_second_is_late_even_if_its_timer_was_set_to_that_time(folder: Path) -> None:
    log = Written(2000).transfer(0, 10).data(10, 10.5, 10001).waits(10.5, 610.5).ack(610.5, 611, 11001)
    finding = one(log.judged(folder, LATE))
    assert "must be delayed by less than 500 ms" in finding.text
    assert "timer was set to 610.5 ms" in finding.text


def test_an_ack_that_never_comes_is_late_at_the_end_of_the_run(folder: Path) -> None:
    log = Written(2000).transfer(0, 10).data(10, 10.5, 10001)
    finding = one(log.judged(folder, LATE))
    assert (finding.start_ns, finding.end_ns) == (ns(10.5), ns(2000))
    assert "there was still no ACK of it" in finding.text


def test_a_run_that_ends_before_the_ack_is_due_has_no_finding(folder: Path) -> None:
    assert Written(400).transfer(0, 10).data(10, 10.5, 10001).judged(folder, LATE) == []


def test_several_arrivals_that_wait_for_one_ack_are_one_case(folder: Path) -> None:
    log = Written(2000).transfer(0, 10)
    log.data(10, 10.5, 10001).data(11, 11.5, 11001).data(12, 12.5, 12001).ack(900, 900.5, 13001)
    finding = one(log.judged(folder, LATE))
    assert finding.count == 1
    assert finding.start_ns == ns(10.5)


def test_a_refused_segment_is_owed_no_ack(folder: Path) -> None:
    log = Written(2000).transfer(0, 10).data(10, 10.5, 10001).event(10.5, 1, "refused", "paws")
    assert log.judged(folder, LATE) == []


# A small window after recovery.

WINDOW = "small-window-after-recovery"


def recovered(cwnd: int, to: str = "Open", why: str = "recovery point acknowledged") -> Written:
    log = Written().transfer(0, 10).event(10, 0, "congestion", "Open->Recovery: dupthresh")
    log.event(10, 0, "window", "enter", cwnd_bytes=5000, ssthresh_bytes=4000, flight_bytes=9000)
    log.segment(20, 0, "in", 1, 0, 9001)
    log.event(20, 0, "window", "leave", cwnd_bytes=cwnd, ssthresh_bytes=4000, flight_bytes=0)
    return log.event(20, 0, "congestion", f"Recovery->{to}: {why}")


def test_one_segment_on_leaving_recovery_is_too_small(folder: Path) -> None:
    finding = one(recovered(1000).judged(folder, WINDOW))
    assert "cwnd = 1000 bytes, 1.00 segments of 1000" in finding.text
    assert (finding.host, finding.start_ns) == ("sender", ns(20))
    assert cited(finding) == [("in", ns(20)), ("window", ns(20)), ("congestion", ns(20))]


def test_two_segments_on_leaving_recovery_are_enough(folder: Path) -> None:
    assert recovered(2000).judged(folder, WINDOW) == []


def test_a_byte_less_than_two_segments_is_too_small(folder: Path) -> None:
    assert one(recovered(1999).judged(folder, WINDOW)).severity is Severity.ERROR


def test_recovery_that_ends_in_a_timeout_may_have_one_segment(folder: Path) -> None:
    assert recovered(1000, to="Loss", why="rto").judged(folder, WINDOW) == []


def test_growth_after_leaving_does_not_hide_the_small_window(folder: Path) -> None:
    log = recovered(1000).event(20, 0, "window", "ack", cwnd_bytes=3000, flight_bytes=0)
    assert one(log.judged(folder, WINDOW)).count == 1


def test_a_window_that_marks_reduced_to_one_segment_may_stay_so_when_something_is_lost_too(
    folder: Path,
) -> None:
    log = Written().transfer(0, 10).event(9, 0, "congestion", "Open->CWR: ece")
    log.event(9, 0, "window", "enter", cwnd_bytes=1000, ssthresh_bytes=2000, flight_bytes=1000)
    log.event(10, 0, "congestion", "CWR->Recovery: rack").segment(20, 0, "in", 1, 0, 9001)
    log.event(20, 0, "congestion", "Recovery->Open: recovery point acknowledged")
    assert log.judged(folder, WINDOW) == []


# A fast retransmit of data that were only reordered.

NEEDLESS = "needless-fast-retransmit"


def reordered(first_came: float | None, again_came: float = 12.5) -> Written:
    """Segment 10001 is overtaken by three others, or lost; the third duplicate ACK makes it sent again at 12."""
    log = Written().transfer(0, 10)
    log.data(10, first_came, 10001)
    for i, seq in enumerate((11001, 12001, 13001)):
        log.data(10.1 + i / 10, 10.6 + i / 10, seq).ack(10.6 + i / 10, 11.1 + i / 10, 10001)
    log.event(12, 0, "congestion", "Disorder->Recovery: dupthresh").data(12, again_came, 10001, again=True)
    arrival = again_came if first_came is None else first_came
    return log.ack(arrival, arrival + 0.5, 14001)


def test_a_retransmission_of_what_had_arrived_late_is_needless(folder: Path) -> None:
    finding = one(reordered(11.4).judged(folder, NEEDLESS))
    assert finding.severity is Severity.WARNING
    assert "retransmitted position 10001 at 12 ms" in finding.text
    assert "it had arrived at 11.4 ms, 0.6 ms before" in finding.text
    assert cited(finding) == [
        ("out", ns(10)), ("in", ns(11.4)), ("congestion", ns(12)), ("retransmit", ns(12)),
    ]  # fmt: skip


def test_a_retransmission_of_what_was_under_way_is_needless(folder: Path) -> None:
    finding = one(reordered(12.3).judged(folder, NEEDLESS))
    assert "it was under way and arrived at 12.3 ms" in finding.text


def test_a_retransmission_of_what_was_lost_is_right(folder: Path) -> None:
    assert reordered(None).judged(folder, NEEDLESS) == []


def test_a_recovery_that_repairs_one_loss_may_send_more_than_that(folder: Path) -> None:
    log = reordered(None).data(12.1, 12.6, 11001, again=True)
    assert log.judged(folder, NEEDLESS) == []


def test_a_retransmission_of_two_segments_of_which_one_was_lost_is_right(folder: Path) -> None:
    log = Written().transfer(0, 10).data(10, 10.7, 10001).data(10.1, None, 11001).data(10.2, 10.8, 12001)
    log.event(12, 0, "congestion", "Disorder->Recovery: rack").data(12, 12.5, 10001, 2000, again=True)
    assert log.judged(folder, NEEDLESS) == []


def test_a_retransmission_after_a_timeout_is_no_fast_retransmit(folder: Path) -> None:
    log = reordered(11.4)
    log.rows = [row | {"why": "Open->Loss: rto"} if row["kind"] == "congestion" else row for row in log.rows]
    assert log.judged(folder, NEEDLESS) == []


def test_super_segments_and_packets_are_compared_by_their_bytes(folder: Path) -> None:
    log = Written().transfer(0, 10).segment(10, 0, "out", 10001, 4000, 1)
    for at, seq, ack in (
        (10.6, 11001, 10001),
        (10.7, 12001, 10001),
        (10.8, 13001, 10001),
        (10.9, 10001, 14001),
    ):
        log.segment(at, 1, "in", seq, 1000, 1).ack(at, at + 0.5, ack)
    log.event(12, 0, "congestion", "Open->Recovery: rack").data(12, 12.5, 10001, again=True)
    assert one(log.judged(folder, NEEDLESS)).count == 1


# Delivery once and in order.

DELIVERY = "delivery"


def test_an_ack_of_what_never_came_is_wrong(folder: Path) -> None:
    log = Written().transfer(0, 10).data(10, None, 10001).ack(10.5, 11, 11001)
    log.read = 10000
    finding = one(log.judged(folder, DELIVERY))
    assert finding.title == "bytes not delivered once and in order: acknowledged before it arrived"
    assert "up to position 11001 at 10.5 ms, but not all of the bytes before it arrived" in finding.text
    assert cited(finding) == [("out", ns(10.5))]


def test_an_ack_beyond_a_hole_is_wrong_until_the_hole_is_filled(folder: Path) -> None:
    log = Written().transfer(0, 10).data(10, None, 10001).data(10.1, 10.6, 11001).ack(10.6, 11, 12001)
    log.data(20, 20.5, 10001, again=True).ack(20.5, 21, 12001)
    log.read = 12000
    finding = one(log.judged(folder, DELIVERY))
    assert finding.start_ns == ns(10.6)
    assert "arrived only at 20.5 ms" in finding.text


def test_an_ack_that_goes_back_is_wrong(folder: Path) -> None:
    log = Written().transfer(0, 10).ack(10, 10.5, 9001)
    log.read = 10000
    finding = one(log.judged(folder, DELIVERY))
    assert finding.title == "bytes not delivered once and in order: acknowledgement taken back"
    assert "after it had acknowledged up to 10001 at 9.5 ms" in finding.text


def test_bytes_read_twice_are_too_many(folder: Path) -> None:
    log = Written().transfer(0, 10)
    log.read = 10001
    finding = one(log.judged(folder, DELIVERY))
    assert "read 10001 bytes of flow.0, but only 10000 had arrived" in finding.text


def closed(read: int, *, aborted: bool = False) -> Written:
    log = Written().transfer(0, 10).data(10, 10.5, 10001, 500, flags=ACK | FIN).ack(10.5, 11, 10502)
    if aborted:
        log.event(11, 1, "state", "aborted: reset by peer")
    log.read, log.ended = read, (ns(11), ns(11))
    return log


def test_a_closed_connection_has_delivered_everything(folder: Path) -> None:
    assert closed(10500).judged(folder, DELIVERY) == []


def test_a_closed_connection_that_kept_bytes_back_is_wrong(folder: Path) -> None:
    finding = one(closed(10400).judged(folder, DELIVERY))
    assert "after 10500 bytes had arrived at receiver, but its application read only 10400" in finding.text


def test_a_connection_that_was_aborted_owes_nothing(folder: Path) -> None:
    assert closed(10400, aborted=True).judged(folder, DELIVERY) == []


# All of them.


def test_a_healthy_run_has_no_findings(folder: Path) -> None:
    log = Written(duration=300).transfer(0, 200)
    log.read = 200_000
    assert judge(log.write(folder)) == []


def test_a_stall_is_seen_by_the_oracles_of_its_cause_and_of_its_effects(folder: Path) -> None:
    log = stalled()
    log.read = 12000
    assert [f.oracle for f in judge(log.write(folder))] == [
        "timeout-without-loss",
        "mutual-silence",
        "late-ack",
    ]


def test_a_log_without_rows_is_judged_without_findings(folder: Path) -> None:
    assert judge(Written().write(folder)) == []


def test_flows_are_judged_each_by_itself(folder: Path) -> None:
    """The same stall with both hosts in the other's place: the other flow is named."""
    log = stalled()
    log.rows = [row | {"host": 1 - row["host"], "flow": 1 - row["flow"]} for row in log.rows]
    found = judge(log.write(folder), oracles=[TIMEOUT, SILENCE, LATE])
    assert {f.flow for f in found} == {"flow.1"}
    assert {f.host for f in found} == {"sender"}


def test_rows_that_are_not_in_the_order_of_time_are_put_in_order(folder: Path) -> None:
    expected = stalled().judged(folder / "a", TIMEOUT)
    path = stalled().write(folder / "b", backwards=True)
    found = judge(path, oracles=[TIMEOUT])
    assert [(f.start_ns, f.end_ns, f.text) for f in found] == [
        (f.start_ns, f.end_ns, f.text) for f in expected
    ]


@pytest.mark.parametrize("oracle", ORACLES.values(), ids=lambda oracle: oracle.name)
def test_every_oracle_says_why_it_must_hold_by_rfc_and_how_it_can_be_wrong(oracle: object) -> None:
    assert oracle in ORACLES.values()
    assert "RFC" in oracle.why  # type: ignore[attr-defined]
    assert len(oracle.asserts) > 60  # type: ignore[attr-defined]
    assert len(oracle.evidence) > 60  # type: ignore[attr-defined]
    assert len(oracle.wrong_when) > 60  # type: ignore[attr-defined]


def test_an_unknown_oracle_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UserError, match="`timeouts` is not an oracle; allowed are timeout-without-loss, "):
        chosen(["timeouts"])


def test_a_replay_command_is_part_of_the_finding(folder: Path) -> None:
    stalled().write(folder)
    found = judge(folder, oracles=[TIMEOUT], replay="tcpassay replay results/x abc 1")
    assert found[0].replay == "tcpassay replay results/x abc 1"


def test_a_needless_retransmission_tells_whether_its_reduction_was_undone(folder: Path) -> None:
    stays = one(reordered(11.4).event(13, 0, "congestion", "Recovery->Open: acked").judged(folder, NEEDLESS))
    assert stays.text.endswith("did nothing but reduce the window.")


def test_a_needless_retransmission_whose_reduction_was_undone_says_when(folder: Path) -> None:
    undone = one(
        reordered(11.4).event(13, 0, "congestion", "Recovery->Open: undo: dsack").judged(folder, NEEDLESS)
    )
    assert undone.text.endswith("did nothing; the reduction of the window was undone at 13 ms.")


def test_a_window_that_is_what_it_was_before_was_undone_where_no_reason_is_given(folder: Path) -> None:
    for cwnd, end in ((20_000, "undone at 13 ms."), (10_000, "but reduce the window.")):
        log = (
            reordered(11.4).event(9.5, 0, "window", cwnd_bytes=20_000).event(13, 0, "window", cwnd_bytes=cwnd)
        )
        log.event(13, 0, "congestion", "Recovery->Open: kernel")
        assert one(log.judged(folder, NEEDLESS)).text.endswith(end)
