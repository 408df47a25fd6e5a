"""The result of the analysis of a capture, as the data plane returns it (`crates/capture/src/summary.rs`).

Times are nanoseconds, amounts are bytes of payload.
"""

from typing import Final

from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass

from tcpassay.interface import EcnFeedback, EndingKind, IcmpKind, Place, StallCause

_EXACT: Final = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True, config=_EXACT)
class PacketCounts:
    """Packets of a capture that were not analysed, and how complete the others are."""

    packets: int
    segments: int
    other: int
    icmp_errors: int
    icmp_of_others: int
    unsupported_links: dict[int, int]
    tunnels: dict[str, int]
    undecoded: dict[str, int]
    too_many_tunnels: int
    too_many_connections: int
    ended_connections: int
    undescribed_flows: int
    too_many_interfaces: int
    fragments: int
    short: int
    malformed: int
    options_cut: int
    malformed_options: int
    other_interfaces: int
    timeless: int
    contradictory_times: int
    clocks_set: int
    backwards: int
    most_backwards_ns: int
    skipped_blocks: int
    lost_by_capture: int


@dataclass(frozen=True, slots=True, config=_EXACT)
class Counters:
    """Counters of one flow; `Counters` of `crates/capture/src/flow/half.rs` documents each."""

    packets: int
    bytes: int
    retransmissions: int
    retransmitted_bytes: int
    lost_before: int
    duplicates: int
    network_duplicates: int
    reordered: int
    largest_extent: int
    sum_of_extents: int
    beyond_three: int
    reordered_behind: int
    largest_extent_behind: int
    ce: int
    ect: int
    acks: int
    ece: int
    ce_reported: int
    ce_reported_bytes: int
    unexplained_dsacks: int
    window_probes: int
    keepalives: int
    syn_retransmissions: int
    unseen_bytes: int
    missing_bytes: int
    beyond_window: int
    window_limited_rounds: int
    other_point: int


@dataclass(frozen=True, slots=True, config=_EXACT)
class Spurious:
    """Unnecessary retransmissions by the evidence; each is counted once."""

    dsack: int
    timestamp: int
    early_ack: int
    acknowledged_before: int
    sacked_before: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.dsack + self.timestamp + self.early_ack + self.acknowledged_before + self.sacked_before


@dataclass(frozen=True, slots=True, config=_EXACT)
class RoundTrips:
    """The distribution of round-trip times."""

    count: int
    min_ns: int
    mean_ns: int
    median_ns: int
    p99_ns: int
    quantile_error: float
    """The largest relative error of the median, the 99th percentile, and the medians of groups."""
    max_ns: int
    modes: tuple[int, int, float] | None
    """The medians of two groups of the samples, and the share of the upper group."""


@dataclass(frozen=True, slots=True, config=_EXACT)
class Stalls:
    """All stalls of a flow with one cause."""

    cause: StallCause
    count: int
    total_ns: int
    longest_ns: int
    first_ns: int
    longest_at_ns: int


@dataclass(frozen=True, slots=True, config=_EXACT)
class TimeShares:
    """What kept a sender from sending, as shares of its time; the metrics with these names."""

    time_application: float
    time_nagle: float
    time_send_buffer: float
    time_receive_window: float
    time_congestion_window: float
    time_pacing: float
    time_host_queue: float
    time_recovery: float
    time_timers: float
    time_unknown: float


@dataclass(frozen=True, slots=True, config=_EXACT)
class Ending:
    """How the connection of a flow ended; `Ending` of `crates/capture/src/flow/ending.rs` documents each field."""

    how: EndingKind
    by: str | None
    at_ns: int | None
    other_at_ns: int | None
    outstanding: int
    went_on: bool


@dataclass(frozen=True, slots=True, config=_EXACT)
class BlackHole:
    """Data that never arrived because of the length of their packets (`crates/capture/src/flow/lengths.rs`)."""

    length: int
    passed: int
    transmissions: int
    over: bool


@dataclass(frozen=True, slots=True, config=_EXACT)
class IcmpErrors:
    """ICMP errors of one kind, from one router, about the segments of one end (`crates/capture/src/icmp.rs`)."""

    kind: IcmpKind
    router: str
    about: str
    count: int
    first_ns: int
    last_ns: int
    length: int
    mtu: int


