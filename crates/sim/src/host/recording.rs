//! The state of the recording: flow numbers, datagram counters and capture points.

use super::endpoint::FlowEntry;
use crate::engine::{FlowLabel, HostId, NodeId, PacketId};
use std::collections::{BTreeMap, BTreeSet};
use tcpassay_case::IdlePath;
use tcpassay_measure::{Collector, InterfaceIndex, PacketRecord};
use tcpassay_units::Time;
use tcpassay_wire::{Ecn, Layout, Segment};

/// The state of the recording.
#[derive(Debug, Default)]
pub(super) struct RecordingState {
    /// Number of flows in the recording.
    pub records: u32,
    pub datagrams_sent: u64,
    pub datagrams_received: u64,
    /// The capture point of each host, then of each watched element.
    pub hosts: Vec<InterfaceIndex>,
    pub nodes: Vec<(NodeId, InterfaceIndex)>,
    /// Packets that a watched element has marked and still holds.
    pub marked: BTreeSet<(NodeId, PacketId)>,
    captured: u16,
    /// The layout of the options of each host's SYNs.
    pub layouts: Vec<Layout>,
    /// The idle path between a client and a server.
    pub idle: BTreeMap<(u32, u32), IdlePath>,
}

impl RecordingState {
    /// Captures a segment between stack and NIC; `from` is the host that sent it.
    #[expect(clippy::too_many_arguments, reason = "one call for each packet, only when packets are captured")]
    pub fn capture(
        &mut self,
        collector: &mut Collector,
        flows: &[FlowEntry],
        at: Time,
        host: usize,
        (flow, from): (FlowLabel, HostId),
        segment: &Segment,
        ecn: Ecn,
    ) {
        let interface = self.hosts[host].0;
        self.put(collector, flows, at, interface, (flow, from), Some(segment), ecn, None);
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of a captured packet")]
    pub fn put(
        &mut self,
        collector: &mut Collector,
        flows: &[FlowEntry],
        at: Time,
        interface: u32,
        (flow, from): (FlowLabel, HostId),
        segment: Option<&Segment>,
        ecn: Ecn,
        note: Option<&'static str>,
    ) {
        let (place, _) = FlowEntry::place(flow);
        let Some(f) = flows.get(place) else { return };
        let (client, server) = (f.key.client.0, f.key.server.0);
        let ports = ports(place, f);
        let from_client = u32::from(from.0) == client;
        let (from, to) = if from_client { (client, server) } else { (server, client) };
        let (from_port, to_port) = if from_client { ports } else { (ports.1, ports.0) };
        self.captured = self.captured.wrapping_add(1);
        collector.packet(PacketRecord {
            at,
            interface,
            from,
            to,
            from_port,
            to_port,
            ecn,
            id: self.captured.wrapping_mul(SCATTER),
            layout: self.layouts.get(from as usize).copied().unwrap_or_default(),
            note: note.map(std::borrow::Cow::Borrowed),
            segment: segment.copied(),
            datagram_len: 0,
        });
    }
}

/// An odd factor: identifications of captured packets differ from each other, and do not count. A host that counts them would show the
/// order in which it sent the packets, but they are numbered where they are captured.
const SCATTER: u16 = 40_503;

/// The port of the servers of the first part of the traffic; the next part has the next port.
pub(super) const SERVER_PORT: u16 = 5001;

/// Port numbers of client and server. Successive connections that use the same table entry have different client
/// ports. If both ends open a connection, both have a port that only it uses.
pub(super) fn ports(place: usize, flow: &FlowEntry) -> (u16, u16) {
    let n = place as u64 + u64::from(flow.count) * 7919;
    let client = 32_768 + u16::try_from(n % 28_000).expect("below 28000");
    (client, if flow.both_open { client } else { SERVER_PORT + flow.key.part })
}
