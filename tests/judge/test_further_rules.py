"""Rules of recovery, probes, pacing, controllers, queues and offloads: each finds its fault in a hand-written log."""

from pathlib import Path

import pytest
from test_data_plane import Log, check, opened

from written import ACK, MSS, Written, ns

PSH = 8


def rtt(log: Written, at: float, ms: float = 1.0) -> Written:
    nanoseconds = ns(ms)
    return log.event(at, 0, "rtt", srtt_ns=nanoseconds, rto_ns=200_000_000, value_ns=nanoseconds)


def prr(*, wrong: bool) -> Written:
    """With twenty segments in flight four are reported by SACK: PRR permits nothing, or half of it."""
    log = Written().event(0, 0, "window", "established", cwnd_bytes=20 * MSS, ssthresh_bytes=40 * MSS)
    log.case |= {"stack.recovery": "prr", "stack.sack": "on"}
    for i in range(20):
        log.data(1, None if i == 0 else 2, 1 + MSS * i)
    log.event(3, 0, "in", seq=1, ack=1, len=0, flags=ACK).event(3, 0, "sack", seq=1 + MSS, len=3 * MSS)
    log.event(3, 0, "window", "enter", cwnd_bytes=20 * MSS, ssthresh_bytes=10 * MSS)
    log.event(3, 0, "congestion", "Open->Recovery: dupthresh")
    log.event(4, 0, "in", seq=1, ack=1, len=0, flags=ACK).event(4, 0, "sack", seq=1 + MSS, len=9 * MSS)
    # Nine segments were delivered, half of which may be sent: 4.5, rounded up to segments.
    window = 11 * MSS + (0 if wrong else 5 * MSS)
    return log.event(4, 0, "window", "prr", cwnd_bytes=window, ssthresh_bytes=10 * MSS, flight_bytes=11 * MSS)


def prr_too_much(*, wrong: bool) -> Written:
    """The first ACK of a recovery delivers a segment; PRR permits the rest of the window, or the retransmission."""
    log = Written().event(0, 0, "window", "established", cwnd_bytes=40 * MSS, ssthresh_bytes=40 * MSS)
    log.case |= {"stack.recovery": "prr", "stack.sack": "on"}
    for i in range(40):
        log.data(1, None if i == 0 else 2, 1 + MSS * i)
    log.event(3, 0, "in", seq=1, ack=1, len=0, flags=ACK).event(3, 0, "sack", seq=1 + MSS, len=MSS)
    log.event(3, 0, "window", "enter", cwnd_bytes=40 * MSS, ssthresh_bytes=20 * MSS)
    log.event(3, 0, "congestion", "Open->Recovery: dupthresh")
    more = 6 * MSS if wrong else MSS
    return log.event(
        3, 0, "window", "prr", cwnd_bytes=38 * MSS + more, ssthresh_bytes=20 * MSS, flight_bytes=38 * MSS
    )


def repaired(*, wrong: bool) -> Written:
    """A probe repeats the last segment, then later data are acknowledged; the window is not reduced, or it is."""
    log = (
        rtt(Written().data(1, None, 1), 1).fires(10, "Tlp").data(10, 10.5, 1, again=True).ack(10.5, 11, 1001)
    )
    log.data(12, 12.5, 1001).ack(12.5, 13, 2001)
    if not wrong:
        log.event(13, 0, "congestion", "Open->CWR: tlp")
    return log.data(14, 14.5, 2001)


def first_probe(*, wrong: bool) -> Written:
    """A window closes after data were sent; the first probe comes after 800 ms, or after the RTO of 200 ms."""
    log = rtt(opened(Written()), 0).event(0, 0, "in", seq=1, ack=1, len=0, flags=ACK, window_bytes=1000)
    log.event(1, 0, "app", "write", value_ns=10000).data(1, 1.5, 1)
    log.event(2, 0, "in", seq=1, ack=1001, len=0, flags=ACK, window_bytes=0)
    return log.event(2, 0, "timer_set", "Persist", value_ns=ns(802 if wrong else 202))


def early_rack(*, wrong: bool) -> Written:
    """The shortest round trip was 50 ms; a segment is marked lost after 5 ms, or after 60."""
    log = Written()
    log.case |= {"stack.loss_detection": "rack:dsack", "stack.timestamps": "on"}
    log.segment(0, 0, "out", 0, 0, 0, 2).segment(50, 0, "in", 0, 0, 1, 2 | ACK)
    log.data(50, 75, 1).ack(75, 100, 1001)
    for i in range(4):
        log.data(101, None if i == 0 else 126, 1001 + MSS * i)
    return log.event(106 if wrong else 161, 0, "lost", "rack", seq=1001, len=1000)


def frto(*, wrong: bool) -> Written:
    """After a timeout only the repair and new data are delivered, or what was sent before it."""
    log = Written()
    for i in range(2):
        log.data(1, None, 1 + MSS * i)
    log.fires(201).event(201, 0, "congestion", "Open->Loss: rto").data(201, 201.5, 1, again=True)
    log.ack(201.5, 202, 1001).data(202, 203, 2001)
    log.event(204, 0, "in", seq=1, ack=1001 if wrong else 3001, len=0, flags=ACK)
    if wrong:
        log.event(204, 0, "sack", seq=2001, len=1000)
    return log.event(204, 0, "congestion", "Loss->Open: undo: f-rto")


