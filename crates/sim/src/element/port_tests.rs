use super::*;
use crate::element::DisciplineSpec;
use crate::element::test_net::{TestPath, data, numbered};
use crate::element::{FifoSpec, LinkSpec, QueueLimit};
use crate::engine::{FlowLabel, HostId, Hosts, Network, Packet, TimerId};
use tcpassay_units::{Bytes, Rate};
use tcpassay_wire::{Ecn, Segment};

fn fifo(rate: Rate, delay: Dur) -> PortSpec {
    PortSpec::new(DisciplineSpec::Fifo(FifoSpec::UNLIMITED), Pace::Fixed(rate), delay)
}

#[test]
fn a_port_with_a_fifo_does_what_a_link_does() {
    let rate = Rate::from_mbit(77);
    let limit = QueueLimit::bytes(Bytes::new(9_000));
    let delay = Dur::from_micros(700);
    let mark_above = Some(Bytes::new(4_000));
    let mut link = TestPath::new(LinkSpec { limit, mark_above, ..LinkSpec::new(rate, delay) });
    let queue = DisciplineSpec::Fifo(FifoSpec { limit, mark_above });
    let mut port = TestPath::new(PortSpec::new(queue, Pace::Fixed(rate), delay));
    let mut rng = Seed(5).stream("arrivals");
    let mut now = 0;
    for seq in 0..2_000 {
        now += rng.below(250_000);
        for line in [&mut link, &mut port] {
            line.run_until(now);
            let mut p = numbered(seq, 1 + seq % 1460);
            p.ecn = Ecn::Ect0;
            line.send(p);
        }
    }
    link.finish();
    port.finish();
    let dropped = link.counters().dropped[DropReason::Full];
    let marked = link.counters().marked;
    assert!(dropped > 10 && marked > 10, "the queue was never long: {dropped} {marked}");
    assert_eq!(link.counters(), port.counters());
    let seen = |line: &TestPath| -> Vec<(u64, u32, Ecn)> {
        line.arrived.iter().map(|(at, p)| (*at, p.segment.seq.get(), p.ecn)).collect()
    };
    assert!(seen(&link) == seen(&port), "the same packets at the same instants");
}

#[test]
fn a_super_segment_leaves_as_wire_packets_at_line_rate() {
    let mut line = TestPath::new(PortSpec { segment: true, ..fifo(Rate::from_gbit(1), Dur::from_micros(5)) });
    line.send(data(4380));
    line.finish();
    assert_eq!(line.times(), [17_000, 29_000, 41_000]);
    assert_eq!(line.counters().balance(), 0);
}

#[test]
fn the_host_is_notified_when_a_packet_has_left_and_not_when_it_arrives() {
    let mut line = TestPath::new(PortSpec { segment: true, ..fifo(Rate::from_gbit(1), Dur::from_millis(5)) });
    let mut p = data(4380);
    p.notify = true;
    line.send(p);
    line.finish();
    assert_eq!(line.sent, [(36_000, 4500)]);
}

#[test]
fn completions_are_collected_for_the_coalescing_time() {
    let spec =
        PortSpec { tx_coalesce: Dur::from_micros(20), ..fifo(Rate::from_gbit(1), Dur::from_millis(5)) };
    let mut line = TestPath::new(spec);
    for _ in 0..3 {
        let mut p = data(1460);
        p.notify = true;
        line.send(p);
    }
    line.finish();
    // They leave at 12, 24 and 36 us: the first interrupt is at 32, the second at 56.
    assert_eq!(line.sent, [(32_000, 1500), (32_000, 1500), (56_000, 1500)]);
}

#[test]
fn the_host_is_notified_of_a_packet_that_it_dropped() {
    let queue = DisciplineSpec::Fifo(FifoSpec { limit: QueueLimit::packets(1), mark_above: None });
    let mut line = TestPath::new(PortSpec::new(queue, Pace::Fixed(Rate::from_gbit(1)), Dur::ZERO));
    for _ in 0..3 {
        let mut p = data(1460);
        p.notify = true;
        line.send(p);
    }
    assert_eq!(line.sent, [(0, 1500)]);
    line.finish();
    assert_eq!(line.sent.len(), 3);
}

#[test]
fn a_trace_sends_at_its_opportunities() {
    let queue = DisciplineSpec::Fifo(FifoSpec::UNLIMITED);
    let mut line =
        TestPath::new(PortSpec::new(queue, Pace::from_trace("2\n3\n").unwrap(), Dur::from_millis(10)));
    for _ in 0..3 {
        line.send(data(1460));
    }
    line.finish();
    assert_eq!(line.times(), [12_000_000, 13_000_000, 15_000_000]);
}

struct Nobody;
impl Hosts for Nobody {
    fn receive(&mut self, _: &mut Core, _: HostId, _: PacketId) {}
    fn timer(&mut self, _: &mut Core, _: TimerId) {}
}

/// Two ports of one pool: ten packets into the first, one into the second. Returns how many packets each holds or sends.
fn shared(alpha: Option<f64>) -> [u64; 2] {
    let mut net = Network::new(Seed(1));
    let pool = net.add_shared_buffer(Bytes::new(9_000));
    let (a, _) = net.add_host("a");
    let (b, _) = net.add_host("b");
    let (c, to_c) = net.add_host("c");
    let spec = PortSpec { share: Some(BufferShare { pool, alpha }), ..fifo(Rate::from_gbit(1), Dur::ZERO) };
    let one = net.add("one", spec.clone());
    let two = net.add("two", spec);
    net.set_egress(a, &[one, to_c]);
    net.set_egress(b, &[two, to_c]);
    let packet = |src| {
        let segment = Segment { len: 1460, ..Segment::default() };
        Packet::tcp(src, c, FlowLabel(0), segment, Ecn::NotEct, 1460)
    };
    for src in [a, a, a, a, a, a, a, a, a, a, b, b] {
        net.core().send(packet(src));
    }
    net.run_until(&mut Nobody, Time::ZERO);
    let taken = [net.held(one), net.held(two)];
    net.run_until(&mut Nobody, Time::ZERO + Dur::from_secs(1));
    assert_eq!(net.core().shared_buffers[0].used, 0, "the buffer is empty again");
    taken
}

#[test]
fn a_port_may_take_the_whole_of_a_shared_buffer() {
    // One is being sent; six wait and fill 9000 bytes; the other port can send one but not queue.
    assert_eq!(shared(None), [7, 1]);
}

#[test]
fn a_dynamic_threshold_leaves_room_for_the_other_port() {
    // With alpha 1 a queue stops growing at half the buffer: 3 * 1500 < 4500 does not hold any more.
    assert_eq!(shared(Some(1.0)), [4, 2]);
}
