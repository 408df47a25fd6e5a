"""The rules for logs of kernels, which have the windows that segments meet and no decisions.

Each rule finds its fault, and is quiet about the healthy neighbour of that fault.
"""

from pathlib import Path

import pytest

from tcpassay.judge import Finding, Severity, unjudged
from tcpassay.recording import Recording
from written import ACK, Written

GROWTH = "window-growth"
PROBE = "tail-loss-probe"
TIMER = "retransmission-timer"


def titles(findings: list[Finding]) -> list[str]:
    return [one.title.rpartition(": ")[2] for one in findings if one.severity is not Severity.NOTE]


def kernel(duration: float = 5000, cc: str = "reno", written: int = 1 << 40, **case: str) -> Written:
    """A connection of a kernel whose application writes without end, or what is `written` at first."""
    log = Written(duration).of_a_kernel()
    log.cc = cc
    log.case = {"stack.profile": "linux", "stack.cc": cc} | {
        name.replace("__", "."): value for name, value in case.items()
    }
    for host in (0, 1):
        log.event(0, host, "state", "SynSent->Established")
    return log.event(0.1, 0, "app", "write", value_ns=written)


def met(log: Written, at: float, segments: float, threshold: int | None = None) -> Written:
    """The window that a segment meets."""
    limit = None if threshold is None else threshold * 1000
    return log.event(
        at, 0, "window", "met by a segment", cwnd_bytes=round(segments * 1000), ssthresh_bytes=limit
    )


def answer(log: Written, at: float, ack: int) -> Written:
    """An ACK that reaches the sender, with a large window."""
    log.event(at - 5, 1, "out", seq=1, len=0, ack=ack, flags=ACK, window_bytes=4_000_000)
    return log.event(at, 0, "in", seq=1, len=0, ack=ack, flags=ACK, window_bytes=4_000_000)


def flights(log: Written, sizes: list[int], start: float = 10.0, rtt: float = 10.0) -> int:
    """Flights of so many segments, each acknowledged as a whole after a round trip. Returns the next position."""
    seq = 1
    for i, size in enumerate(sizes):
        at = start + i * rtt
        for _ in range(size):
            log.data(at, at + rtt / 2, seq)
            seq += 1000
        answer(log, at + rtt, seq)
    return seq


def test_a_window_that_is_full_and_does_not_grow_in_slow_start_is_found(folder: Path) -> None:
    log = met(kernel(), 15, 10)
    flights(log, [10] * 10)
    assert titles(log.judged(folder, GROWTH)) == ["slow start without growth"]


def test_the_window_that_a_reduction_leaves_is_known_after_the_next_arrival(folder: Path) -> None:
    log = kernel()
    log.event(12, 0, "congestion", "Open->CWR: kernel")
    met(log, 15, 2, 13)
    flights(log, [2, 13])
    log.event(20, 0, "congestion", "CWR->Open: kernel")
    met(log, 30, 13, 13)
    assert titles(log.judged(folder, GROWTH)) == []


def test_a_window_that_doubles_in_slow_start_is_right(folder: Path) -> None:
    log = kernel()
    flights(log, [10, 20, 40, 80])
    for i, window in enumerate([10, 20, 40, 80]):
        met(log, 20 + 10 * i, window)
    assert titles(log.judged(folder, GROWTH)) == []


def test_slow_start_that_adds_more_than_was_acknowledged_is_found(folder: Path) -> None:
    log = kernel()
    flights(log, [10, 20, 20])
    met(met(log, 20, 10), 30, 35)
    assert titles(log.judged(folder, GROWTH)) == ["slow start adds more than was acknowledged"]


def test_a_window_of_zero_is_found(folder: Path) -> None:
    log = met(kernel(), 20, 0)
    flights(log, [10, 10])
    assert "a congestion window below one segment" in titles(log.judged(folder, GROWTH))


