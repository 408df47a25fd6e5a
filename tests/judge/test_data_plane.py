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


def late_update(*, wrong: bool) -> Written:
    """The window closes, the application reads; the update leaves then, or after a probe of the peer, which fits."""
    log = opened(Written()).data(0, 1, 1).data(0, 1, 1001)
    log.event(1, 1, "out", seq=1, ack=2001, len=0, flags=ACK, window_bytes=0)
    log.event(50, 1, "app", "read", value_ns=2000)
    if not wrong:
        log.event(50, 1, "out", seq=1, ack=2001, len=0, flags=ACK, window_bytes=8000)
    log.data(499, 500, 2001, 1)
    return log.event(500, 1, "out", seq=1, ack=2002, len=0, flags=ACK, window_bytes=8000)


def stretch(*, wrong: bool) -> Written:
    """Another TCP acknowledges every second or every eighth segment, which arrive 5 ms apart."""
    log = opened(Written()).of_another_tcp(1)
    log.event(0, 1, "out", seq=1, ack=1, len=0, flags=ACK, window_bytes=60000)
    for i in range(16):
        log.data(5 * i, 5 * i + 1, 1 + 1000 * i)
        if (i + 1) % (8 if wrong else 2) == 0:
            log.event(5 * i + 1, 1, "out", seq=1, ack=1001 + 1000 * i, len=0, flags=ACK, window_bytes=60000)
    return log


def restarted(*, wrong: bool) -> Written:
    """Twenty segments time out, and each ACK advances by one; the window grows with each, or by one in four."""
    log = opened(Written(duration=1000)).event(0, 0, "in", seq=1, ack=1, len=0, flags=ACK, window_bytes=60000)
    log.event(0, 0, "window", "established", cwnd_bytes=20000)
    for i in range(20):
        log.data(1, None, 1 + 1000 * i)
    log.set_rto(1, 201).fires(201).event(201, 0, "congestion", "Open->Loss: rto")
    log.event(201, 0, "window", "timeout", cwnd_bytes=1000, ssthresh_bytes=18000)
    for i in range(14):
        at = 201 + i
        log.data(at, at + 0.4, 1 + 1000 * i, again=True)
        log.event(at + 0.5, 1, "out", seq=1, ack=1001 + 1000 * i, len=0, flags=ACK, window_bytes=60000)
        log.event(at + 0.9, 0, "in", seq=1, ack=1001 + 1000 * i, len=0, flags=ACK, window_bytes=60000)
        cwnd = 2000 + 1000 * (i // 4 if wrong else i)
        log.event(at + 0.9, 0, "window", "ack", cwnd_bytes=cwnd, ssthresh_bytes=18000)
    return log


def undone(*, wrong: bool) -> Written:
    """Ten segments are in flight in a recovery that was needless; threshold and window are restored, or one of them."""
    log = opened(Written()).event(0, 0, "in", seq=1, ack=1, len=0, flags=ACK, window_bytes=60000)
    log.event(0, 0, "window", "established", cwnd_bytes=10000)
    for i in range(10):
        log.data(1, None, 1 + 1000 * i)
    log.event(10, 0, "in", seq=1, ack=1, len=0, flags=ACK, window_bytes=60000)
    log.event(10, 0, "window", "ack", cwnd_bytes=10000)
    log.event(11, 0, "congestion", "Open->Recovery: dupthresh")
    log.event(11, 0, "window", "enter", cwnd_bytes=5000, ssthresh_bytes=5000)
    log.data(11, None, 1, again=True)
    log.event(12, 0, "in", seq=1, ack=5001, len=0, flags=ACK, window_bytes=60000)
    log.event(12, 0, "congestion", "Recovery->Open: undo: eifel")
    log.event(12, 0, "window", "undo", cwnd_bytes=5000 if wrong else 10000)
    return log.event(13, 0, "in", seq=1, ack=10001, len=0, flags=ACK, window_bytes=60000)


CASES: list[tuple[str, str, Log]] = [
    ("beyond-window", "data beyond the peer's window", beyond_the_window),
    ("flow-control", "the right edge of the window moved left", left_edge),
    ("flow-control", "no window update after the application read", late_update),
    ("ack-timing", "too many full segments are unacknowledged", stretch),
    ("ecn", "ECE missing before CWR arrived", echo),
    ("ecn", "no CWR after a reduction", unannounced),
    ("window-reduction", "ssthresh below the controller's factor", second_timeout),
    ("ack-timing", "an ACK that is due at once is missing", out_of_order),
    ("segment-contents", "a SACK block of data that did not arrive", block),
    ("slow-start-stands", "slow start after a timeout hardly grows", restarted),
    ("undo-leaves-window", "an undo restores the threshold and not the window", undone),
    ("idle-with-room", "the sender pauses although it may send", rest),
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


def test_what_an_rfc_only_recommends_is_a_warning_for_another_tcp_and_an_error_for_the_model(
    tmp_path: Path,
) -> None:
    for oracle, log in (("flow-control", left_edge), ("ack-timing", stretch)):
        other, own = log(wrong=True), log(wrong=True)
        own.stacks.clear()
        if not other.stacks:
            other.of_another_tcp(1)
        (found,) = other.judged(tmp_path / oracle / "other", oracle)
        assert found.severity is Severity.WARNING
        assert "SHOULD" in found.text
        (found,) = own.judged(tmp_path / oracle / "own", oracle)
        assert found.severity is Severity.ERROR
