"""The IPv4 packets in `packets.pcapng` of a recording, as tcpassay writes it."""

import struct
from collections.abc import Iterator
from typing import Final

_INTERFACE: Final = 1
_PACKET: Final = 6
_NAME: Final = 2
"""The option `if_name` of an interface."""
_RAW_IP: Final = 101
"""The link type whose packets begin with the IP header."""
_HEAD: Final = 8
_IPV4: Final = 4


def packets(capture: bytes) -> Iterator[tuple[str, bytes]]:
    """The packets in order of time: the name of the point where each was captured, and its bytes."""
    names: list[str | None] = []
    for kind, body in _blocks(capture):
        if kind == _INTERFACE:
            names.append(_named(body) if int.from_bytes(body[:2], "little") == _RAW_IP else None)
        elif kind == _PACKET:
            interface, _, _, length = struct.unpack_from("<IIII", body)
            packet = body[20 : 20 + length]
            name = names[interface] if interface < len(names) else None
            if name is not None and packet and packet[0] >> 4 == _IPV4:
                yield name, packet


def _blocks(capture: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + _HEAD <= len(capture):
        kind, length = struct.unpack_from("<II", capture, at)
        yield kind, capture[at + _HEAD : at + length - 4]
        at += max(length, _HEAD)


def _named(interface: bytes) -> str | None:
    """The name of an interface."""
    at = 8
    while at + 4 <= len(interface):
        kind, length = struct.unpack_from("<HH", interface, at)
        if kind == _NAME:
            return interface[at + 4 : at + 4 + length].decode()
        at += 4 + length + -length % 4
    return None
