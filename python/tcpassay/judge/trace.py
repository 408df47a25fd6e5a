"""The event log as arrays, arranged for oracles.

A connection has two flows, one for each direction. The rows of an end are logged under the flow that it sends: a
*half*. In a half, `out` and `retransmit` are segments that this end sent, and `in` are segments that it received, so
that the data of flow `f` are sent in half `f` and received in half `peer[f]`.

The positions of all flows have one number space, `key = flow << 41 | position` (a stream may have 2 TB), so that
sorting, searching and running maxima work for all flows at once. Rows are ordered by half, and by time in each half.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from tcpassay.interface import EventKind, EventsColumn, Timer
from tcpassay.judge.log import EventRow, Ints, Log
from tcpassay.reasons import CongestionChange, StateChange, congestion_change, state_change
from tcpassay.recording import Recording

Bools = npt.NDArray[np.bool_]

BITS: Final = 41
NEVER: Final = 1 << 44
"""Almost five hours in nanoseconds, longer than any run: the event does not occur."""
FIN, SYN, RST, ACK = 1, 2, 4, 16

_CODE: Final = {kind: code for code, kind in enumerate(EventKind)}


@dataclass(frozen=True, slots=True)
class Segments:
    """Segments that were sent or received, in the order of halves. Arrays of the same length."""

    row: Ints
    """Row of the event log."""
    place: Ints
    """Place in the order of all rows, to be compared with `Trace.places`."""
    time: Ints
    flow: Ints
    sent: Bools
    """Sent by this end; otherwise it arrived."""
    again: Bools
    """Sent again."""
    refused: Bools
    """It arrived and was not accepted."""
    flags: Ints
    start: Ints
    """Key of the first position; of the own flow when sent, of the peer's when it arrived."""
    end: Ints
    """Key after the last position. A FIN occupies one position; a SYN occupies none, because positions begin with 1."""
    ack: Ints
    """Key of the position that is acknowledged: of the peer's flow when sent, of the own when it arrived."""
    una: Ints
    """Of the own flow, after this row: key of the first position that is not acknowledged here."""
    nxt: Ints
    """Of the own flow, after this row: key of the next position to be sent."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """The transmissions and arrivals of every byte. A cell is a range of positions with the same history."""

    edges: Ints
    """Keys: cell i is `edges[i] .. edges[i + 1]`."""
    sends: Ints
    """Number of transmissions."""
    first_sent: Ints
    """Time of the first transmission, or `NEVER`."""
    first_again: Ints
    """Time of the first retransmission, or `NEVER`."""
    arrivals: Ints
    """Number of arrivals that the host accepted."""
    reached: Ints
    """Number of arrivals, also refused ones: PAWS refuses an original that its retransmission overtook."""
    first_arrival: Ints
    """Time of the first arrival, or `NEVER`."""
    complete: Ints
    """Time at which it and all earlier data of its flow had arrived, or `NEVER`."""

    def cells(self, start: int, end: int) -> slice:
        """The cells that touch the keys from `start` to before `end`."""
        first = max(int(np.searchsorted(self.edges, start, "right")) - 1, 0)
        return slice(first, max(int(np.searchsorted(self.edges, end, "left")), first))

    def reach(self, keys: Ints) -> Ints:
        """Time at which all data before each key had arrived: 0 if there are none, `NEVER` if they did not arrive."""
        if len(self.edges) == 0:
            return np.zeros_like(keys)
        last = np.searchsorted(self.edges, keys, "left") - 1
        own = (last >= 0) & (self.edges[np.maximum(last, 0)] >> BITS == keys >> BITS)
        # The last edge begins no cell: data beyond it did not arrive.
        return np.where(own, np.append(self.complete, NEVER)[np.maximum(last, 0)], 0)

    def frontier(self, flows: Ints, times: Ints) -> Ints:
        """The key up to which all data of each flow had arrived at each time, including arrivals at that time."""
        streams = self.edges[:-1] >> BITS
        # The sums increase: within a flow by the time of completion, and from flow to flow.
        cells = np.searchsorted((streams << 45) + self.complete, (flows << 45) + times, "right")
        reached = self.edges[np.minimum(cells, len(self.edges) - 1)]
        first = (flows << BITS) + 1
        return np.where(reached >> BITS == flows, np.maximum(reached, first), first)


class Trace:
    """The event log of a recording, arranged for oracles."""

    def __init__(self, recording: Recording, log: Log) -> None:
        self.recording = recording
        self._log = log
        self._timers: dict[tuple[EventKind, Timer], Ints] = {}
        self.end_ns = recording.duration_ns
        flows = recording.flows
        self.host: list[int] = [flow["from"] for flow in flows]
        """Of each flow: the host that sends."""
        self.mss: list[int] = [flow["mss_bytes"] for flow in flows]
        self.connection = np.array([flow["connection"] for flow in flows], np.int64)
        self.peer = _peers(self.connection)
        """Of each flow: the other direction."""
        time, flow = log.numbers(EventsColumn.TIME_NS), log.numbers(EventsColumn.FLOW)
        # Rows are written in the order of time; the flow numbers are small, so this sort is one pass.
        narrow = flow.astype(np.int16) if len(flows) < 1 << 15 else flow
        order = np.argsort(narrow, kind="stable").astype(np.int64)
        order = order[int((flow < 0).sum()) :]
        if len(time) and (time[1:] < time[:-1]).any():
            order = order[np.lexsort((time[order], flow[order]))]
        self.row = order
        """In the order of halves: the row of the event log."""
        self.flow = flow[order]
        self.time = time[order]
        self.kind = log.kinds[order]
        """Code of each row's kind: its place in `EventKind`."""

    @property
    def hosts(self) -> list[str]:
        """Names of the hosts."""
        return self.recording.hosts

    def name(self, flow: int) -> str:
        """A flow's name."""
        return str(self.recording.flows[flow]["name"])

    def places(self, kind: EventKind) -> Ints:
        """Places of the rows of a kind, in the order of halves."""
        return np.flatnonzero(self.kind == _CODE[kind])

    def why(self, places: Ints) -> list[str]:
        """The reasons of some rows."""
        return self._log.whys(self.row[places])

    def congestion_changes(self, places: Ints) -> list[CongestionChange]:
        """The reasons of some rows of the kind `CONGESTION`."""
        return [congestion_change(why) for why in self.why(places)]

    def timer_events(self, kind: EventKind, timer: Timer) -> Ints:
        """Places of the rows of a kind (`TIMER_SET`, `TIMER_CANCEL` or `TIMER_FIRE`) that are about one timer."""
        if (kind, timer) not in self._timers:
            places = self.places(kind)
            self._timers[kind, timer] = places[np.array([why == timer for why in self.why(places)], np.bool_)]
        return self._timers[kind, timer]

    def column(self, name: EventsColumn, places: Ints) -> Ints:
        """A column of numbers at some places; -1 where there is none."""
        return self._log.values(name, self.row[places])

    def rows(self, places: list[int]) -> list[EventRow]:
        """The rows at some places in full."""
        return self._log.rows([int(self.row[place]) for place in places])

    def before(self, among: Ints, place: int, flow: int) -> int | None:
        """Of sorted places: the last one before `place`, when it is of the flow's half."""
        found = int(np.searchsorted(among, place, "left")) - 1
        if found < 0 or self.flow[among[found]] != flow:
            return None
        return int(among[found])

    @cached_property
    def closed(self) -> dict[int, int]:
        """Times at which halves were closed or aborted, by flow."""
        return {flow: time for flow, time, _ in self._ends}

    @cached_property
    def aborted(self) -> frozenset[int]:
        """Halves that were aborted."""
        return frozenset(flow for flow, _, change in self._ends if change.aborted is not None)

    @cached_property
    def _ends(self) -> list[tuple[int, int, StateChange]]:
        places = self.places(EventKind.STATE)
        changes = zip(self.flow[places], self.time[places], map(state_change, self.why(places)), strict=True)
        return [(int(flow), int(time), change) for flow, time, change in changes if change.ends]

    @cached_property
    def segments(self) -> Segments:
        """All segments."""
        place = np.flatnonzero(self.kind <= _CODE[EventKind.RETRANSMIT])
        row, flow = self.row[place], self.flow[place]
        code = self.kind[place]
        sent = code != _CODE[EventKind.IN]
        flags, seq, length, said = (
            np.maximum(self._log.values(name, row), 0)
            for name in (EventsColumn.FLAGS, EventsColumn.SEQ, EventsColumn.LEN, EventsColumn.ACK)
        )
        # Before the SYN the first position of the peer is unknown.
        seq = np.where(flags & SYN != 0, 1, seq)
        length += flags & FIN
        own, other = flow << BITS, self.peer[flow] << BITS
        start = np.where(sent, own, other) + seq
        ack = np.where(sent, other, own) + said
        end = start + length
        nxt = np.maximum.accumulate(np.where(sent & (length > 0), end, own + 1))
        acked = np.where(~sent & (flags & ACK != 0), ack, own + 1)
        una = np.minimum(np.maximum.accumulate(acked), nxt)
        return Segments(
            row,
            place,
            self.time[place],
            flow,
            sent,
            code == _CODE[EventKind.RETRANSMIT],
            self._refused(place),
            flags,
            start,
            end,
            ack,
            una,
            nxt,
        )

    def _refused(self, segments: Ints) -> Bools:
        """Whether each segment arrived and was not accepted; the refusal is logged directly after the arrival."""
        refused = np.zeros(len(segments), np.bool_)
        places = self.places(EventKind.REFUSED)
        refused[np.searchsorted(segments, places, "left") - 1] = True
        made: Bools = refused & (self.kind[segments] == _CODE[EventKind.IN])
        counters = self.recording.index.get("counters", {})
        if any(host.get("TcpExtPAWSEstab") for host in counters.values()):
            made |= self._old(segments)
        return made

    def _old(self, segments: Ints) -> Bools:
        """Segments with data that a kernel refuses for their timestamps (PAWS, RFC 7323 section 5.3)."""
        row = self.row[segments]
        names = (
            EventsColumn.FLAGS,
            EventsColumn.SEQ,
            EventsColumn.LEN,
            EventsColumn.ACK,
            EventsColumn.VALUE_NS,
        )
        columns = zip(*(self._log.values(name, row).tolist() for name in names), strict=True)
        flows, sent = self.flow[segments].tolist(), (self.kind[segments] != _CODE[EventKind.IN]).tolist()
        old = np.zeros(len(segments), np.bool_)
        recent: dict[int, int] = {}
        acked: dict[int, int] = {}
        for i, (flags, seq, length, ack, stamp) in enumerate(columns):
            flow = flows[i]
            if sent[i]:
                acked[flow] = max(acked.get(flow, 1), ack)
            elif stamp >= 0:
                # Timestamps have 32 bits and wrap; Linux allows for a difference of 1 (`TCP_PAWS_WINDOW`).
                ahead = (stamp - recent.get(flow, stamp) + (1 << 31)) % (1 << 32) - (1 << 31)
                old[i] = ahead < -1 and length > 0 and flags & (SYN | RST) == 0
                # A segment before the window is not acceptable and changes nothing.
                if ahead >= 0 and (flags & SYN or seq <= acked.get(flow, 1) <= seq + length):
                    recent[flow] = stamp
        return old

    def half(self, flow: int) -> slice:
        """The segments of a half."""
        flows = self.segments.flow
        return slice(int(np.searchsorted(flows, flow, "left")), int(np.searchsorted(flows, flow, "right")))

    def at(self, flow: int, place: int) -> int | None:
        """The last segment of the flow's half before `place`, as an index of `segments`."""
        found = int(np.searchsorted(self.segments.place, place, "left")) - 1
        return found if found >= 0 and self.segments.flow[found] == flow else None

    def at_time(self, flow: int, time: int) -> int | None:
        """The last segment of the flow's half at or before a time, as an index of `segments`."""
        half = self.half(flow)
        found = half.start + int(np.searchsorted(self.segments.time[half], time, "right")) - 1
        return found if found >= half.start else None

    @cached_property
    def acked_out(self) -> Ints:
        """For each segment: the highest key that its half has acknowledged to its peer by then."""
        s = self.segments
        base = (self.peer[s.flow] << BITS) + 1
        # The running maximum must not cross halves, and the peers' keys are in no order: the own flow goes on top.
        said = np.where(s.sent & (s.flags & ACK != 0), s.ack, base) - (self.peer[s.flow] << BITS)
        mine = s.flow << BITS
        made: Ints = np.maximum.accumulate(said + mine) - mine + (self.peer[s.flow] << BITS)
        return made

    @cached_property
    def ledger(self) -> Ledger:
        """The transmissions and arrivals of every byte."""
        s = self.segments
        data = s.end > s.start
        sent, come = data & s.sent, data & ~s.sent & ~s.refused
        # Most segments begin where the previous one ended, so that few ranges have to be merged.
        bounds = [
            ends for some in (sent, come) for ends in (_begins(s.start[some], s.end[some]), s.end[some])
        ]
        keys = np.sort(np.concatenate(bounds), kind="stable")
        edges = keys[np.diff(keys, prepend=-1) > 0]
        count = max(len(edges) - 1, 0)
        sends, first_sent = _fates(edges, count, s.start[sent], s.end[sent], s.time[sent])
        again = data & s.again
        _, first_again = _fates(edges, count, s.start[again], s.end[again], s.time[again])
        arrivals, first_arrival = _fates(edges, count, s.start[come], s.end[come], s.time[come])
        seen = data & ~s.sent & s.refused
        reached = arrivals + (_within(edges, s.start[seen], s.end[seen]) if seen.any() else 0)
        stream = (edges[:-1] if count else edges) >> BITS
        # Running maxima work for all flows at once, because the keys of a later flow are larger.
        above = stream << 45
        complete = np.maximum.accumulate(above + first_arrival) - above if count else first_arrival
        return Ledger(edges, sends, first_sent, first_again, arrivals, reached, first_arrival, complete)

    @cached_property
    def fastest(self) -> Ints:
        """For each flow the shortest time from transmission to arrival between its hosts, or 0 if it is unknown.

        It is the minimum over all flows between the two hosts: if all segments that one flow sent only once were
        queued, a retransmission may be faster than any of them. SYNs are included, because a retransmitted segment
        may be shorter than all other segments.
        """
        ledger = self.ledger
        sure = (ledger.sends == 1) & (ledger.arrivals > 0)
        stream = (ledger.edges[:-1] >> BITS)[sure]
        took = (ledger.first_arrival - ledger.first_sent)[sure]
        host = np.array(self.host, np.int64)
        path = host * (host.max(initial=0) + 1) + host[self.peer]
        fastest = np.full(path.max(initial=-1) + 1, NEVER, np.int64)
        np.minimum.at(fastest, path[stream], took)
        opened, took = self._handshakes()
        np.minimum.at(fastest, path[opened], took)
        fastest[fastest == NEVER] = 0
        of_flows: Ints = fastest[path]
        return of_flows

    def _handshakes(self) -> tuple[Ints, Ints]:
        """Flows whose SYN was sent once and arrived, and its one-way delay."""
        s = self.segments
        syn = np.flatnonzero(s.flags & SYN != 0)
        out, come = syn[s.sent[syn]], syn[~s.sent[syn]]
        flows, first, times = np.unique(s.flow[out], return_index=True, return_counts=True)
        there, arrived = np.unique(self.peer[s.flow[come]], return_index=True)
        flows, first = flows[times == 1], first[times == 1]
        both = np.isin(flows, there)
        flows, first = flows[both], first[both]
        arrived = arrived[np.searchsorted(there, flows)]
        return flows, s.time[come[arrived]] - s.time[out[first]]

    @cached_property
    def ack_waits(self) -> dict[int, tuple[int, int]]:
        """The shortest and the longest delayed-ACK timer of each half that sets it, in nanoseconds."""
        places = self.places(EventKind.ACK_DELAY)
        waits = self.column(EventsColumn.VALUE_NS, places) - self.time[places]
        flows = self.flow[places]
        starts = np.flatnonzero(np.diff(flows, prepend=-1))
        if len(starts) == 0:
            return {}
        ends = (np.minimum.reduceat(waits, starts), np.maximum.reduceat(waits, starts))
        both = zip(flows[starts], *ends, strict=True)
        return {int(flow): (int(shortest), int(longest)) for flow, shortest, longest in both}

    def position(self, key: int) -> int:
        """The position in the stream of a key."""
        return int(key) & ((1 << BITS) - 1)


