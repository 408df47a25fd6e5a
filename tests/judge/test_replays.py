"""Rules that compute from the rows what a stack must do: each finds its fault in a hand-written log."""

from pathlib import Path

import pytest
from test_data_plane import Log, check, opened

from written import ACK, FIN, MSS, Written, ns

SYN, ECE, CWR, AE = 2, 64, 128, 256


def fresh(duration: float = 1000.0) -> Written:
    """An open connection of profile `rfc`."""
    log = opened(Written(duration))
    log.case |= {"stack.profile": "rfc", "stack.timestamps": "off"}
    return log


def rtt(log: Written, at: float, sample: float, srtt: float, rto: float) -> Written:
    return log.event(at, 0, "rtt", value_ns=ns(sample), srtt_ns=ns(srtt), rto_ns=ns(rto))


def sampled(log: Written, at: float, rto: float = 200) -> Written:
    """A segment that is acknowledged after 1 ms, with its sample."""
    log.data(at, at + 0.5, round(at) * MSS + 1).ack(at + 0.5, at + 1, (round(at) + 1) * MSS + 1)
    return rtt(log, at + 1, 1, 1, rto)


def sample_of_nothing(*, wrong: bool) -> Written:
    """The second ACK repeats the first; a sample follows, or not."""
    log = sampled(fresh(), 0).set_rto(1, 201).data(1, None, 1001).ack(2, 2.5, 1001)
    return rtt(log, 2.5, 1, 1, 200) if wrong else log


def no_round_trip(*, wrong: bool) -> Written:
    """The ACK comes after 1 ms; the sample is 2.5 ms, or 1 ms."""
    log = fresh().data(0, 0.5, 1).ack(0.5, 1, 1001)
    log.case["stack.timestamps"] = "off"
    return rtt(log, 1, 2.5 if wrong else 1, 2.5 if wrong else 1, 200)


def no_sample(*, wrong: bool) -> Written:
    log = fresh().data(0, 0.5, 1).ack(0.5, 1, 1001)
    if not wrong:
        rtt(log, 1, 1, 1, 200)
    return log.data(2, 2.5, 1001)


def timeout_of_samples(*, wrong: bool) -> Written:
    """Samples of 100, 100 and 180 ms: SRTT 110, RTTVAR 41.09375 (28.125 before), RTO 274.375 ms; or 330 ms."""
    log = fresh().data(0, 50, 1).ack(50, 100, 1001)
    log.case |= {"stack.min_rto": "10ms", "stack.timestamps": "off"}
    rtt(log, 100, 100, 100, 300).data(100, 150, 1001).ack(150, 200, 2001)
    rtt(log, 200, 100, 100, 250).data(200, 290, 2001).ack(290, 380, 3001)
    return rtt(log, 380, 180, 110, 330 if wrong else 110 + 4 * (37.5 * 3 + 80) / 4)


def restart(*, wrong: bool) -> Written:
    """The ACK of the first of two segments restarts the timer, or not."""
    log = fresh().data(0, 0.5, 1).data(0, None, 1001).set_rto(0, 200).ack(0.5, 1, 1001)
    rtt(log, 1, 1, 1, 200)
    if not wrong:
        log.set_rto(1, 201)
    return log.data(2, 2.5, 2001)


def blocks(*, wrong: bool) -> Written:
    """Two islands arrive; the second ACK reports the older one first, or second."""
    log = (
        windowed(fresh(), 0, 1, 1, 65_536)
        .data(0, None, 1)
        .data(0, 1, 1001)
        .data(0, None, 2001)
        .data(0, 2, 3001)
    )
    log.case |= {"stack.sack": "on", "stack.timestamps": "off"}
    log.segment(1, 1, "out", 1, 0, 1).event(1, 1, "sack", seq=1001, len=1000)
    log.segment(2, 1, "out", 1, 0, 1).event(2, 1, "sack", seq=3001, len=1000)
    return log if wrong else log.event(2, 1, "sack", seq=1001, len=1000)


def windowed(log: Written, at: float, host: int, ack: int, window: int) -> Written:
    return log.event(at, host, "out", seq=1, ack=ack, len=0, flags=ACK, window_bytes=window)


def two_full(*, wrong: bool) -> Written:
    """Two full segments arrive at 1 ms; the ACK leaves at 2 ms, or at once."""
    log = fresh().data(0, 1, 1).data(0, 1, 1001)
    log.case["stack.delayed_ack"] = "2,200ms"
    return log.segment(2 if wrong else 1, 1, "out", 1, 0, 2001)


