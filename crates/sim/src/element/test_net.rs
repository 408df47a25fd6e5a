//! One element between two hosts, for tests.

use super::IntoElement;
use crate::engine::{Core, Counters, FlowLabel, HostId, Hosts, Network, NodeId, Packet, PacketId, TimerId};
use tcpassay_units::{Seed, SeqNum, Time};
use tcpassay_wire::{Ecn, Flags, Segment};

/// A TCP segment of `len` bytes, of flow 0, from host 0 to host 1, MSS 1460.
pub(crate) fn data(len: u32) -> Packet {
    let segment = Segment { len, flags: Flags::ACK, ..Segment::default() };
    Packet::tcp(HostId(0), HostId(1), FlowLabel(0), segment, Ecn::NotEct, 1460)
}

/// As [`data`], ECN-capable.
pub(crate) fn ect0(len: u32) -> Packet {
    let mut p = data(len);
    p.ecn = Ecn::Ect0;
    p
}

/// As [`data`], with a sequence number that identifies the packet.
pub(crate) fn numbered(seq: u32, len: u32) -> Packet {
    let segment = Segment { seq: SeqNum::new(seq), len, flags: Flags::ACK, ..Segment::default() };
    Packet::tcp(HostId(0), HostId(1), FlowLabel(0), segment, Ecn::NotEct, 1460)
}

/// Host 0, one element, host 1.
pub(crate) struct TestPath {
    pub net: Network,
    pub node: NodeId,
    pub arrived: Vec<(u64, Packet)>,
    pub sent: Vec<(u64, u64)>,
}

struct Sink<'a>(&'a mut Vec<(u64, Packet)>, &'a mut Vec<(u64, u64)>);

impl Hosts for Sink<'_> {
    fn receive(&mut self, net: &mut Core, host: HostId, id: PacketId) {
        assert_eq!(host, HostId(1));
        self.0.push((net.now().as_nanos(), net.packet(id).clone()));
    }
    fn timer(&mut self, _: &mut Core, _: TimerId) {
        unreachable!("nobody set one")
    }
    fn sent(&mut self, net: &mut Core, _: HostId, _: FlowLabel, bytes: tcpassay_units::Bytes) {
        self.1.push((net.now().as_nanos(), bytes.get()));
    }
}

impl TestPath {
    /// The host at which packets arrive.
    pub const END: NodeId = NodeId(1);

    pub fn new(element: impl IntoElement) -> TestPath {
        TestPath::seeded(element, 1)
    }

    pub fn seeded(element: impl IntoElement, seed: u64) -> TestPath {
        let mut net = Network::new(Seed(seed));
        let (a, _) = net.add_host("a");
        let (_, to_b) = net.add_host("b");
        let node = net.add("element", element);
        net.set_egress(a, &[node, to_b]);
        TestPath { net, node, arrived: Vec::new(), sent: Vec::new() }
    }

    /// Runs everything up to and including `ns`.
    pub fn run_until(&mut self, ns: u64) {
        self.net.run_until(&mut Sink(&mut self.arrived, &mut self.sent), Time::from_nanos(ns));
    }

    /// Runs until no event is left.
    pub fn finish(&mut self) {
        self.run_until(self.net.now().as_nanos());
        while self.net.step(&mut Sink(&mut self.arrived, &mut self.sent), Time::MAX) {}
    }

    /// Sends at the current time.
    pub fn send(&mut self, packet: Packet) {
        self.net.core().send(packet);
        self.run_until(self.net.now().as_nanos());
    }

    pub fn times(&self) -> Vec<u64> {
        self.arrived.iter().map(|a| a.0).collect()
    }

    pub fn seqs(&self) -> Vec<u32> {
        self.arrived.iter().map(|a| a.1.segment.seq.get()).collect()
    }

    pub fn counters(&self) -> Counters {
        self.net.counters(self.node)
    }
}
