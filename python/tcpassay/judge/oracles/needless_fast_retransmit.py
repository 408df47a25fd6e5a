"""A fast retransmit of what was only reordered.

Asserts: of the segments that a fast recovery retransmits, at least one had been lost.

Why: duplicate ACKs are taken for loss because a network rarely reorders (RFC 5681 section 3.2); when it does, the
sender repeatedly reduces its window without need. It can raise its threshold (RFC 4653), wait for a reordering window
(RFC 8985 section 6.2) or undo the reduction (RFC 3522, RFC 3708, RFC 4015), so a path that reorders need not cost
throughput. What the random reordering of a case explains is a note.

Evidence: the original transmission of the segment that was retransmitted first, its arrival at the receiver, the
start of the recovery, the retransmission.

Wrong when: the path duplicates packets and lost the other copy, the receiver dropped what the log shows as arrived,
or a retransmission was faster than all that was sent only once between these hosts. Recoveries in which a segment was
really lost are not judged, though some of what they retransmit may be needless.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from tcpassay.finding import Found, Severity
from tcpassay.interface import EventKind, EventsColumn
from tcpassay.judge.log import Ints
from tcpassay.judge.trace import BITS, Bools, Trace
from tcpassay.judge.words import ms, repeated
from tcpassay.recording import Recording

NAME: Final = "needless-fast-retransmit"
TITLE: Final = "fast retransmit of what was only reordered"
NEEDS: Final = (EventKind.CONGESTION,)


def look(trace: Trace) -> Iterator[Found]:
    """Judge every fast recovery by what it retransmitted."""
    s = trace.segments
    again = np.flatnonzero(s.again & (s.end > s.start))
    moves = trace.places(EventKind.CONGESTION)
    if len(again) == 0 or len(moves) == 0:
        return
    changes = trace.congestion_changes(moves)
    episode = np.searchsorted(moves, s.place[again], "left") - 1
    fast = np.array([change.enters_recovery for change in changes], np.bool_)
    kept = (episode >= 0) & fast[np.maximum(episode, 0)]
    kept &= trace.flow[moves[np.maximum(episode, 0)]] == s.flow[again]
    again, episode = again[kept], episode[kept]
    if len(again) == 0:
        return
    false_alarms = needless(trace, again)
    starts = np.flatnonzero(np.diff(episode, prepend=-1))
    false = np.logical_and.reduceat(false_alarms, starts)
    ends = np.append(starts[1:], len(again))
    flows = s.flow[again[starts]]
    for flow in np.unique(flows[false]):
        own = np.flatnonzero(false & (flows == flow))
        begun = trace.time[moves[episode[starts[own]]]]
        first = slice(starts[own[0]], ends[own[0]])
        one = _found(
            trace, again[first], int(moves[episode[first.start]]), changes[episode[first.start]].cause
        )
        last = int(s.time[again[ends[own[-1]] - 1]])
        yield repeated(one, len(own), int(begun[-1]), max(one.end_ns, last))


def needless(trace: Trace, again: Ints) -> Bools:
    """Which retransmissions were of what arrived before any retransmission of it could: it was the original."""
    s, ledger = trace.segments, trace.ledger
    low = np.searchsorted(ledger.edges, s.start[again], "right") - 1
    high = np.searchsorted(ledger.edges, s.end[again], "left")
    bounds = np.column_stack([low, high]).ravel()
    stream = ledger.edges[:-1] >> BITS
    repaired = ledger.first_again + np.maximum(trace.fastest[np.minimum(stream, len(trace.fastest) - 1)], 1)
    arrived = np.append(ledger.first_arrival < repaired, np.False_)
    made: Bools = np.logical_and.reduceat(arrived, bounds)[::2]
    return made


def _found(trace: Trace, again: Ints, move: int, cause: str) -> Found:
    s = trace.segments
    first = int(again[0])
    flow, time = int(s.flow[first]), int(s.time[first])
    start, end = int(s.start[first]), int(s.end[first])
    arrived = int(trace.ledger.first_arrival[trace.ledger.cells(start, end)].max())
    original = _covering(trace, flow, start, sent=True)
    arrival = _covering(trace, int(trace.peer[flow]), start, sent=False)
    rows = [int(s.row[i]) for i in (original, arrival) if i is not None]
    rows += [int(trace.row[move]), int(s.row[first])]
    host = trace.host[flow]
    if arrived <= time:
        when = f"it had arrived at {ms(arrived)}, {ms(time - arrived)} before"
    else:
        when = f"it was under way and arrived at {ms(arrived)}, before the retransmission could"
    number = "The retransmission" if len(again) == 1 else f"All {len(again)} retransmissions"
    text = (
        f"{trace.hosts[host].capitalize()} entered fast recovery of {trace.name(flow)} at {ms(int(trace.time[move]))} "
        f"({cause}) and retransmitted position {trace.position(start)} at {ms(time)}, but nothing had "
        f"been lost: {when}. {number} of this recovery did nothing{_cost(trace, move)}."
    )
    begun, ended = int(trace.time[move]), max(int(s.time[again[-1]]), arrived)
    severity = Severity.NOTE if _random(trace.recording) else Severity.WARNING
    return Found(flow, host, begun, ended, severity, TITLE, text, tuple(rows))


def _random(recording: Recording) -> bool:
    """Whether the case asks for random reordering, and for none that goes on all the time."""
    said = {one["parameter"]: one["value"] for one in recording.header.get("case") or []}
    steady = (
        said.get("link.reorder", "off").startswith("reverse-burst")
        or said.get("nic.lro_order") == "stale-hash"
    )
    return not steady and bool({"link.jitter", "link.reorder"} & set(said))


def _cost(trace: Trace, move: int) -> str:
    """What became of the window that the recovery reduced."""
    flow, moves = int(trace.flow[move]), trace.places(EventKind.CONGESTION)
    after = moves[(moves > move) & (trace.flow[moves] == flow)]
    if len(after) == 0:
        return " but reduce the window"
    left = int(after[0])
    when = int(trace.time[left])
    windows = trace.places(EventKind.WINDOW)
    windows = windows[trace.flow[windows] == flow]
    before = windows[trace.time[windows] < trace.time[move]]
    leaving = windows[trace.time[windows] == when]
    had, has = (trace.column(EventsColumn.CWND_BYTES, some) for some in (before, leaving))
    # A kernel gives no reason, but its window is what it was before.
    restored = len(had) > 0 and len(has) > 0 and int(has.max()) >= int(had[-1])
    if trace.congestion_changes(np.array([left]))[0].undone or restored:
        return f"; the reduction of the window was undone at {ms(when)}"
    return " but reduce the window"


def _covering(trace: Trace, half: int, key: int, *, sent: bool) -> int | None:
    """The first segment of a half that covers a key."""
    s, own = trace.segments, trace.half(half)
    hits = np.flatnonzero(
        (s.sent[own] == sent) & ~s.refused[own] & (s.start[own] <= key) & (s.end[own] > key)
    )
    return own.start + int(hits[0]) if len(hits) else None