def no_reason(*, wrong: bool) -> Written:
    """An ACK leaves at once because of two segments, of which one arrived, or both."""
    log = fresh().data(0, 1, 1)
    log.case["stack.delayed_ack"] = "2,200ms"
    if not wrong:
        log.data(0, 1, 1001)
    return log.event(1, 1, "ack_now", "EveryN").segment(1, 1, "out", 1, 0, 1001 if wrong else 2001)


def another_delay(*, wrong: bool) -> Written:
    """The delay of ACKs is 200 ms; one is delayed by 40 ms, or by 200 ms."""
    log = fresh().data(0, 1, 1)
    log.case["stack.delayed_ack"] = "2,200ms"
    return log.waits(1, 41 if wrong else 201)


def probes_go_on(*, wrong: bool) -> Written:
    """Nothing answers, and the timer of the probes fires 40 times, or twice."""
    log = fresh().segment(1, 0, "in", 1, 0, 1)
    log.case["app.keepalive"] = "100ms"
    for i in range(40 if wrong else 2):
        log.fires(101 + i * 10, "Keepalive")
    return log


def syn_wait(*, wrong: bool) -> Written:
    """After a timeout of a second a SYN waits for a second again, or for two."""
    log = Written(duration=5000).segment(0, 0, "out", 0, 0, 0, SYN)
    log.case["stack.profile"] = "rfc"
    log.case["stack.initial_rto"] = "1s"
    log.event(0, 0, "timer_set", "Handshake", value_ns=ns(1000)).fires(1000, "Handshake")
    log.segment(1000, 0, "retransmit", 0, 0, 0, SYN)
    return log.event(1000, 0, "timer_set", "Handshake", value_ns=ns(2000 if wrong else 3000))


def syn_offers(*, wrong: bool) -> Written:
    """The second SYN offers ECN once more, or does not."""
    log = Written(duration=5000).segment(0, 0, "out", 0, 0, 0, SYN | ECE | CWR).fires(1000, "Handshake")
    log.case["stack.ecn"] = "classic"
    return log.segment(1000, 0, "retransmit", 0, 0, 0, SYN | ECE | CWR if wrong else SYN)


def sample_of_a_syn(*, wrong: bool) -> Written:
    """The SYN leaves at 0 and 1000 ms, its answer comes at 1010 ms. A segment takes 10 ms; SRTT is 885 ms, or 10 ms."""
    log = Written(duration=5000).segment(0, 0, "out", 0, 0, 0, SYN).fires(1000, "Handshake")
    log.case |= {"stack.profile": "rfc", "stack.timestamps": "off"}
    log.segment(1000, 0, "retransmit", 0, 0, 0, SYN).segment(1010, 0, "in", 0, 0, 1, SYN | ACK)
    log.event(1010, 0, "state", "SynSent->Established").event(1010, 1, "state", "SynReceived->Established")
    log.data(1010, 1015, 1).ack(1015, 1020, 1001)
    return rtt(log, 1020, 10, 885, 2000) if wrong else rtt(log, 1020, 10, 10, 200)


def after_a_lost_syn(*, wrong: bool) -> Written:
    log = Written(duration=5000).segment(0, 0, "out", 0, 0, 0, SYN).fires(1000, "Handshake")
    log.case |= {"stack.profile": "freebsd", "stack.timestamps": "off"}
    log.segment(1000, 0, "retransmit", 0, 0, 0, SYN).segment(1010, 0, "in", 0, 0, 1, SYN | ACK)
    log.event(1010, 0, "state", "SynSent->Established").event(1010, 1, "state", "SynReceived->Established")
    log.data(1010, 1015, 1)
    return log.data(1010, 1015, 1001) if wrong else log


def patience(*, wrong: bool) -> Written:
    """The last progress is at 1 ms, the user timeout 300 ms; after a timeout the timer fires at 601 or 301 ms."""
    log = sampled(fresh(), 0).event(1, 0, "in", seq=1, ack=1001, len=0, flags=ACK, window_bytes=60_000)
    log.data(1, None, 1001).set_rto(1, 201).fires(201)
    log.case["app.user_timeout"] = "300ms"
    return log.set_rto(201, 601 if wrong else 301)


def accurate_offers(*, wrong: bool) -> Written:
    """The second SYN offers accurate ECN once more, or does not."""
    all_ = SYN | AE | ECE | CWR
    log = Written(duration=5000).segment(0, 0, "out", 0, 0, 0, all_).fires(1000, "Handshake")
    log.case["stack.ecn"] = "accurate"
    return log.segment(1000, 0, "retransmit", 0, 0, 0, SYN if wrong else all_)


def unscaled(*, wrong: bool) -> Written:
    log = fresh()
    log.case["stack.window_scale"] = "off"
    return windowed(log, 1, 1, 1, 70_000 if wrong else 65_535)


