"""An ACK that came later than it may be delayed.

Asserts: after data arrive, the receiver sends something that acknowledges all it has in order. If its log shows that
it set a timer, it does so by the time of the timer; otherwise at once, that is, sooner than its timer ever fires; and
always in less than half a second.

Why: RFC 9293 section 3.8.6.3 and RFC 5681 section 4.2: an ACK should not be delayed excessively, in particular the
delay must be less than 0.5 seconds. An ACK that is neither sent nor timed stops the sender until its retransmission
timeout; this is the receiver's side of the DCTCP stall.

Evidence: the first data that went unacknowledged; the receiver's decision about its ACK where it logged one; the
segment that acknowledged at last, if there was one.

Wrong when: the host could not send (a stopped process, a full device queue), or ran with a longer delayed-ACK time in
one part of the run than its timer shows in the rest.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from tcpassay.finding import Found, Severity
from tcpassay.interface import EventKind, EventsColumn
from tcpassay.judge.log import Ints
from tcpassay.judge.trace import BITS, Trace
from tcpassay.judge.words import ms, several

NAME: Final = "late-ack"
TITLE: Final = "ACK later than its limit"
NEEDS: Final[tuple[EventKind, ...]] = ()
ALLOWED: Final = 500_000_000
"""RFC 9293 section 3.8.6.3: less than 0.5 s."""
SLACK: Final = 1_000_000
"""Timers of real hosts have ticks, so that an ACK may be one millisecond late."""


def look(trace: Trace) -> Iterator[Found]:
    """Judge every arrival of data by what the receiver sent next."""
    s = trace.segments
    data = ~s.sent & ~s.refused & (s.end > s.start)
    if not data.any():
        return
    count = len(s.row)
    # The next segment that each half sent: a running minimum from the back.
    following = np.minimum.accumulate(np.where(s.sent, np.arange(count), count)[::-1])[::-1][data]
    # And the first one that acknowledges all that had arrived in order: an ACK of something older does not count.
    half, peer, time = s.flow[data], trace.peer[s.flow[data]], s.time[data]
    position = trace.ledger.frontier(peer, time) - (peer << BITS)
    said = trace.acked_out - (trace.peer[s.flow] << BITS) + (s.flow << BITS)
    reply = np.maximum(following, np.searchsorted(said, (half << BITS) + position, "left"))
    reply = np.where((reply < count) & (s.flow[np.minimum(reply, count - 1)] == half), reply, count)
    until = np.append(s.time, 0)[reply]
    open_ = reply == count
    ends = np.array([trace.closed.get(flow, trace.end_ns) for flow in range(len(trace.host))], np.int64)
    until[open_] = ends[half[open_]]
    limits = np.array(
        [trace.ack_waits.get(flow, (ALLOWED, 0))[0] for flow in range(len(trace.host))], np.int64
    )
    late = np.flatnonzero(until - time > np.minimum(limits, ALLOWED)[half] + SLACK)
    # Several arrivals that waited for one ACK are one case: the first waited longest.
    late = late[np.unique(half[late] * (count + 1) + reply[late], return_index=True)[1]]
    arrivals = np.flatnonzero(data)
    timed, forgotten = trace.places(EventKind.ACK_DELAY), trace.places(EventKind.ACK_FORGET)
    found: dict[int, list[Found]] = {}
    for i in np.sort(late):
        owed = _Owed(int(arrivals[i]), None if open_[i] else int(reply[i]), int(until[i]))
        one = _judge(trace, owed, timed, forgotten)
        if one:
            found.setdefault(one.flow, []).append(one)
    for same in found.values():
        yield several(same)


@dataclass(frozen=True, slots=True)
class _Owed:
    """An ACK that is owed: segments that arrived and acknowledged it, and when the latter left, or nothing could."""

    first: int
    reply: int | None
    until: int

    def among(self, trace: Trace, places: Ints) -> Ints:
        """Those of some places that lie between the arrival and the ACK."""
        s = trace.segments
        stop = trace.half(int(s.flow[self.first])).stop - 1 if self.reply is None else self.reply
        bounds = (int(s.place[self.first]), int(s.place[stop]) + (self.reply is None) * len(trace.row))
        low, high = np.searchsorted(places, bounds)
        own: Ints = places[low:high]
        mine: Ints = own[trace.flow[own] == s.flow[self.first]]
        return mine


def _judge(trace: Trace, owed: _Owed, timed: Ints, forgotten: Ints) -> Found | None:
    s = trace.segments
    half, time = int(s.flow[owed.first]), int(s.time[owed.first])
    waited = owed.until - time
    timed, forgotten = owed.among(trace, timed), owed.among(trace, forgotten)
    due = int(trace.column(EventsColumn.VALUE_NS, timed[-1:])[0]) if len(timed) else None
    if due is not None and owed.until <= due + SLACK and waited < ALLOWED:
        return None
    rows = [int(s.row[owed.first])] + [int(trace.row[place]) for place in (*timed[-1:], *forgotten[:1])]
    if owed.reply is not None:
        rows.append(int(s.row[owed.reply]))
    host, flow = trace.host[half], int(trace.peer[half])
    ended = "an ACK of it left" if owed.reply is not None else "there was still no ACK of it"
    text = (
        f"Data of {trace.name(flow)} up to position {trace.position(int(s.end[owed.first]))} reached "
        f"{trace.hosts[host]} at {ms(time)}; {ms(waited)} later, at {ms(owed.until)}, {ended}. "
    )
    if len(forgotten):
        text += "The log says that the ACK was neither sent nor timed. "
    elif due is None:
        text += "No timer was set for it. "
    else:
        text += f"Its timer was set to {ms(due)}. "
    if waited >= ALLOWED:
        text += "An ACK must be delayed by less than 500 ms."
    elif half in trace.ack_waits:
        text += (
            f"Elsewhere in this run the timer of this receiver waits {ms(trace.ack_waits[half][1])} at most."
        )
    return Found(flow, host, time, owed.until, Severity.ERROR, TITLE, text, tuple(rows))
