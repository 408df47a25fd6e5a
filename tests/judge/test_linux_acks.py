"""Rules for logs of kernels that need the timestamps, marks and flags of segments.

Quick ACKs, the clock of timestamps, repair after a timeout, and queues in the host.
"""

from pathlib import Path

import pytest
from test_traced import answer, flights, kernel, met, titles

from written import ACK, Written

PSH, ECE, CWR = 8, 64, 128
DELAYED = "an ACK that Linux does not delay is delayed"
NEEDLESS = "single segments are acknowledged at once without a reason"


def receives(  # noqa: PLR0913 - the fields of a segment
    log: Written, at: float, seq: int, wait: float, flags: int = ACK, *, ce: bool = False
) -> int:
    """A segment that arrives, and its ACK some milliseconds later. Returns the next position."""
    log.event(at, 1, "in", seq=seq, len=1000, ack=1, flags=flags, ce=ce)
    log.event(at + wait, 1, "out", seq=1, len=0, ack=seq + 1000, flags=ACK, window_bytes=100_000)
    return seq + 1000


@pytest.mark.parametrize(("wait", "found"), [(0, []), (40, [DELAYED])])
def test_data_with_cwr_are_acknowledged_at_once(wait: float, found: list[str], folder: Path) -> None:
    log = kernel(stack__ecn="classic")
    seq = receives(log, 10, 1, 0)
    receives(log, 20, seq, wait, ACK | CWR)
    assert titles(log.judged(folder, "ack-timing")) == found


@pytest.mark.parametrize(("waits", "found"), [((0, 0, 40), []), ((0, 40, 40), [DELAYED])])
def test_linux_acknowledges_two_segments_from_a_mark_on_at_once(
    waits: tuple[float, ...], found: list[str], folder: Path
) -> None:
    log = kernel(stack__ecn="classic")
    seq = receives(log, 10, 1, 0)
    for i, wait in enumerate(waits):
        seq = receives(log, 100 * (i + 1), seq, wait, ce=i == 0)
    assert titles(log.judged(folder, "ack-timing")) == found


def delayed_pairs(log: Written) -> int:
    """Four pairs of segments from 10 ms on, each acknowledged by the second one. Returns the next position."""
    seq = 1
    for i in range(4):
        log.event(10 + 2 * i, 1, "in", seq=seq, len=1000, ack=1, flags=ACK)
        seq = receives(log, 11 + 2 * i, seq + 1000, 0)
    return seq


def with_ecn() -> Written:
    """A connection that has negotiated classic ECN."""
    log, syn = kernel(stack__ecn="classic"), 2 | ECE
    for host, kind, flags in (
        (0, "out", syn | CWR),
        (1, "in", syn | CWR),
        (1, "out", syn | ACK),
        (0, "in", syn | ACK),
    ):
        log.event(1 + host / 10, host, kind, seq=0, len=0, flags=flags, ack=1 if flags & ACK else None)
    return log


@pytest.mark.parametrize(
    ("old", "answer_flags", "found"),
    [(True, ECE, []), (False, ECE, ["ECE without a mark"]), (False, 0, [])],
)
def test_cwr_of_a_segment_that_was_acknowledged_before_need_not_end_ece(
    answer_flags: int, found: list[str], folder: Path, *, old: bool
) -> None:
    log = with_ecn()
    log.event(10, 1, "in", seq=1, len=1000, ack=1, flags=ACK, ce=True)
    log.event(10, 1, "out", seq=1, len=0, ack=1001, flags=ACK | ECE, window_bytes=100_000)
    seq = 1 if old else 1001
    log.event(20, 1, "in", seq=seq, len=1000, ack=1, flags=ACK | CWR)
    log.event(20, 1, "out", seq=1, len=0, ack=seq + 1000, flags=ACK | answer_flags, window_bytes=100_000)
    assert titles(log.judged(folder, "ecn")) == found


@pytest.mark.parametrize(("wait", "flags", "found"), [(0, PSH, []), (40, PSH, [DELAYED]), (40, 0, [])])
def test_pushed_data_that_were_read_are_acknowledged_at_once(
    wait: float, flags: int, found: list[str], folder: Path
) -> None:
    log = kernel()
    seq = receives(log, 10, 1, 0)
    receives(log, 20, seq, wait, ACK | flags)
    assert titles(log.judged(folder, "ack-timing")) == found


@pytest.mark.parametrize(("count", "found"), [(2, []), (16, [NEEDLESS])])
def test_linux_sends_two_quick_acks_after_a_mark(count: int, found: list[str], folder: Path) -> None:
    log = kernel(stack__ecn="classic")
    seq = delayed_pairs(log)
    for i in range(count):
        seq = receives(log, 20 + i, seq, 0, ce=i == 0)
    assert titles(log.judged(folder, "ack-timing")) == found


