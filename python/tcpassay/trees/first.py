"""The first packet and the first event that differ between two runs of the same case."""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Final

from tcpassay.capture import blocks
from tcpassay.errors import UserError
from tcpassay.explain.difference import Difference, first_difference
from tcpassay.following import Compared, compare, follow_folder
from tcpassay.judge.log import LogFile
from tcpassay.judge.words import ms
from tcpassay.recording import Recording
from tcpassay.trees.groups import difference, row_words

BEFORE: Final = 3
"""Number of displayed packets before the first one that differs."""
AFTER: Final = 3
"""Number of displayed packets of each run from the first one that differs."""

_PACKET: Final = 6
_HEAD: Final = 28
"""Bytes of an Enhanced Packet Block before the packet (draft-ietf-opsawg-pcapng section 4.3)."""
_TCP: Final = 6
_UDP: Final = 17
_FLAGS: Final = ("FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR", "AE")
_MARKS: Final = ("", " ECT(1)", " ECT(0)", " CE")
_OPTIONS: Final = {2: "mss", 3: "wscale", 4: "sackOK", 5: "sack", 8: "ts", 34: "fastopen"}


@dataclass(frozen=True, slots=True)
class Packet:
    """A captured packet."""

    time_ns: int
    point: int
    """The index of the capture point."""
    content: bytes

    def text(self, points: Sequence[str]) -> str:
        """In one line: time, capture point, ports, flags, positions, window, options."""
        point = points[self.point] if self.point < len(points) else str(self.point)
        return f"{ms(self.time_ns)} at {point}: {_words(self.content)}"


@dataclass(frozen=True, slots=True)
class FirstPackets:
    """The first difference between the captured packets of two runs."""

    same: int
    """The number of packets before that are identical in time, place and content."""
    before: tuple[str, ...]
    base: tuple[str, ...]
    """From the first packet that differs; empty if the run has no further packet."""
    head: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class First:
    """The first differences between two runs."""

    packets: FirstPackets | None
    """`None` if all captured packets are identical."""
    events: Difference | None
    """`None` if the event logs are identical."""
    decisions: tuple[str, str] | None = None
    """The first events that differ apart from windows, PSH flags and writes; `None` if there are none."""
    note: str = ""
    """Why the differences cannot be determined; empty if they can."""
    followed: Compared | None = None
    """What differs from the model on the second kernel and not on the first one, or earlier than there."""

    def as_json(self) -> dict[str, object]:
        """The form for JSON."""
        return asdict(self)


def first(base: Path, head: Path) -> First:
    """Compares two recordings with packets and event logs."""
    try:
        of_base, of_head = Recording.open(base), Recording.open(head)
        packets = first_packets(_captured(of_base), _captured(of_head), _points(of_base))
        events = first_difference((of_base, LogFile(of_base)), (of_head, LogFile(of_head)))
        apart = difference(of_base, of_head)
        of_kernels = all(one.header.get("substrate") == "kernel" for one in (of_base, of_head))
        followed = compare(follow_folder(base), follow_folder(head)) if of_kernels else None
    except UserError as error:
        return First(None, None, note=str(error))
    if apart is None or apart.only_quiet:
        return First(packets, events, followed=followed)
    decisions = row_words(apart.base, of_base.hosts), row_words(apart.head, of_head.hosts)
    return First(packets, events, decisions, followed=followed)


def first_packets(
    base: Sequence[Packet], head: Sequence[Packet], points: Sequence[str]
) -> FirstPackets | None:
    """The first difference between two lists of packets; `None` if they are equal."""
    for place, (one, other) in enumerate(zip_longest(base, head)):
        if one != other:
            return FirstPackets(
                place,
                tuple(packet.text(points) for packet in base[max(0, place - BEFORE) : place]),
                tuple(packet.text(points) for packet in base[place : place + AFTER]),
                tuple(packet.text(points) for packet in head[place : place + AFTER]),
            )
    return None


def _points(recording: Recording) -> list[str]:
    return [str(one["name"]) for one in recording.index.get("interfaces") or []]


def _captured(recording: Recording) -> list[Packet]:
    if not recording.holds("packets.pcapng"):
        return []
    return list(packets_of((recording.folder / "packets.pcapng").read_bytes()))


def packets_of(capture: bytes) -> Iterator[Packet]:
    """The packets of a capture of the data plane; times are in ns."""
    for kind, block in blocks(capture):
        if kind == _PACKET:
            point, high, low, length = struct.unpack_from("<4I", block, 8)
            yield Packet((high << 32) | low, point, block[_HEAD : _HEAD + length])


def _words(packet: bytes) -> str:
    """An IPv4 packet with TCP or UDP in words (RFC 791, RFC 9293)."""
    header = (packet[0] & 15) * 4 if packet else 0
    rest = packet[header:]
    if not packet or packet[0] >> 4 != 4 or len(rest) < 8:  # noqa: PLR2004 - version 4; a UDP header
        return f"{len(packet)} B"
    total = struct.unpack_from("!H", packet, 2)[0]
    mark, protocol = _MARKS[packet[1] & 3], packet[9]
    source, target = struct.unpack_from("!2H", rest)
    if protocol == _UDP:
        return f"{source} > {target} UDP {total - header - 8} B{mark}"
    if protocol != _TCP or len(rest) < 20:  # noqa: PLR2004 - a TCP header
        return f"protocol {protocol}, {total} B"
    seq, ack, offset, flags, window = struct.unpack_from("!2I2BH", rest, 4)
    length = offset >> 4 << 2
    names = "|".join(name for bit, name in enumerate(_FLAGS) if (flags | (offset & 1) << 8) & (1 << bit))
    options = _options(rest[20:length])
    payload = total - header - length
    return (
        f"{source} > {target} {names or '-'} seq {seq} ack {ack} len {payload} win {window}"
        f"{f' <{options}>' if options else ''}{mark}"
    )


def _options(raw: bytes) -> str:
    """The options of a TCP header in words."""
    said, at = [], 0
    while at < len(raw) and raw[at] != 0:
        kind = raw[at]
        if kind == 1:
            at += 1
            continue
        length = raw[at + 1] if at + 1 < len(raw) else 0
        if length < 2:  # noqa: PLR2004 - kind and length
            break
        body = raw[at + 2 : at + length]
        numbers = ""
        if len(body) in {1, 2}:
            numbers = f" {int.from_bytes(body)}"
        elif body and len(body) % 4 == 0:
            numbers = " " + " ".join(map(str, struct.unpack(f"!{len(body) // 4}I", body)))
        said.append(f"{_OPTIONS.get(kind, f'option {kind}')}{numbers}")
        at += length
    return ", ".join(said)
