"""Numbers, besides the metrics, that experiments compute from recordings.

Each reading is a function of a recording, with its unit and its definition; it is `None` if the recording lacks what it
needs. A reading of one flow is given its number, from 1, among the flows that carried data.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import polars as pl

from tcpassay.captured.analyse import Analysis, Wanted
from tcpassay.captured.model import FlowSummary
from tcpassay.interface import CompletionsColumn, CongestionState, EventKind, EventsColumn, SeriesColumn
from tcpassay.reasons import congestion_change
from tcpassay.recording import Recording, carried
from tcpassay.recording_format import Device, Flow

AGREEMENT: Final = "agreement"
"""The reading of packetdrill scripts, which have no recording."""
FULL: Final = 0.95
"""Share of the capacity at which a path counts as filled."""
AFTER_NS: Final = 500_000_000
"""Time after a recovery in which its effect is measured."""
SMALL: Final = 100_000
"""Size up to which a request is small, in bytes, as in the metrics."""
PACKETS: Final = "packets.pcapng"


@dataclass(frozen=True, slots=True)
class Reading:
    """A number of a recording."""

    unit: str
    doc: str
    of: Callable[[Recording, int | None], float | None]


def data_flows(recording: Recording) -> list[Flow]:
    """The flows that carried data, in the order of the recording."""
    return [flow for flow in recording.flows if carried(flow)]


def _chosen(recording: Recording, number: int | None) -> list[Flow]:
    flows = data_flows(recording)
    return flows if number is None else flows[number - 1 : number]


def _rate(recording: Recording, flow: Flow) -> float:
    end = flow["end_ns"] or recording.duration_ns
    return flow["counters"]["read_bytes"] * 8e9 / max(end - flow["start_ns"], 1)


def _fastest(recording: Recording, _: int | None) -> float | None:
    return max((_rate(recording, flow) for flow in data_flows(recording)), default=None)


def _slowest(recording: Recording, _: int | None) -> float | None:
    return min((_rate(recording, flow) for flow in data_flows(recording)), default=None)


def _needless(recording: Recording, _: int | None) -> float | None:
    """Retransmitted packets in excess of the dropped ones, as a share of the retransmitted packets."""
    again = sum(flow["counters"]["retransmitted_packets"] or 0 for flow in data_flows(recording))
    lost = sum(device["counters"]["drops"] for device in recording.index["devices"])
    return max(again - lost, 0) / again if again else None


def _small(recording: Recording, _: int | None) -> float | None:
    """The share of small requests in the bytes of all requests that completed."""
    rows = recording.completions.filter(pl.col(CompletionsColumn.OK))
    sizes = list(
        zip(rows[CompletionsColumn.REQUEST_BYTES], rows[CompletionsColumn.RESPONSE_BYTES], strict=True)
    )
    total = sum(request + response for request, response in sizes)
    small = sum(request + response for request, response in sizes if max(request, response) <= SMALL)
    return small / total if total else None


# Round-trip times of a flow, as a capture at its sender shows them.


def _slowest_trips(recording: Recording) -> FlowSummary | None:
    flows = data_flows(recording)
    if not flows or not recording.holds(PACKETS):
        return None
    slow = min(flows, key=lambda flow: _rate(recording, flow))
    wanted = Wanted(point=recording.hosts[slow["from"]])
    analysis = Analysis(recording.folder / PACKETS, wanted)
    for _ in analysis.rounds(json=False):
        pass
    order = [flow for flow in flows if flow["from"] == slow["from"]]
    found = sorted(analysis.summary().flows, key=lambda one: one.flow)
    place = order.index(slow)
    return found[place] if place < len(found) else None


def _mode(part: int) -> Callable[[Recording, int | None], float | None]:
    def of(recording: Recording, _: int | None) -> float | None:
        found = _slowest_trips(recording)
        if found is None or found.round_trips is None or found.round_trips.modes is None:
            return None
        value = found.round_trips.modes[part]
        return value if part == 2 else value * 1e-9  # noqa: PLR2004 - the third is a share

    return of


# Racks.


def _workers(recording: Recording, group: str) -> list[Device]:
    """The queues towards the workers: of the spine (`uplink`), or of the switches of their racks (`access`)."""
    if group == "access":
        return [
            one
            for one in recording.index["devices"]
            if one["name"].startswith("queue.access-receiver") and not one["name"].endswith(".back")
        ]
    topology = recording.case.get("topology", "")
    storage = int(topology.removeprefix("racks:").partition("x")[0]) if topology.startswith("racks:") else 0
    found = []
    for one in recording.index["devices"]:
        rack = one["name"].removeprefix("queue.uplink-rack")
        if rack.isdigit() and int(rack) >= storage:
            found.append(one)
    return found


def _dropped(group: str) -> Callable[[Recording, int | None], float | None]:
    def of(recording: Recording, _: int | None) -> float | None:
        devices = _workers(recording, group)
        return sum(one["counters"]["drops"] for one in devices) if devices else None

    return of


def _busiest(recording: Recording, _: int | None) -> float | None:
    """Utilisation of the busiest link from the spine to a rack of workers, after the first tenth of the run."""
    names = {one["name"]: one["rate_bps"] for one in _workers(recording, "uplink")}
    if not names:
        return None
    start = recording.duration_ns // 10
    rows = recording.series.filter(pl.col("entity").is_in(list(names)), pl.col("time_ns") >= start)
    sums = rows.group_by("entity").agg(pl.col(SeriesColumn.OUT_BYTES).sum())
    length = (recording.duration_ns - start) * 1e-9
    return max((octets * 8 / length / (names[name] or 1) for name, octets in sums.iter_rows()), default=None)


def _share(part: str, whole: str, *, workers: bool) -> Callable[[Recording, int | None], float | None]:
    """Packets of one kind over packets of another, of flows that the workers receive or send."""

    def of(recording: Recording, _: int | None) -> float | None:
        total = some = 0
        for flow in recording.flows:
            host = recording.hosts[flow["to" if workers else "from"]]
            if host.startswith("receiver"):
                some += flow["counters"][part] or 0  # type: ignore[literal-required]
                total += flow["counters"][whole] or 0  # type: ignore[literal-required]
        return some / total if total else None

    return of


def _handled(side: str) -> Callable[[Recording, int | None], float | None]:
    """Segments that the stacks of one side handle, merged ones counted once, over the data that were read."""

    def of(recording: Recording, _: int | None) -> float | None:
        count = read = 0
        for flow in recording.flows:
            read += flow["counters"]["read_bytes"]
            if recording.hosts[flow["from"]].startswith(side):
                count += (flow["tcp"]["segments_in"] or 0) + (flow["tcp"]["segments_out"] or 0)
        return count / (read * 8e-9) if read and count else None

    return of


# Recovery.


def _recoveries(recording: Recording, flow: Flow) -> pl.DataFrame:
    place = recording.flows.index(flow)
    return recording.events.filter(
        pl.col(EventsColumn.FLOW) == place, pl.col(EventsColumn.HOST) == flow["from"]
    )


def _exits(recording: Recording, flow: Flow) -> list[tuple[int, int]]:
    """The time of each end of a recovery that was not undone, and the congestion window after it."""
    rows = _recoveries(recording, flow)
    made: list[tuple[int, int]] = []
    kinds, times = rows[EventsColumn.KIND].to_list(), rows[EventsColumn.TIME_NS].to_list()
    whys, windows = rows[EventsColumn.WHY].to_list(), rows[EventsColumn.CWND_BYTES].to_list()
    window = 0
    waiting: int | None = None
    for kind, time, why, cwnd in zip(kinds, times, whys, windows, strict=True):
        if waiting is not None and time > waiting:
            made.append((waiting, window))
            waiting = None
        window = cwnd if cwnd is not None else window
        if kind == EventKind.CONGESTION:
            change = congestion_change(why)
            if (
                change.before is CongestionState.RECOVERY
                and change.after is CongestionState.OPEN
                and not change.undone
            ):
                waiting = time
    return [*made, *([] if waiting is None else [(waiting, window)])]


def _exit_window(recording: Recording, number: int | None) -> float | None:
    """The smallest."""
    found = [
        window / max(flow["mss_bytes"], 1)
        for flow in _chosen(recording, number)
        for _, window in _exits(recording, flow)
    ]
    return min(found, default=None)


def _least_ssthresh(recording: Recording, number: int | None) -> float | None:
    found = [
        value / max(flow["mss_bytes"], 1)
        for flow in _chosen(recording, number)
        for value in _recoveries(recording, flow)[EventsColumn.SSTHRESH_BYTES].drop_nulls().to_list()
    ]
    return min(found, default=None)


def _series_ssthresh(recording: Recording, number: int | None) -> float | None:
    """From the series, for runs without an event log."""
    found = [
        value / max(flow["mss_bytes"], 1)
        for flow in _chosen(recording, number)
        for value in recording.series.filter(pl.col("entity") == flow["name"])[SeriesColumn.SSTHRESH_BYTES]
        .drop_nulls()
        .to_list()
    ]
    return min(found, default=None)


def _growth(recording: Recording, number: int | None) -> float | None:
    """From the series: the slope of the window after the first loss, times the smoothed round-trip time."""
    for flow in _chosen(recording, number):
        rows = recording.series.filter(
            pl.col("entity") == flow["name"], pl.col(SeriesColumn.SSTHRESH_BYTES).is_not_null()
        ).select("time_ns", SeriesColumn.CWND_BYTES, SeriesColumn.SRTT_NS)
        rows = rows.drop_nulls()
        if rows.height < 3:  # noqa: PLR2004 - a slope needs two ends
            return None
        rows = rows[rows.height // 10 : rows.height // 2]
        first, last = rows.row(0), rows.row(-1)
        rounds = (last[0] - first[0]) / float(rows[SeriesColumn.SRTT_NS].mean() or 1)  # type: ignore[arg-type]
        return (last[1] - first[1]) / max(flow["mss_bytes"], 1) / rounds if rounds else None
    return None


def _filled(recording: Recording, number: int | None) -> float | None:
    """The end of the first second in which the path carried 95 % of its capacity."""
    place = recording.header["bottleneck"]
    rate = None if place is None else recording.index["devices"][place]["rate_bps"]
    if rate is None:
        return None
    names = [flow["name"] for flow in _chosen(recording, number)]
    rows = (
        recording.series.filter(pl.col("entity").is_in(names))
        .with_columns((pl.col("time_ns") // 1_000_000_000).alias("second"))
        .group_by("second")
        .agg(pl.col(SeriesColumn.WIRE_BYTES).sum())
        .sort("second")
    )
    for second, octets in rows.iter_rows():
        if octets * 8 >= FULL * rate:
            return float(second + 1)
    return None


def _reversed(recording: Recording, number: int | None) -> float | None:
    """The length of the first descending run in the order in which the receiver's stack gets segments."""
    for flow in _chosen(recording, number or 1):
        place = recording.flows.index(flow)
        came = recording.events.filter(
            pl.col(EventsColumn.KIND) == EventKind.IN,
            pl.col(EventsColumn.HOST) == flow["to"],
            pl.col(EventsColumn.LEN) > 0,
        )
        connection = {n for n, one in enumerate(recording.flows) if one["connection"] == flow["connection"]}
        order = [
            seq
            for seq, of in zip(came[EventsColumn.SEQ], came[EventsColumn.FLOW], strict=True)
            if of in connection
        ]
        assert place in connection  # noqa: S101 - by construction
        length = 1
        for before, after in pairwise(order):
            if after < before:
                length += 1
            elif length > 1:
                return float(length)
    return None