@pytest.mark.parametrize(("sent", "found"), [(30, ["data beyond the congestion window"]), (12, [])])
def test_data_beyond_the_window_are_found_where_no_probe_explains_them(
    sent: int, found: list[str], folder: Path
) -> None:
    log = met(kernel(), 20, 10, 5)
    flights(log, [10, sent])
    assert titles(log.judged(folder, GROWTH)) == found


@pytest.mark.parametrize(("grows", "found"), [(0, ["a full window grows too slowly"]), (1, [])])
@pytest.mark.parametrize("full", [True, False])
def test_a_full_window_grows_by_a_segment_a_round_trip(
    grows: int, found: list[str], folder: Path, *, full: bool
) -> None:
    windows = [10 + grows * i for i in range(6)]
    log = kernel()
    flights(log, [window if full else window - 1 for window in windows])
    for i, window in enumerate(windows):
        met(log, 20 + 10 * i, window, 5)
    assert titles(log.judged(folder, GROWTH)) == (found if full else [])


@pytest.mark.parametrize(
    ("written", "found"), [(7000, ["a window grows that the application does not fill"]), (1 << 40, [])]
)
def test_a_window_that_the_application_does_not_fill_does_not_grow(
    written: int, found: list[str], folder: Path
) -> None:
    log = kernel(written=written)
    flights(log, [7] * 10)
    for i in range(10):
        met(log, 20 + 10 * i, 12 if i < 9 else 13, 5)
        log.event(20 + 10 * i, 0, "app", "write", value_ns=7000)
    assert titles(log.judged(folder, GROWTH)) == found


@pytest.mark.parametrize(("sends", "found"), [(True, ["an unused window grows"]), (False, [])])
def test_a_window_is_unused_if_its_sender_sends_and_does_not_fill_it(
    found: list[str], folder: Path, *, sends: bool
) -> None:
    # Linux looks at each transmission how much of the window is used (`tcp_cwnd_validate`); ACKs let it grow until
    # the next one.
    log = kernel()
    seq = flights(log, [10] * 8)
    for i in range(10):
        log.data(90, 95, seq + i * 1000)
    for i in range(1, 10):
        met(log, 100 + i / 10, 25 + i)
        answer(log, 100 + i / 10, seq + i * 1000)
        if sends:
            log.data(100 + i / 10, 106, seq + 9000 + i * 1000)
    assert titles(log.judged(folder, GROWTH)) == found


@pytest.mark.parametrize(("sent", "found"), [(30, ["no restart window after idle"]), (12, [])])
def test_after_an_idle_time_the_restart_window_is_kept(sent: int, found: list[str], folder: Path) -> None:
    log = kernel()
    for i, window in enumerate([10, 20, 40]):
        met(log, 20 + 10 * i, window)
    seq = flights(log, [10, 20, 40])
    for i in range(sent):
        log.data(2000, 2005, seq + i * 1000)
    assert titles(log.judged(folder, GROWTH)) == found


def cubic(*, busy: bool) -> Written:
    """A reduction to ten segments, and three seconds later 20 segments in round trips of 10 ms."""
    log = kernel(cc="cubic", stack__slow_start_after_idle="off")
    seq = flights(log, [10, 10])
    met(log, 20, 20)
    log.event(30, 0, "congestion", "Open->Recovery: kernel").event(
        31, 0, "congestion", "Recovery->Open: kernel"
    )
    met(log, 41, 10, 10)
    at, window = 41.0, 10.0
    log.data(31, 36, seq)
    answer(log, 41, seq + 1000)
    seq += 1000
    if busy:
        # One segment is always outstanding.
        for i in range(300):
            log.data(50 + 10 * i, 55 + 10 * i, seq)
            answer(log, 59 + 10 * i, seq + 1000)
            seq += 1000
    at = 3100.0
    while window < 20:
        for _ in range(int(window)):
            log.data(at, at + 5, seq)
            seq += 1000
        answer(log, at + 10, seq)
        at += 10
        window *= 1.3
        met(answer(log, at + 0.5, seq), at + 0.5, int(window), int(window))
        at += 1
    return log


