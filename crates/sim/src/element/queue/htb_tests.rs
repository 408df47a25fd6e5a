use super::*;
use crate::element::DisciplineSpec;
use crate::element::QueueSpec;
use crate::element::queue::FifoSpec;
use crate::element::test_net::{TestPath, data};
use crate::element::{Pace, PortSpec, QueueLimit};

const FIFO: DisciplineSpec = DisciplineSpec::Fifo(FifoSpec::UNLIMITED);

fn port(spec: HtbSpec) -> TestPath {
    TestPath::new(PortSpec::new(QueueSpec::Htb(spec), Pace::Unlimited, Dur::ZERO))
}

fn of_flow(flow: u32, len: u32) -> crate::engine::Packet {
    let mut p = data(len);
    p.flow = FlowLabel(flow);
    p
}

/// Packets of each flow that had left by `ns`.
fn left(line: &TestPath, ns: u64, flow: u32) -> usize {
    line.arrived.iter().filter(|(at, p)| *at <= ns && p.flow == FlowLabel(flow)).count()
}

#[test]
fn a_class_sends_while_its_bucket_is_not_negative_and_then_at_its_rate() {
    // 8 Mbit/s is one byte a microsecond; the bucket of 2000 bytes is 2 ms deep.
    let mut line = port(HtbSpec::single(Rate::from_mbit(8), Bytes::new(2000), FIFO));
    for _ in 0..4 {
        line.send(data(1460));
    }
    line.finish();
    // 2000 -> 500 -> -1000; a third goes when 1000 bytes have come in, leaving -1500.
    assert_eq!(line.times(), [0, 0, 1_000_000, 2_500_000]);
}

#[test]
fn a_super_segment_takes_the_bucket_below_zero_once() {
    let mut line = port(HtbSpec::single(Rate::from_mbit(8), Bytes::new(1500), FIFO));
    line.send(data(14_600));
    line.send(data(1460));
    line.finish();
    // 1500 - 15000 = -13500: the next waits 13.5 ms.
    assert_eq!(line.times(), [0, 13_500_000]);
    assert_eq!(line.arrived[0].1.segs, 10);
}

#[test]
fn a_leaf_alone_borrows_up_to_its_ceiling() {
    let mut line = port(HtbSpec::equal(Rate::from_mbit(8), 2, Bytes::new(1500), FIFO));
    for _ in 0..101 {
        line.send(of_flow(0, 1460));
    }
    line.finish();
    // At 8 Mbit/s though its rate is 4: one packet each 1.5 ms after the burst.
    let last = *line.times().last().unwrap();
    assert!((147_000_000..=150_000_000).contains(&last), "{last}");
}

#[test]
fn two_busy_leaves_share_the_parent_equally() {
    let mut line = port(HtbSpec::equal(Rate::from_mbit(8), 2, Bytes::new(1500), FIFO));
    for _ in 0..200 {
        line.send(of_flow(0, 1460));
        line.send(of_flow(1, 1460));
    }
    line.finish();
    let (a, b) = (left(&line, 150_000_000, 0), left(&line, 150_000_000, 1));
    assert!(a.abs_diff(b) <= 2 && a + b >= 100, "{a} {b}");
}

#[test]
fn guaranteed_rates_hold_and_the_rest_goes_to_the_better_priority() {
    let mut spec = HtbSpec::equal(Rate::from_mbit(8), 2, Bytes::new(1500), FIFO);
    // Leaf 0: 1 Mbit/s, leaf 1: 2 Mbit/s; of the 5 Mbit/s between, leaf 0 is offered all first.
    (spec.classes[1].rate, spec.classes[2].rate) = (Rate::from_mbit(1), Rate::from_mbit(2));
    (spec.classes[1].prio, spec.classes[2].prio) = (0, 1);
    let mut line = port(spec);
    for _ in 0..1000 {
        line.send(of_flow(0, 1460));
        line.send(of_flow(1, 1460));
    }
    line.finish();
    // In one second 6 and 2 Mbit are 500 and 167 packets of 1500 bytes.
    let (a, b) = (left(&line, 1_000_000_000, 0), left(&line, 1_000_000_000, 1));
    assert!((497..=503).contains(&a) && (165..=170).contains(&b), "{a} {b}");
}

