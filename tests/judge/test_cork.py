"""TCP_CORK in the log of a kernel: what is smaller than a segment is held back for 200 ms."""

from pathlib import Path

import pytest
from test_traced import answer, flights, kernel, met, titles

CORKED = "corked segments are sent"


@pytest.mark.parametrize(
    ("wait", "cork", "outstanding", "found"),
    [
        (0.1, "on", True, [CORKED]),
        (0.1, "off", True, []),
        # A tail loss probe takes two round trips.
        (20, "on", True, []),
        (30, "on", False, [CORKED]),
        # The persist timer of 200 ms ends the wait.
        (201, "on", False, []),
    ],
)
def test_a_corked_rest_is_sent_after_200_ms_or_by_a_probe(
    wait: float, cork: str, found: list[str], folder: Path, *, outstanding: bool
) -> None:
    log = met(kernel(written=4000, app__cork=cork, app__workload="onoff"), 15, 20, 20)
    seq = flights(log, [4])
    for i in range(3):
        at = 40 + 300 * i
        log.event(at, 0, "app", "write", value_ns=4500)
        for _ in range(4):
            log.data(at, at + 5, seq)
            seq += 1000
        if not outstanding:
            answer(log, at + 10, seq)
            at += 10
        log.data(at + wait, at + wait + 5, seq, 500)
        if outstanding:
            answer(log, at + max(wait, 10) + 10, seq)
        seq += 500
        answer(log, at + wait + 60, seq)
    assert titles(log.judged(folder, "flow-control")) == found


@pytest.mark.parametrize(("at", "found"), [(50, [CORKED]), (40, [])])
def test_one_corked_rest_that_leaves_with_an_ack_is_enough(at: float, found: list[str], folder: Path) -> None:
    # A writer that waits for its send buffer may end the cork, but only when it writes.
    log = met(kernel(written=4000, app__cork="on", app__workload="onoff"), 15, 20, 20)
    seq = flights(log, [4])
    log.event(40, 0, "app", "write", value_ns=20_500)
    sent = 10_000 if at > 40 else 20_000
    for i in range(sent // 1000):
        log.data(40, 45, seq + i * 1000)
    answer(log, 50, seq + sent - 1000)
    log.event(
        50, 0, "window", "met by a segment", cwnd_bytes=21_000, ssthresh_bytes=20_000, flight_bytes=sent
    )
    for i in range(sent // 1000, 20):
        log.data(50, 55, seq + i * 1000)
    log.data(at, at + 5, seq + 20_000, 500)
    answer(log, 60, seq + 20_500)
    assert titles(log.judged(folder, "flow-control")) == found
