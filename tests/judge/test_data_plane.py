"""The oracles of the data plane: each finds its fault in a hand-written log, and nothing without the fault."""

from pathlib import Path
from typing import Protocol

import pytest

from tcpassay.judge import Severity
from written import ACK, Written

SYN, ECE, CWR = 2, 64, 128


class Log(Protocol):
    """Writes a log with a fault or without."""

    def __call__(self, *, wrong: bool) -> Written: ...


def opened(log: Written) -> Written:
    return log.event(0, 0, "state", "SynSent->Established").event(0, 1, "state", "SynReceived->Established")


def rto(*, wrong: bool) -> Written:
    """The timer of the eleventh segment fires after 50 ms or after 200 ms."""
    at = 60 if wrong else 210
    log = Written(duration=400).transfer(0, 10).data(10, None, 10001).set_rto(10, at).fires(at)
    return log.data(at, at + 0.5, 10001, again=True).ack(at + 0.5, at + 1, 11001)


def back_off(*, wrong: bool) -> Written:
    """Two timeouts in a row; the second wait is 200 ms again, or 400 ms."""
    wait = 200 if wrong else 400
    log = Written(duration=1000).transfer(0, 10).data(10, None, 10001).set_rto(10, 210)
    log.event(10, 0, "rtt", srtt_ns=1_000_000, rto_ns=200_000_000, value_ns=1_000_000)
    log.fires(210).set_rto(210, 210 + wait).data(210, None, 10001, again=True)
    log.fires(210 + wait).set_rto(210 + wait, 210 + 3 * wait).data(210 + wait, 611, 10001, again=True)
    return log.ack(611, 611.5, 11001)


def beyond_the_window(*, wrong: bool) -> Written:
    """The peer announces 2000 or 4000 bytes; four segments leave."""
    log = Written()
    log.event(0, 0, "in", seq=1, ack=1, len=0, flags=ACK, window_bytes=2000 if wrong else 4000)
    for i in range(4):
        log.data(1, 1.5, 1 + 1000 * i)
    return log


def left_edge(*, wrong: bool) -> Written:
    log = Written()
    log.event(1, 1, "out", seq=1, ack=1001, len=0, flags=ACK, window_bytes=8000)
    return log.event(2, 1, "out", seq=1, ack=2001, len=0, flags=ACK, window_bytes=4000 if wrong else 7000)


def classic() -> Written:
    """Both ends agree on classic ECN."""
    log = Written()
    log.case["stack.ecn"] = "classic"
    for host, kind, flags in ((0, "out", SYN | ECE | CWR), (1, "in", SYN | ECE | CWR)):
        log.event(0, host, kind, seq=0, len=0, flags=flags)
    for host, kind in ((1, "out"), (0, "in")):
        log.event(0, host, kind, seq=0, ack=1, len=0, flags=SYN | ACK | ECE)
    return log


def unannounced(*, wrong: bool) -> Written:
    """A reduction that is undone, or not, and new data without CWR."""
    log = classic().event(1, 0, "out", "ECT", seq=1, ack=1, len=1000, flags=ACK)
    log.event(5, 0, "window", "enter", cwnd_bytes=5000).event(5, 0, "congestion", "Open->Recovery: rack")
    if not wrong:
        log.event(6, 0, "congestion", "Recovery->Open: undo: eifel")
    return log.event(7, 0, "out", "ECT", seq=1001, ack=1, len=1000, flags=ACK)


def echo(*, wrong: bool) -> Written:
    """A mark arrives; the ACK carries ECE or not."""
    log = classic()
    log.event(1, 0, "out", "ECT", seq=1, ack=1, len=1000, flags=ACK)
    log.event(2, 1, "in", seq=1, ack=1, len=1000, flags=ACK, ce=True)
    return log.event(2, 1, "out", seq=1, ack=1001, len=0, flags=ACK if wrong else ACK | ECE)


def slow_start(*, wrong: bool) -> Written:
    """An ACK of one segment adds five segments, or one."""
    log = Written().event(0, 0, "window", "established", cwnd_bytes=10000)
    log.data(1, 1.5, 1).ack(1.5, 2, 1001)
    return log.event(2, 0, "window", "ack", cwnd_bytes=15000 if wrong else 11000)


