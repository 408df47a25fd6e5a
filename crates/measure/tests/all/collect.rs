//! Tests of the collector.

use crate::sample::{flow, us};
use proptest::prelude::*;
use tcpassay_measure::{CollectOptions, Collector, Delivery, Flow, LatencyKind, Recording, SenderSample};
use tcpassay_units::{Dur, Time};

const MS: Dur = Dur::from_millis(1);

fn every_ms() -> Collector {
    Collector::new(CollectOptions { series: Some(MS), ..CollectOptions::default() })
}

fn arrival(at: Time, bytes: u32) -> Delivery {
    Delivery { at, flow: 0, wire_bytes: bytes + 52, bytes, one_way: Dur::from_micros(10), ce: false }
}

fn column(recording: &Recording, entity: &str, name: &str) -> Vec<f64> {
    let series = recording.series.as_ref().expect("series");
    series.entity(entity).expect("an entity").column(name).expect("a column").to_vec()
}

#[test]
fn without_taps_the_series_have_no_column_that_packets_would_fill() {
    let mut collector =
        Collector::new(CollectOptions { series: Some(MS), unseen: true, ..CollectOptions::default() });
    let id = collector.add_flow(flow(0));
    collector.read(id, us(100), 1_000);
    let recording = collector.finish(us(2_000));
    assert!(recording.flows[0].counters.unseen);
    let columns = &recording.series.expect("asked for").entities[0].columns;
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["read_bytes"]);
}

#[test]
fn bytes_are_added_up_in_the_interval_of_their_arrival_and_silent_intervals_are_zero() {
    let mut collector = every_ms();
    let flow = collector.add_flow(flow(0));
    for (at, bytes) in [(0, 100), (999, 10), (1_000, 200), (4_500, 300)] {
        collector.delivered(flow, arrival(us(at), bytes));
    }
    collector.read(flow, us(4_600), 610);
    let recording = collector.finish(us(6_000));
    assert_eq!(column(&recording, "flow.0", "payload_bytes"), [110.0, 200.0, 0.0, 0.0, 300.0, 0.0]);
    assert_eq!(column(&recording, "flow.0", "wire_bytes"), [214.0, 252.0, 0.0, 0.0, 352.0, 0.0]);
    assert_eq!(column(&recording, "flow.0", "read_bytes"), [0.0, 0.0, 0.0, 0.0, 610.0, 0.0]);
    assert_eq!(recording.flows[0].counters.delivered_packets, 4);
}

#[test]
fn a_flow_that_begins_late_and_ends_early_has_values_for_its_life_only() {
    let mut collector = every_ms();
    let id = collector.add_flow(flow(0));
    collector.delivered(id, arrival(us(7_200), 100));
    collector.flow_mut(id).end = Some(us(8_500));
    let recording = collector.finish(us(50_000));
    let series = recording.series.as_ref().expect("series");
    let entity = series.entity("flow.0").expect("a flow");
    assert_eq!((entity.first, entity.time(MS, 0)), (7, us(7_000)));
    assert_eq!(column(&recording, "flow.0", "payload_bytes"), [100.0, 0.0]);
}

#[test]
fn a_sample_at_the_end_of_an_interval_is_the_value_of_that_interval() {
    let mut collector = every_ms();
    let flow = collector.add_flow(flow(0));
    assert_eq!(collector.next_sample(us(0)), Some(us(1_000)));
    assert_eq!(collector.next_sample(us(1_000)), Some(us(2_000)));
    collector.delivered(flow, arrival(us(100), 100));
    collector.sample(flow, us(1_000), SenderSample { cwnd: Some(10.0), ..SenderSample::default() });
    collector.sample(flow, us(3_000), SenderSample { cwnd: Some(30.0), ..SenderSample::default() });
    let recording = collector.finish(us(3_000));
    let cwnd = column(&recording, "flow.0", "cwnd_bytes");
    assert_eq!((cwnd[0].to_bits(), cwnd[2].to_bits()), (10f64.to_bits(), 30f64.to_bits()));
    assert!(cwnd[1].is_nan(), "no value was recorded");
    let entity = recording.series.as_ref().and_then(|s| s.entity("flow.0")).expect("a flow");
    assert!(entity.column("alpha").is_none(), "no value of alpha was recorded");
}

#[test]
fn acks_and_retransmissions_are_counted_apart_from_data() {
    let mut collector = Collector::new(CollectOptions::default());
    let flow = collector.add_flow(flow(0));
    collector.sent(flow, 1448, false);
    collector.sent(flow, 1448, true);
    collector.sent(flow, 0, false);
    let c = collector.finish(us(1)).flows[0].counters;
    assert_eq!((c.sent_packets, c.sent_bytes, c.acks_sent), (2, 2896, 1));
    assert_eq!((c.retransmitted_packets, c.retransmitted_bytes), (1, 1448));
}