def test_an_idle_time_does_not_let_cubic_grow(folder: Path) -> None:
    assert titles(cubic(busy=False).judged(folder, GROWTH)) == ["the window exceeds the CUBIC function"]


def test_time_in_which_data_are_outstanding_lets_cubic_grow(tmp_path: Path) -> None:
    assert "the window exceeds the CUBIC function" not in titles(
        cubic(busy=True).judged(tmp_path / "busy", GROWTH)
    )


@pytest.mark.parametrize(("last", "exceeds"), [(22, False), (40, True)])
def test_after_an_undone_timeout_and_an_idle_time_cubic_returns_to_its_window(
    last: int, folder: Path, *, exceeds: bool
) -> None:
    # `bictcp_state` forgets the maximum with the timeout; the epoch that follows the undo began with 20 segments.
    log = kernel(cc="cubic")
    seq = flights(log, [10, 10])
    met(log, 20, 20)
    log.event(31, 0, "congestion", "Open->Loss: kernel").event(32, 0, "congestion", "Loss->Open: kernel")
    at = 40.0
    for window, threshold in [(20, 20), (20, 20), (10, 15), (15, 15), (last, 15)]:
        at += 1000 if window == 10 else 10
        for _ in range(20):
            log.data(at - 10, at - 5, seq)
            seq += 1000
        met(answer(log, at, seq), at, window, threshold)
    found = titles(log.judged(folder, GROWTH))
    assert ("the window exceeds the CUBIC function" in found) == exceeds


@pytest.mark.parametrize(("trip", "found"), [(0.3, []), (10, ["the window exceeds the CUBIC function"])])
def test_cubic_grows_by_half_in_each_round_trip_of_a_tick(
    trip: float, found: list[str], folder: Path
) -> None:
    log = kernel(cc="cubic")
    log.data(0.2, 0.2 + trip / 2, 1)
    answer(log, 5.2 + trip, 1001)
    log.event(6, 0, "congestion", "Open->CWR: kernel")
    met(log, 6.1, 4, 4)
    answer(log, 7, 1001)
    log.event(7.05, 0, "congestion", "CWR->Open: kernel")
    at, seq = 10.0, 1001
    for window in (4, 6, 9, 13, 19):
        met(log, at, window, 4)
        for _ in range(window):
            log.data(at, at + trip / 2, seq)
            seq += 1000
        at += trip
        log.event(at - trip / 2, 1, "out", seq=1, len=0, ack=seq, flags=ACK, window_bytes=4_000_000)
        log.event(at, 0, "in", seq=1, len=0, ack=seq, flags=ACK, window_bytes=4_000_000)
    assert titles(log.judged(folder, GROWTH)) == found


def probes(*at: float, tail: int = 1) -> Written:
    """The tail of a flight is lost, and its last segment sent again as a probe at these times."""
    log = kernel()
    seq = flights(log, [10, 10])
    for i in range(tail):
        log.data(40, None, seq + 1000 * i)
    seq += 1000 * (tail - 1)
    for time in at:
        log.event(time, 0, "retransmit", "tail loss probe", seq=seq, len=1000, ack=1, flags=ACK)
    return log


def test_a_second_probe_before_an_answer_is_found(folder: Path) -> None:
    assert titles(probes(60, 90).judged(folder, PROBE)) == [
        "a second probe before the first was acknowledged"
    ]


def test_one_probe_and_then_a_timeout_are_right(folder: Path) -> None:
    assert titles(probes(60).fires(280).judged(folder, PROBE)) == []


@pytest.mark.parametrize(("at", "found"), [(270, []), (290, ["a probe too late"])])
def test_a_probe_comes_two_round_trips_and_the_delay_of_an_ack_after_the_last_transmission(
    at: float, found: list[str], folder: Path
) -> None:
    assert titles(probes(at).judged(folder, PROBE)) == found


