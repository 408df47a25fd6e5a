"""The data of figures from a recording, as arrays in SI units."""

import re
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from tcpassay import recording
from tcpassay.interface import EventKind, EventsColumn, LatencyColumn, LatencyKind, SeriesColumn, Timer
from tcpassay.recording import carried
from tcpassay.recording_format import Device, RecordingIndex

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

MOST_SIZES = 3
"""With more sizes of requests, the figure does not distinguish them."""
_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}


def seconds(text: str) -> float:
    """A duration with its unit, as in `10ms`; the model of plans has checked its format."""
    number, unit = re.fullmatch(r"([\d.]+)([a-z]+)", text).groups()  # type: ignore[union-attr]
    return float(number) * _UNITS[unit]


class NoDataError(Exception):
    """The recording lacks data for the figure; the text names it."""


class Recording:
    """A recording's folder; its parts are read when needed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def index(self) -> RecordingIndex:
        """`recording.json`."""
        return self._opened.index

    @cached_property
    def _opened(self) -> recording.Recording:
        return recording.Recording.open(self.folder)

    @property
    def whole(self) -> recording.Recording:
        """The recording as it is read elsewhere."""
        return self._opened

    @cached_property
    def flows(self) -> list[int]:
        """Indices of the flows that carried data."""
        return [i for i, flow in enumerate(self.index["flows"]) if carried(flow)]

    @property
    def interval(self) -> float:
        """Length of the series intervals."""
        interval = self.index["series_interval_ns"]
        if interval is None:
            raise NoDataError("no time series")
        return interval * 1e-9

    @property
    def bottleneck(self) -> Device | None:
        """The device whose rate is the capacity of the path."""
        place = self.index["header"]["bottleneck"]
        return None if place is None else self.index["devices"][place]

    def _bottleneck_name(self) -> str:
        if self.bottleneck is None:
            raise NoDataError("no bottleneck")
        return str(self.bottleneck["name"])

    @property
    def capacity(self) -> float | None:
        """Rate of the bottleneck in bit/s."""
        rate = self.bottleneck["rate_bps"] if self.bottleneck else None
        return None if rate is None else float(rate)

    @property
    def dropped(self) -> int:
        """Number of packets dropped by queues; what a link loses is not one of them."""
        return sum(device["counters"]["drops"] for device in self.index["devices"])

    @property
    def timed_out(self) -> int:
        """Number of retransmission timeouts of all flows."""
        return sum(self.index["flows"][flow]["tcp"]["timeouts"] or 0 for flow in self.flows)

    @cached_property
    def _series(self) -> pl.DataFrame:
        if "series.parquet" not in self.index["files"]:
            raise NoDataError("no time series")
        return pl.read_parquet(self._opened.content("series.parquet"))

    def _entity(self, name: str, column: SeriesColumn) -> tuple[Array, Array]:
        if column not in self._series.columns:
            raise NoDataError("not in the time series")
        rows = self._series.filter(pl.col("entity") == name, pl.col(column).is_not_null())
        return _array(rows["time_ns"]) * 1e-9, _array(rows[column])

    def watched(self, number: int | None = None) -> int:
        """The flow for figures of a single flow: the one with this number, from 1, among those with data.

        Without a number, the first one with the largest number of timeouts.
        """
        if not self.flows:
            raise NoDataError("no flow carried data")
        if number is not None:
            if number > len(self.flows):
                raise NoDataError(f"only {len(self.flows)} flows carried data")
            return self.flows[number - 1]
        return max(self.flows, key=lambda flow: self.index["flows"][flow]["tcp"]["timeouts"] or 0)

    def number(self, number: int | None = None) -> int:
        """The number of this flow, from 1, among those with data."""
        return self.flows.index(self.watched(number)) + 1

    def sender(self, number: int) -> str:
        """The host that sends the data of the flow with this number."""
        return str(self.whole.hosts[self.index["flows"][self.watched(number)]["from"]])

    def _name(self, flow: int) -> str:
        return str(self.index["flows"][flow]["name"])

    def throughput(self) -> tuple[Array, Array]:
        """Start of each interval, and the delivered rate of all flows in it in bit/s, including headers."""
        names = [self._name(flow) for flow in self.flows]
        rows = self._series.filter(pl.col("entity").is_in(names))
        summed = rows.group_by("time_ns").agg(pl.col(SeriesColumn.WIRE_BYTES).sum()).sort("time_ns")
        return self._during(
            _array(summed["time_ns"]) * 1e-9, _array(summed[SeriesColumn.WIRE_BYTES]) * 8 / self.interval
        )

    def flow_throughput(self, flow: int) -> tuple[Array, Array]:
        """Start of each interval, and the delivered rate of this flow in it in bit/s, including headers."""
        time, octets = self._entity(self._name(flow), SeriesColumn.WIRE_BYTES)
        return self._during(time, octets * 8 / self.interval)

    def _during(self, time: Array, values: Array) -> tuple[Array, Array]:
        """Without the intervals after the end of the run, in which a kernel still closes its sockets."""
        inside = time < self.index["header"]["duration_ns"] * 1e-9
        return time[inside], values[inside]

    def cwnd(self, number: int | None = None) -> tuple[Array, Array]:
        """Congestion window in bytes of a flow (see `watched`)."""
        return self._entity(self._name(self.watched(number)), SeriesColumn.CWND_BYTES)

    def backlog(self) -> tuple[Array, Array]:
        """Largest backlog of the bottleneck in each interval, in bytes."""
        return self._entity(self._bottleneck_name(), SeriesColumn.MAX_BACKLOG_BYTES)

    def marks(self) -> tuple[Array, Array]:
        """Packets that the bottleneck marked in each interval."""
        return self._entity(self._bottleneck_name(), SeriesColumn.MARKS)

    @property
    def logged(self) -> bool:
        """Whether there is an event log."""
        return "events.parquet" in self.index["files"]

    def rtt(self) -> tuple[Array, Array]:
        """Round-trip time samples of the senders; without an event log, the smoothed value by interval."""
        if not self.flows:
            raise NoDataError("no flow carried data")
        if not self.logged:
            each = [self._entity(self._name(flow), SeriesColumn.SRTT_NS) for flow in self.flows]
            return np.concatenate([time for time, _ in each]), np.concatenate(
                [value for _, value in each]
            ) * 1e-9
        rows = self._events(EventKind.RTT).filter(pl.col(EventsColumn.FLOW).is_in(self.flows))
        return _array(rows["time_ns"]) * 1e-9, _array(rows["value_ns"]) * 1e-9

    def rtt_counts(self) -> pl.DataFrame:
        """Round-trip times with the number of samples of each: `value_ns`, `count`."""
        if "latency.parquet" not in self.index["files"]:
            raise NoDataError("no distribution of latency")
        rows = pl.read_parquet(self._opened.content("latency.parquet")).filter(
            pl.col(LatencyColumn.KIND) == LatencyKind.RTT
        )
        if rows.is_empty():
            raise NoDataError("no RTT was sampled")
        return rows.select("value_ns", pl.col("count").cast(pl.Int64))

    def completed(self) -> pl.DataFrame:
        """Completed flows and requests that are not background traffic: `size` in bytes, `took` in ns."""
        if "completions.parquet" not in self.index["files"]:
            raise NoDataError("no completions")
        rows = pl.read_parquet(self._opened.content("completions.parquet"))
        rows = rows.filter(pl.col("ok"), pl.col("kind") != "round", pl.col("class") != "background")
        if rows.is_empty():
            raise NoDataError("nothing was completed")
        octets = pl.max_horizontal("request_bytes", "response_bytes").cast(pl.Int64)
        return rows.select(
            size=octets, took=pl.col("end_ns").cast(pl.Int64) - pl.col("start_ns").cast(pl.Int64)
        )

    def timeouts(self) -> Array:
        """Times at which retransmission timers fired."""
        if not self.logged:
            return np.empty(0)
        rows = self._events(EventKind.TIMER_FIRE).filter(
            pl.col(EventsColumn.WHY) == Timer.RTO, pl.col(EventsColumn.FLOW).is_in(self.flows)
        )
        return _array(rows["time_ns"]) * 1e-9

    def sent(self, number: int | None = None) -> tuple[Array, Array, Mask]:
        """For each segment of a flow (see `watched`).

        The time of sending, the position after its last byte, and whether it is a retransmission.
        """
        if not self.logged:
            raise NoDataError("no event log")
        rows = self._events(EventKind.OUT, EventKind.RETRANSMIT).filter(
            pl.col(EventsColumn.FLOW) == self.watched(number), pl.col(EventsColumn.LEN) > 0
        )
        position = _array(rows[EventsColumn.SEQ]) + _array(rows[EventsColumn.LEN])
        again = (rows[EventsColumn.KIND] == EventKind.RETRANSMIT).to_numpy()
        return _array(rows["time_ns"]) * 1e-9, position, again

    def _events(self, *kinds: EventKind) -> pl.DataFrame:
        events = pl.scan_parquet(self._opened.content("events.parquet")).filter(
            pl.col(EventsColumn.KIND).is_in(kinds)
        )
        return events.collect()


class Pooled:
    """The samples of several runs together, as of one case with all its seeds."""

    def __init__(self, recordings: Sequence[Recording]) -> None:
        self.recordings = recordings

    def rtt(self) -> tuple[Array, Array]:
        """Round-trip times in ascending order, and the share of samples up to each."""
        rows = self._pooled(Recording.rtt_counts)
        counts = rows.group_by("value_ns").agg(pl.col("count").sum()).sort("value_ns")
        total = np.cumsum(_array(counts["count"]))
        return _array(counts["value_ns"]) * 1e-9, total / total[-1]

    def completions(self) -> list[tuple[str, Array, Array]]:
        """For each size of flows or requests: its name, the times to completion in ascending order, and the shares."""
        rows = self._pooled(Recording.completed)
        made = []
        sizes = rows["size"].unique().sort()
        groups = (
            [(None, rows)]
            if len(sizes) > MOST_SIZES
            else [(size, rows.filter(pl.col("size") == size)) for size in sizes]
        )
        for size, some in groups:
            took = np.sort(_array(some["took"])) * 1e-9
            made.append(("" if size is None else _bytes(size), took, np.arange(1, len(took) + 1) / len(took)))
        return made

    def _pooled(self, read: Callable[[Recording], pl.DataFrame]) -> pl.DataFrame:
        """The samples of all runs. Raises `NoDataError` if one of them has none, which would be a part of the pool."""
        return pl.concat([read(recording) for recording in self.recordings])


def _bytes(size: int) -> str:
    """As in `10 KB`."""
    for unit, name in ((10**6, "MB"), (10**3, "KB")):
        if size >= unit:
            return f"{size / unit:g} {name}"
    return f"{size} B"


def _array(column: pl.Series) -> Array:
    return column.cast(pl.Float64).to_numpy()
