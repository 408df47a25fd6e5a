"""Fast recovery in the log of a kernel: its first retransmission, its order, and its undo."""

from pathlib import Path

import pytest
from test_traced import answer, flights, kernel, sacked, titles, two_holes

from written import Written

LOSS = "loss-detection"
AT_ONCE = "a recovery begins without a retransmission"
EARLY_UNDO = "an undo although not all retransmissions were reported as duplicates"
ORDER = "new data before what is lost"


def lossy(**case: str) -> tuple[Written, int]:
    """Round trips of 10 ms; the first of ten segments sent at 40 ms is lost, and three above it are SACKed at 50 ms."""
    log = kernel(**case)
    seq = flights(log, [10, 10])
    for i in range(10):
        log.data(40, None if i == 0 else 45, seq + i * 1000)
    sacked(log, 50, seq, seq + 1000, seq + 4000).event(50, 0, "congestion", "Open->Recovery: kernel")
    return log, seq


@pytest.mark.parametrize(
    ("at", "place", "found"), [(50, "link", []), (50.5, "link", [AT_ONCE]), (50.5, "sender", [])]
)
def test_the_first_retransmission_of_a_recovery_does_not_wait(
    at: float, place: str, found: list[str], folder: Path
) -> None:
    log, seq = lossy(queue__place=place)
    log.data(at, at + 5, seq, again=True)
    answer(log, 62, seq + 10_000)
    assert titles(log.judged(folder, LOSS)) == found


@pytest.mark.parametrize("window", [999, 4_000_000])
def test_what_the_window_of_the_peer_does_not_hold_is_not_sent_again(window: int, folder: Path) -> None:
    log, seq = lossy()
    for row in log.rows:
        if row["time_ns"] == 50_000_000 and row["kind"] == "in":
            row["window_bytes"] = window
    log.data(50.5, 55.5, seq, again=True)
    assert titles(log.judged(folder, LOSS)) == ([] if window < 1000 else [AT_ONCE])


@pytest.mark.parametrize(
    ("probe", "reports", "to", "found"),
    [
        # A DSACK of the probe says nothing about the retransmission.
        (True, 1, "Disorder", [EARLY_UNDO]),
        (True, 2, "Disorder", []),
        (False, 1, "Open", []),
        (False, 0, "Open", [EARLY_UNDO]),
        (False, 0, "Loss", []),
    ],
)
def test_dsacks_undo_a_recovery_if_they_report_all_retransmissions(
    to: str, reports: int, found: list[str], folder: Path, *, probe: bool
) -> None:
    log = kernel()
    seq = flights(log, [10, 10])
    for i in range(4):
        log.data(40, None if i == 0 else 62, seq + i * 1000)
    if probe:
        log.event(60, 0, "retransmit", "tail loss probe", seq=seq + 3000, len=1000, ack=1, flags=16)
    sacked(log, 67, seq, seq + 1000, seq + 4000).event(67, 0, "congestion", "Open->Recovery: kernel")
    log.data(67, None, seq, again=True)
    for i in range(max(reports, 1)):
        answer(log, 68 + i, seq)
        if reports:
            log.event(68 + i, 0, "sack", seq=seq + 3000, len=1000)
        log.event(68 + i, 0, "sack", seq=seq + 1000, len=3000)
    log.event(67 + max(reports, 1), 0, "congestion", f"Recovery->{to}: kernel")
    assert titles(log.judged(folder, LOSS)) == found


@pytest.mark.parametrize("advances", [False, True])
def test_an_ack_that_advances_may_undo_by_its_timestamp(folder: Path, *, advances: bool) -> None:
    log, seq = lossy()
    log.data(50, 55, seq, again=True)
    answer(log, 55, seq + 1000 * advances).event(55, 0, "congestion", "Recovery->Disorder: kernel")
    assert titles(log.judged(folder, LOSS)) == ([] if advances else [EARLY_UNDO])


@pytest.mark.parametrize(
    ("later", "repaired", "found"), [(13.0, False, [ORDER]), (13.0, True, []), (10.1, False, [])]
)
def test_a_hole_is_lost_when_data_arrived_that_were_sent_a_round_trip_later(
    later: float, found: list[str], folder: Path, *, repaired: bool
) -> None:
    # The ACK of the retransmission may have been a sample of SRTT, which is 11.6 ms at most then.
    log, seq = two_holes()
    if repaired:
        log.data(50, 55, seq + 3000, again=True)
    log.data(40 + later, 45 + later, seq + 12_000)
    sacked(log, 50 + later, seq + 3000, seq + 4000, seq + 13_000)
    log.data(50 + later, 55 + later, seq + 13_000)
    assert titles(log.judged(folder, LOSS)) == found