@pytest.mark.parametrize(("at", "found"), [(64, []), (70, ["a probe too late"])])
def test_with_several_segments_outstanding_a_probe_does_not_wait_for_a_delayed_ack(
    at: float, found: list[str], folder: Path
) -> None:
    assert titles(probes(at, tail=2).judged(folder, PROBE)) == found


@pytest.mark.parametrize(
    ("at", "acked", "found"), [(150, True, ["a probe too early"]), (262, True, []), (150, False, [])]
)
def test_an_ack_of_new_data_sets_the_timer_of_the_probe_anew(
    at: float, found: list[str], folder: Path, *, acked: bool
) -> None:
    # SRTT is 10 ms and the smallest RTO 200 ms. What is armed by a transmission ends with the RTO of the first segment.
    log = kernel()
    seq = flights(log, [10, 10])
    log.data(40, 45, seq)
    if acked:
        log.data(40, None, seq + 1000)
        answer(log, 50, seq + 1000)
        seq += 1000
    log.event(at, 0, "retransmit", "tail loss probe", seq=seq, len=1000, ack=1, flags=ACK)
    found_there = titles(log.judged(folder, PROBE))
    assert [title for title in found_there if "early" in title] == found


@pytest.mark.parametrize(("batch", "found"), [(True, []), (False, ["acknowledged data are sent again"])])
def test_of_acks_that_arrive_together_the_first_one_may_cause_a_retransmission(
    found: list[str], folder: Path, *, batch: bool
) -> None:
    # A kernel logs arrivals at its device, before TCP processes the first one.
    log = kernel()
    seq = flights(log, [10, 10])
    log.data(40, None, seq).data(40, None, seq + 1000).fires(260)
    log.event(260, 0, "congestion", "Open->Loss: kernel")
    log.data(260, 265, seq, again=True)
    answer(log, 270, seq + 1000)
    answer(log, 270 if batch else 269, seq + 2000)
    log.data(270, 275, seq + 1000, again=True)
    assert titles(log.judged(folder, "loss-detection")) == found


@pytest.mark.parametrize(("at", "found"), [(150, ["the timer fired too early"]), (250, [])])
def test_a_timeout_comes_srtt_and_the_smallest_rto_after_the_first_segment_was_sent(
    at: float, found: list[str], folder: Path
) -> None:
    log = kernel()
    log.data(40, None, flights(log, [10, 10]))
    assert titles(log.fires(at).judged(folder, TIMER)) == found


@pytest.mark.parametrize("answers", [False, True])
@pytest.mark.parametrize(
    ("at", "found"), [((60,), []), ((60, 90), ["a second probe before the first was acknowledged"])]
)
def test_a_second_segment_beyond_a_full_window_is_a_second_probe(
    at: tuple[float, ...], found: list[str], folder: Path, *, answers: bool
) -> None:
    # Data of the peer that acknowledge nothing do not change this.
    log = met(met(kernel(), 20, 10), 30, 10)
    seq = una = flights(log, [10, 10])
    for time in [40.0] * 10 + list(at):
        if answers and time > 40:
            read = 1 + 1000 * at.index(time)
            log.event(time - 2, 0, "in", seq=read, len=1000, ack=una, flags=ACK, window_bytes=4_000_000)
        log.data(time, None, seq)
        seq += 1000
    assert titles(log.judged(folder, PROBE)) == found


def test_a_timeout_without_a_probe_before_it_is_found(folder: Path) -> None:
    assert titles(probes().fires(260).judged(folder, PROBE)) == ["a timeout without a probe before it"]


@pytest.mark.parametrize(("at", "found"), [(270, []), (600, ["the timer fired too late"])])
def test_the_first_timeout_comes_an_rto_after_the_last_progress(
    at: float, found: list[str], folder: Path
) -> None:
    assert titles(probes(60).fires(at).judged(folder, TIMER)) == found


