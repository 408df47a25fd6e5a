"""TCP segments in IPv4 packets (RFC 9293 section 3.1, RFC 791 section 3.1)."""

import ipaddress
import struct
from dataclasses import dataclass, field
from enum import IntFlag
from typing import Final

IP_HEAD: Final = 20
TCP_HEAD: Final = 20
TCP: Final = 6
END: Final = 0
NO_OPERATION: Final = 1
MSS: Final = 2
SCALE: Final = 3
SACK_PERMITTED: Final = 4
SACK: Final = 5
TIMESTAMPS: Final = 8
CE: Final = 3


class Flag(IntFlag):
    """Flags of the header."""

    FIN = 1
    SYN = 2
    RST = 4
    PSH = 8
    ACK = 16
    URG = 32
    ECE = 64
    CWR = 128


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment with the numbers of its header."""

    source: int
    target: int
    seq: int
    ack: int
    flags: Flag
    window: int
    options: list[tuple[int, bytes]] = field(default_factory=list)
    data: bytes = b""
    ecn: int = 0

    def option(self, kind: int) -> bytes | None:
        """The content of an option."""
        return next((content for known, content in self.options if known == kind), None)

    @property
    def mss(self) -> int | None:
        """The MSS option."""
        content = self.option(MSS)
        return None if content is None else int.from_bytes(content)

    @property
    def scale(self) -> int | None:
        """The window scale option."""
        content = self.option(SCALE)
        return None if content is None else content[0]

    @property
    def stamps(self) -> tuple[int, int] | None:
        """Value and echo of the timestamps option."""
        content = self.option(TIMESTAMPS)
        if content is None:
            return None
        value, echo = struct.unpack("!II", content)
        return value, echo

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """SACK blocks."""
        content = self.option(SACK) or b""
        return list(struct.iter_unpack("!II", content))

    def has(self, flags: Flag) -> bool:
        """Whether all these flags are set."""
        return self.flags & flags == flags


def _checksum(content: bytes) -> int:
    words = struct.unpack(f"!{(len(content) + 1) // 2}H", content + bytes(len(content) % 2))
    total: int = sum(words)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def encode(source: str, target: str, segment: Segment) -> bytes:
    """A whole packet with both checksums."""
    options = b"".join(
        bytes([kind]) if kind <= NO_OPERATION else bytes([kind, len(content) + 2]) + content
        for kind, content in segment.options
    )
    options += bytes([NO_OPERATION]) * (-len(options) % 4)
    offset = (TCP_HEAD + len(options)) // 4
    ports = (segment.source, segment.target)
    numbers = (segment.seq % 2**32, segment.ack % 2**32, offset << 4, segment.flags, segment.window)
    tcp = struct.pack("!HHIIBBHHH", *ports, *numbers, 0, 0) + options + segment.data
    ends = ipaddress.IPv4Address(source).packed + ipaddress.IPv4Address(target).packed
    sum_of_tcp = _checksum(ends + struct.pack("!BBH", 0, TCP, len(tcp)) + tcp)
    tcp = tcp[:16] + struct.pack("!H", sum_of_tcp) + tcp[18:]
    head = struct.pack("!BBHHHBBH", 0x45, segment.ecn, IP_HEAD + len(tcp), 0, 0x4000, 64, TCP, 0) + ends
    return head[:10] + struct.pack("!H", _checksum(head)) + head[12:] + tcp


def _options(content: bytes) -> list[tuple[int, bytes]]:
    found, at = [], 0
    while at < len(content) and content[at] != END:
        if content[at] == NO_OPERATION:
            at += 1
            continue
        length = max(content[at + 1], 2) if at + 1 < len(content) else 2
        found.append((content[at], content[at + 2 : at + length]))
        at += length
    return found


def decode(packet: bytes) -> Segment:
    """The segment of a packet that a stack has sent."""
    begin, end = (packet[0] & 15) * 4, int.from_bytes(packet[2:4])
    tcp = packet[begin:end]
    source, target, seq, ack, offset, flags, window = struct.unpack_from("!HHIIBBH", tcp)
    length = (offset >> 4) * 4
    options = _options(tcp[TCP_HEAD:length])
    return Segment(source, target, seq, ack, Flag(flags), window, options, tcp[length:], packet[1] & 3)