def _wait_after_exit(recording: Recording, number: int | None) -> float | None:
    """The longest time without a segment at the sender within half a second after the end of a recovery."""
    longest: float | None = None
    for flow in _chosen(recording, number):
        rows = _recoveries(recording, flow).filter(
            pl.col(EventsColumn.KIND).is_in([EventKind.IN, EventKind.OUT, EventKind.RETRANSMIT])
        )
        times = rows[EventsColumn.TIME_NS]
        for at, _ in _exits(recording, flow):
            some = times.filter((times >= at) & (times <= at + AFTER_NS)).to_list()
            gaps = [b - a for a, b in pairwise([at, *some])]
            longest = max([longest or 0.0, *(gap * 1e-9 for gap in gaps)])
    return longest


# The start of a flow.


@dataclass(frozen=True, slots=True)
class _Start:
    """The first data of a flow, and what happened to them at their sender."""

    acked_ns: int | None
    """From the first data to the ACK of their first segment."""
    again_ns: int | None
    """From the first data to the first retransmission."""
    again: int | None
    """The number, from 1, of the segment that is retransmitted first."""


def _start(recording: Recording, number: int | None) -> _Start | None:
    for flow in _chosen(recording, number or 1):
        rows = _recoveries(recording, flow).select(
            EventsColumn.TIME_NS, EventsColumn.KIND, EventsColumn.SEQ, EventsColumn.LEN, EventsColumn.ACK
        )
        sent = rows.filter(pl.col(EventsColumn.KIND) == EventKind.OUT, pl.col(EventsColumn.LEN) > 0)
        if sent.is_empty():
            return None
        began, _, first, length, _ = sent.row(0)
        came = rows.filter(
            pl.col(EventsColumn.KIND) == EventKind.IN, pl.col(EventsColumn.ACK) >= first + length
        )
        again = rows.filter(pl.col(EventsColumn.KIND) == EventKind.RETRANSMIT)
        return _Start(
            acked_ns=None if came.is_empty() else came.row(0)[0] - began,
            again_ns=None if again.is_empty() else again.row(0)[0] - began,
            again=None if again.is_empty() else (again.row(0)[2] - first) // length + 1,
        )
    return None


