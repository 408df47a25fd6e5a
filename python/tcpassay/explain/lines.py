"""Moments as lines of a sequence diagram: the relevant ones, and the gaps between them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import Final

from tcpassay.explain.arrows import Arrow
from tcpassay.explain.moments import ACK_REASONS, SYN, TIMERS, Connection, End, Moment, flag_words
from tcpassay.explain.waiting import waits
from tcpassay.interface import EventKind
from tcpassay.judge.words import ms

GAP_NS: Final = 2_000_000
"""Minimum time without a row, in nanoseconds, that is displayed as a gap."""
MANY_GAPS: Final = 20.0
"""Minimum ratio of a gap to the median distance of the displayed rows."""


class Look(StrEnum):
    """How a line is drawn."""

    DATA = "data"
    ACK = "ack"
    INNER = "inner"
    """An event inside an end."""
    BAD = "bad"
    """A loss, a timeout, a forgotten ACK."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the diagram."""

    places: tuple[int, ...]
    """Indices of `Connection.moments`; several for segments that leave together."""
    time_ns: int
    end: End
    text: str
    look: Look
    segment: bool
    sent: bool
    first_difference: bool = False


@dataclass(frozen=True, slots=True)
class Gap:
    """A time in which neither end did anything."""

    start_ns: int
    end_ns: int
    waits: dict[End, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Omitted:
    """Number of omitted lines."""

    count: int
    start_ns: int
    end_ns: int


Shown = Line | Gap | Omitted


def lines(
    connection: Connection, found: Sequence[Arrow], during: tuple[int, int], base: int, difference: int | None
) -> list[Line]:
    """The lines of the moments of a time range, including its ends. Positions of the data are relative to `base`.

    `difference` is the place of the first moment that another run does not have.
    """
    start_ns, end_ns = during
    parts = Counter(arrow.arrived for arrow in found if arrow.arrived is not None)
    lost = {arrow.left for arrow in found if arrow.arrived is None and connection.moments[arrow.left].data}
    made: list[Line] = []
    for places in _together(connection, lost, difference):
        one = connection.moments[places[0]]
        if not start_ns <= one.time_ns <= end_ns:
            continue
        text = text_of(connection, places, base, parts[places[0]] or 1)
        if lost.intersection(places) and one.time_ns < end_ns:
            text += ", which never arrives"
        if text or difference in places:
            look = Look.BAD if lost.intersection(places) else _look(one)
            made.append(
                Line(
                    places,
                    one.time_ns,
                    one.end,
                    text or f"{one.kind} {one.why}".strip(),
                    look,
                    one.segment,
                    one.sent,
                    difference in places,
                )
            )
    return made


def _together(connection: Connection, lost: set[int], difference: int | None) -> Iterator[tuple[int, ...]]:
    """The indices of the moments in groups; contiguous data segments that leave at one instant are one group."""
    burst: list[int] = []
    for place, one in enumerate(connection.moments):
        last = connection.moments[burst[-1]] if burst else None
        joins = (
            last is not None
            and one.kind == last.kind == EventKind.OUT
            and one.data
            and last.data
            and (one.time_ns, one.end, one.flags, one.start)
            == (last.time_ns, last.end, last.flags, last.stop)
            and (place in lost) == (burst[-1] in lost)
            and place != difference
        )
        if burst and not joins:
            yield tuple(burst)
            burst = []
        burst.append(place)
    if burst:
        yield tuple(burst)


def with_gaps(connection: Connection, some: Sequence[Line], base: int) -> list[Shown]:
    """The lines with the gaps between them."""
    steps = sorted(b.time_ns - a.time_ns for a, b in pairwise(some) if b.time_ns > a.time_ns)
    least = max(GAP_NS, int(MANY_GAPS * steps[len(steps) // 2])) if steps else GAP_NS
    made: list[Shown] = []
    for n, line in enumerate(some):
        if n and line.time_ns - some[n - 1].time_ns >= least:
            made.append(
                Gap(
                    some[n - 1].time_ns,
                    line.time_ns,
                    waits(connection, some[n - 1].time_ns, line.time_ns, base),
                )
            )
        made.append(line)
    if some and connection.end_ns - some[-1].time_ns >= least and not _after(connection, some[-1].time_ns):
        made.append(
            Gap(
                some[-1].time_ns,
                connection.end_ns,
                waits(connection, some[-1].time_ns, connection.end_ns, base),
            )
        )
    return made


def _after(connection: Connection, time_ns: int) -> bool:
    return bool(connection.moments) and connection.moments[-1].time_ns > time_ns


def shortened(some: Sequence[Shown], most: int, keep: frozenset[int]) -> list[Shown]:
    """At most about `most` lines: the first and last ones, and those of `keep` (indices) with neighbours."""
    if len(some) <= most:
        return list(some)
    near = 3
    chosen = set(range(most // 3)) | set(range(len(some) - most // 3, len(some)))
    for n, one in enumerate(some):
        if isinstance(one, Gap) or (
            isinstance(one, Line) and (keep.intersection(one.places) or one.first_difference)
        ):
            chosen |= set(range(max(n - near, 0), min(n + near + 1, len(some))))
    made: list[Shown] = []
    n = 0
    while n < len(some):
        if n in chosen:
            made.append(some[n])
            n += 1
            continue
        first = n
        while n < len(some) and n not in chosen:
            n += 1
        made.append(Omitted(n - first, _time(some[first]), _time(some[n - 1])))
    return made


def _time(one: Shown) -> int:
    return one.time_ns if isinstance(one, Line) else one.end_ns


def _look(one: Moment) -> Look:
    if one.kind in {EventKind.ACK_FORGET, EventKind.LOST, EventKind.RETRANSMIT, EventKind.TIMER_FIRE}:
        return Look.BAD
    if one.segment:
        return Look.DATA if one.data else Look.ACK
    return Look.INNER


def text_of(connection: Connection, places: Sequence[int], base: int, parts: int) -> str:
    """The text of a line; empty for a moment that its neighbours describe or that is irrelevant here."""
    one = connection.moments[places[0]]
    if one.segment:
        return _segment(connection, places, base, parts)
    if one.kind == EventKind.ACK_DELAY and _decided(connection, places[0]):
        return ""
    if one.kind == EventKind.CONGESTION:
        window = _at_once(connection, places[0], EventKind.WINDOW)
        return inner_text(one, base) + (
            "" if window is None else f"; cwnd {window.number('cwnd_bytes')} bytes"
        )
    return inner_text(one, base)


def inner_text(one: Moment, base: int) -> str:
    """The text of a moment that is not a segment; empty if diagrams do not show it."""
    match one.kind:
        case EventKind.ACK_DELAY:
            text = f"ACK {_ack(one, base)} may wait until {ms(one.number('value_ns') or 0)}"
        case EventKind.ACK_FORGET:
            text = f"ACK {_ack(one, base)} is pending: not sent, no timer set"
        case EventKind.CONGESTION | EventKind.STATE:
            text = one.why.replace("->", " to ", 1)
        case EventKind.TIMER_FIRE:
            text = f"the {TIMERS.get(one.why, one.why)} fires"
        case EventKind.LOST:
            text = f"marks {_span(one, one, base)} lost ({one.why})"
        case EventKind.SPURIOUS:
            text = f"{_span(one, one, base)} proves to have been retransmitted unnecessarily ({one.why})"
        case EventKind.REFUSED:
            text = f"discards it: {one.why}"
        case EventKind.DROP | EventKind.MARK:
            text = f"a device {'drops' if one.kind == EventKind.DROP else 'marks'} it"
        case _:
            text = ""
    return text


def _segment(connection: Connection, places: Sequence[int], base: int, parts: int) -> str:
    one, last = connection.moments[places[0]], connection.moments[places[-1]]
    flags = flag_words(one)
    said = ["again:"] if one.kind == EventKind.RETRANSMIT else []
    if one.flags & SYN:
        return " ".join([*said, flags])
    if one.data:
        said.append(f"data {_span(one, last, base if one.sent == (one.end == End.SENDER) else 1)}")
    else:
        acked = base if (one.end == End.RECEIVER) == one.sent else 1
        said.append(f"ACK {_ack(one, acked)}")
        if blocks := [_span(block, block, acked) for block in _blocks(connection, places[-1])]:
            said.append(f"SACK {' '.join(blocks)}")
    if flags:
        said.append(flags)
    if len(places) > 1:
        said.append(f"in {len(places)} segments")
    if parts > 1:
        said.append(f"(merged from {parts})")
    if one.number("window_bytes") == 0:
        said.append("window 0")
    if decided := _reason(connection, places[0]):
        said.append(f"({decided})")
    return " ".join(said)


def _blocks(connection: Connection, place: int) -> Iterator[Moment]:
    """The SACK blocks of a segment: the rows behind it."""
    for one in connection.moments[place + 1 :]:
        if one.kind != EventKind.SACK or one.end != connection.moments[place].end:
            return
        yield one


def _span(one: Moment, last: Moment, base: int) -> str:
    return f"{one.start - base + 1}:{last.start + (last.number('len') or 0) - base + 1}"


def _ack(one: Moment, base: int) -> str:
    return str((one.number("ack") or 0) - base + 1)


def _reason(connection: Connection, place: int) -> str:
    """Why a segment with an ACK leaves: the decision is logged just before it."""
    one = connection.moments[place]
    if not one.sent or place == 0:
        return ""
    before = connection.moments[place - 1]
    if before.kind != EventKind.ACK_NOW or before.end != one.end or before.time_ns != one.time_ns:
        return ""
    return ACK_REASONS.get(before.why, before.why)


def _decided(connection: Connection, place: int) -> bool:
    """Whether a delayed ACK is overtaken at the same instant by an ACK of the same position."""
    one = connection.moments[place]
    for other in connection.moments[place + 1 :]:
        if other.time_ns != one.time_ns or other.end != one.end:
            return False
        if other.kind == EventKind.ACK_NOW and (other.number("ack") or 0) >= (one.number("ack") or 0):
            return True
    return False


def _at_once(connection: Connection, place: int, kind: EventKind) -> Moment | None:
    """The nearest row of a kind of the same end at the same instant."""
    one = connection.moments[place]
    for step in (-1, 1):
        n = place + step
        while 0 <= n < len(connection.moments) and connection.moments[n].time_ns == one.time_ns:
            if connection.moments[n].kind == kind and connection.moments[n].end == one.end:
                return connection.moments[n]
            n += step
    return None
