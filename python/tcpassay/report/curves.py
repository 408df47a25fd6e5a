"""The curves of the page of one run: series, events and sequence numbers, reduced to the resolution of a screen.

All data comes from the recording. Throughput counts bytes with headers that arrived at the receiver. The round-trip
time consists of the sender's samples if there is an event log, and of its smoothed value otherwise.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from tcpassay.interface import (
    CongestionState,
    EventKind,
    EventsColumn,
    LatencyKind,
    SeriesColumn,
    Table,
    Timer,
)
from tcpassay.reasons import congestion_change
from tcpassay.recording import DamagedError, Recording, carried
from tcpassay.recording_format import Device
from tcpassay.report import thin
from tcpassay.report.pack import Pack
from tcpassay.report.page_data import (
    Curve,
    CurvesData,
    Distribution,
    FlowData,
    Index,
    LaneData,
    Panel,
    SequenceData,
)

POINTS: Final = 2_000
"""Maximum number of points of a curve."""
BARS: Final = 4_000
"""Maximum number of bars of a flow in the time-sequence graph."""
TICKS: Final = 1_000
"""Maximum number of marks of one kind of event."""
FLOWS: Final = 8
"""Maximum number of flows with their own curves."""
SEQUENCES: Final = 4
"""Maximum number of flows in the time-sequence graph."""
COUNTS: Final = 400
"""Maximum number of bars of marks and drops."""
EXACT: Final = 6_000
"""Maximum number of points of each curve that are kept unreduced around findings."""


@dataclass(frozen=True, slots=True)
class _Lane:
    """Events that are drawn on one line of the timeline."""

    key: str
    title: str
    kind: EventKind
    reason: Callable[[str], bool] = lambda why: True  # noqa: ARG005 - every reason

    def of(self, events: pl.DataFrame) -> pl.DataFrame:
        """Its events."""
        same = events.filter(pl.col(EventsColumn.KIND) == self.kind)
        reasons = [why for why in same[EventsColumn.WHY].unique() if self.reason(why)]
        return same.filter(pl.col(EventsColumn.WHY).is_in(reasons))


def _enters(state: CongestionState) -> Callable[[str], bool]:
    return lambda why: congestion_change(why).after is state


_LANES: Final = (
    _Lane("timeout", "RTO fires", EventKind.TIMER_FIRE, Timer.RTO.__eq__),
    _Lane("recovery", "recovery", EventKind.CONGESTION, _enters(CongestionState.RECOVERY)),
    _Lane("cwr", "reduction", EventKind.CONGESTION, _enters(CongestionState.CWR)),
    _Lane("probe", "tail loss probe", EventKind.TIMER_FIRE, Timer.TLP.__eq__),
    _Lane("retransmit", "retransmitted", EventKind.RETRANSMIT),
    _Lane("spurious", "spurious", EventKind.SPURIOUS),
    _Lane("delayed", "delayed ACK", EventKind.TIMER_FIRE, Timer.DELAYED_ACK.__eq__),
    _Lane("forgotten", "ACK forgotten", EventKind.ACK_FORGET),
    _Lane("clamp", "clamp", EventKind.CLAMP),
)
_COLUMNS: Final = [
    EventsColumn.TIME_NS, EventsColumn.FLOW, EventsColumn.KIND, EventsColumn.WHY, EventsColumn.SEQ, EventsColumn.ACK,
    EventsColumn.LEN, EventsColumn.VALUE_NS,
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Watched:
    """The flow and time window of a finding: the flow has priority, and its window is not reduced."""

    flow: str
    start_ns: float
    end_ns: float


def pack(recording: Recording, *, watched: Iterable[Watched] = ()) -> str:
    """The curves of a recording. Raises `DamagedError`, also for missing columns or counters."""
    try:
        return _Curves(recording, list(watched)).pack()
    except (KeyError, TypeError, ValueError, AttributeError, pl.exceptions.PolarsError) as error:
        why = f"its content is inconsistent: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        raise DamagedError(recording.folder / "recording.json", why) from error


class _Curves:
    def __init__(self, recording: Recording, watched: list[Watched]) -> None:
        self.recording = recording
        self.windows = [(one.start_ns, one.end_ns) for one in watched]
        names = {one.flow for one in watched}
        self.packed = Pack()
        self.series = recording.series
        kinds = [*{lane.kind for lane in _LANES}, EventKind.IN, EventKind.OUT, EventKind.RTT]
        wanted = pl.col(EventsColumn.KIND).is_in(kinds)
        self.events = recording.table(Table.EVENTS, _COLUMNS).filter(wanted)
        flows = recording.flows
        senders = [n for n, flow in enumerate(flows) if carried(flow)]

        def rank(place: int) -> tuple[bool, int, int]:
            flow = flows[place]
            timeouts = flow["tcp"].get("timeouts") or 0
            return flow["name"] not in names, -timeouts, -carried(flow)

        self.senders = senders
        self.ranked = sorted(senders, key=rank)
        # In the order of the recording, so that a flow has the same colour in every panel.
        self.shown = sorted(self.ranked[:FLOWS])

    def pack(self) -> str:
        header = self.recording.header
        panels = [
            self._throughput(),
            self._windows(),
            self._rtt(),
            self._of_flows("alpha", "DCTCP's alpha", "1", SeriesColumn.ALPHA),
            self._queue(),
            self._counts(),
        ]
        bottleneck = self._bottleneck
        data: CurvesData = {
            "duration_ns": self.recording.duration_ns,
            "interval_ns": self.recording.index.get("series_interval_ns"),
            "bottleneck": bottleneck and {"name": bottleneck["name"], "rate_bps": bottleneck["rate_bps"]},
            "complete": header.get("complete", True),
            "environment": self.recording.index.get("environment") or [],
            "flows": [self._flow(place) for place in self.ranked[:FLOWS]],
            "senders": len(self.senders),
            "panels": [panel for panel in panels if panel and panel["curves"]],
            "distributions": list(self._distributions()),
            "lanes": list(self._lanes()),
            "sequence": list(self._sequence()),
        }
        return self.packed.text(data)

    def _flow(self, place: int) -> FlowData:
        flow = self.recording.flows[place]
        hosts = self.recording.hosts
        ends = [
            hosts[end] if isinstance(end, int) and end < len(hosts) else "?"
            for end in (flow.get("from"), flow.get("to"))
        ]
        return {
            "name": flow["name"],
            "cc": flow.get("cc"),
            "from": ends[0],
            "to": ends[1],
            "counters": flow["counters"],
            "tcp": flow.get("tcp"),
        }

    @property
    def _bottleneck(self) -> Device | None:
        place = self.recording.header.get("bottleneck")
        devices = self.recording.index["devices"]
        return devices[place] if isinstance(place, int) and place < len(devices) else None

    def _name(self, place: int) -> str:
        return str(self.recording.flows[place]["name"])

    def _column(self, entity: str, column: str) -> tuple[thin.Floats, thin.Floats]:
        if column not in self.series.columns:
            return np.empty(0), np.empty(0)
        rows = self.series.filter(pl.col("entity") == entity, pl.col(column).is_not_null())
        return _floats(rows["time_ns"]), _floats(rows[column])

    def _curve(
        self, name: str, time: thin.Floats, values: thin.Floats, place: int | None = None
    ) -> list[Curve]:
        """A list with a curve, or an empty list if there is no data; `place` is that of its flow."""
        if not len(time):
            return []
        kept = self._kept(time, values)
        x, y = self.packed.add(time[kept]), self.packed.add(values[kept])
        curve: Curve = {"name": name, "x": x, "y": y, "of": len(time)}
        if place is not None:
            curve["flow"], curve["owner"] = place, self._name(place)
        return [curve]

    def _kept(self, time: thin.Floats, values: thin.Floats) -> thin.Indices:
        if not len(time):
            return np.empty(0, dtype=np.int64)
        return np.union1d(thin.extremes(time, values, POINTS), np.flatnonzero(self._exact(time)))

    def _exact(self, time: thin.Floats) -> thin.Flags:
        return thin.within(time, self.windows, EXACT)

    def _throughput(self) -> Panel | None:
        interval = self.recording.index.get("series_interval_ns")
        if not interval or "wire_bytes" not in self.series.columns:
            return None
        per_second = 8e9 / interval
        curves = []
        if len(self.senders) > 1:
            names = [self._name(place) for place in self.senders]
            rows = self.series.filter(pl.col("entity").is_in(names), pl.col("wire_bytes").is_not_null())
            total = rows.group_by("time_ns").agg(pl.col("wire_bytes").sum()).sort("time_ns")
            curves += self._curve(
                "all flows", _floats(total["time_ns"]), _floats(total["wire_bytes"]) * per_second
            )
        for place in self.shown:
            time, octets = self._column(self._name(place), "wire_bytes")
            curves += self._curve(self._name(place), time, octets * per_second, place)
        return {"key": "throughput", "title": "Throughput", "unit": "bit/s", "curves": curves}

    def _of_flows(self, key: str, title: str, unit: str, column: str) -> Panel:
        curves = []
        for place in self.shown:
            name = self._name(place)
            curves += self._curve(name, *self._column(name, column), place)
        return {"key": key, "title": title, "unit": unit, "curves": curves}

    def _windows(self) -> Panel:
        """Congestion windows, and slow-start thresholds if there are few flows."""
        panel = self._of_flows("cwnd", "Congestion window", "B", SeriesColumn.CWND_BYTES)
        for place in self.shown:
            name = self._name(place)
            thresholds = self._column(name, SeriesColumn.SSTHRESH_BYTES)
            panel["curves"] += self._curve(f"{name} ssthresh", *thresholds, place)
        return panel

    def _rtt(self) -> Panel:
        curves: list[Curve] = []
        for place in self.shown:
            rows = self.events.filter(
                pl.col(EventsColumn.KIND) == EventKind.RTT,
                pl.col(EventsColumn.FLOW) == place,
                pl.col(EventsColumn.VALUE_NS).is_not_null(),
            )
            time, values = _floats(rows["time_ns"]), _floats(rows["value_ns"])
            smoothed = not len(time)
            if smoothed:
                time, values = self._column(self._name(place), SeriesColumn.SRTT_NS)
            made = self._curve(self._name(place), time, values * 1e-9, place)
            curves += [{**curve, "smoothed": smoothed} for curve in made]
        return {"key": "rtt", "title": "Round-trip time", "unit": "s", "curves": curves}

    def _queue(self) -> Panel | None:
        if self._bottleneck is None:
            return None
        name = str(self._bottleneck["name"])
        curves = self._curve("bottleneck", *self._column(name, SeriesColumn.MAX_BACKLOG_BYTES))
        return {"key": "queue", "title": "Queue", "unit": "B", "curves": curves}

    def _counts(self) -> Panel | None:
        """Marks and drops of the bottleneck, or of all devices if there is no bottleneck."""
        interval = self.recording.index.get("series_interval_ns")
        if not interval:
            return None
        bars = max(interval, -(-self.recording.duration_ns // COUNTS // interval) * interval)
        curves = []
        for column, label in ((SeriesColumn.MARKS, "marks"), (SeriesColumn.DROPS, "drops")):
            if column not in self.series.columns:
                continue
            rows = self.series.filter(pl.col(column) > 0)
            total = rows.group_by("time_ns").agg(pl.col(column).sum()).sort("time_ns")
            time, counts = thin.sums(_floats(total["time_ns"]), _floats(total[column]), bars)
            curves += self._curve(label, time, counts)
        return {
            "key": "counts",
            "title": "Marks, drops",
            "unit": "packets",
            "curves": curves,
            "width_ns": bars,
        }

    def _bars(self, time: thin.Floats, low: thin.Floats, high: thin.Floats) -> Iterable[thin.Floats]:
        exact = self._exact(time)
        rest = thin.spans(time[~exact], low[~exact], high[~exact], BARS)
        both = [np.concatenate([a, b[exact]]) for a, b in zip(rest, (time, low, high), strict=True)]
        order = np.argsort(both[0], kind="stable")
        return (array[order] for array in both)

    def _distributions(self) -> Iterable[Distribution]:
        """Latencies of all flows together and of the bottleneck's queue, and completion times."""
        latency = self.recording.latency
        senders = [self._name(place) for place in self.senders]
        queue = [str(self._bottleneck["name"])] if self._bottleneck else []
        parts = (
            (LatencyKind.ONE_WAY, "one way", senders),
            (LatencyKind.RTT, "round trip", senders),
            (LatencyKind.QUEUE_DELAY, "bottleneck's queue", queue),
        )
        for key, title, entities in parts:
            rows = latency.filter(pl.col("kind") == key, pl.col("entity").is_in(entities))
            counted = rows.group_by("value_ns").agg(pl.col("count").sum()).sort("value_ns")
            yield from self._distribution(key, title, _floats(counted["value_ns"]), _floats(counted["count"]))
        took = self.recording.completions.filter(pl.col("ok")).select(
            pl.col("end_ns") - pl.col("start_ns"), "kind"
        )
        for kind in took["kind"].unique(maintain_order=True):
            values = np.sort(_floats(took.filter(pl.col("kind") == kind)["end_ns"].drop_nulls()))
            yield from self._distribution(
                f"completion {kind}", f"{kind}, to its end", values, np.ones(len(values))
            )

    def _distribution(
        self, key: str, title: str, values: thin.Floats, counts: thin.Floats
    ) -> Iterable[Distribution]:
        if len(values):
            x, y = thin.quantiles(values * 1e-9, counts)
            yield {
                "key": key,
                "title": title,
                "x": self.packed.add(x),
                "y": self.packed.add(y),
                "of": int(counts.sum()),
            }

    def _lanes(self) -> Iterable[LaneData]:
        if self.events.is_empty():
            return
        for lane in _LANES:
            rows = lane.of(self.events)
            if rows.is_empty():
                continue
            every = -(-len(rows) // TICKS)
            some = rows.gather_every(every)
            time, flow = (
                self.packed.add(_floats(some["time_ns"])),
                self.packed.add(some["flow"].to_numpy(), "u2"),
            )
            yield {"key": lane.key, "title": lane.title, "x": time, "flow": flow, "of": len(rows)}

    def _sequence(self) -> Iterable[SequenceData]:
        for place in self.ranked[:SEQUENCES]:
            own = self.events.filter(pl.col(EventsColumn.FLOW) == place)
            segments = own.filter(
                pl.col(EventsColumn.KIND).is_in([EventKind.OUT, EventKind.RETRANSMIT]),
                pl.col(EventsColumn.LEN) > 0,
            )
            if segments.is_empty():
                continue
            sent, sent_of = self._ranges(segments, EventKind.OUT)
            again, again_of = self._ranges(segments, EventKind.RETRANSMIT)
            acks = own.filter(pl.col(EventsColumn.KIND) == EventKind.IN, pl.col(EventsColumn.ACK) > 0)
            # The acknowledged position never decreases; a reordered ACK is ignored.
            time, ack = _floats(acks["time_ns"]), np.maximum.accumulate(_floats(acks[EventsColumn.ACK]))
            kept = self._kept(time, ack)
            yield {
                "name": self._name(place),
                "flow": place,
                "sent": sent,
                "sent_of": sent_of,
                "again": again,
                "again_of": again_of,
                "acked": [self.packed.add(time[kept]), self.packed.add(ack[kept])],
            }

    def _ranges(self, segments: pl.DataFrame, kind: EventKind) -> tuple[list[Index], int]:
        """Time, first and last position of the segments of a kind, and their number before the reduction."""
        rows = segments.filter(pl.col(EventsColumn.KIND) == kind)
        low, length = _floats(rows[EventsColumn.SEQ]), _floats(rows[EventsColumn.LEN])
        bars = self._bars(_floats(rows["time_ns"]), low, low + length)
        return [self.packed.add(array) for array in bars], len(rows)


def _floats(column: pl.Series) -> thin.Floats:
    # Not `cast`: a method of a column of polars is a query, which takes longer than the conversion.
    return column.to_numpy().astype(np.float64, copy=False)