@pytest.mark.parametrize(("singles", "found"), [(2, []), (6, [NEEDLESS])])
def test_quick_acks_after_several_marks_are_counted_together(
    singles: int, found: list[str], folder: Path
) -> None:
    # Each group of six segments begins with a mark and ends with CWR.
    # The ACKs of the first ones are quick, the others are delayed in pairs.
    log, seq, at = kernel(stack__ecn="classic"), 1, 10
    for group in range(6):
        for i in range(6):
            at += 1
            delayed = (i >= singles and group > 0) or group == 0
            flags = ACK | (CWR if i == 5 and group > 0 else 0)
            if delayed and i % 2 == 0:
                log.event(at, 1, "in", seq=seq, len=1000, ack=1, flags=flags)
                seq += 1000
            else:
                seq = receives(log, at, seq, 0, flags, ce=i == 0)
    assert titles(log.judged(folder, "ack-timing")) == found


@pytest.mark.parametrize(("cwr", "found"), [(CWR, []), (0, [NEEDLESS])])
def test_a_mark_on_the_segment_with_cwr_permits_quick_acks_again(
    cwr: int, found: list[str], folder: Path
) -> None:
    log = kernel(stack__ecn="classic")
    seq = delayed_pairs(log)
    for i in range(12):
        seq = receives(log, 20 + i, seq, 0, ACK | (0 if i % 2 else cwr), ce=True)
    assert titles(log.judged(folder, "ack-timing")) == found


def opened(log: Written) -> Written:
    """The handshake at the receiver, with the window that it announces."""
    log.event(1, 1, "in", seq=0, len=0, flags=2)
    log.event(1, 1, "out", seq=0, len=0, ack=1, flags=2 | ACK, window_bytes=60_000)
    log.event(2, 1, "in", seq=1, len=0, ack=1, flags=ACK)
    return log.event(2, 1, "out", seq=1, len=0, ack=1, flags=ACK, window_bytes=100_000)


@pytest.mark.parametrize(
    ("quick", "sends", "found"),
    [
        (14, None, [DELAYED]),
        # Sixteen quick ACKs at most, one of which the handshake may have used.
        (15, None, []),
        # Data that the host sends long after it received some cost no quick ACK.
        (10, 100, [DELAYED]),
        # A host that answers within the delay of an ACK is interactive.
        (10, 10, []),
    ],
)
def test_linux_acknowledges_the_first_segments_at_once_unless_the_host_is_interactive(
    quick: int, sends: float | None, found: list[str], folder: Path
) -> None:
    log, seq = opened(kernel()), 1
    for i in range(quick):
        seq = receives(log, 10 + i, seq, 0)
    if sends is not None:
        for i in range(20):
            at = 10 + quick - 1 + sends
            log.event(at, 1, "out", seq=1 + 1000 * i, len=1000, ack=seq, flags=ACK, window_bytes=100_000)
    log.event(200, 1, "in", seq=seq, len=1000, ack=20_001 if sends else 1, flags=ACK)
    log.event(240, 1, "out", seq=20_001 if sends else 1, len=0, ack=seq + 1000, flags=ACK, window_bytes=10**5)
    assert titles(log.judged(folder, "ack-timing")) == found


@pytest.mark.parametrize(("pause", "found"), [(800, []), (1100, [DELAYED])])
def test_linux_acknowledges_at_once_again_after_a_pause_longer_than_its_timeout(
    pause: float, found: list[str], folder: Path
) -> None:
    log, seq = opened(kernel()), 1
    for i in range(20):
        seq = receives(log, 10 + i, seq, 0)
    receives(log, 29 + pause, seq, 40)
    assert titles(log.judged(folder, "ack-timing")) == found


@pytest.mark.parametrize(("window", "found"), [(0, [NEEDLESS]), (1000, [])])
def test_after_a_delayed_ack_single_segments_are_not_acknowledged_at_once(
    window: int, found: list[str], folder: Path
) -> None:
    # While the receive window grows, each segment is acknowledged at once.
    log = kernel()
    seq = delayed_pairs(log)
    for i in range(6):
        size = 100_000 + window * (i + 1)
        log.event(20 + i, 1, "in", seq=seq, len=1000, ack=1, flags=ACK)
        seq += 1000
        log.event(20 + i, 1, "out", seq=1, len=0, ack=seq, flags=ACK, window_bytes=size)
    assert titles(log.judged(folder, "ack-timing")) == found


@pytest.mark.parametrize(("ack", "found"), [(1, []), (1001, ["ECE without a mark"])])
def test_cwr_of_a_segment_with_an_old_acknowledgment_need_not_end_ece(
    ack: int, found: list[str], folder: Path
) -> None:
    log = with_ecn()
    log.event(5, 1, "out", seq=1, len=1000, ack=1, flags=ACK, window_bytes=100_000)
    log.event(10, 1, "in", seq=1, len=1000, ack=1001, flags=ACK, ce=True)
    log.event(10, 1, "out", seq=1001, len=0, ack=1001, flags=ACK | ECE, window_bytes=100_000)
    log.event(20, 1, "in", seq=1001, len=1000, ack=ack, flags=ACK | CWR)
    log.event(20, 1, "out", seq=1001, len=0, ack=2001, flags=ACK | ECE, window_bytes=100_000)
    assert titles(log.judged(folder, "ecn")) == found


