"""The sender of the model, computed anew: each rule finds its fault in a hand-written log, and nothing without it."""

from pathlib import Path

import pytest
from test_data_plane import Log, check, opened

from written import ACK, MSS, Written, ns


def fresh(**case: str) -> Written:
    """An open connection of profile `rfc`, whose first segment took 100 ms; SRTT is 100 ms, the RTO 500 ms."""
    log = opened(Written(3000))
    log.case |= {"stack.profile": "rfc", "stack.timestamps": "off", "stack.sack": "on", "app.nodelay": "on"}
    log.case |= {name.replace("__", ".", 1): value for name, value in case.items()}
    window(log, 0, 60_000, 1)
    log.event(0, 0, "app", "write", value_ns=MSS).data(0, 50, 1).set_rto(0, 1000)
    log.event(50, 1, "out", seq=1, ack=1 + MSS, len=0, flags=ACK)
    window(log, 100, 60_000, 1 + MSS)
    return log.event(100, 0, "rtt", value_ns=ns(100), srtt_ns=ns(100), rto_ns=ns(500))


def window(log: Written, at: float, size: int, ack: int) -> Written:
    """An ACK with a window arrives at the sender."""
    return log.event(at, 0, "in", seq=1, ack=ack, len=0, flags=ACK, window_bytes=size)


def cwnd(log: Written, at: float, why: str, size: int, ssthresh: int = 4 * MSS) -> Written:
    return log.event(at, 0, "window", why, cwnd_bytes=size, ssthresh_bytes=ssthresh, flight_bytes=0)


def timer(log: Written, at: float, name: str, due: float) -> Written:
    return log.event(at, 0, "timer_set", name, value_ns=ns(due))


def written(log: Written, at: float, size: int) -> Written:
    return log.event(at, 0, "app", "write", value_ns=size)


def single_probe(*, wrong: bool) -> Written:
    """With one segment in flight the probe waits for two round trips and the delay of an ACK: 400 ms."""
    log = written(fresh(stack__tlp="on"), 200, MSS).data(200, None, 1001).set_rto(200, 700)
    return timer(log, 200, "Tlp", 400 if wrong else 600)


def corked(*, wrong: bool) -> Written:
    return timer(written(fresh(app__cork="on"), 200, 100), 200, "Cork", 225 if wrong else 400)


def corked_again(*, wrong: bool) -> Written:
    """A second write, at 250 ms, sets the timer of 200 ms again, or does not."""
    log = written(timer(written(fresh(app__cork="on"), 200, 100), 200, "Cork", 400), 250, 100)
    return timer(log, 250, "Cork", 450) if wrong else log


def first_window_probe(*, wrong: bool) -> Written:
    """The window is closed; the first probe waits for the RTO."""
    log = written(window(fresh(), 200, 0, 1001), 200, MSS)
    return timer(log, 200, "Persist", 450 if wrong else 700)


def second_window_probe(*, wrong: bool) -> Written:
    """The wait of 500 ms doubles."""
    log = timer(written(window(fresh(), 200, 0, 1001), 200, MSS), 200, "Persist", 700).fires(700, "Persist")
    log.event(700, 0, "out", seq=1000, ack=1, len=0, flags=ACK)
    return timer(log, 700, "Persist", 1200 if wrong else 1700)


def small_window(*, wrong: bool) -> Written:
    """The window has 400 bytes; when the timer fires they are sent."""
    log = timer(written(window(fresh(), 200, 400, 1001), 200, MSS), 200, "Persist", 700).fires(700, "Persist")
    if not wrong:
        log.event(700, 0, "out", seq=1001, ack=1, len=400, flags=ACK)
    return written(log, 710, 100)


def other_probe(*, wrong: bool) -> Written:
    """A probe of a closed window has the position before the first unacknowledged one, and no data."""
    log = timer(written(window(fresh(), 200, 0, 1001), 200, MSS), 200, "Persist", 700).fires(700, "Persist")
    return log.event(700, 0, "out", seq=1001 if wrong else 1000, ack=1, len=0, flags=ACK)


def linux_timer(*, wrong: bool) -> Written:
    """The RTO of 500 ms from 200 ms on: 701 ms, in steps of 8 ms from 63 ticks on 704 ms."""
    log = written(fresh(stack__profile="linux"), 200, MSS).data(200, None, 1001)
    return log.set_rto(200, 640 if wrong else 704)


def inflated(*, wrong: bool) -> Written:
    """Three duplicates begin a recovery: the window is ssthresh and three segments."""
    log = cwnd(written(fresh(stack__sack="off"), 200, 8 * MSS), 200, "ack", 8 * MSS)
    for i in range(8):
        log.data(200, None, 1001 + MSS * i)
    for at in (300, 301, 302):
        window(log, at, 60_000, 1001)
    log.event(300, 0, "congestion", "Open->Disorder: duplicate ACK")
    log.event(302, 0, "lost", "dupthresh", seq=1001, len=MSS)
    cwnd(log, 302, "enter", 4 * MSS).event(302, 0, "congestion", "Disorder->Recovery: dupthresh")
    cwnd(log, 302, "enter", (4 if wrong else 7) * MSS)
    return log.segment(302, 0, "retransmit", 1001, MSS, 1)


def pauses(*, wrong: bool) -> Written:
    """The window holds five segments; four, or five, are sent."""
    log = cwnd(written(fresh(), 200, 10 * MSS), 200, "ack", 5 * MSS)
    for i in range(4 if wrong else 5):
        log.data(200, None, 1001 + MSS * i)
    return log.event(210, 0, "app", "write", value_ns=1)


def too_much(*, wrong: bool) -> Written:
    log = cwnd(written(fresh(), 200, 10 * MSS), 200, "ack", 5 * MSS)
    for i in range(6 if wrong else 5):
        log.data(200, None, 1001 + MSS * i)
    return log


def short(*, wrong: bool) -> Written:
    log = cwnd(written(fresh(), 200, 10 * MSS), 200, "ack", 5 * MSS)
    return log.data(200, None, 1001, 700 if wrong else MSS)


def lost_waits(*, wrong: bool) -> Written:
    """Without SACK the window of the recovery has room; what is lost is sent at once, or not."""
    log = inflated(wrong=False)
    window(log, 400, 60_000, 3001).event(400, 0, "lost", "newreno", seq=3001, len=MSS)
    cwnd(log, 400, "newreno", 8 * MSS)
    if not wrong:
        log.segment(400, 0, "retransmit", 3001, MSS, 1)
    return window(log, 410, 60_000, 3001)


CASES: list[tuple[str, Log]] = [
    ("the probe timer is set for another time", single_probe),
    ("a corked segment is held for another time", corked),
    ("the time of a corked segment begins anew", corked_again),
    ("the timer of window probes is set for another time", first_window_probe),
    ("the timer of window probes is set for another time", second_window_probe),
    ("the timer of window probes fires and nothing is sent", small_window),
    ("a window probe with other contents", other_probe),
    ("the retransmission timer counts from another time", linux_timer),
    ("another window in recovery without SACK", inflated),
    ("new data wait although both windows permit them", pauses),
    ("more is sent than the window permits", too_much),
    ("a segment of another size than is due", short),
]


@pytest.mark.parametrize(("title", "log"), CASES, ids=[log.__name__ for _, log in CASES])  # type: ignore[attr-defined]
def test_a_rule_finds_its_fault_and_nothing_in_the_similar_log_without_it(
    tmp_path: Path, title: str, log: Log
) -> None:
    check(tmp_path, "sender", title, log)