def _first_ack(recording: Recording, number: int | None) -> float | None:
    found = _start(recording, number)
    return None if found is None or found.acked_ns is None else found.acked_ns * 1e-9


def _first_again(recording: Recording, number: int | None) -> float | None:
    found = _start(recording, number)
    return None if found is None or found.again_ns is None else found.again_ns * 1e-9


def _first_lost(recording: Recording, number: int | None) -> float | None:
    found = _start(recording, number)
    return None if found is None or found.again is None else float(found.again)


READINGS: Final[dict[str, Reading]] = {
    AGREEMENT: Reading("1", "Share of the packetdrill scripts that end as they state", lambda _, __: None),
    "fastest_flow": Reading("bit/s", "Bytes read of the flow that is read fastest, over its life", _fastest),
    "slowest_flow": Reading("bit/s", "Bytes read of the flow that is read slowest, over its life", _slowest),
    "needless_share": Reading("1", "Share of retransmissions whose first copy was not lost", _needless),
    "small_share": Reading(
        "1", "Share of requests of up to 100 KB in the bytes of all requests that completed", _small
    ),
    "slow_rtt_lower": Reading(
        "s",
        "Median of the lower group of RTTs of the slowest flow, in a capture at its sender; absent if all are alike",
        _mode(0),
    ),
    "slow_rtt_upper": Reading("s", "Median of the upper group of these RTTs", _mode(1)),
    "slow_rtt_upper_share": Reading("1", "Share of the upper group of these RTTs", _mode(2)),
    "worker_link_utilisation": Reading(
        "1",
        "Utilisation of the busiest link from the spine to a worker rack, without the first tenth",
        _busiest,
    ),
    "worker_link_drops": Reading(
        "packets", "Packets dropped by the spine before links to worker racks", _dropped("uplink")
    ),
    "worker_rack_drops": Reading(
        "packets", "Packets dropped by worker racks before links to workers", _dropped("access")
    ),
    "storage_retransmits": Reading(
        "1",
        "Retransmitted over sent packets, of what workers receive",
        _share("retransmitted_packets", "sent_packets", workers=True),
    ),
    "worker_ce_share": Reading(
        "1",
        "Share of the packets with payload that workers receive with CE",
        _share("ce_packets", "delivered_packets", workers=True),
    ),
    "storage_ce_share": Reading(
        "1",
        "Share of the packets with payload that storage hosts receive with CE",
        _share("ce_packets", "delivered_packets", workers=False),
    ),
    "worker_segments": Reading(
        "1",
        "Segments that the stacks of workers send and get, merged ones counted once, per Gbit read",
        _handled("receiver"),
    ),
    "storage_segments": Reading("1", "The same of storage hosts", _handled("sender")),
    "exit_cwnd": Reading(
        "1", "Smallest congestion window at the end of a recovery, in segments", _exit_window
    ),
    "exit_wait": Reading(
        "s",
        "Longest time without a segment at the sender in the half second after a recovery",
        _wait_after_exit,
    ),
    "least_ssthresh": Reading("1", "Smallest slow-start threshold, in segments", _least_ssthresh),
    "least_ssthresh_series": Reading(
        "1", "The same at the ends of the intervals of the series", _series_ssthresh
    ),
    "growth": Reading(
        "1", "Growth of the congestion window per round trip after the first loss, in segments", _growth
    ),
    "time_to_fill": Reading(
        "s", "End of the first second in which the path carries 95 % of its capacity", _filled
    ),
    "first_ack": Reading(
        "s", "Time from the first data to the ACK of their first segment, at the sender", _first_ack
    ),
    "first_retransmission": Reading(
        "s", "Time from the first data to the first retransmission, at the sender", _first_again
    ),
    "first_lost": Reading(
        "1", "Number, from 1, of the segment with data that is retransmitted first", _first_lost
    ),
    "reversed_group": Reading(
        "1", "Segments of the first group that arrives in reverse order at the receiver's stack", _reversed
    ),
}
"""All readings by name."""