@pytest.mark.parametrize(("old", "found"), [(0, []), (200, ["a timestamp of an earlier time"])])
def test_a_timestamp_is_of_the_time_at_which_its_segment_leaves(
    old: int, found: list[str], folder: Path
) -> None:
    log = kernel()
    for i, late in enumerate([0, 0, old]):
        at = 10 + 300 * i
        log.event(at, 0, "out", seq=1 + 1000 * i, len=1000, ack=1, flags=ACK)
        log.event(at + 5, 1, "in", seq=1 + 1000 * i, len=1000, ack=1, flags=ACK, value_ns=7000 + at - late)
    assert titles(log.judged(folder, "segment-contents")) == found


@pytest.mark.parametrize(
    ("state", "repaired", "found"),
    [
        ("Recovery", False, ["new data after a timeout before what is lost"]),
        ("Recovery", True, []),
        ("Open", False, []),
    ],
)
def test_after_a_timeout_in_recovery_what_is_lost_is_sent_before_new_data(
    state: str, found: list[str], folder: Path, *, repaired: bool
) -> None:
    log = kernel()
    seq = flights(log, [10, 10])
    for i in range(10):
        log.data(40, None, seq + i * 1000)
    if state != "Open":
        log.event(60, 0, "congestion", f"Open->{state}: kernel")
    if state == "Recovery":
        log.data(60, None, seq, again=True)
    log.fires(300).event(300, 0, "congestion", f"{state}->Loss: kernel")
    log.data(300.1, 305, seq, again=True)
    answer(log, 311, seq + 1000)
    for i in range(1, 10 if repaired else 1):
        log.data(312, 317, seq + i * 1000, again=True)
    log.data(313, 318, seq + 10_000)
    assert titles(log.judged(folder, "loss-detection")) == found


@pytest.mark.parametrize(
    ("rest", "sndbuf", "found"),
    [
        (9.0, "profile", []),
        (60.0, "profile", ["the sender pauses although it may send"]),
        # Five segments with the memory beside their payload: the application may wait for its buffer.
        (60.0, "14KB", []),
    ],
)
def test_a_sender_goes_on_when_its_queue_in_the_host_is_empty(
    rest: float, sndbuf: str, found: list[str], folder: Path
) -> None:
    # 64 KB take 5 ms at 100 Mbit/s.
    log = met(kernel(link__rate="100Mbit", queue__place="sender", stack__max_sndbuf=sndbuf), 19, 20, 20)
    seq = flights(log, [20])
    for i in range(20):
        log.data(20 if i < 5 else 20 + rest, 25 + rest, seq + i * 1000)
    answer(log, 90, seq + 20_000)
    assert titles(log.judged(folder, "idle-with-room")) == found


@pytest.mark.parametrize(
    ("wait", "asked", "found"),
    [(0, 0, []), (10, 0, ["a writer waits for an ACK although little is unsent"]), (10, 100, [])],
)
def test_a_writer_is_woken_when_data_are_sent(
    wait: float, asked: int, found: list[str], folder: Path
) -> None:
    # A writer that answers a request writes when the request arrives.
    log, seq = kernel(written=6000, app__notsent_lowat="16KB", app__workload="onoff"), 1
    for i in range(4):
        at = 20 + 40 * i
        for _ in range(6):
            log.data(at, at + 5, seq)
            seq += 1000
        if asked:
            log.event(
                at + wait, 0, "in", seq=1 + asked * i, len=asked, ack=1, flags=ACK, window_bytes=4_000_000
            )
        answer(log, at + 10, seq - 3000)
        log.event(at + wait, 0, "app", "write", value_ns=6000)
        answer(log, at + 11, seq)
    assert titles(log.judged(folder, "idle-with-room")) == found


@pytest.mark.parametrize(
    ("wait", "nodelay", "found"),
    [
        (0, True, []),
        (10, True, ["a small segment waits for an ACK although Nagle's algorithm is off"]),
        (10, False, []),
    ],
)
def test_without_nagle_the_rest_of_a_write_does_not_wait_for_an_ack(
    wait: float, found: list[str], folder: Path, *, nodelay: bool
) -> None:
    log = kernel(written=4500, app__nodelay="on" if nodelay else "off", app__workload="onoff")
    seq = flights(met(log, 15, 20, 20), [4])
    log.data(20, 25, seq, 500)
    seq += 500
    answer(log, 30, seq)
    for i in range(3):
        at = 40 + 40 * i
        log.event(at - 1, 0, "app", "write", value_ns=4500)
        for _ in range(4):
            log.data(at, at + 5, seq)
            seq += 1000
        answer(log, at + 10, seq)
        log.data(at + wait, at + wait + 5, seq, 500)
        seq += 500
        answer(log, at + wait + 12, seq)
    assert titles(log.judged(folder, "idle-with-room")) == found
