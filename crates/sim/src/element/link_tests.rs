use super::*;
use crate::element::test_net::{TestPath, data, ect0};
use crate::engine::FlowLabel;
use tcpassay_wire::Ecn;

#[test]
fn a_million_packets_at_3_gbit_leave_no_drift() {
    let mut line = TestPath::new(LinkSpec::new(Rate::from_gbit(3), Dur::from_micros(10)));
    // The queue never runs empty: 1499 bytes take 3997.3 ns, one arrives each 3000 ns.
    for n in 0..1_000_000 {
        line.run_until(n * 3000);
        line.send(data(1459));
    }
    line.finish();
    // 1499 bytes * 8 * 10^6 / 3 Gbit/s = 3.997333333... s, and 10 us of propagation.
    assert_eq!(line.arrived.len(), 1_000_000);
    assert_eq!(line.arrived[999_999].0, 3_997_343_333);
}

#[test]
fn a_packet_arrives_after_its_transmission_and_the_delay() {
    let mut line = TestPath::new(LinkSpec::new(Rate::from_gbit(1), Dur::from_millis(5)));
    line.send(data(1460));
    line.send(data(1460));
    line.finish();
    assert_eq!(line.times(), [5_012_000, 5_024_000]);
}

#[test]
fn ethernet_overhead_counts_for_time_and_for_every_packet_of_a_super_segment() {
    let spec = LinkSpec { overhead: 38, ..LinkSpec::new(Rate::from_gbit(1), Dur::ZERO) };
    let mut line = TestPath::new(spec);
    line.send(data(2920));
    line.finish();
    assert_eq!(line.times(), [2 * 1538 * 8]);
}

#[test]
fn what_is_being_sent_does_not_count_as_waiting() {
    let spec = LinkSpec { limit: QueueLimit::packets(2), ..LinkSpec::new(Rate::from_gbit(1), Dur::ZERO) };
    let mut line = TestPath::new(spec);
    for _ in 0..4 {
        line.send(data(1460));
    }
    line.finish();
    assert_eq!(line.times(), [12_000, 24_000, 36_000]);
    assert_eq!(line.counters().dropped[DropReason::Full], 1);
}

#[test]
fn a_limit_in_bytes_counts_whole_packets() {
    let spec = LinkSpec {
        limit: QueueLimit::bytes(Bytes::new(3000)),
        ..LinkSpec::new(Rate::from_gbit(1), Dur::ZERO)
    };
    let mut line = TestPath::new(spec);
    for len in [1460, 1460, 1459, 2, 1] {
        line.send(data(len));
    }
    line.finish();
    // One is sent, 1500 + 1499 wait; 42 and 41 bytes do not fit any more.
    assert_eq!(line.arrived.len(), 3);
    assert_eq!(line.counters().dropped[DropReason::Full], 2);
}

#[test]
fn a_place_becomes_free_in_the_instant_in_which_a_packet_begins_to_be_sent() {
    let spec = LinkSpec { limit: QueueLimit::packets(1), ..LinkSpec::new(Rate::from_gbit(1), Dur::ZERO) };
    let mut line = TestPath::new(spec);
    line.send(data(1460));
    line.send(data(1460));
    line.run_until(11_999);
    line.send(data(1460));
    assert_eq!(line.counters().dropped[DropReason::Full], 1);
    line.run_until(12_000);
    line.send(data(1460));
    line.finish();
    assert_eq!(line.times(), [12_000, 24_000, 36_000]);
}

#[test]
fn a_packet_is_marked_when_more_than_the_threshold_waits_before_it() {
    let spec =
        LinkSpec { mark_above: Some(Bytes::new(3000)), ..LinkSpec::new(Rate::from_gbit(1), Dur::ZERO) };
    let mut line = TestPath::new(spec);
    for _ in 0..6 {
        line.send(ect0(1460));
    }
    line.send(data(1460));
    line.finish();
    // They find 0, 0, 1500, 3000, 4500, 6000 and 7500 bytes; the last cannot be marked.
    let marks: Vec<Ecn> = line.arrived.iter().map(|(_, p)| p.ecn).collect();
    assert_eq!(marks, [Ecn::Ect0, Ecn::Ect0, Ecn::Ect0, Ecn::Ect0, Ecn::Ce, Ecn::Ce, Ecn::NotEct]);
    assert_eq!(line.counters().marked, 2);
}

#[test]
fn the_backlog_is_exact_between_two_events() {
    let mut line = TestPath::new(LinkSpec::new(Rate::from_gbit(1), Dur::from_millis(1)));
    for _ in 0..3 {
        line.send(data(1460));
    }
    let mut at = |ns| {
        line.run_until(ns);
        let b = line.net.backlog(line.node, FlowLabel(0));
        (b.packets, b.bytes)
    };
    assert_eq!([at(0), at(11_999), at(12_000), at(24_000)], [(2, 3000), (2, 3000), (1, 1500), (0, 0)]);
}

#[test]
fn a_collector_sees_waiting_times_and_the_longest_queue() {
    let mut line = TestPath::new(LinkSpec::new(Rate::from_gbit(1), Dur::ZERO));
    line.net.collect(line.node, Dur::from_millis(1), tcpassay_units::Time::ZERO);
    for _ in 0..3 {
        line.send(data(1460));
    }
    line.finish();
    let stats = line.net.stats(line.node).unwrap();
    assert_eq!((stats.sojourn().count(), stats.sojourn().max()), (3, Dur::from_nanos(24_000)));
    assert_eq!(stats.samples().map(|s| s.max_bytes).collect::<Vec<_>>(), [3000]);
}
