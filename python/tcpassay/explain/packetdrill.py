"""A packetdrill script of one end of a connection, from the event log of a run.

What arrives at the end is injected, what it sends is expected, and what its application does is called, at the times
of the run. The settings of the stack become sysctls, attributes of routes and parameters of modules of Linux. The
script leaves timestamps out (RFC 7323). Where the SYNs of the run are known, it has their options and the windows of
both ends; otherwise it announces its own window scale and expects no windows.
"""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from tcpassay import _native
from tcpassay.explain.moments import ACK, FIN, RST, SYN, Connection, End, Moment
from tcpassay.explain.opening import Opening, options
from tcpassay.interface import EventKind
from tcpassay.messages import Triples

MOST_LINES: Final = 4000
"""Maximum number of lines of a script; a longer one would be unreadable."""
TOLERANCE_US: Final = 4000
"""Tolerance of times, that of packetdrill."""
_SCALE: Final = 10
"""Window scale that the script's own end announces (RFC 7323 section 2.2); its windows are rounded down to 1 KiB."""
_ROOM: Final = 1 << 16
"""The window of injected segments that the log does not have, in bytes."""
_PREAMBLE_NS: Final = 10_000_000
"""Time of the handshake and the conversation before a span that begins in the middle."""
_ENDLESS: Final = 1 << 40
"""The row of an application of which the kernel always has data; a script writes what was sent."""
_ECE: Final = 64
_ECT: Final = "ECT"
_LETTERS: Final = ((FIN, "F"), (SYN, "S"), (RST, "R"), (8, "P"), (64, "E"), (128, "W"), (256, "A"))


class Change(TypedDict):
    """A change of Linux that a parameter asks for (`_native.linux_changes`)."""

    kind: str
    name: str
    value: str
    path: str


_CHANGES: Final = TypeAdapter(list[Change])


@dataclass(frozen=True, slots=True)
class Side:
    """The properties of the tested end that a script needs."""

    end: End
    mss_bytes: int
    """Largest segment that the other end takes."""
    changes: Sequence[Change]
    opening: Opening | None = None
    """The SYNs of the run, if the script is to have their options."""
    reads: bool = False
    """Whether the application reads data as soon as they are in order. The log of a kernel has no reads."""


@dataclass(frozen=True, slots=True)
class Span:
    """The part of a connection that a script contains."""

    from_ns: int
    """When the evidence begins."""
    until_ns: int
    segments: int | None
    """Segments of data that arrive before the evidence; `None` for the connection from its handshake on.

    A script that begins in the middle has a short conversation first, so that ACKs are delayed, as in a long
    connection.
    """


@dataclass(frozen=True, slots=True)
class Shift:
    """Offsets from positions in the log to positions in the script."""

    theirs: int
    ours: int


class UnwritableError(Exception):
    """No script can be written, for the reason in the message."""


def changes(triples: Triples, base: str, host: int) -> list[Change]:
    """The changes of Linux that the settings of a host's stack require. Raises `UnwritableError`."""
    try:
        found = _CHANGES.validate_json(_native.linux_changes(triples, base, host))
    except _native.CaseError as why:
        message = f"its settings are not those of one stack: {why}"
        raise UnwritableError(message) from why
    for one in found:
        if one["kind"] == "other":
            raise UnwritableError(f"{one['path']} is set by a socket option or a device, not by a command")
    return found


def commands(wanted: Sequence[Change]) -> list[str]:
    """The shell commands for changes, in the form that packetdrill and the model read."""
    lines, route = [], []
    for one in wanted:
        name, value = one["name"], one["value"]
        match one["kind"]:
            case "sysctl":
                quoted = f'"{value}"' if " " in value else value
                lines.append(f"sysctl -q net.ipv4.{name}={quoted}")
            case "module":
                lines.append(f"echo {value} > /sys/module/{name}")
            case _:
                route.append(f"{name} {value}")
    if route:
        lines.append(f"ip route change 192.0.2.1 via 192.168.0.2 dev tun0 {' '.join(route)}")
    return lines


def written(here: Connection, side: Side, span: Span, head: Sequence[str]) -> str:
    """The script of a span of the connection; `head` are lines of comment. Raises `UnwritableError`.

    Where the end is silent before the end of the span, the script ends with an old segment, which every TCP answers at
    once (RFC 9293 section 3.10.7.4). If the stack sends something during the silence, the script fails
    at this segment.
    """
    lines = list(_Body(here, side, span).lines())
    if len(lines) > MOST_LINES:
        raise UnwritableError(f"the script would have {len(lines)} lines, more than {MOST_LINES}")
    setting = "\n ".join(commands(side.changes))
    comment = "\n".join(
        wrapped
        for line in head
        for wrapped in textwrap.wrap(line, 117, initial_indent="// ", subsequent_indent="// ")
    )
    shell = f"`{setting}`\n\n" if setting else ""
    return (
        f"// profile: linux\n{comment}\n--tolerance_usecs={TOLERANCE_US}\n\n{shell}" + "\n".join(lines) + "\n"
    )


