"""Bytes that were not delivered once and in order.

Asserts: a receiver acknowledges only what has arrived without a gap, and never takes an acknowledgement back; its
application reads no more bytes than arrived, and after a regular close it has read all of them.

Why: TCP provides a reliable, in-order stream (RFC 9293 section 2.2). An ACK number says that everything before it was
received (section 3.4), and a close delivers what was sent before it (section 3.10.4).

Evidence: the ACK that is wrong and the arrival, if any, that it should have waited for; for bytes read, the counters
of the flow in `recording.json`.

Wrong when: the log misses arrivals (it was cut short, or packets took a path that it does not record). What the bytes
say is not compared: the model carries positions, not contents.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from tcpassay.finding import Found, Severity
from tcpassay.interface import EventKind
from tcpassay.judge.trace import BITS, FIN, NEVER, RST, SYN, Trace
from tcpassay.judge.words import ms, several

NAME: Final = "delivery"
TITLE: Final = "bytes not delivered once and in order"
NEEDS: Final[tuple[EventKind, ...]] = ()


def look(trace: Trace) -> Iterator[Found]:
    """Judge every ACK, and what was read of every flow."""
    if len(trace.segments.row) == 0:
        return
    yield from _acks(trace)
    for flow in range(len(trace.host)):
        yield from _read(trace, flow)


def _acks(trace: Trace) -> Iterator[Found]:
    s = trace.segments
    said = np.flatnonzero(s.sent & (s.flags & (SYN | RST) == 0))
    early = said[s.time[said] < trace.ledger.reach(s.ack[said])]
    back = said[1:][(np.diff(s.ack[said]) < 0) & (np.diff(s.flow[said]) == 0)]
    found: dict[tuple[int, str], list[Found]] = {}
    for segment, title in [(i, "acknowledged before it arrived") for i in early] + [
        (i, "acknowledgement taken back") for i in back
    ]:
        half, time = int(s.flow[segment]), int(s.time[segment])
        flow, host = int(trace.peer[half]), trace.host[half]
        position, complete = (
            trace.position(s.ack[segment]),
            int(trace.ledger.reach(s.ack[segment : segment + 1])[0]),
        )
        rows = [int(s.row[segment])]
        who = trace.hosts[host].capitalize()
        text = f"{who} acknowledged {trace.name(flow)} up to position {position} at {ms(time)}"
        if title == "acknowledgement taken back":
            before = int(said[np.searchsorted(said, segment) - 1])
            rows.insert(0, int(s.row[before]))
            text += f", after it had acknowledged up to {trace.position(s.ack[before])} at {ms(int(s.time[before]))}."
        elif complete >= NEVER:
            text += ", but not all of the bytes before it arrived in this run."
        else:
            text += f", but the last of the bytes before it arrived only at {ms(complete)}."
        one = Found(flow, host, time, time, Severity.ERROR, f"{TITLE}: {title}", text, tuple(rows))
        found.setdefault((flow, title), []).append(one)
    for same in found.values():
        yield several(same)


def _read(trace: Trace, flow: int) -> Iterator[Found]:
    recording, ledger = trace.recording, trace.ledger
    receiver = int(trace.peer[flow])
    if receiver == flow:
        return
    edges = ledger.edges
    own = slice(int(np.searchsorted(edges, flow << BITS)), int(np.searchsorted(edges, (flow + 1) << BITS)))
    cells = slice(own.start, max(own.stop - 1, own.start))
    whole = int((ledger.complete[cells] < NEVER).sum())
    in_order = trace.position(edges[own.start + whole]) - 1 if own.stop > own.start else 0
    half = trace.half(receiver)
    s = trace.segments
    fin = half.start + np.flatnonzero(~s.sent[half] & ~s.refused[half] & (s.flags[half] & FIN != 0))
    closed = len(fin) > 0 and int(s.end[fin].max()) - (flow << BITS) == in_order + 1
    bytes_ = in_order - 1 if closed else in_order
    read = int(recording.flows[flow]["counters"]["read_bytes"])
    ended = all(recording.flows[f].get("end_ns") is not None for f in (flow, receiver))
    aborted = bool({flow, receiver} & trace.aborted)
    reset = bool((s.flags[trace.half(flow)] & RST).any() or (s.flags[half] & RST).any())
    host, rows = trace.host[receiver], tuple(int(s.row[i]) for i in fin[-1:])
    # What a guest's network still holds at the end of the run arrives after the log has ended, and is read.
    model = recording.header.get("substrate", "model") == "model"
    sent = recording.flows[flow]["counters"]["sent_bytes"]
    most = bytes_ if model or sent is None else max(bytes_, sent)
    if read > most:
        text = (
            f"The application at {trace.hosts[host]} read {read} bytes of {trace.name(flow)}, but only {bytes_} had "
            "arrived without a gap: some were delivered twice, or made up."
        )
        title = f"{TITLE}: more was read than arrived"
        yield Found(flow, host, 0, trace.end_ns, Severity.ERROR, title, text, rows)
    elif closed and ended and not aborted and not reset and read < bytes_:
        text = (
            f"{trace.name(flow)} was closed regularly after {bytes_} bytes had arrived at {trace.hosts[host]}, but its "
            f"application read only {read}."
        )
        title = f"{TITLE}: less was read than arrived"
        yield Found(flow, host, 0, trace.end_ns, Severity.ERROR, title, text, rows)