#[test]
fn the_latency_of_all_holds_every_flow_also_those_without_a_distribution_of_their_own() {
    let mut collector = Collector::new(CollectOptions { latency: true, ..CollectOptions::default() });
    for n in 0..300 {
        let flow = collector.add_flow(flow(n));
        collector.rtt(flow, us(5), Dur::from_micros(100));
        collector.delivered(flow, arrival(us(5), 100));
    }
    let recording = collector.finish(us(10));
    let of = |kind, entity: &str| {
        recording.latencies.iter().find(|l| l.kind == kind && l.entity == entity).map(|l| l.histogram.count())
    };
    for kind in [LatencyKind::Rtt, LatencyKind::OneWay] {
        assert_eq!(of(kind, "all"), Some(300));
        assert_eq!((of(kind, "flow.63"), of(kind, "flow.64")), (Some(1), None));
    }
}

#[test]
fn only_requested_data_are_collected() {
    let mut collector = Collector::new(CollectOptions::default());
    let flow = collector.add_flow(flow(0));
    collector.delivered(flow, arrival(us(5), 100));
    collector.rtt(flow, us(5), Dur::from_micros(1));
    collector.event(tcpassay_measure::EventRow::new(us(1), 0, None, tcpassay_measure::EventKind::App));
    collector.packet(crate::sample::captured(us(1), None));
    assert!(!collector.wants_events() && !collector.wants_packets());
    assert_eq!(collector.next_sample(us(0)), None);
    let recording = collector.finish(us(10));
    assert!(recording.series.is_none() && recording.latencies.is_empty() && recording.deliveries.is_empty());
    assert!(recording.events.is_empty() && recording.packets.is_empty());
    assert_eq!(recording.flows[0].counters.delivered_bytes, 100);
}

proptest! {
    #[test]
    fn no_byte_is_lost_between_intervals(
        gaps in prop::collection::vec((0u64..5_000, 1u32..9_000), 1..200),
        interval in 1u64..3_000,
        tail in 0u64..10_000,
    ) {
        let mut collector =
            Collector::new(CollectOptions { series: Some(Dur::from_micros(interval)), ..CollectOptions::default() });
        let flow = collector.add_flow(flow(0));
        let mut now = 0;
        let mut by_interval = std::collections::BTreeMap::new();
        for (gap, bytes) in &gaps {
            now += gap;
            collector.delivered(flow, arrival(us(now), *bytes));
            *by_interval.entry(now / interval).or_insert(0.0) += f64::from(*bytes);
        }
        let recording = collector.finish(us(now + tail));
        let series = recording.series.as_ref().expect("series");
        let entity = series.entity("flow.0").expect("a flow");
        for (i, bytes) in entity.column("payload_bytes").expect("a column").iter().enumerate() {
            let expected = by_interval.remove(&(entity.first + i as u64)).unwrap_or(0.0);
            prop_assert!((bytes - expected).abs() < 1e-9);
        }
        prop_assert!(by_interval.is_empty(), "every interval with bytes has its value");
    }
}

#[test]
fn latency_leaves_out_the_warm_up_after_the_first_flow_and_background_traffic() {
    let warmup = Dur::from_micros(10);
    let mut collector = Collector::new(CollectOptions { latency: true, warmup, ..CollectOptions::default() });
    let background = collector.add_flow(Flow { class: "background".to_owned(), ..flow(9) });
    collector.rtt(background, us(1), Dur::from_micros(900));
    let first = collector.add_flow(Flow { start: us(5), ..flow(0) });
    let second = collector.add_flow(Flow { start: us(12), ..flow(1) });
    for at in [14, 15] {
        collector.rtt(first, us(at), Dur::from_micros(100));
        collector.rtt(second, us(at), Dur::from_micros(200));
        collector.rtt(background, us(at), Dur::from_micros(900));
        collector.delivered(first, arrival(us(at), 100));
        collector.delivered(background, arrival(us(at), 100));
    }
    let recording = collector.finish(us(20));
    let of = |kind, entity: &str| {
        recording.latencies.iter().find(|l| l.kind == kind && l.entity == entity).map(|l| l.histogram.count())
    };
    assert_eq!(of(LatencyKind::Rtt, "all"), Some(2), "at 15 us, of two flows");
    assert_eq!((of(LatencyKind::Rtt, "flow.0"), of(LatencyKind::Rtt, "flow.9")), (Some(1), Some(1)));
    assert_eq!(of(LatencyKind::OneWay, "all"), Some(1));
    assert_eq!(recording.flows[1].counters.delivered_packets, 2, "counters are of the whole run");
}

#[test]
fn background_beyond_the_flows_with_distributions_of_their_own_stays_apart_too() {
    let mut collector = Collector::new(CollectOptions { latency: true, ..CollectOptions::default() });
    for n in 0..100 {
        let class = if n % 2 == 0 { "background" } else { "bulk" };
        let flow = collector.add_flow(Flow { class: class.to_owned(), ..flow(n) });
        collector.rtt(flow, us(5), Dur::from_micros(100));
    }
    let recording = collector.finish(us(10));
    let all = recording.latencies.iter().find(|l| l.kind == LatencyKind::Rtt && l.entity == "all");
    // The first background flow was opened before any flow of the test, so its samples are excluded.
    assert_eq!(all.map(|l| l.histogram.count()), Some(50));
}
