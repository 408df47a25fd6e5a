"""The correspondence between departed and arrived segments.

NICs divide super-segments (TSO) and merge segments (GRO), so one that left may arrive in parts, and several may arrive
as one: an arrow joins a segment that left with each that arrived with some of its bytes. A segment without data is the
first one with the same acknowledgment and flags that arrives after it.
"""

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass

from tcpassay.explain.moments import Connection, End, Moment


@dataclass(frozen=True, slots=True)
class Arrow:
    """The path of a segment. Its places are indices of `Connection.moments`."""

    left: int
    arrived: int | None
    """The index of the arrival; `None` if the segment was lost or the run ended before."""
    bytes: int
    """Number of its bytes in this arrival."""


def arrows(connection: Connection) -> list[Arrow]:
    """All arrows of a connection, in the order in which the segments left."""
    moments = connection.moments
    found: list[Arrow] = []
    for end in End:
        sent = [n for n, one in enumerate(moments) if one.sent and one.end == end]
        come = [n for n, one in enumerate(moments) if one.segment and not one.sent and one.end != end]
        shortest = _shortest(moments, sent, come)
        data = [n for n in sent if moments[n].data], [n for n in come if moments[n].data]
        found += _data(moments, *data, shortest)
        found += _bare(
            moments, [n for n in sent if not moments[n].data], [n for n in come if not moments[n].data]
        )
    return sorted(found, key=lambda arrow: (arrow.left, -1 if arrow.arrived is None else arrow.arrived))


class _Sent:
    """A departed segment with data, and its part that has not arrived yet."""

    __slots__ = ("place", "rest", "used")

    def __init__(self, place: int, moment: Moment) -> None:
        self.place = place
        self.rest = [(moment.start, moment.stop)]
        self.used = False

    def take(self, start: int, stop: int) -> int:
        """Removes the part between two positions, and returns its number of bytes."""
        taken, rest = 0, []
        for low, high in self.rest:
            a, b = max(low, start), min(high, stop)
            if a >= b:
                rest.append((low, high))
                continue
            taken += b - a
            rest += [piece for piece in ((low, a), (b, high)) if piece[0] < piece[1]]
        self.rest = rest
        return taken


def _data(moments: Sequence[Moment], sent: list[int], come: list[int], shortest: int) -> list[Arrow]:
    """Of several segments with the same bytes, the last one sent at least the shortest delay before the arrival."""
    waiting = [_Sent(place, moments[place]) for place in sent]
    times = [moments[place].time_ns for place in sent]
    found: list[Arrow] = []
    first = 0
    for place in come:
        arrived = moments[place]
        while first < len(waiting) and not waiting[first].rest:
            first += 1
        until = bisect_right(times, arrived.time_ns - shortest)
        wanted = [(arrived.start, arrived.stop)]
        for one in reversed(waiting[first:until]):
            if not wanted:
                break
            taken, left = 0, []
            for low, high in wanted:
                taken += one.take(low, high)
                left += _without((low, high), moments[one.place])
            wanted = left
            if taken:
                one.used = True
                found.append(Arrow(one.place, place, taken))
    found += [Arrow(one.place, None, 0) for one in waiting if not one.used]
    return found


def _without(piece: tuple[int, int], moment: Moment) -> list[tuple[int, int]]:
    low, high = piece
    parts = ((low, min(high, moment.start)), (max(low, moment.stop), high))
    return [part for part in parts if part[0] < part[1]]


def _shortest(moments: Sequence[Moment], sent: list[int], come: list[int]) -> int:
    """The shortest delay of segments that were sent once, with or without data, in nanoseconds; 0 if it is unknown.

    A data segment may be shorter than all others of its flow, but not than one without data.
    """
    left: dict[object, list[int]] = defaultdict(list)
    for place in sent:
        for key in _marks(moments[place]):
            left[key].append(moments[place].time_ns)
    took = [
        moments[place].time_ns - left[key][0]
        for place in come
        for key in _marks(moments[place])
        if len(left.get(key, ())) == 1
    ]
    return max(min(took, default=0), 0)


def _marks(moment: Moment) -> tuple[object, ...]:
    """What distinguishes a segment: the first and the last position of data, which offloads may merge or divide."""
    return (moment.start, -moment.stop) if moment.data else (_kind(moment),)


def _bare(moments: Sequence[Moment], sent: list[int], come: list[int]) -> list[Arrow]:
    waiting: dict[tuple[int, int, int], deque[int]] = defaultdict(deque)
    for place in sent:
        waiting[_kind(moments[place])].append(place)
    found = []
    for place in come:
        queue = waiting[_kind(moments[place])]
        if queue and moments[queue[0]].time_ns <= moments[place].time_ns:
            found.append(Arrow(queue.popleft(), place, 0))
    found += [Arrow(place, None, 0) for queue in waiting.values() for place in queue]
    return found


def _kind(moment: Moment) -> tuple[int, int, int]:
    # The sequence number of a SYN is not known to be the own one before the handshake ends.
    start = 0 if moment.values.get("flags", 0) & 2 else moment.start
    return start, moment.number("ack") or 0, moment.flags
