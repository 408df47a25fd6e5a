"""Silence of both sides with data outstanding.

Asserts: while data are outstanding, one of the two ends acts within a bounded time. When everything that was sent has
arrived, the receiver's ACK follows within its delayed-ACK time; when something is missing, a retransmission timer
runs and fires.

Why: a silence that only a much later timer ends, or no event at all, is a deadlock. The receiver must not hold back
an ACK for half a second or more (RFC 9293 section 3.8.6.3), and the retransmission timer must run whenever data are
outstanding (RFC 6298 section 5, rules 5.1 and 5.4).

Evidence: the last segment before the silence and the first one after it; the last arrival of what was outstanding;
the retransmission timer as it was last set.

Wrong when: the receiver dropped data that the log shows as arrived, or a host did not run (a stopped process, a
suspended machine): no TCP can send then.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from tcpassay.finding import Found, Severity
from tcpassay.interface import EventKind, EventsColumn, Timer
from tcpassay.judge.log import Ints
from tcpassay.judge.oracles.late_ack import ALLOWED, SLACK
from tcpassay.judge.trace import Trace
from tcpassay.judge.words import ms, several

NAME: Final = "mutual-silence"
TITLE: Final = "both sides silent with data outstanding"
NEEDS: Final = (EventKind.TIMER_SET, EventKind.TIMER_FIRE)
INITIAL: Final = 1_000_000_000
"""RFC 6298 section 2: the RTO before the first measurement; a timer that was not logged is not waited for longer."""


def look(trace: Trace) -> Iterator[Found]:
    """Judge every silence that is longer than an ACK may be delayed."""
    s = trace.segments
    if len(s.row) == 0:
        return
    limits = [trace.ack_waits.get(flow, (0, ALLOWED))[1] for flow in range(len(trace.host))]
    shortest = min(limits) + SLACK
    connection = trace.connection[s.flow]
    order = np.lexsort((s.row, connection))
    time, of = s.time[order], connection[order]
    last = np.append(of[1:] != of[:-1], True)
    until = np.append(time[1:], trace.end_ns)
    until[last] = trace.end_ns
    found: dict[tuple[int, str], list[Found]] = {}
    for place in np.flatnonzero(until - time > shortest):
        before = int(order[place])
        after = None if last[place] else int(order[place + 1])
        gap = _Gap(before, after, int(time[place]), int(until[place]))
        own = int(s.flow[before])
        for flow in dict.fromkeys((own, int(trace.peer[own]))):
            one = _judge(trace, flow, gap, limits)
            if one:
                found.setdefault((flow, one.title), []).append(one)
    for same in found.values():
        yield several(same)


@dataclass(frozen=True, slots=True)
class _Gap:
    """A time in which a connection was silent: the segments before and after it, and when."""

    before: int
    after: int | None
    start: int
    end: int


def _judge(trace: Trace, flow: int, gap: _Gap, limits: list[int]) -> Found | None:
    s, ledger = trace.segments, trace.ledger
    receiver = int(trace.peer[flow])
    at = gap.before if s.flow[gap.before] == flow else trace.at_time(flow, gap.start)
    if (
        at is None
        or s.una[at] >= s.nxt[at]
        or _gave_up(trace, flow, gap.end)
        or _gave_up(trace, receiver, gap.end)
    ):
        return None
    una, nxt = int(s.una[at]), int(s.nxt[at])
    ended = "to the end of the run" if gap.after is None else f"until {ms(gap.end)}"
    silence = (
        f"From {ms(gap.start)} {ended}, {ms(gap.end - gap.start)}, neither side sent anything, with {nxt - una} bytes "
        f"of {trace.name(flow)} outstanding (from position {trace.position(una)})."
    )
    arrived = int(ledger.first_arrival[ledger.cells(una, nxt)].max())
    theirs = trace.at_time(receiver, gap.start)
    acked = una if theirs is None else int(trace.acked_out[theirs])
    if arrived > gap.start or acked > una:
        return _timer(trace, flow, gap, at, silence)
    if gap.end - gap.start <= limits[receiver] + SLACK:
        return None
    host = trace.host[receiver]
    text = (
        f"{silence} All of them had arrived at {trace.hosts[host]}, which owed an ACK and sent none, and "
        f"{trace.hosts[trace.host[flow]]} could only wait: a deadlock until a retransmission timer ends it."
    )
    title = f"{TITLE}: everything had arrived"
    return Found(flow, host, gap.start, gap.end, Severity.ERROR, title, text, _rows(trace, gap))


def _timer(trace: Trace, flow: int, gap: _Gap, at: int, silence: str) -> Found | None:
    """Something is missing: the sender's timer must run, and fire in time."""
    rows = _rows(trace, gap)
    armed = _armed(trace, flow, gap.start)
    if armed is None:
        due = gap.start + INITIAL
        why = "no retransmission timer was running"
        title = f"{TITLE}: no retransmission timer"
    else:
        due = int(trace.column(EventsColumn.VALUE_NS, np.array([armed]))[0])
        why = f"the retransmission timer that was to fire at {ms(due)} did not"
        title = f"{TITLE}: the retransmission timer did not fire"
        rows = (*rows, int(trace.row[armed]))
    if gap.end <= due + SLACK or _fired(trace, flow, int(trace.segments.place[at]), gap.end):
        return None
    text = f"{silence} Not all of them had been acknowledged or had arrived, and {why}."
    return Found(flow, trace.host[flow], gap.start, gap.end, Severity.ERROR, title, text, rows)


def _rows(trace: Trace, gap: _Gap) -> tuple[int, ...]:
    ends = (gap.before,) if gap.after is None else (gap.before, gap.after)
    return tuple(int(trace.segments.row[i]) for i in ends)


def _rto(trace: Trace, kind: EventKind, flow: int) -> Ints:
    places = trace.timer_events(kind, Timer.RTO)
    kept: Ints = places[trace.flow[places] == flow]
    return kept


def _armed(trace: Trace, flow: int, start: int) -> int | None:
    """Where the timer that runs at `start` was set."""
    set_, stopped = (
        places[trace.time[places] <= start]
        for places in (
            _rto(trace, EventKind.TIMER_SET, flow),
            np.sort(
                np.concatenate(
                    [_rto(trace, kind, flow) for kind in (EventKind.TIMER_CANCEL, EventKind.TIMER_FIRE)]
                )
            ),
        )
    )
    if len(set_) == 0 or (len(stopped) and stopped[-1] > set_[-1]):
        return None
    return int(set_[-1])


def _fired(trace: Trace, flow: int, place: int, end: int) -> bool:
    fires = trace.places(EventKind.TIMER_FIRE)
    return bool(((trace.flow[fires] == flow) & (fires > place) & (trace.time[fires] < end)).any())


def _gave_up(trace: Trace, flow: int, end: int) -> bool:
    return trace.closed.get(flow, end) < end
