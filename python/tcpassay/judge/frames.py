"""Which frames of `packets.pcapng` show the segments that a finding cites.

A host's capture point sees every segment that its log has, in the same order, so the n-th segment of a host at one
instant is the n-th packet of its interface at that instant.
"""

import mmap
import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import polars as pl

from tcpassay.judge.finding import Row
from tcpassay.recording import Recording

SEGMENTS: Final = ("in", "out", "retransmit")
_SHORTEST: Final = 12
_PACKET: Final = 6
"""Type of an enhanced packet block (draft-ietf-opsawg-pcapng section 4.3)."""


def frames(recording: Recording, rows: Mapping[int, Row]) -> dict[int, int]:
    """The frame, from 1, of each row that is a segment; nothing when packets were not captured."""
    file = recording.folder / "packets.pcapng"
    wanted = {row.index: row for row in rows.values() if row.kind in SEGMENTS}
    if not wanted or file.name not in recording.index["files"] or not file.is_file():
        return {}
    times = {row.time_ns for row in wanted.values()}
    seen: dict[tuple[int, int], list[int]] = defaultdict(list)
    for number, interface, time in _packets(file):
        if time in times:
            seen[interface, time].append(number)
    names = {interface["name"]: place for place, interface in enumerate(recording.index["interfaces"])}
    found: dict[int, int] = {}
    for (host, time), indices in _instants(recording, times).items():
        packets = seen.get((names.get(recording.hosts[host], -1), time), [])
        if len(packets) == len(indices):
            both = zip(indices, packets, strict=True)
            found |= {index: number for index, number in both if index in wanted}
    return found


def _instants(recording: Recording, times: set[int]) -> dict[tuple[int, int], list[int]]:
    """The segments of each host at each instant."""
    lazy = pl.scan_parquet(recording.file("events")).with_row_index("index")
    near = lazy.filter(pl.col("time_ns").is_in(sorted(times)), pl.col("kind").is_in(SEGMENTS))
    instants: dict[tuple[int, int], list[int]] = defaultdict(list)
    for index, time, host in near.select("index", "time_ns", "host").collect().iter_rows():
        instants[host, time].append(index)
    return instants


def _packets(file: Path) -> Iterator[tuple[int, int, int]]:
    """Number, interface and time in nanoseconds of each packet of a capture that the data plane wrote."""
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as bytes_:
        at, number = 0, 0
        while at + 20 <= len(bytes_):
            kind, length, interface, high, low = struct.unpack_from("<5I", bytes_, at)
            if kind == _PACKET:
                number += 1
                yield number, interface, high << 32 | low
            if length < _SHORTEST:
                return
            at += length
