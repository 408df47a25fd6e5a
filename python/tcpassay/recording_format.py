"""The format of `recording.json`, which the data plane writes (`crates/measure/src/recording.rs`).

A test validates recordings of the data plane with these types, so that a field that one side does not have is found.
"""

from typing import NotRequired, TypedDict


class TripleRow(TypedDict):
    """A setting of the case."""

    entity: str
    parameter: str
    value: str


class Header(TypedDict):
    """The case, the software versions, and how the run ended."""

    version: str
    substrate: str
    system: NotRequired[str]
    """The release of the kernel whose TCP was used; absent for the model."""
    stacks: NotRequired[list["StackUnderTest"]]
    """The hosts of the model whose TCP is another implementation; absent if there are none."""
    seed: int
    case: list[TripleRow]
    replay: str | None
    """The command that repeats the run."""
    duration_ns: int
    complete: bool
    """False when the run was interrupted; the recording then covers only a part of the case."""
    bottleneck: int | None
    """The device whose rate is the capacity of the path, as an index of `devices`."""


class StackUnderTest(TypedDict):
    """A host whose TCP is not the model (`stack.implementation`)."""

    host: int
    """Its place in `hosts`."""
    name: str
    version: str
    digest: NotRequired[str]
    """Checksum of the files that the command of a process names."""
    shows: NotRequired[list[str]]
    """The variables of its connections that it shows; absent if it shows none."""


class PropertyRow(TypedDict):
    """A property of the path, requested and measured."""

    entity: str
    property: str
    unit: str
    """Of both numbers."""
    asked: float | None
    measured: float | None


class FlowCounters(TypedDict):
    """Packets and bytes of one direction of a connection; all but `read_bytes` are absent without `taps`."""

    sent_packets: int | None
    sent_bytes: int | None
    retransmitted_packets: int | None
    retransmitted_bytes: int | None
    acks_sent: int | None
    delivered_packets: int | None
    delivered_bytes: int | None
    delivered_wire_bytes: int | None
    ce_packets: int | None
    read_bytes: int


class LimitTimes(TypedDict):
    """The time of a sender since its handshake by what kept it from sending, in ns.

    If several limits held at once, the last one in this order counts. `None`: the stack does not tell. Of a kernel,
    whose `application` is `None`, the rest of the time with data is in `congestion_window`, whatever limited
    the sender.
    """

    application: int | None
    """The application had written nothing that was unsent."""
    nagle: int | None
    """A small segment waited, for Nagle's algorithm or because it was corked."""
    send_buffer: int | None
    """Everything was sent, and a write waited for room in the send buffer."""
    receive_window: int | None
    """The peer's receive window."""
    congestion_window: int | None
    """The congestion window."""
    pacing: int | None
    """Pacing."""
    host_queue: int | None
    """The queue of the own host (TCP small queues)."""
    recovery: int | None
    """The repair of losses."""
    timers: int | None
    """The waits for retransmission timeouts and tail loss probes that were sent."""


class TcpCounters(TypedDict):
    """Statistics of the sender of a flow; a value that the substrate does not provide is absent."""

    cwnd_bytes: int | None
    """Congestion window at the end, in bytes."""
    ssthresh_bytes: int | None
    """Slow-start threshold at the end, in bytes; `None` also before the first congestion event."""
    srtt_ns: int | None
    """Smoothed round-trip time at the end."""
    rttvar_ns: int | None
    """Mean deviation of the round-trip time."""
    min_rtt_ns: int | None
    """Smallest round-trip time."""
    rto_ns: int | None
    """Retransmission timeout at the end."""
    retransmits: int | None
    """Retransmitted segments."""
    spurious_retransmits: int | None
    """Retransmissions that were proven unnecessary."""
    lost: int | None
    """Segments that were marked lost."""
    timeouts: int | None
    """Retransmission timeouts that fired."""
    timeout_time_ns: int | None
    """Sum over all timeouts of the time from the last acceptable ACK, or the last transmission, to the timeout."""
    recoveries: int | None
    """Entries into fast recovery."""
    undos: int | None
    """Recoveries that were undone."""
    probes: int | None
    """Tail loss probes sent."""
    bytes_acked: int | None
    """Bytes acknowledged."""
    segments_out: int | None
    """Segments sent."""
    segments_in: int | None
    """Segments received."""
    ece_acks: int | None
    """ACKs received that carried ECE."""
    ce_segments: int | None
    """Segments received that carried CE."""
    delayed_ack_timeouts: int | None
    """Number of ACKs that this end sent because its delayed-ACK timer fired."""
    acks_out: int | None
    """Pure ACKs sent by this end."""
    limits: LimitTimes
    """The time of the sender by what kept it from sending."""
    cwnd_limited_ns: int | None
    """Time in which the congestion window limited the sender."""
    rwnd_limited_ns: int | None
    """Time in which the receive window limited the sender."""
    app_limited_ns: int | None
    """Time in which the application had no data to send."""
    alpha: float | None
    """DCTCP's alpha at the end."""
    clamps: int | None
    """Controller outputs that were clamped."""


# `from` and `class` are keywords, so that a class cannot have them.
_Named = TypedDict("_Named", {"from": int, "to": int, "class": str})


class Flow(_Named):
    """One direction of a connection; `from` and `to` are indices of `hosts`, `class` is that of the traffic."""

    name: str
    connection: int
    """Number of the connection, equal for both directions."""
    cc: str
    mss_bytes: int
    start_ns: int
    end_ns: int | None
    counters: FlowCounters
    tcp: TcpCounters


class DeviceCounters(TypedDict):
    """Packets and bytes of a device."""

    packets: int
    bytes: int
    drops: int
    dropped_bytes: int
    marks: int
    max_backlog_bytes: int
    """The largest backlog that an arriving packet found, that packet included."""


class Device(TypedDict):
    """A link, queue or shaper."""

    name: str
    kind: str
    rate_bps: int | None
    """`None` when it has no rate or when the rate varies."""
    counters: DeviceCounters


class CapturePoint(TypedDict):
    """A capture point of packets."""

    name: str
    description: str


class FileEntry(TypedDict):
    """Another file of the recording."""

    rows: int
    xxh3: str
    """The checksum of its bytes."""


class RecordingIndex(TypedDict):
    """`recording.json`."""

    format: int
    header: Header
    environment: list[PropertyRow]
    hosts: list[str]
    flows: list[Flow]
    devices: list[Device]
    counters: dict[str, dict[str, int]]
    interfaces: list[CapturePoint]
    files: dict[str, FileEntry]
    series_interval_ns: int | None
    xxh3: NotRequired[str]
    """The seal of the file."""