def after_a_timeout(*, wrong: bool) -> Written:
    log = rto(wrong=False).event(0, 0, "window", "established", cwnd_bytes=10000)
    return log.event(210, 0, "window", "timeout", cwnd_bytes=5000 if wrong else 1000, ssthresh_bytes=5000)


def second_timeout(*, wrong: bool) -> Written:
    """Twenty segments time out with a threshold of two segments or of ten; the rest times out again with a window of
    two segments, which may leave a threshold of two."""
    log = Written(duration=1000).event(0, 0, "window", "established", cwnd_bytes=20000)
    for i in range(20):
        log.data(1, None, 1 + 1000 * i)
    log.set_rto(1, 201).fires(201).event(201, 0, "congestion", "Open->Loss: rto")
    log.event(201, 0, "window", "timeout", cwnd_bytes=1000, ssthresh_bytes=2000 if wrong else 10000)
    log.data(201, 201.5, 1, again=True).ack(201.5, 202, 1001)
    log.event(202, 0, "window", "ack", cwnd_bytes=2000).set_rto(202, 402).fires(402)
    return log.event(402, 0, "window", "timeout", cwnd_bytes=1000, ssthresh_bytes=2000)


def lost_too_early(*, wrong: bool) -> Written:
    """Position 1 is marked lost with one or three segments SACKed above it."""
    log = Written()
    for i in range(4):
        log.data(1, 2, 1 + 1000 * i)
    blocks = [1001] if wrong else [1001, 2001, 3001]
    for i, start in enumerate(blocks):
        log.event(3 + i, 0, "in", seq=1, ack=1, len=0, flags=ACK)
        log.event(3 + i, 0, "sack", seq=start, len=1000)
    return log.event(3 + len(blocks) - 1, 0, "lost", "dupthresh", seq=1, len=1000)


def out_of_order(*, wrong: bool) -> Written:
    """Data arrive above a gap; a duplicate ACK leaves at once, or after 20 ms."""
    log = opened(Written()).data(1, None, 1).data(1, 2, 1001)
    at = 22 if wrong else 2
    log.event(at, 1, "out", seq=1, ack=1, len=0, flags=ACK)
    return log.event(at, 1, "sack", seq=1001, len=1000)


def block(*, wrong: bool) -> Written:
    """A SACK block names data that came, or data that did not."""
    log = Written().data(1, None, 1).data(1, 2, 1001)
    log.event(2, 1, "out", seq=1, ack=1, len=0, flags=ACK)
    return log.event(2, 1, "sack", seq=2001 if wrong else 1001, len=1000)


def rest(*, wrong: bool) -> Written:
    """The application has written 10 segments, and the window holds them; the sender rests for 100 ms, or sends."""
    log = opened(Written()).event(0, 0, "in", seq=1, ack=1, len=0, flags=ACK, window_bytes=60000)
    log.event(0, 0, "window", "ack", cwnd_bytes=20000).event(0, 0, "app", "write", value_ns=10000)
    log.event(0, 0, "rtt", srtt_ns=1_000_000, rto_ns=200_000_000, value_ns=1_000_000)
    for i in range(2 if wrong else 10):
        log.data(0, 1, 1 + 1000 * i)
    return log.ack(100, 100.5, 2001)


def long_rto(*, wrong: bool) -> Written:
    """A sample of 1 ms gives an RTO of 3 s, or of the smallest one."""
    rto = 3_000_000_000 if wrong else 200_000_000
    return Written().event(1, 0, "rtt", srtt_ns=1_000_000, rto_ns=rto, value_ns=1_000_000)


def no_persist_timer(*, wrong: bool) -> Written:
    """The window shuts over data that wait; the persist timer is set or not."""
    log = opened(Written()).event(0, 0, "in", seq=1, ack=1, len=0, flags=ACK, window_bytes=1000)
    log.event(1, 0, "app", "write", value_ns=10000).data(1, 1.5, 1)
    log.event(2, 0, "in", seq=1, ack=1001, len=0, flags=ACK, window_bytes=0)
    if not wrong:
        log.event(2, 0, "timer_set", "Persist", value_ns=302_000_000)
    return log.event(50, 0, "app", "write", value_ns=10)


