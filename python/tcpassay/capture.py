"""Extraction of one capture point from `packets.pcapng`.

A recording has a capture point at each host and at the bottleneck. It contains each segment up to three times, and
programs that treat the file as one wire show retransmissions that do not exist. A file with one point corresponds to a
capture at that place.
"""

import struct
from collections.abc import Iterator
from typing import Final

_SECTION: Final = 0x0A0D0D0A
_INTERFACE: Final = 1
_PACKET: Final = 6
"""Block types (draft-ietf-opsawg-pcapng sections 4.1 to 4.3)."""
_SHORTEST: Final = 12


def one_point(capture: bytes, point: int) -> bytes:
    """The packets of the capture point with this index, as a separate capture."""
    made, interfaces = bytearray(), 0
    for kind, block in blocks(capture):
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
    """The number of packets of each capture point."""
    counts: dict[int, int] = {}
    for kind, block in blocks(capture):
        if kind == _PACKET:
            (point,) = struct.unpack_from("<I", block, 8)
            counts[point] = counts.get(point, 0) + 1
    return counts


def blocks(capture: bytes) -> Iterator[tuple[int, bytes]]:
    """Type and bytes of each block of a little-endian capture, the format of the data plane."""
    at = 0
    while at + _SHORTEST <= len(capture):
        kind, length = struct.unpack_from("<2I", capture, at)
        if length < _SHORTEST or at + length > len(capture):
            return
        yield kind, capture[at : at + length]
        at += length
