//! Elements that need more than one neighbour: marks on returning ACKs, switches, equal-cost paths.

use super::*;
use crate::element::DisciplineSpec;
use crate::element::QueueSpec;
use crate::engine::{
    Core, FlowLabel, HostId, Hosts, Network, NodeId, Packet, PacketEvent, PacketId, TimerId,
};
use tcpassay_units::{Bytes, Dur, Rate, Seed, SeqNum, Time};
use tcpassay_wire::{Ecn, Flags, Segment};

#[derive(Default)]
struct Log {
    arrived: Vec<(u16, Packet)>,
    fired: Vec<(u64, TimerId)>,
    seen: Vec<(NodeId, PacketEvent)>,
}

impl Hosts for Log {
    fn receive(&mut self, net: &mut Core, host: HostId, id: PacketId) {
        self.arrived.push((host.0, net.packet(id).clone()));
    }
    fn timer(&mut self, net: &mut Core, timer: TimerId) {
        self.fired.push((net.now().as_nanos(), timer));
    }
    fn observe(&mut self, _: Time, node: NodeId, what: PacketEvent, _: PacketId, _: &Packet) {
        self.seen.push((node, what));
    }
}

fn packet(from: u16, to: u16, flow: u32, len: u32, flags: Flags) -> Packet {
    let segment = Segment { seq: SeqNum::new(flow), len, flags, ..Segment::default() };
    Packet::tcp(HostId(from), HostId(to), FlowLabel(flow), segment, Ecn::Ect0, 1460)
}

fn us(n: u64) -> Time {
    Time::ZERO + Dur::from_micros(n)
}

/// Host 0 sends to host 1 through HTB with two classes; ACKs back are marked while their class waits above 3000 bytes.
struct Limiter {
    net: Network,
    mark: NodeId,
    log: Log,
}

impl Limiter {
    fn new() -> Limiter {
        let mut net = Network::new(Seed(1));
        let (a, to_a) = net.add_host("a");
        let (b, to_b) = net.add_host("b");
        let fifo = DisciplineSpec::Fifo(FifoSpec::UNLIMITED);
        let htb = HtbSpec::equal(Rate::from_mbit(24), 2, Bytes::new(1500), fifo);
        let shaper = net.add("shaper", PortSpec::new(QueueSpec::Htb(htb), Pace::Unlimited, Dur::ZERO));
        net.set_egress(a, &[shaper, to_b]);
        let mark = net.add("mark", AckEceMarker { queue: shaper, above: Bytes::new(3000) });
        net.set_egress(b, &[mark, to_a]);
        Limiter { net, mark, log: Log::default() }
    }

    /// Sends an ACK of `flow` back and returns whether it arrives with ECE.
    fn echoes(&mut self, flow: u32, flags: Flags) -> bool {
        self.net.core().send(packet(1, 0, flow, 0, flags));
        let now = self.net.now();
        self.net.run_until(&mut self.log, now);
        // Data may arrive at host 1 in the same instant.
        let ack = self.log.arrived.iter().rev().find(|a| a.0 == 0).expect("it arrived at once");
        ack.1.segment.flags.has(Flags::ECE)
    }
}

#[test]
fn acks_are_marked_while_the_class_of_their_flow_is_above_the_threshold() {
    let mut l = Limiter::new();
    assert!(!l.echoes(0, Flags::ACK));
    for _ in 0..5 {
        l.net.core().send(packet(0, 1, 0, 1460, Flags::ACK));
    }
    // The burst lets two pass; three wait, 4500 bytes.
    assert!(l.echoes(0, Flags::ACK));
    assert!(!l.echoes(1, Flags::ACK), "the other class is empty");
    assert_eq!(l.net.counters(l.mark).marked, 1);
    // Alone it borrows all of 24 Mbit/s: after 500 us one has gone, and 3000 bytes are not above the threshold.
    l.net.run_until(&mut Log::default(), us(600));
    assert!(!l.echoes(0, Flags::ACK));
}

#[test]
fn segments_of_the_handshake_and_resets_are_not_marked() {
    let mut l = Limiter::new();
    for _ in 0..9 {
        l.net.core().send(packet(0, 1, 0, 1460, Flags::ACK));
    }
    assert!(!l.echoes(0, Flags::SYN | Flags::ACK));
    assert!(!l.echoes(0, Flags::RST | Flags::ACK));
    assert!(l.echoes(0, Flags::FIN | Flags::ACK));
}