def _ecn_capable(moments: Sequence[Moment]) -> frozenset[int]:
    """The rows of segments that left with ECT.

    A kernel's log does not tell. There it is what RFC 3168 section 6.1 demands: new data of ends that agreed on ECN.
    """
    told = frozenset(one.row for one in moments if one.sent and one.why == _ECT)
    answers = (one for one in moments if one.sent and one.flags & SYN and one.flags & ACK)
    agreed = any(one.flags & _ECE for one in answers)
    if told or not agreed:
        return told
    return frozenset(one.row for one in moments if one.kind == EventKind.OUT and one.data)


class _Body:
    def __init__(self, here: Connection, side: Side, span: Span) -> None:
        self._side = side
        self._span = span
        self._own = list(_with_blocks(here.moments, side.end))
        first = next((one for one, _ in self._own if one.segment), None)
        if first is None or not first.flags & SYN:
            raise UnwritableError("the log does not begin with the handshake")
        self._active = first.sent
        self._fd = 3 if self._active else 4
        sent = [one for one in here.moments if one.end != side.end and one.sent]
        capable = _ecn_capable(here.moments)
        self._ect: dict[tuple[int, bool], list[tuple[int, bool]]] = {}
        """Of the segments that begin at a position, with data or without: when they left, and whether with ECT."""
        for one in sent:
            began = self._ect.setdefault((one.start, one.stop > one.start), [])
            began.append((one.time_ns, one.row in capable))
        scales = side.opening is None or side.opening.scales
        syns = None if side.opening is None else (side.opening.syn, side.opening.answer)
        self._peer_syn = None if syns is None else syns[self._active]
        own_syn = None if syns is None else syns[not self._active]
        self._peer_scale = ((_SCALE if self._peer_syn is None else self._peer_syn.scale) or 0) * scales
        self._room = f"win {min(_ROOM >> self._peer_scale, 65535)}"
        self._own_scale = None if own_syn is None else (own_syn.scale or 0) * scales
        """The scale of the windows that the end announces; `None` if it is not known."""
        self._peer_ect = any(one.row in capable and one.data for one in sent)
        self._closed = False
        self._established = False
        self._origin = first.time_ns
        self._shift = Shift(0, 0)
        self._their_next = 1
        """The position after the last byte that the end has received in order, or would have."""
        self._our_next = 1
        self._read = 1
        """The position up to which the application has read."""

    def lines(self) -> Iterator[str]:
        yield "0.000000 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3"
        if self._active:
            yield "+0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0"
            yield "+0 connect(3, ..., ...) = -1 EINPROGRESS"
        else:
            yield "+0 bind(3, ..., ...) = 0"
            yield "+0 listen(3, 1) = 0"
        own = self._own
        if self._span.segments is not None:
            start = self._start(self._span.segments)
            yield from self._conversation()
            self._origin = own[start][0].time_ns - _PREAMBLE_NS
            own = own[start + 1 :]
        last = self._origin
        for one, blocks in own:
            if one.time_ns > self._span.until_ns:
                break
            for line in self._moment(one, blocks):
                yield f"{self._time(one.time_ns)} {line}"
                last = one.time_ns
        if self._span.until_ns - last > TOLERANCE_US * 1000:
            yield f"// Nothing is sent for {(self._span.until_ns - last) / 1e6:.3f} ms."
            yield "// An old segment elicits an ACK with the state of the end."
            yield f"{self._time(self._span.until_ns)} < . 1:1(0) ack {self._our_next} {self._room}"
            yield f"+0 > . {self._our_next}:{self._our_next}(0) ack {self._their_next}"

    def _start(self, segments: int) -> int:
        """The last ACK of all that had arrived with at least so many segments of data before the evidence after it."""
        if self._active:
            raise UnwritableError("only the passive end can begin in the middle")
        highest, after, found = 1, 0, []
        for place, (one, _) in enumerate(self._own):
            if one.time_ns >= self._span.from_ns:
                break
            if one.segment and not one.sent and one.data:
                highest = max(highest, one.stop)
                after += 1
            elif one.segment and one.sent and not one.data and one.number("ack") == highest > 1:
                found.append((place, after, one))
        fitting = [(place, one) for place, before, one in found if after - before >= segments]
        if not fitting:
            raise UnwritableError(f"the log has no {segments} segments before the evidence")
        place, ack = fitting[-1]
        mss = self._side.mss_bytes
        self._shift = Shift(1 + mss - (ack.number("ack") or 0), 2 - ack.start)
        self._their_next, self._our_next, self._established = 1 + mss, 2, True
        self._read = self._their_next
        return place

    def _conversation(self) -> Iterator[str]:
        """The handshake, a segment and its answer: afterwards ACKs are delayed (Linux's `pingpong`)."""
        mss = self._side.mss_bytes
        ecn = "[ect0] " if self._peer_ect else ""
        syns = [(one, blocks) for one, blocks in self._own if one.segment and one.flags & SYN][:2]
        for one, blocks in syns:
            yield f"+0 {'>' if one.sent else '<'} {self._segment(one, blocks, window=not one.sent)}"
        yield f"+.001 < . 1:1(0) ack 1 {self._room}"
        yield "+0 accept(3, ..., ...) = 4"
        yield f"+0 < {ecn}P. 1:{1 + mss}({mss}) ack 1 {self._room}"
        yield f"+0 > . 1:1(0) ack {1 + mss}"
        yield f"+0 read(4, ..., {mss}) = {mss}"
        yield "+0 write(4, ..., 1) = 1"
        yield f"+0 > P. 1:2(1) ack {1 + mss}"
        yield f"+.001 < . {1 + mss}:{1 + mss}(0) ack 2 {self._room}"

    def _time(self, time_ns: int) -> str:
        us = (time_ns - self._origin) // 1000
        return f"{us // 1_000_000}.{us % 1_000_000:06}"

    def _moment(self, one: Moment, blocks: list[tuple[int, int]]) -> Iterator[str]:
        if one.kind == EventKind.APP:
            yield from self._call(one)
        elif one.segment and one.sent:
            if one.flags & FIN and not self._closed:
                self._closed = True
                yield f"shutdown({self._fd}, SHUT_WR) = 0"
            ecn = "[ect0] " if one.why == _ECT else ""
            if not one.flags & SYN:
                self._our_next = max(self._our_next, one.stop + self._shift.ours)
            yield f"> {ecn}{self._segment(one, blocks, window=False)}"
        elif one.segment:
            left = self._ect.get((one.start, one.stop > one.start), [])
            ect = [capable for time, capable in left if time <= one.time_ns][-1:] == [True]
            ecn = "[ce] " if one.values.get("ce") else "[ect0] " if ect else ""
            if not one.flags & SYN and one.start + self._shift.theirs <= self._their_next:
                self._their_next = max(self._their_next, one.stop + self._shift.theirs)
            yield f"< {ecn}{self._segment(one, blocks, window=True)}"
            if not self._active and not self._established and one.flags & ACK and not one.flags & SYN:
                self._established = True
                yield "accept(3, ..., ...) = 4"
            yield from self._reads(one)

    def _call(self, one: Moment) -> Iterator[str]:
        """A call of the application; what arrived before the span is not in the script, and cannot be read."""
        if one.why in ("shutdown", "close"):
            if not self._closed:
                self._closed = True
                yield f"shutdown({self._fd}, SHUT_WR) = 0"
            return
        amount = one.number("value_ns") or 0
        if amount == 0:
            return
        if amount >= _ENDLESS:
            amount = max((own.stop for own, _ in self._own if own.sent), default=1) - 1
        if one.why == "read":
            amount = min(amount, self._their_next - self._read)
            if amount <= 0:
                return
            self._read += amount
        yield f"{one.why}({self._fd}, ..., {amount}) = {amount}"

    def _reads(self, one: Moment) -> Iterator[str]:
        """What the application reads when a segment has arrived; the end of the stream is not read."""
        amount = self._their_next - self._read - (1 if one.flags & FIN else 0)
        if self._side.reads and self._established and amount > 0:
            self._read = self._their_next
            yield f"read({self._fd}, ..., {amount}) = {amount}"

    def _segment(self, one: Moment, blocks: list[tuple[int, int]], *, window: bool) -> str:
        letters = "".join(letter for bit, letter in _LETTERS if one.flags & bit)
        flags = letters + ("." if one.flags & ACK else "")
        own, other = (
            (self._shift.theirs, self._shift.ours) if window else (self._shift.ours, self._shift.theirs)
        )
        start, length = (0, 0) if one.flags & SYN else (one.start + own, one.number("len") or 0)
        said = f"{flags} {start}:{start + length}({length})"
        if one.flags & ACK:
            said += f" ack {1 if one.flags & SYN else (one.number('ack') or 0) + other}"
        if one.flags & SYN:
            if not window:
                return f"{said} <...>"
            if self._peer_syn is not None:
                return f"{said} win {self._peer_syn.window} <{options(self._peer_syn)}>"
            return f"{said} win 65535 <mss {self._side.mss_bytes},nop,nop,sackOK,nop,wscale {_SCALE}>"
        scale = self._peer_scale if window else self._own_scale
        if scale is not None:
            said += f" win {min((one.number('window_bytes') or 0) >> scale, 65535)}"
        if blocks:
            words = " ".join(f"{first + other}:{after + other}" for first, after in blocks)
            said += f" <nop,nop,sack {words}>"
        return said


def _with_blocks(moments: Iterable[Moment], end: End) -> Iterator[tuple[Moment, list[tuple[int, int]]]]:
    """The actions of an end; each segment has its SACK blocks, which are the rows after it."""
    held: Moment | None = None
    blocks: list[tuple[int, int]] = []
    for one in moments:
        if one.end != end:
            continue
        if one.kind == EventKind.SACK:
            blocks.append((one.start, one.start + (one.number("len") or 0)))
            continue
        if held is not None:
            yield held, blocks
        held, blocks = one, []
    if held is not None:
        yield held, blocks