def scaled(*, wrong: bool) -> Written:
    """With a buffer of 1 MB windows are multiples of 16 bytes."""
    log = fresh()
    log.case["app.rcvbuf"] = "1MB"
    return windowed(log, 1, 1, 1, 1_000_008 if wrong else 1_000_000)


def full_size(*, wrong: bool) -> Written:
    """Both ends offer an MSS of 1012 or 1100 bytes; with timestamps a full segment has 1000 of 1012."""
    log = fresh().event(0, 0, "in", seq=1, ack=1, len=0, flags=ACK, window_bytes=60_000)
    log.case |= {"stack.mss": "1100B" if wrong else "1012B", "stack.timestamps": "on"}
    return log.data(1, 1.5, 1)


def undo(*, wrong: bool) -> Written:
    """A timeout at 300 ms; the ACK of new data echoes the timestamp of 100 ms, and is a proof."""
    log = fresh().segment(100, 0, "out", 1, MSS, 1).segment(100, 0, "out", 1001, MSS, 1)
    log.case |= {"stack.undo": "eifel", "stack.timestamps": "on", "stack.sack": "on"}
    log.fires(300).event(300, 0, "congestion", "Open->Loss: rto")
    log.segment(300, 0, "retransmit", 1, MSS, 1)
    log.event(301, 1, "out", seq=1, ack=2001, len=0, flags=ACK, value_ns=100)
    log.event(350, 0, "in", seq=1, ack=2001, len=0, flags=ACK, value_ns=1)
    if not wrong:
        log.event(350, 0, "congestion", "Loss->Open: undo: eifel")
    return log.segment(351, 0, "out", 2001, MSS, 1)


def too_large(*, wrong: bool) -> Written:
    """The application has read nothing of 5000 bytes in a buffer of 20,000."""
    log = fresh()
    log.case["app.rcvbuf"] = "20000B"
    for i in range(5):
        log.data(0, 1, 1 + MSS * i)
    windowed(log, 1, 1, 1, 20_000)
    return windowed(log, 2, 1, 5001, 20_000 if wrong else 15_000)


def impossible(*, wrong: bool) -> Written:
    return fresh().event(5, 0, "state", f"Established->{'LastAck' if wrong else 'FinWait1'}")


def unfounded(*, wrong: bool) -> Written:
    """FIN-WAIT-2 begins before the FIN is acknowledged, or after it."""
    log = fresh().segment(1, 0, "out", 1, 0, 1, ACK | FIN)
    log.event(1, 0, "state", "Established->FinWait1").segment(2, 0, "in", 1, 0, 1 if wrong else 2)
    return log.event(2, 0, "state", "FinWait1->FinWait2")


def lingers(*, wrong: bool) -> Written:
    """FIN-WAIT-2 without a process ends after 100 ms instead of a second."""
    log = fresh(5000).segment(1, 0, "out", 1, 0, 1, ACK | FIN)
    log.case["stack.fin_wait2"] = "1s"
    log.event(1, 0, "state", "Established->FinWait1").segment(2, 0, "in", 1, 0, 2)
    return log.event(2, 0, "state", "FinWait1->FinWait2").fires(102 if wrong else 1002, "TimeWait")


def prompt(*, wrong: bool) -> Written:
    """5000 bytes wait with an open window while 1000 are outstanding; the next ones follow after 0.2 ms, or at once."""
    log = fresh().event(0, 0, "in", seq=1, ack=1, len=0, flags=ACK, window_bytes=60_000)
    log.case |= {"stack.pacing": "off", "nic.tso": "off"}
    log.event(0, 0, "window", "established", cwnd_bytes=10_000).event(1, 0, "app", "write", value_ns=6000)
    log.data(1, 1.5, 1)
    for i in range(5):
        log.data(1.2 if wrong else 1, 1.7, 1001 + MSS * i)
    return log


def marks_heard(*, wrong: bool) -> Written:
    """Two marks are reported; the window is reduced within a window of data, or not."""
    log = Written()
    log.case["stack.ecn"] = "accurate"
    log.event(0, 0, "out", seq=0, len=0, flags=SYN | ECE | CWR | AE)
    log.event(0, 0, "in", seq=0, ack=1, len=0, flags=SYN | ACK | CWR)
    opened(log).event(0, 0, "window", "established", cwnd_bytes=20_000)

    def ack(at: float, until: int, ace: int) -> None:
        flags = ACK | (AE if ace & 4 else 0) | (CWR if ace & 2 else 0) | (ECE if ace & 1 else 0)
        log.event(at, 0, "in", seq=1, ack=until, len=0, flags=flags)

    for i in range(12):
        log.data(1 + i / 100, None, 1 + MSS * i)
    ack(3, 1001, 5)
    ack(4, 2001, 7 if wrong else 5)
    for i in range(12, 20):
        log.data(5 + i / 100, None, 1 + MSS * i)
    ack(8, 13_001, 7 if wrong else 5)
    ack(9, 14_001, 7 if wrong else 5)
    return log


