"""A retransmission timeout although nothing was lost.

Asserts: when the retransmission timer fires, some of the outstanding data, or the ACK for them, was lost.

Why: the timer is the last resort after loss. It collapses the window to one segment (RFC 5681 section 3.1) and stops
the flow for at least the minimum RTO, so a receiver must acknowledge what it has within its delayed-ACK time (RFC 9293
section 3.8.6.3, RFC 5681 section 4.2), and an RTO must lie above the round-trip time (RFC 6298 section 2).

Evidence: the timer; the last arrival at the receiver of what was outstanding; the receiver's last ACK before the timer
and, if it logs them, its decision not to send one; the retransmission.

Wrong when: the receiver dropped data that the log shows as arrived (a full buffer, reneging), or the path duplicates
packets, so that a copy stands in for one that was lost. A round trip that jumps above the RTO, as in a deep queue
that fills within one round trip, is reported as a warning: then the timer, not a bug, was too fast. So is an RTO
shorter than the time for which the receiver delays its ACK. Where the case asks for a path that pauses (`link.pause`)
it is a note: no timer can foresee that.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from tcpassay.finding import Found, Severity
from tcpassay.interface import EventKind, EventsColumn, Timer
from tcpassay.judge.oracles.late_ack import ALLOWED
from tcpassay.judge.trace import BITS, Trace
from tcpassay.judge.words import ms, several

NAME: Final = "timeout-without-loss"
TITLE: Final = "timeout although nothing was lost"
NEEDS: Final = (EventKind.TIMER_FIRE,)
DELAYED: Final = 40_000_000
"""The shortest time for which Linux delays an ACK (`TCP_DELACK_MIN`). A kernel does not log how long it delays one."""


def look(trace: Trace) -> Iterator[Found]:
    """Judge every timeout."""
    found: dict[tuple[int, Severity], list[Found]] = {}
    for place in trace.timer_events(EventKind.TIMER_FIRE, Timer.RTO):
        one = _judge(trace, int(place))
        if one:
            found.setdefault((one.flow, one.severity), []).append(one)
    for same in found.values():
        yield several(same)


@dataclass(frozen=True, slots=True)
class _Fire:
    """A timer that fired with data outstanding, the keys `una` to `nxt`."""

    trace: Trace
    place: int
    flow: int
    time: int
    una: int
    nxt: int

    def __str__(self) -> str:
        trace = self.trace
        return (
            f"The retransmission timer of {trace.hosts[trace.host[self.flow]]} fired at {ms(self.time)} with "
            f"{self.nxt - self.una} bytes of {trace.name(self.flow)} outstanding (from position "
            f"{trace.position(self.una)})."
        )


def _judge(trace: Trace, place: int) -> Found | None:
    s, ledger = trace.segments, trace.ledger
    flow, time = int(trace.flow[place]), int(trace.time[place])
    at = trace.at(flow, place)
    if at is None or s.una[at] >= s.nxt[at]:
        return None
    fire = _Fire(trace, place, flow, time, int(s.una[at]), int(s.nxt[at]))
    cells = ledger.cells(fire.una, fire.nxt)
    last = int(ledger.first_arrival[cells].max())
    if last > time:
        # What came before the retransmission could was the original. Where delays vary, one may be shorter than all
        # that are known, though hardly half as long.
        early = last < time + trace.fastest[flow] // 2
        stream = ledger.edges[:-1] >> BITS == flow
        copied = bool((ledger.arrivals[stream] > ledger.sends[stream]).any())
        whole = bool((ledger.arrivals[cells] >= ledger.sends[cells]).all())
        return _too_fast(fire, last) if early or (whole and not copied) else None
    receiver = int(trace.peer[flow])
    theirs = trace.at_time(receiver, time)
    if theirs is None or trace.acked_out[theirs] <= fire.una:
        return _delayed(fire, last) or _silent(fire, last)
    # An ACK was sent and is not here. It is late, not lost, when it comes, and not another that says the same.
    later = slice(at + 1, trace.half(flow).stop)
    acks = later.start + np.flatnonzero(~s.sent[later] & (s.ack[later] > fire.una))
    if len(acks) == 0:
        return None
    half, came = trace.half(receiver), int(s.time[acks[0]])
    same = s.sent[half] & (s.ack[half] == s.ack[acks[0]]) & (s.time[half] <= came)
    sent = s.time[half][same]
    return _too_fast(fire, came) if len(sent) and sent[-1] < time else None


def _delayed(fire: _Fire, last: int) -> Found | None:
    """The receiver's own timer is to fire later than the sender's did, but no later than it may."""
    trace = fire.trace
    receiver = int(trace.peer[fire.flow])
    model = trace.recording.header.get("substrate", "model") == "model"
    if not model and fire.time - last < DELAYED:
        return _short(fire, receiver, last, last + DELAYED, ())
    places = trace.places(EventKind.ACK_DELAY)
    own = places[
        (trace.flow[places] == receiver) & (trace.time[places] >= last) & (trace.time[places] < fire.time)
    ]
    if len(own) == 0:
        return None
    due = int(trace.column(EventsColumn.VALUE_NS, own[-1:])[0])
    if due <= fire.time or due - last >= ALLOWED:
        return None
    return _short(fire, receiver, last, due, (int(trace.row[own[-1]]),))


def _short(fire: _Fire, receiver: int, last: int, due: int, decided: tuple[int, ...]) -> Found:
    trace = fire.trace
    rows = (int(trace.row[fire.place]), *_arrival(fire, receiver, last), *decided, *_next_sent(fire))
    text = (
        f"{fire} {trace.hosts[trace.host[receiver]].capitalize()} had all of them since {ms(last)} and delays its ACK "
        f"until {ms(due)}, as it may. The RTO was shorter than that: RFC 6298 says that it should be a second or more."
    )
    title = f"{TITLE}: the RTO was too short"
    return Found(fire.flow, trace.host[fire.flow], last, fire.time, Severity.WARNING, title, text, rows)


def _silent(fire: _Fire, last: int) -> Found:
    trace = fire.trace
    receiver = int(trace.peer[fire.flow])
    host = trace.host[receiver]
    rows = [int(trace.row[fire.place]), *_arrival(fire, receiver, last), *_last_ack(fire, receiver)]
    places = trace.places(EventKind.ACK_FORGET)
    times = trace.time[places]
    forgotten = places[(trace.flow[places] == receiver) & (times >= last) & (times < fire.time)]
    rows += [int(trace.row[place]) for place in forgotten[:1]]
    rows += _next_sent(fire)
    text = (
        f"{fire} {trace.hosts[host].capitalize()} had all of them since {ms(last)}, and in the {ms(fire.time - last)} "
        f"until the timeout it sent no ACK beyond position {trace.position(fire.una)}. So nothing was lost; both sides "
        "waited, the sender for an ACK and the receiver for more data."
    )
    if len(forgotten):
        text += " Its log says that it neither sent the ACK nor set a timer for it."
    return Found(fire.flow, host, last, fire.time, Severity.ERROR, TITLE, text, tuple(rows))


def _too_fast(fire: _Fire, arrived: int) -> Found:
    trace = fire.trace
    rows = (int(trace.row[fire.place]), *_next_sent(fire))
    text = (
        f"{fire} None of them was lost: what was missing, data or the ACK for them, was under way and came at "
        f"{ms(arrived)}. The RTO was shorter than this round trip."
    )
    title = f"{TITLE}: the RTO was too short"
    said = {one["parameter"]: one["value"] for one in trace.recording.header.get("case") or []}
    severity = Severity.WARNING if said.get("link.pause", "off") == "off" else Severity.NOTE
    return Found(fire.flow, trace.host[fire.flow], fire.time, arrived, severity, title, text, rows)


def _arrival(fire: _Fire, receiver: int, last: int) -> list[int]:
    """The arrival after which nothing was missing."""
    s, half = fire.trace.segments, fire.trace.half(receiver)
    own = slice(*(half.start + np.searchsorted(s.time[half], (last, last + 1))))
    hits = own.start + np.flatnonzero(~s.sent[own] & (s.start[own] < fire.nxt) & (s.end[own] > fire.una))
    return [int(s.row[i]) for i in hits[-1:]]


def _last_ack(fire: _Fire, receiver: int) -> list[int]:
    """What the receiver sent last before the timer fired."""
    s, half = fire.trace.segments, fire.trace.half(receiver)
    stop = half.start + int(np.searchsorted(s.time[half], fire.time))
    sent = half.start + np.flatnonzero(s.sent[half.start : stop])
    return [int(s.row[i]) for i in sent[-1:]]


def _next_sent(fire: _Fire) -> list[int]:
    """The retransmission."""
    s, half = fire.trace.segments, fire.trace.half(fire.flow)
    first = int(np.searchsorted(s.place, fire.place))
    sent = first + np.flatnonzero(s.sent[first : half.stop])
    return [int(s.row[i]) for i in sent[:1]]
