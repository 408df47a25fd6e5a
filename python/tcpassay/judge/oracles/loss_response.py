"""The answer of a real kernel to a loss: how much it reduces its window, and whether it takes a reduction back.

Asserts: a loss that begins a fast recovery or a timeout, outside of an earlier reduction, leaves a slow-start threshold
of the controller's factor of the window (0.5, CUBIC 0.7) and two segments; a reduction by a fast recovery is not undone
if everything that was retransmitted since had been lost, nor one by a timeout if the first outstanding segment had been
lost; and with timestamps it is undone if nothing had been lost.

Why: RFC 5681 section 3.1 (equation 4), RFC 9438 section 4.6, RFC 8257 section 3.5: without a reduction a sender keeps a
congested path congested. An undo is for losses that were none (RFC 3522, RFC 3708, RFC 4015, RFC 5682): without it a
path that reorders or pauses costs throughput although it loses nothing.

Evidence: the change of the congestion state, the last window before it and the first one after it; for an undo the
first retransmission as well.

Wrong when: the controller restores its window by its own rules (BBR; other controllers than these three are not
judged), the parameters of the controller are not its defaults (`stack.cc.*`; such runs are not judged), or a window
between two segments is not in the log. A missing undo is judged only where the path loses no ACKs and marks nothing,
and where round trips are longer than the granularity of timestamps. The model logs more of each reduction, and
`window-reduction` judges it.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from tcpassay.finding import Found, Severity
from tcpassay.interface import CongestionState, EventKind, EventsColumn
from tcpassay.judge.log import EventRow
from tcpassay.judge.oracles.needless_fast_retransmit import needless
from tcpassay.judge.trace import Trace
from tcpassay.judge.words import ms, several
from tcpassay.reasons import CongestionChange

NAME: Final = "loss-response"
TITLE: Final = "answer to a loss"
NEEDS: Final = (EventKind.CONGESTION, EventKind.WINDOW)
FACTORS: Final = {"reno": 0.5, "dctcp": 0.5, "cubic": 0.7}
"""What remains of the window; other controllers are not judged."""
LEAVING: Final = "on leaving Recovery"
"""The reason of the row with the window at the end of a recovery."""
SPARE: Final = 2
"""Segments: the smallest threshold, and the rounding to whole segments."""
CLEAR: Final = {
    "stack.timestamps": "on",
    "stack.ecn": "off",
    "link.ack_loss": "0",
    "link.ack_thinning": "1",
    "link.duplicate": "0",
    "link.corrupt": "0",
}
"""Settings without which a missing undo may have another reason."""
TICKS: Final = 2_000_000
"""Shortest delay in one direction, in nanoseconds: timestamps count milliseconds."""
RESTORED: Final = (*FACTORS, "vegas")
"""Controllers whose window an undo restores."""
_CALM: Final = frozenset({CongestionState.OPEN, CongestionState.DISORDER})
_LOST: Final = frozenset({CongestionState.RECOVERY, CongestionState.LOSS})


def look(trace: Trace) -> Iterator[Found]:
    """Judge every change of the congestion state of a kernel."""
    if trace.recording.header.get("substrate", "model") == "model":
        return
    moves, windows = trace.places(EventKind.CONGESTION), trace.places(EventKind.WINDOW)
    changes = trace.congestion_changes(moves)
    found: dict[tuple[int, str], list[Found]] = {}
    for flow in np.unique(trace.flow[moves]):
        own = [
            (int(place), change)
            for place, change in zip(moves, changes, strict=True)
            if trace.flow[place] == flow
        ]
        for one in _of_flow(trace, own, windows[trace.flow[windows] == flow]):
            found.setdefault((one.flow, one.title), []).append(one)
    for same in found.values():
        yield several(same)


def _of_flow(trace: Trace, moves: list[tuple[int, CongestionChange]], windows: np.ndarray) -> Iterator[Found]:
    restored = -1
    for index, (place, change) in enumerate(moves):
        if change.before not in _CALM:
            restored = place
        if change.before not in _CALM or change.after not in _LOST:
            continue
        left = moves[index + 1][0] if index + 1 < len(moves) else int(trace.row.size)
        before, after = _last(windows, place), _first(windows, place, left)
        # On leaving a reduction the window may have been restored, and is known from the next row on.
        if before is None or after is None or before < restored:
            continue
        had, has = trace.rows([before, after])
        yield from _reduction(trace, place, change, (before, after), had, has)
        # A timeout within a recovery may be spurious, and its undo restores the window of before the recovery (F-RTO).
        ends = [at for at, later in moves[index + 1 : index + 2] if later.after in _CALM]
        if ends and _threshold(has) < _threshold(had):
            yield from _undo(trace, (place, ends[0]), change, windows, had)
            yield from _kept(trace, (place, ends[0]), change, windows, had)


def _reduction(  # noqa: PLR0913, PLR0917 - two windows and the change between them
    trace: Trace, place: int, change: CongestionChange, at: tuple[int, int], had: EventRow, has: EventRow
) -> Iterator[Found]:
    flow = int(trace.flow[place])
    said = {one["parameter"] for one in trace.recording.header.get("case") or []}
    cc = str(trace.recording.flows[flow].get("cc", ""))
    if cc not in FACTORS or any(path.startswith("stack.cc.") for path in said):
        return
    # The window may have grown since the row that is known: what is in flight shows how far.
    flight = has.values.get(EventsColumn.FLIGHT_BYTES, 0)
    mss = trace.mss[flow]
    window = max(had.values.get(EventsColumn.CWND_BYTES, 0) + _earned(trace, flow, place) * mss, flight)
    most = max(FACTORS[cc] * window, SPARE * mss) + SPARE * mss
    threshold = _threshold(has)
    if threshold <= max(most, _threshold(had) if _threshold(had) < window else 0):
        return
    told = "no threshold" if threshold == np.inf else f"a slow-start threshold of {int(threshold)} bytes"
    text = (
        f"{trace.hosts[trace.host[flow]].capitalize()} found a loss of {trace.name(flow)} at "
        f"{ms(int(trace.time[place]))} ({change.before} to {change.after}) with a window of {window} bytes, and "
        f"{cc} left {told}: more than {FACTORS[cc]:g} of the window and two segments of {mss} "
        "(RFC 5681 section 3.1)."
    )
    cited = (at[0], place, at[1])
    yield _found(trace, Severity.ERROR, cited, "a loss leaves more than the controller's factor", text)


def _earned(trace: Trace, flow: int, place: int) -> int:
    """The number of segments that the last arrival before `place` acknowledged.

    The log has the window that this arrival met, not the one that it left.
    """
    s, half = trace.segments, trace.half(flow)
    arrivals = np.flatnonzero(~s.sent[half] & (s.place[half] < place)) + half.start
    if len(arrivals) == 0 or arrivals[-1] == half.start:
        return 0
    last = int(arrivals[-1])
    sent = s.sent[half] & (s.end[half] > s.start[half])
    mine = sent & (s.end[half] > s.una[last - 1]) & (s.end[half] <= s.una[last])
    _, first = np.unique(s.end[half][mine], return_index=True)
    lengths = (s.end[half] - s.start[half])[mine][first]
    return int((-(-lengths // trace.mss[flow])).sum())


def _undo(
    trace: Trace, at: tuple[int, int], change: CongestionChange, windows: np.ndarray, had: EventRow
) -> Iterator[Found]:
    begun, ended = at
    if str(trace.recording.flows[int(trace.flow[begun])].get("cc", "")) not in RESTORED:
        return
    window, threshold = had.values.get(EventsColumn.CWND_BYTES, 0), _threshold(had)
    after = _left_with(trace, windows, ended)
    # Without SACK a timeout that is undone stays in its state until newer data are acknowledged (RFC 6582 section 3.2).
    inside = windows[(windows > begun) & (windows < ended)][1:].tolist()
    candidates = [
        *(inside if change.after == CongestionState.LOSS else []),
        *([] if after is None else [after]),
    ]
    restored = [
        place
        for place, row in zip(candidates, trace.rows(candidates), strict=True)
        if _threshold(row) >= threshold and row.values.get(EventsColumn.CWND_BYTES, 0) >= window
    ]
    if not restored:
        return
    ended = min(ended, restored[0])
    flow, s = int(trace.flow[begun]), trace.segments
    again = np.flatnonzero(
        s.again & (s.flow == flow) & (s.end > s.start) & (s.place > begun) & (s.place < ended)
    )
    if change.after == CongestionState.LOSS and not _delays(trace):
        # After a timeout Linux without SACK also sends again what arrived. Whether the timeout was spurious depends on
        # the first outstanding segment (RFC 5682 section 2.1): only its repair lets the ACKs advance. If it had been
        # sent again before, that transmission may be the one that was only late.
        again = again[:1]
        before = trace.ledger.first_again < trace.time[begun]
        if any(before[trace.ledger.cells(int(s.start[one]), int(s.end[one]))].any() for one in again):
            return
    if len(again) == 0 or needless(trace, again).any() or not any(_lost(trace, int(one)) for one in again):
        return
    text = (
        f"{trace.hosts[trace.host[flow]].capitalize()} reduced the window of {trace.name(flow)} for a loss at "
        f"{ms(int(trace.time[begun]))} and restored it at {ms(int(trace.time[ended]))}, although what it had "
        f"retransmitted ({len(again)} segments) had been lost (RFC 4015 section 3)."
    )
    cited = (begun, int(s.place[again[0]]), ended)
    yield _found(trace, Severity.WARNING, cited, "a reduction for a real loss is undone", text)


def _delays(trace: Trace) -> bool:
    """Whether the path may hold an original for so long that it looks like its retransmission."""
    said = {one["parameter"]: one["value"] for one in trace.recording.header.get("case") or []}
    return any(said.get(name, "off") != "off" for name in ("link.pause", "link.slot"))


def _kept(
    trace: Trace, at: tuple[int, int], change: CongestionChange, windows: np.ndarray, had: EventRow
) -> Iterator[Found]:
    """With timestamps the first ACK of new data proves that it answers an original (RFC 3522 section 3.2)."""
    begun, ended = at
    flow, s = int(trace.flow[begun]), trace.segments
    said = {one["parameter"]: one["value"] for one in trace.recording.header.get("case") or []}
    clear = all(said.get(name, usual) == usual for name, usual in CLEAR.items())
    cc = str(trace.recording.flows[flow].get("cc", ""))
    if cc not in FACTORS or not clear or trace.fastest[flow] < TICKS:
        return
    after = _left_with(trace, windows, ended)
    if after is None:
        return
    (has,) = trace.rows([after])
    first, last = trace.at(flow, begun), trace.at(flow, ended)
    if _threshold(has) >= _threshold(had) or first is None or last is None:
        return
    # Every transmission of what was outstanding arrived.
    cells = trace.ledger.cells(int(s.una[first]), int(s.nxt[last]))
    again = np.flatnonzero(
        s.again & (s.flow == flow) & (s.end > s.start) & (s.place > begun) & (s.place < ended)
    )
    if len(again) == 0 or (trace.ledger.arrivals[cells] < trace.ledger.sends[cells]).any():
        return
    text = (
        f"{trace.hosts[trace.host[flow]].capitalize()} reduced the window of {trace.name(flow)} at "
        f"{ms(int(trace.time[begun]))} ({change.before} to {change.after}) and sent {len(again)} segments again, but "
        f"nothing was lost; at {ms(int(trace.time[ended]))}, on leaving {change.after}, its slow-start threshold is "
        f"{int(_threshold(has))} bytes, although the timestamps of the ACKs prove it (RFC 3522 section 3.2, RFC 4015 "
        "section 3)."
    )
    cited = (begun, int(s.place[again[0]]), ended)
    yield _found(trace, Severity.WARNING, cited, "a needless reduction is not undone", text)


def _lost(trace: Trace, segment: int) -> bool:
    """Whether a transmission of what a segment repeats never arrived."""
    ledger, s = trace.ledger, trace.segments
    cells = ledger.cells(int(s.start[segment]), int(s.end[segment]))
    return bool((ledger.reached[cells] < ledger.sends[cells]).any())


def _left_with(trace: Trace, windows: np.ndarray, ended: int) -> int | None:
    """The row with the window after a reduction; none if the next segment met the window that was known before."""
    leaving = _last(windows, ended)
    if (
        leaving is not None
        and trace.time[leaving] == trace.time[ended]
        and trace.why(np.array([leaving]))[0] == LEAVING
    ):
        return leaving
    # Later rows show what later segments did to the window.
    s, half = trace.segments, trace.half(int(trace.flow[ended]))
    come = half.start + np.flatnonzero(~s.sent[half] & (s.time[half] > trace.time[ended]))
    after = _first(windows, ended, int(trace.row.size))
    return after if after is not None and len(come) and trace.time[after] <= s.time[come[0]] else None


def _found(trace: Trace, severity: Severity, rows: tuple[int, ...], title: str, text: str) -> Found:
    place = rows[1]
    flow, time = int(trace.flow[place]), int(trace.time[place])
    cited = tuple(int(trace.row[row]) for row in rows)
    return Found(
        flow,
        trace.host[flow],
        time,
        int(trace.time[rows[-1]]),
        severity,
        f"{TITLE}: {title}",
        text,
        cited,
    )


def _threshold(row: EventRow) -> float:
    """The slow-start threshold of a row in bytes; without one there is no bound."""
    value = row.values.get(EventsColumn.SSTHRESH_BYTES)
    return np.inf if value is None else float(value)


def _last(windows: np.ndarray, place: int) -> int | None:
    at = int(np.searchsorted(windows, place, "left")) - 1
    return None if at < 0 else int(windows[at])


def _first(windows: np.ndarray, place: int, end: int) -> int | None:
    at = int(np.searchsorted(windows, place, "right"))
    return int(windows[at]) if at < len(windows) and windows[at] < end else None
