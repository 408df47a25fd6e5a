//! Benchmarks of the engine: the event queue at several sizes, and a packet through each kind of element.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use tcpassay_sim::element::{
    CoDelSpec, DisciplineSpec, FifoSpec, FqCoDelSpec, HtbSpec, IntoElement, LinkSpec, LossProcess, LossSpec,
    Pace, PacketFilter, PieSpec, PortSpec, QueueSpec, RxSpec,
};
use tcpassay_sim::engine::{Core, FlowLabel, HostId, Hosts, Network, Packet, PacketId, Scheduler, TimerId};
use tcpassay_units::{Bytes, Dur, Rate, Seed, Time};
use tcpassay_wire::{Ecn, Flags, Segment};

/// One wake-up and its re-arming, as a link does it for each packet.
fn scheduler(c: &mut Criterion) {
    let mut group = c.benchmark_group("scheduler");
    for sources in [4_u64, 64, 512, 4096] {
        group.bench_with_input(BenchmarkId::new("pop and set", sources), &sources, |b, &n| {
            let mut queue = Scheduler::default();
            let mut rng = Seed(1).stream("bench");
            for _ in 0..n {
                let s = queue.add();
                queue.set(s, Time::from_nanos(rng.below(1000 * n)));
            }
            b.iter(|| {
                let (at, source) = queue.take(Time::MAX).expect("never empty");
                queue.set(source, at + Dur::from_nanos(500 * n + rng.below(1000 * n)));
                black_box(at)
            });
        });
    }
    group.finish();
}

struct Nobody;
impl Hosts for Nobody {
    fn receive(&mut self, _: &mut Core, _: HostId, _: PacketId) {}
    fn timer(&mut self, _: &mut Core, _: TimerId) {}
}

/// A packet each 1.2 us, the rate of the element, through one element and into a host.
fn element(c: &mut Criterion, name: &str, spec: impl IntoElement) {
    let mut net = Network::new(Seed(1));
    let (a, _) = net.add_host("a");
    let (b, to_b) = net.add_host("b");
    let node = net.add("element", spec);
    net.set_egress(a, &[node, to_b]);
    let segment = Segment { len: 1460, flags: Flags::ACK, ..Segment::default() };
    let packet = Packet::tcp(a, b, FlowLabel(0), segment, Ecn::Ect0, 1460);
    let mut now = Time::ZERO;
    let mut group = c.benchmark_group("element");
    group.throughput(Throughput::Elements(1));
    group.bench_function(name, |bencher| {
        bencher.iter(|| {
            now += Dur::from_nanos(1200);
            net.core().send(packet.clone());
            net.run_until(&mut Nobody, now);
        });
    });
    group.finish();
}

fn elements(c: &mut Criterion) {
    let rate = Rate::from_gbit(10);
    let delay = Dur::from_micros(50);
    element(c, "link", LinkSpec::new(rate, delay));
    let fifo = DisciplineSpec::Fifo(FifoSpec::UNLIMITED);
    let port = |queue: QueueSpec| PortSpec::new(queue, Pace::Fixed(rate), delay);
    element(c, "port, fifo", port(fifo.into()));
    element(c, "port, codel", port(DisciplineSpec::CoDel(CoDelSpec::INTERNET).into()));
    element(c, "port, fq_codel", port(DisciplineSpec::FqCoDel(FqCoDelSpec::LINUX).into()));
    element(c, "port, pie", port(DisciplineSpec::Pie(PieSpec::RFC).into()));
    element(c, "port, htb", port(QueueSpec::Htb(HtbSpec::single(rate, Bytes::new(15_000), fifo))));
    let loss = LossProcess::Bernoulli { probability: 0.001, correlation: 0.0 };
    element(c, "loss", LossSpec { model: loss, which: PacketFilter::All });
    element(c, "rx, plain", RxSpec::PLAIN);
    element(c, "rx, gro", RxSpec { gro_max: Some(Bytes::new(65_536)), ..RxSpec::PLAIN });
}

criterion_group!(benches, scheduler, elements);
criterion_main!(benches);