@pytest.mark.parametrize(("at", "found"), [(300, ["connection given up too early"]), (800, [])])
def test_a_connection_is_given_up_after_its_user_timeout(at: float, found: list[str], folder: Path) -> None:
    log = kernel(app__user_timeout="700ms")
    seq = flights(log, [10, 10])
    log.data(40, None, seq).event(at, 0, "state", "Established->Closed")
    assert titles(log.judged(folder, TIMER)) == found


@pytest.mark.parametrize(("at", "found"), [(1010, []), (1400, ["connection given up too late"])])
@pytest.mark.parametrize("answered", [True, False])
def test_a_connection_whose_peer_keeps_its_window_closed_is_given_up_after_its_user_timeout(
    at: float, found: list[str], folder: Path, *, answered: bool
) -> None:
    log = kernel(app__user_timeout="700ms")
    seq = flights(log, [10, 10])
    for probe in (300, 700):
        log.event(probe, 0, "out", seq=seq - 1, len=0, ack=1, flags=ACK)
    if answered:
        log.event(720, 0, "in", seq=1, len=0, ack=seq, flags=ACK, window_bytes=5_000_000)
    log.event(at, 0, "state", "Established->Closed")
    assert titles(log.judged(folder, TIMER)) == ([] if answered else found)


def sacked(log: Written, at: float, ack: int, start: int, end: int) -> Written:
    answer(log, at, ack)
    return log.event(at, 0, "sack", seq=start, len=end - start)


def two_holes() -> tuple[Written, int]:
    """Of twelve segments the first and the fourth are lost, and recovery sends the first again; and its position."""
    log = kernel()
    seq = flights(log, [10, 10])
    for i in range(12):
        log.data(40, None if i in {0, 3} else 45, seq + i * 1000)
    sacked(log, 50, seq, seq + 4000, seq + 10_000).event(50, 0, "congestion", "Open->Recovery: kernel")
    return log.data(50, 55, seq, again=True), seq


@pytest.mark.parametrize("repaired", [False, True])
def test_new_data_before_a_hole_that_is_known_to_be_lost_are_found(folder: Path, *, repaired: bool) -> None:
    log, seq = two_holes()
    if repaired:
        log.data(50.2, 55, seq + 3000, again=True)
    sacked(log, 60.1, seq + 3000, seq + 4000, seq + 12_000)
    log.data(90, 95, seq + 12_000)
    found = titles(log.judged(folder, "loss-detection"))
    assert found == ([] if repaired else ["new data before what is lost"])


@pytest.mark.parametrize(("at", "found"), [(20.0, []), (45.0, ["the sender pauses although it may send"])])
def test_a_sender_that_may_send_does_so(at: float, found: list[str], folder: Path) -> None:
    log = met(kernel(), 20, 20, 20)
    seq = flights(log, [20])
    for i in range(20):
        log.data(20 if i < 5 else at, max(at, 20) + 5, seq + i * 1000)
    answer(log, 60, seq + 20_000)
    assert titles(log.judged(folder, "idle-with-room")) == found


@pytest.mark.parametrize(
    ("late", "found"), [(0.0, []), (0.9, ["one of the first duplicate ACKs is delayed"])]
)
def test_the_first_duplicate_acks_leave_at_once(late: float, found: list[str], folder: Path) -> None:
    log = kernel()
    seq = flights(log, [10])
    log.data(40, None, seq)
    for i in range(1, 4):
        log.data(40 + i, 45 + i, seq + i * 1000)
        log.event(45 + i + late, 1, "out", seq=1, len=0, ack=seq, flags=ACK, window_bytes=100_000)
        log.event(45 + i + late, 1, "sack", seq=seq + 1000, len=i * 1000)
    assert titles(log.judged(folder, "ack-timing")) == found


@pytest.mark.parametrize(
    ("step", "found"), [(0, []), (500, ["ACKs of data out of order announce different windows"])]
)
def test_without_sack_duplicate_acks_have_one_window(step: int, found: list[str], folder: Path) -> None:
    log = kernel(stack__sack="off")
    seq = flights(log, [10])
    log.data(40, None, seq)
    for i in range(1, 10):
        log.data(40 + i, 45 + i, seq + i * 1000)
        log.event(45 + i, 1, "out", seq=1, len=0, ack=seq, flags=ACK, window_bytes=100_000 + i * step)
    assert titles(log.judged(folder, "ack-timing")) == found