/// One switch, four equal links to host 1.
fn spread(name: &str) -> Vec<u64> {
    let mut net = Network::new(Seed(1));
    let (a, _) = net.add_host("a");
    let (b, to_b) = net.add_host("b");
    let switch = net.add(name, SwitchSpec);
    net.set_egress(a, &[switch]);
    let ports: Vec<NodeId> = (0..4).map(|n| net.add(&format!("p{n}"), LinkSpec::delay(Dur::ZERO))).collect();
    for port in &ports {
        net.connect(*port, to_b);
    }
    net.route(switch, b, &ports);
    for round in 0..3 {
        for flow in 0..1000 {
            let mut p = packet(0, 1, flow, 100, Flags::ACK);
            p.segment.seq = SeqNum::new(round);
            net.core().send(p);
        }
    }
    net.run_until(&mut Log::default(), us(1));
    ports.iter().map(|p| net.counters(*p).packets_out).collect()
}

#[test]
fn equal_paths_get_equal_shares_of_flows_and_a_flow_keeps_its_path() {
    let shares = spread("s");
    assert_eq!(shares.iter().sum::<u64>(), 3000);
    // A flow's three packets are together: every share is a multiple of three, and near a quarter.
    assert!(shares.iter().all(|n| n.is_multiple_of(3) && (600..900).contains(n)), "{shares:?}");
}

#[test]
fn two_switches_do_not_make_the_same_choice() {
    assert_ne!(spread("s"), spread("t"));
}

#[test]
#[should_panic(expected = "a switch without a route to host 1")]
fn a_packet_without_a_route_is_a_bug() {
    let mut net = Network::new(Seed(1));
    let (a, _) = net.add_host("a");
    net.add_host("b");
    let switch = net.add("s", SwitchSpec);
    net.set_egress(a, &[switch]);
    net.core().send(packet(0, 1, 0, 1, Flags::ACK));
    net.run_until(&mut Log::default(), us(1));
}

#[test]
#[should_panic(expected = "two elements are called `x`")]
fn two_elements_may_not_have_the_same_name_because_random_streams_derive_from_names() {
    let mut net = Network::new(Seed(1));
    net.add("x", SwitchSpec);
    net.add("x", SwitchSpec);
}

#[test]
fn a_watched_element_shows_what_happens_to_packets_in_order() {
    let mut net = Network::new(Seed(1));
    let (a, _) = net.add_host("a");
    let (_, to_b) = net.add_host("b");
    let spec = LinkSpec {
        limit: QueueLimit::packets(2),
        mark_above: Some(Bytes::new(1000)),
        ..LinkSpec::new(Rate::from_gbit(1), Dur::ZERO)
    };
    let link = net.add("link", spec);
    net.set_egress(a, &[link, to_b]);
    net.watch(link);
    for _ in 0..4 {
        net.core().send(packet(0, 1, 0, 1460, Flags::ACK));
    }
    let mut log = Log::default();
    net.run_until(&mut log, us(13));
    let seen: Vec<PacketEvent> = log.seen.iter().map(|s| s.1).collect();
    let full = PacketEvent::Dropped(crate::engine::DropReason::Full);
    assert_eq!(
        seen,
        [
            PacketEvent::Arrived,
            PacketEvent::Arrived,
            PacketEvent::Arrived,
            PacketEvent::Marked,
            PacketEvent::Arrived,
            full,
            PacketEvent::Departed
        ]
    );
}

#[test]
fn timers_fire_in_the_order_they_were_set_and_not_when_cleared() {
    let mut net = Network::new(Seed(1));
    let t: Vec<TimerId> = (0..4).map(|_| net.core().add_timer()).collect();
    for (timer, at) in [(t[2], 5), (t[0], 5), (t[1], 3), (t[3], 4)] {
        net.core().set_timer(timer, us(at));
    }
    net.core().clear_timer(t[3]);
    let mut log = Log::default();
    net.run_until(&mut log, us(10));
    assert_eq!(log.fired, [(3_000, t[1]), (5_000, t[2]), (5_000, t[0])]);
    assert_eq!(net.core().timer(t[0]), None);
    // A deadline in the past is now.
    net.core().set_timer(t[0], us(1));
    assert_eq!(net.core().timer(t[0]), Some(us(10)));
}
