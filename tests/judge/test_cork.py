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