def other_scale(*, wrong: bool) -> Written:
    """The receiver announces 8192 bytes; the sender reads 4096, or 8192."""
    log = windowed(fresh(), 1, 1, 1, 8192)
    return log.event(2, 0, "in", seq=1, ack=1, len=0, flags=ACK, window_bytes=4096 if wrong else 8192)


def second_small(*, wrong: bool) -> Written:
    """A second small segment leaves before the first one is acknowledged, or after it (Minshall's variant of Nagle)."""
    log = fresh().event(0, 0, "in", seq=1, ack=1, len=0, flags=ACK, window_bytes=60_000)
    log.case["stack.nagle"] = "small"
    log.event(1, 0, "app", "write", value_ns=100).segment(1, 0, "out", 1, 100, 1)
    if not wrong:
        log.event(2, 0, "in", seq=1, ack=101, len=0, flags=ACK, window_bytes=60_000)
    return log.event(3, 0, "app", "write", value_ns=100).segment(3, 0, "out", 101, 100, 1)


def skipped(*, wrong: bool) -> Written:
    """Two segments are marked lost; the second one, or the first one, is sent again first."""
    log = fresh().event(0, 0, "in", seq=1, ack=1, len=0, flags=ACK, window_bytes=60_000)
    log.case |= {"stack.sack": "on", "stack.loss_detection": "rack:dsack"}
    for i in range(6):
        log.data(1, None if i < 2 else 2, 1 + MSS * i)
    log.event(30, 0, "in", seq=1, ack=1, len=0, flags=ACK, window_bytes=60_000)
    log.event(30, 0, "sack", seq=2001, len=4000).event(30, 0, "lost", "rack", seq=1, len=2000)
    log.event(30, 0, "congestion", "Open->Recovery: rack")
    return log.segment(30, 0, "retransmit", 1001 if wrong else 1, MSS, 1)


CASES: list[tuple[str, str, Log]] = [
    ("retransmission-timer", "a sample of an ACK that delivers nothing", sample_of_nothing),
    ("retransmission-timer", "a sample that is no round-trip time", no_round_trip),
    ("retransmission-timer", "an ACK of new data gives no sample", no_sample),
    ("retransmission-timer", "the RTO is not the one of its samples", timeout_of_samples),
    ("retransmission-timer", "an ACK of new data does not restart the timer", restart),
    ("retransmission-timer", "keepalive probes go on", probes_go_on),
    ("segment-contents", "other SACK blocks than those that changed last", blocks),
    ("segment-contents", "a SYN waits for another time than the back-off says", syn_wait),
    ("segment-contents", "a SYN with other ECN flags than RFC 3168 says", syn_offers),
    ("segment-contents", "a SYN with other ECN flags than RFC 9768 says", accurate_offers),
    ("retransmission-timer", "a sample of a SYN that was sent again", sample_of_a_syn),
    ("retransmission-timer", "the timer is set beyond the user timeout", patience),
    ("window-growth", "more than one segment after a lost SYN", after_a_lost_syn),
    ("segment-contents", "a window that needs a scale", unscaled),
    ("segment-contents", "a window that its scale cannot express", scaled),
    ("segment-contents", "a window that is read with another scale", other_scale),
    ("segment-contents", "an MSS that the handshake did not agree on", full_size),
    ("segment-contents", "a change of state that RFC 9293 does not have", impossible),
    ("segment-contents", "a change of state without its reason", unfounded),
    ("segment-contents", "a last state of another duration", lingers),
    ("ack-timing", "the ACK of full segments is not sent at once", two_full),
    ("ack-timing", "an ACK at once without its reason", no_reason),
    ("ack-timing", "a delayed ACK with another delay", another_delay),
    ("loss-detection", "an undo that is due does not happen", undo),
    ("loss-detection", "a lost segment is skipped", skipped),
    ("flow-control", "a small segment that violates Nagle's algorithm", second_small),
    ("flow-control", "a window beyond the buffer", too_large),
    ("idle-with-room", "the sender pauses although it may send", prompt),
    ("ecn", "ECE not answered by a reduction", marks_heard),
]


@pytest.mark.parametrize(("oracle", "title", "log"), CASES, ids=[title for _, title, _ in CASES])
def test_a_replay_finds_its_fault_and_has_no_finding_for_the_similar_log_without_it(
    tmp_path: Path, oracle: str, title: str, log: Log
) -> None:
    check(tmp_path, oracle, title, log)
