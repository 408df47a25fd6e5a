//! A run is a function of the network, the hosts and the seed, and of nothing else.

use super::*;
use crate::element::DisciplineSpec;
use crate::element::{
    Coalesce, Distribution, DuplicateSpec, FqCoDelSpec, JitterSpec, LinkSpec, LossProcess, LossSpec, Pace,
    PacketFilter, PortSpec, RxSpec,
};
use tcpassay_units::{Bytes, Dur, Rate, Seed, SeqNum, Stream, Time};
use tcpassay_wire::{Ecn, Flags, Segment};

/// Host 0 sends at random to host 1, which answers each packet; all arrivals are written down.
struct Chatter {
    timer: TimerId,
    rng: Stream,
    sent: u32,
    arrivals: Arrivals,
    seen: usize,
}

impl Hosts for Chatter {
    fn receive(&mut self, net: &mut Core, host: HostId, id: PacketId) {
        let p = net.packet(id);
        let seq = p.segment.seq.get();
        self.arrivals.push((net.now().as_nanos(), host.0, seq));
        if host == HostId(1) {
            let segment = Segment { seq: SeqNum::new(seq), flags: Flags::ACK, ..Segment::default() };
            net.send(Packet::tcp(HostId(1), HostId(0), FlowLabel(0), segment, Ecn::NotEct, 1460));
        }
    }

    fn timer(&mut self, net: &mut Core, timer: TimerId) {
        assert_eq!(timer, self.timer);
        for _ in 0..self.rng.below(4) {
            self.sent += 1;
            let len = 1 + u32::try_from(self.rng.below(1460)).unwrap();
            let segment =
                Segment { seq: SeqNum::new(self.sent), len, flags: Flags::ACK, ..Segment::default() };
            net.send(Packet::tcp(HostId(0), HostId(1), FlowLabel(self.sent % 5), segment, Ecn::Ect0, 1460));
        }
        if self.sent < 5_000 {
            net.set_timer(timer, net.now() + Dur::from_nanos(1 + self.rng.below(200_000)));
        }
    }

    fn observe(&mut self, _: Time, _: NodeId, _: PacketEvent, _: PacketId, _: &Packet) {
        self.seen += 1;
    }
}

struct Options {
    seed: u64,
    collect: bool,
    bystander: bool,
}

/// Time, host and packet of an arrival.
type Arrivals = Vec<(u64, u16, u32)>;

/// The trace, the arrivals, and the number of observed events.
fn run(options: &Options) -> ((u64, u64), Arrivals, usize) {
    let mut net = Network::new(Seed(options.seed));
    let (a, to_a) = net.add_host("a");
    let (b, to_b) = net.add_host("b");
    if options.bystander {
        // Draws from a random stream of its own, and lies on no path.
        let loss = LossProcess::Bernoulli { probability: 0.5, correlation: 0.0 };
        net.add("bystander", LossSpec { model: loss, which: PacketFilter::All });
    }
    let loss = LossProcess::Bernoulli { probability: 0.01, correlation: 0.25 };
    let jitter = JitterSpec {
        delay: Dur::from_millis(1),
        jitter: Dur::from_micros(300),
        correlation: 0.25,
        distribution: Distribution::Normal,
        keep_order: false,
    };
    let queue = DisciplineSpec::FqCoDel(FqCoDelSpec::LINUX);
    let coalesce = Coalesce::Adaptive;
    let there = [
        net.add("queue", PortSpec::new(queue, Pace::Fixed(Rate::from_mbit(80)), Dur::ZERO)),
        net.add("loss", LossSpec { model: loss, which: PacketFilter::All }),
        net.add("jitter", jitter),
        net.add("copies", DuplicateSpec { probability: 0.05 }),
        net.add("rx", RxSpec { coalesce, gro_max: Some(Bytes::new(65_536)), ..RxSpec::PLAIN }),
        to_b,
    ];
    net.set_egress(a, &there);
    let back = net.add("back", LinkSpec::new(Rate::from_mbit(5), Dur::from_millis(1)));
    net.set_egress(b, &[back, to_a]);
    if options.collect {
        for node in there.into_iter().chain([back]) {
            net.watch(node);
            net.collect(node, Dur::from_millis(1), tcpassay_units::Time::ZERO);
        }
    }
    let timer = net.core().add_timer();
    net.core().set_timer(timer, Time::ZERO);
    let mut hosts =
        Chatter { timer, rng: Seed(options.seed).stream("chatter"), sent: 0, arrivals: Vec::new(), seen: 0 };
    net.run_until(&mut hosts, Time::ZERO + Dur::from_secs(10));
    assert!(hosts.arrivals.len() > 8_000, "traffic was thin: {}", hosts.arrivals.len());
    (net.trace(), hosts.arrivals, hosts.seen)
}

const PLAIN: Options = Options { seed: 1, collect: false, bystander: false };

#[test]
fn the_same_seed_takes_the_same_steps() {
    assert!(run(&PLAIN) == run(&PLAIN));
}

#[test]
fn another_seed_takes_other_steps() {
    assert_ne!(run(&PLAIN).0, run(&Options { seed: 2, ..PLAIN }).0);
}

#[test]
fn collectors_change_no_step() {
    let (trace, arrivals, seen) = run(&PLAIN);
    let (watched, watched_arrivals, watched_seen) = run(&Options { collect: true, ..PLAIN });
    assert!(trace == watched && arrivals == watched_arrivals);
    assert!(seen == 0 && watched_seen > 50_000, "{seen} {watched_seen}");
}

#[test]
fn an_additional_element_does_not_change_the_random_numbers_of_the_others() {
    assert!(run(&PLAIN).1 == run(&Options { bystander: true, ..PLAIN }).1);
}
