"""A congestion window below two segments on leaving fast recovery.

Asserts: when a sender leaves fast recovery, its congestion window is at least two segments.

Why: ssthresh is never set below two segments (RFC 5681 section 3.1, equation 4), and recovery ends with cwnd = ssthresh
or min(ssthresh, max(FlightSize, SMSS) + SMSS) (RFC 6582 section 3.2 step 3), or ssthresh (RFC 9937 section 6). With a
window of one segment the receiver may hold its ACK back for the delayed-ACK time, and the sender, which may not send a
second segment, waits for it. Marks may reduce the window to one segment, and what is lost in the same round trip
reduces it no more (RFC 3168 section 6.1.2): a recovery that begins while the window is being reduced for marks is not
judged.

Evidence: the ACK that ended recovery, the window that was then in force, the change of state.

Wrong when: the maximum segment size changed during the run (path MTU), or the sender's limit on cwnd is below two
segments by configuration. Of a real kernel the window is the one that the next segment met, which the same ACK may have
opened already, so that a fault may go unseen; a recovery that ended without a segment after it is not judged.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from tcpassay.finding import Found, Severity
from tcpassay.interface import CongestionState, EventKind, EventsColumn
from tcpassay.judge.trace import Trace
from tcpassay.judge.words import ms, several

NAME: Final = "small-window-after-recovery"
TITLE: Final = "cwnd below two segments on leaving recovery"
NEEDS: Final = (EventKind.CONGESTION, EventKind.WINDOW)
SEGMENTS: Final = 2


def look(trace: Trace) -> Iterator[Found]:
    """Judge the end of every recovery."""
    moves = trace.places(EventKind.CONGESTION)
    if len(moves) == 0:
        return
    windows = trace.places(EventKind.WINDOW)
    cwnd = trace.column(EventsColumn.CWND_BYTES, windows)
    found: dict[int, list[Found]] = {}
    by_marks = False
    for place, change in zip(moves, trace.congestion_changes(moves), strict=True):
        if change.enters_recovery:
            by_marks = change.before is CongestionState.CWR
        if (
            by_marks
            or change.before is not CongestionState.RECOVERY
            or change.after is CongestionState.LOSS
            or not change.window_known
        ):
            continue
        flow = int(trace.flow[place])
        window = trace.before(windows, int(place), flow)
        if window is None:
            continue
        bytes_ = int(cwnd[np.searchsorted(windows, window)])
        if bytes_ < SEGMENTS * trace.mss[flow]:
            found.setdefault(flow, []).append(_found(trace, int(place), window, bytes_, change.cause))
    for same in found.values():
        yield several(same)


def _found(trace: Trace, place: int, window: int, cwnd: int, cause: str) -> Found:
    flow, time = int(trace.flow[place]), int(trace.time[place])
    mss = trace.mss[flow]
    s = trace.segments
    at = trace.at(flow, place)
    rows = ([] if at is None or s.sent[at] else [int(s.row[at])]) + [
        int(trace.row[window]),
        int(trace.row[place]),
    ]
    host = trace.host[flow]
    nxt = None if at is None else s.nxt[at] - s.una[at]
    text = (
        f"{trace.hosts[host].capitalize()} left fast recovery of {trace.name(flow)} at {ms(time)} "
        f"({cause}) with cwnd = {cwnd} bytes, {cwnd / mss:.2f} segments of {mss}"
        f"{'' if nxt is None else f', and {int(nxt)} bytes outstanding'}. With a single segment in flight the receiver "
        "may wait for its delayed-ACK timer before it acknowledges."
    )
    return Found(flow, host, time, time, Severity.ERROR, TITLE, text, tuple(rows))