@dataclass(frozen=True, slots=True, config=_EXACT)
class FlowSummary:
    """One direction of a connection that carried data."""

    flow: int
    connection: int
    interface: str
    tunnel: str
    sender: str
    receiver: str
    place: Place
    start_ns: int
    duration_ns: int
    largest_packet: int
    ecn_feedback: EcnFeedback
    counters: Counters
    spurious: Spurious
    rounds: int
    round_trips: RoundTrips | None
    stalls: list[Stalls]
    time_shares: TimeShares | None
    ending: Ending
    black_hole: BlackHole | None
    icmp: list[IcmpErrors]
    words: list[str]
    unknown: list[str]


@dataclass(frozen=True, slots=True, config=_EXACT)
class Unopened:
    """A connection whose SYN was not answered, or refused (`crates/capture/src/summary.rs` documents each field)."""

    connection: int
    interface: str
    opener: str
    other: str
    start_ns: int
    syns: int
    duration_ns: int
    refused: bool
    icmp: list[IcmpErrors]
    words: str


@dataclass(frozen=True, slots=True, config=_EXACT)
class Summary:
    """The result of an analysis."""

    connections: int
    flows_with_data: int
    interfaces: list[str]
    clock_ns: int | None
    packets: PacketCounts
    unopened_connections: int
    unopened: list[Unopened]
    notes: list[str]
    flows: list[FlowSummary]


@dataclass(frozen=True, slots=True, config=_EXACT)
class Round:
    """One round of a flow; `Round` of `crates/capture/src/flow/round.rs` documents each field."""

    flow: int
    round: int
    end_ns: int
    duration_ns: int
    bytes: int
    packets: int
    retransmissions: int
    reordered: int
    ce: int
    acks: int
    ece: int
    ce_reported: int
    window_limited: bool
    ambiguous: bool
    stalled: bool
    clock_ns: int


@dataclass(frozen=True, slots=True, config=_EXACT)
class CaptureFinding:
    """The occurrences of one finding in a capture. Times count from the first packet, frames from 1."""

    oracle: str
    title: str
    flow: str
    host: str
    start_ns: int
    end_ns: int
    last_ns: int
    severity: str
    text: str
    frames: list[int]
    count: int


@dataclass(frozen=True, slots=True, config=_EXACT)
class UnjudgedEnds:
    """Oracles that do not judge the ends that send some flows, and the reason."""

    why: str
    oracles: tuple[str, ...]
    flows: list[str]


@dataclass(frozen=True, slots=True, config=_EXACT)
class JudgedCapture:
    """What the oracles find in a capture."""

    connections: int
    unlogged: int
    cut: bool
    notes: list[str]
    stalled: bool
    """A connection was silent for longer than its round trips explain."""
    findings: list[CaptureFinding]
    unjudged: list[UnjudgedEnds]


@dataclass(frozen=True, slots=True, config=_EXACT)
class SiftrFlow:
    """One connection in a log of siftr; `SiftrFlow` of `crates/capture/src/siftr.rs` documents each field."""

    local: str
    foreign: str
    first_ns: int
    last_ns: int
    arrived: int
    left: int
    mss: int
    cwnd: tuple[int, int]
    least_ssthresh: int | None
    collapses: int
    first_collapse_ns: int | None
    srtt_ns: tuple[int, int] | None
    most_in_flight: int
    silences_ended_here: tuple[int, int]
    silences_ended_there: tuple[int, int]
    words: list[str]


@dataclass(frozen=True, slots=True, config=_EXACT)
class SiftrLog:
    """A log of siftr, summarised."""

    lines: int
    notes: list[str]
    flows: list[SiftrFlow]


SIFTR: Final = TypeAdapter(SiftrLog)
SUMMARY: Final = TypeAdapter(Summary)
FLOW: Final = TypeAdapter(FlowSummary)
FLOWS: Final = TypeAdapter(list[FlowSummary])
ROUND: Final = TypeAdapter(Round)
JUDGED: Final = TypeAdapter(JudgedCapture)