#[test]
fn a_leaf_never_exceeds_its_ceiling() {
    let mut spec = HtbSpec::equal(Rate::from_mbit(8), 2, Bytes::new(1500), FIFO);
    spec.classes[1].ceil = Rate::from_mbit(5);
    let mut line = port(spec);
    for _ in 0..500 {
        line.send(of_flow(0, 1460));
    }
    line.finish();
    // 5 Mbit/s: 2.4 ms a packet.
    let packets = left(&line, 240_000_000, 0);
    assert!((100..=102).contains(&packets), "{packets}");
}

#[test]
fn quanta_divide_what_is_borrowed() {
    let mut spec = HtbSpec::equal(Rate::from_mbit(8), 2, Bytes::new(1500), FIFO);
    for (class, quantum) in [(1, 3000), (2, 9000)] {
        spec.classes[class].rate = Rate::from_bits_per_sec(8_000);
        spec.classes[class].quantum = Bytes::new(quantum);
    }
    let mut line = port(spec);
    for _ in 0..1000 {
        line.send(of_flow(0, 1460));
        line.send(of_flow(1, 1460));
    }
    line.finish();
    let (a, b) = (left(&line, 600_000_000, 0), left(&line, 600_000_000, 1));
    assert!((95..=105).contains(&a) && (295..=305).contains(&b), "{a} {b}");
}

#[test]
fn a_grandparent_lends_only_when_the_parent_cannot() {
    // Root 8 Mbit/s; one inner class of 4 with two leaves; one leaf of 4 beside it, idle.
    let m = Rate::from_mbit;
    let burst = Bytes::new(1500);
    let spec = HtbSpec {
        classes: vec![
            HtbClass::new(None, m(8), m(8), burst, FIFO),
            HtbClass::new(Some(0), m(4), m(8), burst, FIFO),
            HtbClass::new(Some(1), m(2), m(8), burst, FIFO),
            HtbClass::new(Some(1), m(2), m(8), burst, FIFO),
            HtbClass::new(Some(0), m(4), m(8), burst, FIFO),
        ],
    };
    let mut line = port(spec);
    for _ in 0..700 {
        for flow in 0..3 {
            line.send(of_flow(flow, 1460));
        }
    }
    line.finish();
    let by = |flow| left(&line, 600_000_000, flow);
    let (a, b, c) = (by(0), by(1), by(2));
    // 2 + 2 + 4 Mbit/s for 0.6 s: 100, 100 and 200 packets.
    assert!((98..=102).contains(&a) && (98..=102).contains(&b) && (198..=203).contains(&c), "{a} {b} {c}");
}

#[test]
fn a_leaf_marks_data_above_its_threshold() {
    let fifo = DisciplineSpec::Fifo(FifoSpec { limit: QueueLimit::NONE, mark_above: Some(Bytes::new(3000)) });
    let mut line = port(HtbSpec::single(Rate::from_mbit(8), Bytes::new(1500), fifo));
    for _ in 0..5 {
        let mut p = data(1460);
        p.ecn = tcpassay_wire::Ecn::Ect0;
        line.send(p);
    }
    // Two pass, because a bucket of zero is not negative; the next three find 0, 1500 and 3000 bytes waiting.
    assert_eq!(line.counters().marked, 0);
    let mut p = data(1460);
    p.ecn = tcpassay_wire::Ecn::Ect0;
    line.send(p);
    assert_eq!(line.counters().marked, 1);
}

#[test]
fn the_backlog_of_a_flow_is_that_of_its_class() {
    let mut line = port(HtbSpec::equal(Rate::from_mbit(8), 2, Bytes::new(1500), FIFO));
    for _ in 0..10 {
        line.send(of_flow(0, 1460));
    }
    assert_eq!(line.net.backlog(line.node, FlowLabel(1)).bytes, 0);
    assert!(line.net.backlog(line.node, FlowLabel(2)).bytes >= 9_000);
}
