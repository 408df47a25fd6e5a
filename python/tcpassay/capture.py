"""One capture point of `packets.pcapng` by itself.

A recording has a capture point at each host and at the bottleneck, so each segment stands in it up to three times, and
a program that takes the file for one wire sees phantom retransmissions. A file of one point is what a capture at that
place would be.
"""

import struct
from collections.abc import Iterator
from typing import Final

_SECTION: Final = 0x0A0D0D0A
_INTERFACE: Final = 1
_PACKET: Final = 6
"""Types of blocks (draft-ietf-opsawg-pcapng sections 4.1 to 4.3)."""
_SHORTEST: Final = 12


def one_point(capture: bytes, point: int) -> bytes:
    """The packets of the capture point with this place, as a capture of its own."""
    made, interfaces = bytearray(), 0
    for kind, block in _blocks(capture):
        if kind == _SECTION:
            made += block
        elif kind == _INTERFACE:
            if interfaces == point:
                made += block
            interfaces += 1
        elif kind == _PACKET and struct.unpack_from("<I", block, 8)[0] == point:
            made += block[:8] + bytes(4) + block[12:]
    return bytes(made)


def counted(capture: bytes) -> dict[int, int]:
    """How many packets each capture point has."""
    counts: dict[int, int] = {}
    for kind, block in _blocks(capture):
        if kind == _PACKET:
            (point,) = struct.unpack_from("<I", block, 8)
            counts[point] = counts.get(point, 0) + 1
    return counts


def _blocks(capture: bytes) -> Iterator[tuple[int, bytes]]:
    """Type and bytes of each block of a little-endian capture, which is what the data plane writes."""
    at = 0
    while at + _SHORTEST <= len(capture):
        kind, length = struct.unpack_from("<2I", capture, at)
        if length < _SHORTEST or at + length > len(capture):
            return
        yield kind, capture[at : at + length]
        at += length
