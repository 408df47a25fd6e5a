"""The reaction of a kernel to a loss: each fault is found, and a similar log without the fault has no finding."""

from pathlib import Path

import pytest

from tcpassay.judge import Severity
from written import ACK, Written, cited, ns, one

RESPONSE = "loss-response"


def kernel_loses(threshold: int | None, *, lost: bool = True) -> Written:
    """Ten segments leave at 10 ms with a window of ten; the first is sent again 1 ms later, in a recovery."""
    log = Written(duration=100).of_a_kernel().transfer(0, 10)
    log.event(9.9, 0, "window", "met by a segment", cwnd_bytes=10_000)
    for i in range(10):
        came = None if i == 0 and lost else (11.2 if i == 0 else 10.5 + i / 100)
        log.data(10 + i / 100, came, 10_001 + i * 1000)
    log.ack(10.6, 11, 10_001).event(11, 0, "congestion", "Open->Recovery: kernel")
    log.data(11, 11.5, 10_001, again=True)
    return log.event(11.2, 0, "window", "met by a segment", cwnd_bytes=9000, ssthresh_bytes=threshold)


def test_a_kernel_that_does_not_reduce_its_window_at_a_loss_is_found_with_both_windows(folder: Path) -> None:
    finding = one(kernel_loses(9000).judged(folder, RESPONSE))
    assert finding.severity is Severity.ERROR
    assert finding.title == "answer to a loss: a loss leaves more than the controller's factor"
    assert "a window of 10000 bytes" in finding.text
    assert "a slow-start threshold of 9000 bytes" in finding.text
    assert cited(finding) == [("window", ns(9.9)), ("congestion", ns(11)), ("window", ns(11.2))]


@pytest.mark.parametrize(("acked", "found"), [(3, 0), (0, 1)])
def test_the_window_may_have_grown_by_the_last_ack_before_a_timeout(
    acked: int, found: int, folder: Path
) -> None:
    log = Written(duration=1000).of_a_kernel().transfer(0, 10)
    for i in range(10):
        log.data(100, 105 if i < acked else None, 10_001 + i * 1000)
    log.event(110, 0, "window", "met by a segment", cwnd_bytes=10_000)
    log.ack(105, 110, 10_001 + acked * 1000)
    log.fires(400).event(400, 0, "congestion", "Open->Loss: kernel")
    log.data(400, 405, 10_001 + acked * 1000, again=True).ack(405, 410, 11_001 + acked * 1000)
    log.event(410, 0, "window", "met by a segment", cwnd_bytes=1000, ssthresh_bytes=8000)
    assert len(log.judged(folder, RESPONSE)) == found


@pytest.mark.parametrize(("sacked", "found"), [(9, 0), (2, 1)])
def test_the_window_may_have_grown_by_what_the_last_ack_before_a_recovery_reported(
    sacked: int, found: int, folder: Path
) -> None:
    log = kernel_loses(9000)
    came = next(i for i, row in enumerate(log.rows) if row["kind"] == "in" and row["time_ns"] == ns(11))
    log.event(11, 0, "sack", seq=11_001, len=sacked * 1000)
    log.rows.insert(came + 1, log.rows.pop())
    assert len(log.judged(folder, RESPONSE)) == found


def test_a_kernel_that_keeps_no_threshold_at_a_loss_is_found(folder: Path) -> None:
    assert "reno left no threshold" in one(kernel_loses(None).judged(folder, RESPONSE)).text


def test_half_of_the_window_and_two_segments_is_an_answer_to_a_loss(folder: Path) -> None:
    assert kernel_loses(7000).judged(folder, RESPONSE) == []


def test_the_model_is_judged_by_the_data_plane(folder: Path) -> None:
    log = kernel_loses(9000)
    log.substrate = "model"
    assert log.judged(folder, RESPONSE) == []


def test_a_window_that_an_undo_restored_at_the_same_time_is_not_known(folder: Path) -> None:
    log = kernel_loses(9000)
    log.event(10.99, 0, "congestion", "Recovery->Disorder: kernel")
    assert log.judged(folder, RESPONSE) == []


def undone(*, lost: bool) -> Written:
    """The recovery ends with the window and the threshold of before."""
    log = kernel_loses(5000, lost=lost).ack(11.6, 12, 20_001)
    log.event(12, 0, "window", "on leaving Recovery", cwnd_bytes=10_000)
    return log.event(12, 0, "congestion", "Recovery->Open: kernel")


