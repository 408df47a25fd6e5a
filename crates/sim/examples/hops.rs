//! Measures the cost of the network without TCP: a window of packets circulates in a dumbbell of plain
//! links.
//!
//! `hops PACKETS [PAIRS]`: each of the pairs (1 by default) sends its share of the packets over an access
//! link, the shared bottleneck and another access link, and receives an ACK for each over three links back.
//! Prints packet-hops and events. To get instructions for each hop, run it twice with different numbers
//! under `perf stat -e instructions:u` or `valgrind --tool=callgrind` and divide the differences.

use tcpassay_sim::element::{LinkSpec, QueueLimit, SwitchSpec};
use tcpassay_sim::engine::{Core, FlowLabel, HostId, Hosts, Network, Packet, PacketId, TimerId};
use tcpassay_units::{Bytes, Dur, Rate, Seed, SeqNum, Time};
use tcpassay_wire::{Ecn, Flags, Segment};

const WINDOW: u64 = 64;

struct Windows {
    pairs: u16,
    left: u64,
    next: u32,
}

impl Windows {
    fn data(&mut self, net: &mut Core, from: u16) {
        if self.left > 0 {
            self.left -= 1;
            self.next = self.next.wrapping_add(1);
            let segment =
                Segment { seq: SeqNum::new(self.next), len: 1460, flags: Flags::ACK, ..Segment::default() };
            let to = HostId(from + self.pairs);
            net.send(Packet::tcp(HostId(from), to, FlowLabel(u32::from(from)), segment, Ecn::Ect0, 1460));
        }
    }
}

impl Hosts for Windows {
    fn receive(&mut self, net: &mut Core, host: HostId, id: PacketId) {
        if host.0 < self.pairs {
            self.data(net, host.0);
        } else {
            let p = net.packet(id);
            let (to, flow) = (p.src, p.flow);
            let segment = Segment { ack: p.segment.end(), flags: Flags::ACK, ..Segment::default() };
            net.send(Packet::tcp(host, to, flow, segment, Ecn::NotEct, 1460));
        }
    }
    fn timer(&mut self, _: &mut Core, _: TimerId) {}
}

fn main() {
    let mut args = std::env::args().skip(1);
    let packets = args.next().map_or(1_000_000, |a| a.parse().expect("a number of packets"));
    let pairs: u16 = args.next().map_or(1, |a| a.parse().expect("a number of pairs"));

    let mut net = Network::new(Seed(1));
    let access = LinkSpec::new(Rate::from_gbit(40), Dur::from_micros(5));
    let bottleneck = LinkSpec {
        limit: QueueLimit::packets(1000),
        mark_above: Some(Bytes::new(97_500)),
        ..LinkSpec::new(Rate::from_gbit(10), Dur::from_micros(40))
    };
    let hosts: Vec<_> = (0..2 * pairs).map(|n| net.add_host(&format!("host{n}"))).collect();
    let there = net.add("there", bottleneck);
    let back = net.add("back", bottleneck);
    let mut links = vec![there, back];
    let (right, left) = (net.add("right", SwitchSpec), net.add("left", SwitchSpec));
    net.connect(there, right);
    net.connect(back, left);
    for (n, &(host, node)) in hosts.iter().enumerate() {
        let sender = n < usize::from(pairs);
        let up = net.add(&format!("up{n}"), access);
        let down = net.add(&format!("down{n}"), access);
        net.set_egress(host, &[up, if sender { there } else { back }]);
        net.connect(down, node);
        net.route(if sender { left } else { right }, host, &[down]);
        links.extend([up, down]);
    }
    let mut windows = Windows { pairs, left: packets, next: 0 };
    for from in 0..pairs {
        for _ in 0..(WINDOW / u64::from(pairs)).max(1) {
            windows.data(net.core(), from);
        }
    }
    net.run_until(&mut windows, Time::ZERO + Dur::from_secs(3600));
    let hops: u64 = links.iter().map(|l| net.counters(*l).packets_out).sum();
    assert_eq!(hops, 6 * packets, "every packet and its ACK passed three links");
    println!("{hops} hops, {} events", net.trace().0);
}
