"""Which frames of `packets.pcapng` show the segments that a finding cites.

A host's capture point sees every segment that its log has, in the same order, so the n-th segment of a host at one
instant is the n-th packet of its interface at that instant.
"""

import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from tcpassay.finding import Row
from tcpassay.interface import EventKind
from tcpassay.judge.log import Log
from tcpassay.recording import Recording

SEGMENTS: Final = (EventKind.IN, EventKind.OUT, EventKind.RETRANSMIT)
_SHORTEST: Final = 12
_PACKET: Final = 6
"""Type of an enhanced packet block (draft-ietf-opsawg-pcapng section 4.3)."""


def frames(recording: Recording, log: Log, rows: Mapping[int, Row]) -> dict[int, int]:
    """The frame, from 1, of each row that is a segment; nothing when packets were not captured."""
    wanted = {row.index: row for row in rows.values() if row.kind in SEGMENTS}
    # A capture is large, and most runs have none.
    if not wanted or not recording.index["interfaces"]:
        return {}
    times = {row.time_ns for row in wanted.values()}
    seen: dict[tuple[int, int], list[int]] = defaultdict(list)
    for number, interface, time in _packets(log.capture()):
        if time in times:
            seen[interface, time].append(number)
    names = {interface["name"]: place for place, interface in enumerate(recording.index["interfaces"])}
    found: dict[int, int] = {}
    for (host, time), indices in _instants(log, times).items():
        packets = seen.get((names.get(recording.hosts[host], -1), time), [])
        if len(packets) == len(indices):
            both = zip(indices, packets, strict=True)
            found |= {index: number for index, number in both if index in wanted}
    return found


def _instants(log: Log, times: set[int]) -> dict[tuple[int, int], list[int]]:
    """The segments of each host at each instant."""
    import numpy as np  # noqa: PLC0415 - start-up time

    segments = [code for code, kind in enumerate(EventKind) if kind in SEGMENTS]
    near = np.isin(log.times, sorted(times)) & np.isin(log.kinds, segments)
    indices = np.flatnonzero(near).tolist()
    instants: dict[tuple[int, int], list[int]] = defaultdict(list)
    for index, row in zip(indices, log.rows(indices), strict=True):
        instants[row.host, row.time_ns].append(index)
    return instants


def _packets(capture: bytes) -> Iterator[tuple[int, int, int]]:
    """Number, interface and time in nanoseconds of each packet of a capture that the data plane wrote."""
    at, number = 0, 0
    while at + 20 <= len(capture):
        kind, length, interface, high, low = struct.unpack_from("<5I", capture, at)
        if kind == _PACKET:
            number += 1
            yield number, interface, high << 32 | low
        if length < _SHORTEST:
            return
        at += length