def test_an_undo_although_what_was_sent_again_had_been_lost_is_found(folder: Path) -> None:
    finding = one(undone(lost=True).judged(folder, RESPONSE))
    assert finding.title == "answer to a loss: a reduction for a real loss is undone"
    assert "restored it at 12 ms" in finding.text


def test_an_original_that_its_retransmission_overtook_was_not_lost_though_paws_refuses_it(
    folder: Path,
) -> None:
    log = undone(lost=True)
    for row in log.rows:
        if row["kind"] == "in" and row.get("seq") == 10_001:
            row["value_ns"] = 20
    log.event(11.7, 1, "in", seq=10_001, len=1000, ack=1, flags=ACK, value_ns=10)
    assert log.judged(folder, RESPONSE) == []


def held(threshold: int | None, *, lost: bool = False, copy: float = 401, **case: str) -> Written:
    """A path holds ten segments until 400 ms; a timeout sends the first again, and the first ACK ends it."""
    log = Written(duration=1000).of_a_kernel().transfer(0, 10, rtt=10)
    log.case |= {name.replace("__", "."): value for name, value in case.items()}
    log.event(99, 0, "window", "met by a segment", cwnd_bytes=10_000)
    for i in range(10):
        log.data(110 + i / 100, None if lost and i == 9 else 400 + i / 100, 10_001 + i * 1000)
    log.fires(320).event(320, 0, "congestion", "Open->Loss: kernel").data(320, copy, 10_001, again=True)
    log.event(405, 0, "window", "met by a segment", cwnd_bytes=1000, ssthresh_bytes=5000)
    log.ack(400, 405, 12_001).event(405, 0, "congestion", "Loss->Open: kernel").ack(401, 406, 14_001)
    return log.event(406, 0, "window", "met by a segment", cwnd_bytes=9000, ssthresh_bytes=threshold)


def test_a_reduction_by_a_timeout_without_any_loss_that_stays_is_found(folder: Path) -> None:
    finding = one(held(5000).judged(folder, RESPONSE))
    assert finding.title == "answer to a loss: a needless reduction is not undone"
    assert cited(finding) == [("congestion", ns(320)), ("retransmit", ns(320)), ("congestion", ns(405))]


def test_a_reduction_by_a_timeout_without_any_loss_that_is_undone_is_right(folder: Path) -> None:
    assert held(None).judged(folder, RESPONSE) == []


@pytest.mark.parametrize("case", [{"stack__timestamps": "off"}, {"link__ack_loss": "30%"}])
def test_an_undo_is_not_expected_where_timestamps_or_acks_are_missing(
    case: dict[str, str], folder: Path
) -> None:
    assert held(5000, **case).judged(folder, RESPONSE) == []


def test_one_ack_of_both_copies_may_echo_the_later_one_and_proves_nothing(folder: Path) -> None:
    assert held(5000, copy=400).judged(folder, RESPONSE) == []


def test_a_reduction_in_which_a_segment_was_lost_stays(folder: Path) -> None:
    assert held(5000, lost=True).judged(folder, RESPONSE) == []


def timeout(*, lost: bool) -> Written:
    """A timeout sends the first of ten segments again, and the window of before is restored while its state goes on."""
    log = Written(duration=1000).of_a_kernel().transfer(0, 10, rtt=10)
    log.event(99, 0, "window", "met by a segment", cwnd_bytes=10_000)
    for i in range(10):
        came = 115 + i / 100 if i else (None if lost else 315)
        log.data(110 + i / 100, came, 10_001 + i * 1000)
    log.fires(320).event(320, 0, "congestion", "Open->Loss: kernel").data(320, 325, 10_001, again=True)
    log.event(330, 0, "window", "met by a segment", cwnd_bytes=1000, ssthresh_bytes=5000)
    log.ack(325, 330, 20_001).data(330, 335, 20_001).ack(335, 340, 21_001)
    log.event(340, 0, "window", "met by a segment", cwnd_bytes=10_000)
    return log.event(340, 0, "congestion", "Loss->Open: kernel")


def test_an_undo_of_a_timeout_whose_first_segment_had_been_lost_is_found_before_its_state_ends(
    folder: Path,
) -> None:
    finding = one(timeout(lost=True).judged(folder, RESPONSE))
    assert finding.title == "answer to a loss: a reduction for a real loss is undone"


def test_an_undo_of_a_timeout_whose_first_segment_was_late_is_right(folder: Path) -> None:
    assert timeout(lost=False).judged(folder, RESPONSE) == []


def test_an_undo_of_a_recovery_of_what_was_only_late_is_right(folder: Path) -> None:
    assert undone(lost=False).judged(folder, RESPONSE) == []