def undone(*, wrong: bool) -> Written:
    """What a recovery sent again had been lost, or was late; it is undone."""
    log = Written()
    for i in range(4):
        log.data(1 + i / 10, None if i == 0 and wrong else 2 + i / 10, 1 + MSS * i)
    log.event(4, 0, "congestion", "Open->Recovery: dupthresh").data(4, 5, 1, again=True).ack(5, 6, 4001)
    return log.event(6, 0, "congestion", "Recovery->Open: undo: eifel")


def startup(*, wrong: bool) -> Written:
    """BBR leaves its startup with twenty segments in flight and a product of ten; they stay in flight, or not."""
    log = Written()
    log.case["stack.cc"] = log.cc = "bbr"
    log.data(0, 0.5, 1).ack(0.5, 1, 1001)
    for i in range(20):
        log.data(1, 1.5, 1001 + MSS * i)
    log.event(2, 0, "window", "ack", cwnd_bytes=20 * MSS, ssthresh_bytes=10 * MSS)
    for i in range(200):
        at, first = 3 + i, 21_001 + MSS * i
        log.ack(at, at, 2001 + MSS * i + (0 if wrong else 12 * MSS)).data(at, at + 0.5, first)
    return log


def paced(*, wrong: bool) -> Written:
    """With a window of ten segments and a round trip of 10 ms segments leave every 0.1 ms, or every millisecond."""
    log = rtt(Written(), 0, 10).event(
        0, 0, "window", "established", cwnd_bytes=10 * MSS, ssthresh_bytes=10 * MSS
    )
    log.case["stack.pacing"] = "200%,120%"
    log.data(0, 0.5, 1).ack(0.5, 1, 1001).event(
        1, 0, "window", "ack", cwnd_bytes=10 * MSS, ssthresh_bytes=10 * MSS
    )
    for i in range(40):
        at = 1 + i * (0.1 if wrong else 1)
        log.data(at, at + 5, 1001 + MSS * i)
    return log


def bucket(*, wrong: bool) -> Written:
    """300 segments arrive at once, or one every 0.8 ms, behind a bucket of 30 KB and 10 Mbit/s."""
    log = Written()
    log.case |= {"queue.kind": "tbf", "queue.rate": "10Mbit", "queue.burst": "30KB", "link.rate": "100Mbit"}
    for i in range(300):
        log.data(1, 2 + i * (0.1 if wrong else 0.9), 1 + MSS * i)
    return log


def pushed(*, wrong: bool) -> Written:
    """A super-segment with PSH arrives as three packets; each has PSH, or only the last one."""
    log = Written()
    log.case["nic.tso"] = "on"
    log.segment(1, 0, "out", 1, 3000, 1, ACK | PSH)
    for i in range(3):
        log.segment(2, 1, "in", 1 + MSS * i, MSS, 1, ACK | PSH if wrong or i == 2 else ACK)
    return log


def merged(*, wrong: bool) -> Written:
    """Two segments that were sent in different milliseconds, or in the same one, arrive as one."""
    log = Written()
    log.case |= {"nic.gro": "on", "stack.timestamps": "on"}
    log.segment(1, 0, "out", 1, MSS, 1).segment(2.1 if wrong else 1.1, 0, "out", 1001, MSS, 1)
    return log.segment(3, 1, "in", 1, 2 * MSS, 1)


def keepalive(*, wrong: bool) -> Written:
    """A probe was answered; the next one follows after the interval, or after the idle time."""
    log = opened(Written())
    log.case["app.keepalive"] = "100ms"
    log.segment(1, 0, "in", 1, 0, 1).fires(101, "Keepalive").segment(102, 0, "in", 1, 0, 1)
    return log.fires(112 if wrong else 202, "Keepalive")


CASES: list[tuple[str, str, Log]] = [
    ("window-reduction", "PRR permits less than what was delivered", prr),
    ("window-reduction", "PRR permits more than what was delivered", prr_too_much),
    ("window-reduction", "BBR does not drain the queue of its startup", startup),
    ("window-growth", "paced segments follow each other too closely", paced),
    ("tail-loss-probe", "no reduction for a loss that a probe repaired", repaired),
    ("flow-control", "the first probe of a closed window comes late", first_probe),
    ("loss-detection", "a loss sooner than a round trip", early_rack),
    ("loss-detection", "F-RTO without a proof", frto),
    ("loss-response", "a reduction for a real loss is undone", undone),
    ("bounds", "more than the token bucket lets pass", bucket),
    ("nic", "PSH on a packet that was sent without it", pushed),
    ("nic", "segments with different timestamps are merged", merged),
    ("retransmission-timer", "a keepalive probe at a wrong time", keepalive),
]


@pytest.mark.parametrize(("oracle", "title", "log"), CASES, ids=[title for _, title, _ in CASES])
def test_a_rule_finds_its_fault_and_has_no_finding_for_the_similar_log_without_it(
    tmp_path: Path, oracle: str, title: str, log: Log
) -> None:
    check(tmp_path, oracle, title, log)