def silly(*, wrong: bool) -> Written:
    """The window has room for half a segment; it is filled, or the sender waits."""
    log = opened(Written()).event(0, 0, "in", seq=1, ack=1, len=0, flags=ACK, window_bytes=9500)
    log.event(1, 0, "app", "write", value_ns=20000)
    for i in range(9):
        log.data(1, 1.5, 1 + 1000 * i)
    return log.data(1, 1.5, 9001, 500) if wrong else log


def second_probe(*, wrong: bool) -> Written:
    """The probe timer fires again before or after the first probe was answered."""
    log = Written().data(1, None, 1).fires(10, "Tlp").data(10, 10.5, 1001)
    if not wrong:
        log.ack(15, 16, 2001).data(17, None, 2001)
    return log.fires(30, "Tlp").data(30, None, 3001 if not wrong else 2001)


def moved_by_a_merge(*, wrong: bool) -> Written:
    """Positions arrive again after they were sent again, or without that."""
    log = Written().data(1, 2, 1)
    return log.segment(3, 1, "in", 1, 1000, 1) if wrong else log.data(2, 3, 1, again=True)


def too_large_a_merge(*, wrong: bool) -> Written:
    log = Written()
    log.case["nic.gro"] = "on" if not wrong else "off"
    return log.segment(1, 0, "out", 1, 3000, 1).segment(2, 1, "in", 1, 3000, 1)


def undone(*, wrong: bool) -> Written:
    """Two segments were retransmitted; DSACKs report one of them, or both."""
    log = Written()
    for i in range(2):
        log.data(1, 2, 1 + 1000 * i)
    log.event(5, 0, "congestion", "Open->Recovery: dupthresh")
    for i in range(2):
        log.data(5, 6, 1 + 1000 * i, again=True)
    for i in range(1 if wrong else 2):
        log.ack(6, 7 + i, 2001).event(7 + i, 0, "sack", seq=1 + 1000 * i, len=1000)
    return log.event(9, 0, "congestion", "Recovery->Open: undo: dsack")


CASES: list[tuple[str, str, Log]] = [
    ("retransmission-timer", "the timer fired too early", rto),
    ("retransmission-timer", "no back-off after a timeout", back_off),
    ("beyond-window", "data beyond the peer's window", beyond_the_window),
    ("flow-control", "the right edge of the window moved left", left_edge),
    ("ecn", "ECE missing before CWR arrived", echo),
    ("ecn", "no CWR after a reduction", unannounced),
    ("window-growth", "slow start adds more than was acknowledged", slow_start),
    ("window-reduction", "a timeout leaves more than one segment", after_a_timeout),
    ("window-reduction", "ssthresh below the controller's factor", second_timeout),
    ("loss-detection", "a loss below the duplicate threshold", lost_too_early),
    ("ack-timing", "an ACK that is due at once is missing", out_of_order),
    ("segment-contents", "a SACK block of data that did not arrive", block),
    ("idle-with-room", "the sender pauses although it may send", rest),
    ("retransmission-timer", "the RTO is longer than its samples explain", long_rto),
    ("flow-control", "a closed window without a persist timer", no_persist_timer),
    ("flow-control", "a small segment into a large window", silly),
    ("tail-loss-probe", "a second probe before the first was acknowledged", second_probe),
    ("nic", "data arrive more often than they were sent", moved_by_a_merge),
    ("nic", "a merged segment although receive offload is off", too_large_a_merge),
    ("loss-detection", "an undo although not all retransmissions were reported as duplicates", undone),
]


def check(tmp_path: Path, oracle: str, title: str, log: Log) -> None:
    """The oracle finds the fault of a log, with its rows, and nothing in the similar log without it."""
    found = log(wrong=True).judged(tmp_path / "wrong", oracle)
    assert title in [one.title.rpartition(": ")[2] for one in found]
    assert found[0].severity is not Severity.NOTE
    assert found[0].events
    assert log(wrong=False).judged(tmp_path / "right", oracle) == []


@pytest.mark.parametrize(("oracle", "title", "log"), CASES, ids=[title for _, title, _ in CASES])
def test_an_oracle_finds_its_fault_and_has_no_finding_for_the_similar_log_without_it(
    tmp_path: Path, oracle: str, title: str, log: Log
) -> None:
    check(tmp_path, oracle, title, log)
