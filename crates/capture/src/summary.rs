//! The result of an analysis, as data.

use crate::counts::PacketCounts;
use crate::flow::{BlackHole, EcnFeedback, Ending, HalfCounters, Place, Spurious, Stalls, TimeShares};
use crate::histogram::DurationHistogram;
use crate::icmp::IcmpErrors;
use serde::Serialize;
use tcpassay_units::Dur;

/// The result of an analysis.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Summary {
    /// Number of TCP connections.
    pub connections: u64,
    /// Number of the directions that carried data.
    pub flows_with_data: u64,
    /// Names of the capture points.
    pub interfaces: Vec<String>,
    /// The step of the capture's clock: the shortest time between two packets, in a capture that has packets with equal times. Shorter times
    /// are given as 0.
    pub clock_ns: Option<u64>,
    /// Counters of the packets that were read.
    pub packets: PacketCounts,
    /// Number of connections of which the capture has SYNs only, or SYNs and a reset as the answer.
    pub unopened_connections: u64,
    /// The first of them, at most [`MOST_UNOPENED`].
    pub unopened: Vec<Unopened>,
    /// Messages about packets that could not be read, and the consequences.
    pub notes: Vec<String>,
    /// The directions that carried data, in the order of their first data packet.
    pub flows: Vec<FlowSummary>,
}

/// Number of connections that were not opened which are described.
pub const MOST_UNOPENED: usize = 100;

/// A connection whose SYN was not answered, or refused.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Unopened {
    /// Number of the connection, from 1.
    pub connection: u32,
    /// Name of the capture point.
    pub interface: String,
    /// Address and port of the end that sent the SYN.
    pub opener: String,
    /// Address and port of the other end.
    pub other: String,
    /// The first SYN, in nanoseconds since 1970.
    pub start_ns: u64,
    /// SYNs, with retransmissions.
    pub syns: u64,
    /// From the first SYN to the last packet: a SYN, or the reset.
    pub duration_ns: u64,
    /// The other end answered by a reset (RFC 9293 section 3.5.2); otherwise no answer is in the capture.
    pub refused: bool,
    /// ICMP errors about the segments of both ends.
    pub icmp: Vec<IcmpErrors>,
    /// The same as text.
    pub words: String,
}

/// One direction of a connection that carried data.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FlowSummary {
    /// Number of the flow, from 1.
    pub flow: u32,
    /// Number of its connection, from 1.
    pub connection: u32,
    /// Name of the capture point.
    pub interface: String,
    /// The tunnels of its packets, the innermost first, with the ends of the outermost one; empty without a tunnel.
    pub tunnel: String,
    /// Address and port of the sender.
    pub sender: String,
    /// Address and port of the receiver.
    pub receiver: String,
    /// The place at which the capture was taken.
    pub place: Place,
    /// First packet of the connection, in nanoseconds since 1970.
    pub start_ns: u64,
    /// From the first packet of the connection to its last.
    pub duration_ns: u64,
    /// Largest payload of a packet.
    pub largest_packet: u32,
    /// The meaning of the congestion flags in its ACKs.
    pub ecn_feedback: EcnFeedback,
    /// Counters.
    pub counters: HalfCounters,
    /// Unnecessary retransmissions.
    pub spurious: Spurious,
    /// Number of rounds.
    pub rounds: u64,
    /// Round-trip times; absent when no round ended with an unambiguous ACK.
    pub round_trips: Option<RoundTrips>,
    /// Stalls by cause.
    pub stalls: Vec<Stalls>,
    /// What kept the sender from sending, if the capture was taken there.
    pub time_shares: Option<TimeShares>,
    /// How the connection ended.
    pub ending: Ending,
    /// Data that never arrived because of the length of their packets, if there are some.
    pub black_hole: Option<BlackHole>,
    /// ICMP errors about the segments of the sender, and about those of the receiver if it sent no data.
    pub icmp: Vec<IcmpErrors>,
    /// Messages about the findings in the capture.
    pub words: Vec<String>,
    /// Messages about properties that cannot be determined from this capture.
    pub unknown: Vec<String>,
}

/// The distribution of round-trip times of a flow.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct RoundTrips {
    /// Number of round-trip times.
    pub count: u64,
    /// The shortest.
    pub min_ns: u64,
    /// The mean.
    pub mean_ns: u64,
    /// The median.
    pub median_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The largest relative error of both, and of the medians of groups.
    pub quantile_error: f64,
    /// The longest.
    pub max_ns: u64,
    /// Of two groups, when there are two: their medians, and the share of the upper one.
    pub modes: Option<(u64, u64, f64)>,
}

impl RoundTrips {
    /// `clock_ns` is the step of the capture's clock: a group of shorter times is none.
    pub(crate) fn of(histogram: &DurationHistogram, clock_ns: u64) -> Option<RoundTrips> {
        let modes = histogram.modes().filter(|modes| modes.low.as_nanos() >= clock_ns.max(1));
        let ns = |value: Option<Dur>| value.map(Dur::as_nanos);
        Some(RoundTrips {
            count: histogram.total(),
            min_ns: ns(histogram.least())?,
            mean_ns: ns(histogram.mean())?,
            median_ns: ns(histogram.quantile(500))?,
            p99_ns: ns(histogram.quantile(990))?,
            quantile_error: histogram.error(),
            max_ns: ns(histogram.most())?,
            modes: modes.map(|m| (m.low.as_nanos(), m.high.as_nanos(), m.high_share)),
        })
    }
}
