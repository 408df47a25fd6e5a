"""Rules of recovery, probes, pacing, controllers, queues and offloads: each finds its fault in a hand-written log."""

from pathlib import Path

import pytest
from test_data_plane import Log, check

from written import MSS, Written


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


def bucket(*, wrong: bool) -> Written:
    """300 segments arrive at once, or one every 0.8 ms, behind a bucket of 30 KB and 10 Mbit/s."""
    log = Written()
    log.case |= {"queue.kind": "tbf", "queue.rate": "10Mbit", "queue.burst": "30KB", "link.rate": "100Mbit"}
    for i in range(300):
        log.data(1, 2 + i * (0.1 if wrong else 0.9), 1 + MSS * i)
    return log


CASES: list[tuple[str, str, Log]] = [
    ("window-reduction", "BBR does not drain the queue of its startup", startup),
    ("loss-response", "a reduction for a real loss is undone", undone),
    ("bounds", "more than the token bucket lets pass", bucket),
]


@pytest.mark.parametrize(("oracle", "title", "log"), CASES, ids=[title for _, title, _ in CASES])
def test_a_rule_finds_its_fault_and_has_no_finding_for_the_similar_log_without_it(
    tmp_path: Path, oracle: str, title: str, log: Log
) -> None:
    check(tmp_path, oracle, title, log)