@pytest.mark.parametrize(
    ("late", "found"), [(0.0, []), (20.0, ["a change of CE is not acknowledged at once"])]
)
def test_a_change_of_ce_is_acknowledged_at_once(late: float, found: list[str], folder: Path) -> None:
    log = kernel(cc="dctcp", stack__ecn="dctcp")
    log.event(0, 0, "out", seq=0, len=0, flags=0xC2).event(0.01, 1, "in", seq=0, len=0, flags=0xC2)
    log.event(0.01, 1, "out", seq=0, len=0, ack=1, flags=0x52).event(
        0.02, 0, "in", seq=0, len=0, ack=1, flags=0x52
    )
    log.event(1, 1, "in", seq=1, len=1000, ack=1, flags=ACK)
    log.event(1, 1, "out", seq=1, len=0, ack=1001, flags=ACK, window_bytes=100_000)
    log.event(2, 1, "in", seq=1001, len=1000, ack=1, flags=ACK, ce=True)
    log.event(2 + late, 1, "out", seq=1, len=0, ack=2001, flags=ACK | 0x40, window_bytes=100_000)
    assert titles(log.judged(folder, "ecn")) == found


@pytest.mark.parametrize(
    ("late", "missing", "found"),
    [(40.0, False, ["both ends wait for a delayed ACK"]), (40.0, True, []), (0.0, False, [])],
)
def test_a_sender_that_cannot_go_on_does_not_wait_for_a_delayed_ack(
    late: float, found: list[str], folder: Path, *, missing: bool
) -> None:
    log = kernel()
    seq = flights(log, [10])
    log.data(40, 45, seq)
    if missing:
        log.data(40, None, seq + 1000)
    log.event(45 + late, 1, "out", seq=1, len=0, ack=seq + 1000, flags=ACK, window_bytes=100_000)
    log.event(50 + late, 0, "in", seq=1, len=0, ack=seq + 1000, flags=ACK, window_bytes=100_000)
    assert titles(log.judged(folder, "ack-timing")) == found


@pytest.mark.parametrize(
    ("rest", "lowat", "found"),
    [(30.0, "16KB", ["the sender pauses although it may send"]), (30.0, "off", []), (2.0, "16KB", [])],
)
def test_an_endless_sender_is_woken_when_little_is_unsent(
    rest: float, lowat: str, found: list[str], folder: Path
) -> None:
    log = kernel(written=25_000, app__notsent_lowat=lowat)
    met(log, 19, 20, 20)
    seq = flights(log, [20])
    for i in range(5):
        log.data(20, 25, seq + i * 1000)
    log.event(20 + rest, 0, "app", "write", value_ns=15_000)
    for i in range(5, 20):
        log.data(20 + rest, 25 + rest, seq + i * 1000)
    answer(log, 70, seq + 20_000)
    assert titles(log.judged(folder, "idle-with-room")) == found


def test_an_oracle_without_its_trace_events_says_whether_the_kernel_has_them_or_did_not_record_all(
    tmp_path: Path,
) -> None:
    def reasons(folder: Path, log: Written) -> tuple[str, str]:
        log.counters["run"]["traced_windows"] = 0
        lacks = unjudged(Recording.open(log.write(folder)))
        return lacks["small-window-after-recovery"], lacks["mutual-silence"]

    never = "a kernel's log has no `timer_set`"
    assert reasons(tmp_path / "absent", kernel()) == ("a kernel's log has no `window`", never)
    incomplete = kernel()
    incomplete.counters["run"]["trace_unrecorded"] = 7
    # A kernel has no event for its timers, whatever it records.
    assert reasons(tmp_path / "incomplete", incomplete) == (
        "the log has no `window`: the kernel has counted trace events that it did not record",
        never,
    )
