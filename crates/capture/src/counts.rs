//! What the packets of a capture are.

use crate::link::Undecoded;
use crate::tunnel::TunnelKind;
use serde::Serialize;
use std::collections::BTreeMap;

/// Counters of the packets of a capture: those that were analysed, those that were not by reason, and those
/// that are incomplete.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct PacketCounts {
    /// All packets.
    pub packets: u64,
    /// TCP segments that were analysed.
    pub segments: u64,
    /// Packets of other protocols.
    pub other: u64,
    /// ICMP errors about TCP segments.
    pub icmp_errors: u64,
    /// Those among them about connections that are not in the capture, or beyond the number that may be in memory.
    pub icmp_of_others: u64,
    /// Packets of link layers that are not supported, by number.
    pub unsupported_links: BTreeMap<u16, u64>,
    /// TCP segments in tunnels that were analysed, by the outermost tunnel.
    pub tunnels: BTreeMap<TunnelKind, u64>,
    /// Packets that may carry TCP and are not decoded, by the reason.
    pub undecoded: BTreeMap<Undecoded, u64>,
    /// Segments in tunnels beyond the number that is told apart.
    pub too_many_tunnels: u64,
    /// Segments of connections beyond the number that may be in memory.
    pub too_many_connections: u64,
    /// Connections that ended or were silent for ten minutes and gave room to others.
    pub ended_connections: u64,
    /// Flows among them that are not described.
    pub undescribed_flows: u64,
    /// Descriptions of interfaces beyond the number that is read.
    pub too_many_interfaces: u64,
    /// Fragments of IP packets.
    pub fragments: u64,
    /// Packets whose captured bytes end before the window of the TCP header.
    pub short: u64,
    /// Packets whose headers contradict themselves.
    pub malformed: u64,
    /// Segments whose captured bytes end inside the TCP options.
    pub options_cut: u64,
    /// Segments whose TCP options contradict themselves: one runs past the header, or has a length that its kind does not have.
    pub malformed_options: u64,
    /// Packets of interfaces that were not chosen.
    pub other_interfaces: u64,
    /// Packets without a time.
    pub timeless: u64,
    /// Packets whose time is more than ten years from the first one of the capture.
    pub contradictory_times: u64,
    /// How often the clock of an interface was set by more than ten years.
    pub clocks_set: u64,
    /// Packets that are earlier than the one before them on their interface.
    pub backwards: u64,
    /// The largest step back.
    pub most_backwards_ns: u64,
    /// Damaged blocks of pcapng that were skipped.
    pub skipped_blocks: u64,
    /// Packets that the capture lost, as pcapng says.
    pub lost_by_capture: u64,
}