def _peers(connection: Ints) -> Ints:
    peers = np.arange(len(connection), dtype=np.int64)
    order = np.argsort(connection, kind="stable")
    for a, b in pairwise(order):
        if connection[a] == connection[b]:
            peers[a], peers[b] = b, a
    return peers


def _begins(start: Ints, end: Ints) -> Ints:
    """Starts that are not the end of the previous range."""
    fresh = np.ones(len(start), np.bool_)
    fresh[1:] = start[1:] != end[:-1]
    return start[fresh]


def _within(edges: Ints, start: Ints, end: Ints) -> Ints:
    """For each cell the number of ranges that contain it."""
    low, high = np.searchsorted(edges, start, "left"), np.searchsorted(edges, end, "right") - 1
    whole = high > low
    count = len(edges)
    begun = np.bincount(low[whole], minlength=count) - np.bincount(high[whole], minlength=count)
    made: Ints = np.cumsum(begun)[: max(count - 1, 0)]
    return made


def _fates(edges: Ints, count: int, start: Ints, end: Ints, time: Ints) -> tuple[Ints, Ints]:
    """For each cell the number of ranges that cover it and the time of the first; times of a cell do not decrease."""
    first = np.full(count, NEVER, np.int64)
    if len(start) == 0:
        return np.zeros(count, np.int64), first
    low, high = np.searchsorted(edges, start), np.searchsorted(edges, end)
    widths = high - low
    if (widths == 1).all():
        cells, when = low, time
    else:
        total = int(widths.sum())
        cells = np.repeat(low - (np.cumsum(widths) - widths), widths) + np.arange(total)
        when = np.repeat(time, widths)
    # If a cell has several times, the last assignment is kept.
    first[cells[::-1]] = when[::-1]
    return np.bincount(cells, minlength=count), first
