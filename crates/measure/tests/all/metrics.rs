//! Metrics of small recordings, with values computed by hand.

use crate::sample::{device, flow, us};
use std::collections::{BTreeMap, BTreeSet};
use tcpassay_measure::metrics::{ByteKind, MetricOptions, Metrics, TimeWindow, metrics, rates, rounds};
use tcpassay_measure::{
    Completion, CompletionKind, Delivery, EntitySeries, EventKind, EventRow, Flow, Histogram, Latency,
    LatencyKind, Recording, Series, SeriesColumn,
};
use tcpassay_units::{Bytes, Dur, Rate, Time};
use tcpassay_wire::Flags;

const fn ms(n: u64) -> Time {
    us(n * 1_000)
}

/// A flow that carried `bytes` of payload, and 54 bytes of headers for each 1446.
pub(crate) fn carried(connection: u32, bytes: u64) -> Flow {
    let mut flow = flow(connection);
    let c = &mut flow.counters;
    (c.sent_bytes, c.delivered_bytes, c.read_bytes) = (bytes, bytes, bytes);
    c.delivered_wire_bytes = bytes / 1446 * 1500;
    (c.sent_packets, c.delivered_packets) = (bytes / 1446, bytes / 1446);
    flow
}

pub(crate) fn run(duration: Dur, flows: Vec<Flow>) -> Recording {
    let mut recording = Recording { flows, ..Recording::default() };
    recording.header.duration = duration;
    recording
}

pub(crate) fn series(interval: Dur, rows: &[(&str, &str, &[f64])]) -> Series {
    let entities = rows.iter().map(|(entity, column, values)| EntitySeries {
        entity: (*entity).to_owned(),
        first: 0,
        columns: vec![SeriesColumn { name: (*column).to_owned(), values: values.to_vec() }],
    });
    Series { interval, entities: entities.collect() }
}

pub(crate) fn all(recording: &Recording) -> Metrics {
    metrics(recording, MetricOptions::default())
}

#[track_caller]
pub(crate) fn assert_near(got: Option<f64>, expected: f64) {
    let got = got.expect("a value");
    assert!((got - expected).abs() <= 1e-9 * expected.abs().max(1e-12), "{got}, not {expected}");
}

#[test]
fn a_recording_of_nothing_has_no_metric_at_all() {
    let values = all(&Recording::default()).values;
    let made_up: Vec<_> = values.0.iter().filter(|(_, value)| value.is_some()).collect();
    assert!(made_up.is_empty(), "{made_up:?}");
}

#[test]
fn without_packet_counters_their_metrics_are_absent_and_those_of_applications_present() {
    let mut flow = flow(0);
    flow.counters.unseen = true;
    flow.counters.read_bytes = 1_000_000;
    flow.tcp.timeouts = Some(2);
    let recording = run(Dur::from_secs(1), vec![flow]);
    let m = all(&recording);
    assert_near(m.values.get("goodput"), 8e6);
    assert_near(m.values.get("timeouts"), 2.0);
    for name in
        ["throughput", "retransmissions", "retransmission_rate", "loss_rate", "ce_share", "acks_per_segment"]
    {
        assert_eq!(m.values.get(name), None, "{name}");
    }
    assert_eq!((m.flows[0].throughput, m.flows[0].retransmissions), (None, None));
    // In the file they are null, and remain unknown when it is read.
    let text = serde_json::to_string(&recording).expect("plain data");
    assert!(text.contains(r#""sent_packets":null"#) && text.contains(r#""ce_packets":null"#), "{text}");
    let again: Recording = serde_json::from_str(&text).expect("its own text");
    assert_eq!(again.flows[0].counters, recording.flows[0].counters);
}

#[test]
fn throughput_counts_headers_and_goodput_does_not() {
    // 1446 KB of payload in 1000 packets of 1500 bytes, in 2 s.
    let m = all(&run(Dur::from_secs(2), vec![carried(0, 1_446_000)])).values;
    assert_near(m.get("throughput"), 6_000_000.0);
    assert_near(m.get("goodput"), 5_784_000.0);
}

#[test]
fn bytes_of_the_warm_up_do_not_count_in_the_throughput_after_it() {
    // 1446 KB in 4 ms: 500 packets in the first, half as many in each of the others with a rest in the last.
    let mut recording = run(Dur::from_millis(4), vec![carried(0, 1_446_000)]);
    let (wire, read) = ([750_000.0, 375_000.0, 375_000.0, 0.0], [723_000.0, 361_500.0, 361_500.0, 0.0]);
    let columns = [("wire_bytes", wire), ("read_bytes", read)]
        .map(|(name, values)| SeriesColumn { name: name.to_owned(), values: values.to_vec() });
    let flow = EntitySeries { entity: "flow.0".to_owned(), first: 0, columns: columns.to_vec() };
    recording.series = Some(Series { interval: Dur::from_millis(1), entities: vec![flow] });
    let warm = metrics(&recording, MetricOptions { warmup: Dur::from_millis(1) }).values;
    assert_near(warm.get("throughput"), 2_000_000_000.0);
    assert_near(warm.get("goodput"), 1_928_000_000.0);
    // Without a series the time of the bytes is not known.
    recording.series = None;
    let warm = metrics(&recording, MetricOptions { warmup: Dur::from_millis(1) }).values;
    assert_near(warm.get("throughput"), 3_000_000_000.0);
}

#[test]
fn the_window_goes_from_the_first_flow_to_the_end_of_the_last() {
    let mut early = carried(0, 1_446_000);
    (early.start, early.end) = (ms(500), Some(ms(900)));
    let mut late = carried(1, 1_446_000);
    (late.start, late.end) = (ms(600), Some(ms(1500)));
    let recording = run(Dur::from_secs(10), vec![early.clone(), late]);
    let m = all(&recording);
    assert_eq!((m.from, m.to), (ms(500), ms(1500)));
    assert_near(m.values.get("throughput"), 24_000_000.0);
    assert_near(m.flows[0].throughput, 30_000_000.0);
    let open = run(Dur::from_secs(10), vec![early, carried(1, 1)]);
    assert_eq!(all(&open).to, ms(10_000), "a flow that is open at the end lasts to the end");
    let warm = metrics(&open, MetricOptions { warmup: Dur::from_secs(1) });
    assert_eq!(warm.from, ms(1_000));
}

#[test]
fn the_flow_of_a_connection_is_its_direction_with_more_bytes_and_background_is_no_flow() {
    let requests = Flow { name: "flow.a".to_owned(), ..carried(0, 1_446) };
    let responses = Flow { name: "flow.b".to_owned(), from: 1, to: 0, ..carried(0, 1_446_000) };
    let other = Flow { class: "background".to_owned(), ..carried(1, 5_000_000) };
    let m = all(&run(Dur::from_secs(1), vec![requests, responses, other]));
    let names: Vec<&str> = m.flows.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["flow.b"]);
    assert_near(m.flows[0].share, 1.0);
}

#[test]
fn saturation_is_the_bytes_that_left_the_bottleneck_divided_by_its_capacity() {
    let mut recording = run(Dur::from_millis(4), vec![carried(0, 1_446_000)]);
    let mut queue = device("queue.bottleneck", Rate::from_mbit(1000));
    queue.counters.bytes = 400_000;
    queue.counters.packets = 200;
    queue.counters.marks = 50;
    recording.devices = vec![queue];
    assert_eq!(all(&recording).values.get("saturation"), None, "the recording does not name the bottleneck");
    recording.header.bottleneck = Some(0);
    // 400 KB of 500 KB.
    assert_near(all(&recording).values.get("saturation"), 0.8);
    assert_near(all(&recording).values.get("mark_share"), 0.25);
    // With a series, the warm-up is left out: 125 KB a ms would be all.
    let bytes = [25_000.0, 125_000.0, 125_000.0, 125_000.0];
    recording.series = Some(series(Dur::from_millis(1), &[("queue.bottleneck", "out_bytes", &bytes)]));
    assert_near(all(&recording).values.get("saturation"), 0.8);
    let warm = metrics(&recording, MetricOptions { warmup: Dur::from_millis(1) });
    assert_near(warm.values.get("saturation"), 1.0);
    assert_near(warm.devices[0].utilisation, 1.0);
}

#[test]
fn saturation_of_a_rate_that_varies_is_relative_to_its_integral() {
    let mut recording = run(Dur::from_millis(4), vec![carried(0, 1_446_000)]);
    let mut queue = device("queue.bottleneck", Rate::from_mbit(1000));
    queue.rate = None;
    queue.counters.bytes = 150_000;
    recording.devices = vec![queue];
    recording.header.bottleneck = Some(0);
    assert_eq!(all(&recording).values.get("saturation"), None, "nothing is known of its rate");
    let counters = BTreeMap::from([("capacity_bytes".to_owned(), 200_000)]);
    recording.counters.insert("queue.bottleneck".to_owned(), counters);
    assert_near(all(&recording).values.get("saturation"), 0.75);
    // With a series, the warm-up is left out: 90 KB of 100 KB, with an outage in between.
    let (out, capacity) = ([60_000.0, 60_000.0, 0.0, 30_000.0], [100_000.0, 60_000.0, 0.0, 40_000.0]);
    let mut series = series(Dur::from_millis(1), &[("queue.bottleneck", "out_bytes", &out)]);
    let capacity = SeriesColumn { name: "capacity_bytes".to_owned(), values: capacity.to_vec() };
    series.entities[0].columns.push(capacity);
    recording.series = Some(series);
    assert_near(
        metrics(&recording, MetricOptions { warmup: Dur::from_millis(1) }).values.get("saturation"),
        0.9,
    );
}

#[test]
fn two_flows_that_stall_in_turn_vary_while_their_sum_is_constant() {
    let mut recording = run(Dur::from_millis(40), vec![carried(0, 1_446_000), carried(1, 1_446_000)]);
    let turn = |first| (0..4).map(|i| if i % 2 == first { 0.0 } else { 10_000.0 }).collect::<Vec<_>>();
    let (even, odd) = (turn(0), turn(1));
    let columns = [("flow.0", "wire_bytes", &even[..]), ("flow.1", "wire_bytes", &odd[..])];
    recording.series = Some(series(Dur::from_millis(10), &columns));
    let m = all(&recording).values;
    assert_near(m.get("throughput_cv_10ms"), 0.0);
    // Half of the time nothing, half of the time all: deviation and mean are the same.
    assert_near(m.get("flow_throughput_cv_10ms"), 1.0);
}

#[test]
fn a_series_supports_only_its_interval_and_multiples_of_it() {
    let mut recording = run(Dur::from_millis(40), vec![carried(0, 1_446_000)]);
    let bytes: Vec<f64> = (0..40).map(|i| if i % 20 < 10 { 1_000.0 } else { 3_000.0 }).collect();
    recording.series = Some(series(Dur::from_millis(1), &[("flow.0", "wire_bytes", &bytes)]));
    let m = all(&recording).values;
    // 10 KB and 30 KB in turn every 10 ms: mean 16 Mbit/s, deviation 8 Mbit/s.
    assert_near(m.get("throughput_sd_10ms"), 8e6);
    assert_near(m.get("throughput_cv_10ms"), 0.5);
    assert_near(m.get("throughput_cv_1ms"), 0.5);
    assert_eq!(m.get("throughput_cv_1s"), None, "the run is shorter than a second");
    let flows = BTreeSet::from([0]);
    let window = TimeWindow { from: ms(0), to: ms(40) };
    let at = |us| rates(&recording, &flows, ByteKind::Wire, Dur::from_micros(us), window);
    assert_eq!(at(20_000), Some(vec![16e6, 16e6]));
    assert_eq!(at(1_500), None);
    assert_eq!(at(500), None);
}

#[test]
fn deliveries_support_any_interval_down_to_a_microsecond() {
    let mut recording = run(Dur::from_micros(8), vec![carried(0, 1_446_000), carried(1, 1)]);
    let delivery =
        |at, flow| Delivery { at: us(at), flow, wire_bytes: 125, bytes: 100, one_way: Dur::ZERO, ce: false };
    recording.deliveries =
        vec![delivery(0, 0), delivery(1, 1), delivery(3, 0), delivery(3, 0), delivery(7, 0)];
    let window = TimeWindow { from: us(0), to: us(8) };
    let at =
        |n, what| rates(&recording, &BTreeSet::from([0]), what, Dur::from_micros(n), window).expect("any");
    let bits =
        |rates: Vec<f64>| rates.into_iter().map(|r| Bytes::from_f64(r / 1e6).get()).collect::<Vec<_>>();
    assert_eq!(bits(at(1, ByteKind::Wire)), [1000, 0, 0, 2000, 0, 0, 0, 1000]);
    assert_eq!(bits(at(4, ByteKind::Wire)), [750, 250]);
    assert_eq!(bits(at(4, ByteKind::Payload)), [600, 200]);
    assert_eq!(bits(at(3, ByteKind::Wire)), [333, 667], "the last two microseconds are no whole interval");
}

#[test]
fn stalls_of_200_ms_every_second_show_as_silence_period_and_variation() {
    let mut recording = run(Dur::from_secs(10), vec![carried(0, 1_446_000)]);
    let bytes: Vec<f64> = (0..1000).map(|i| if i % 100 < 20 { 0.0 } else { 2_500_000.0 }).collect();
    recording.series = Some(series(Dur::from_millis(10), &[("flow.0", "wire_bytes", &bytes)]));
    let m = all(&recording).values;
    assert_near(m.get("longest_silence"), 0.2);
    assert_near(m.get("oscillation_period"), 1.0);
    // A share of 0.8 at 1: deviation sqrt(0.8 * 0.2), mean 0.8.
    assert_near(m.get("throughput_cv_10ms"), 0.5);
    assert!(m.get("throughput_cv_1s").expect("ten seconds") < 1e-9);
    recording.series = Some(series(Dur::from_millis(10), &[("flow.0", "wire_bytes", &[2_500_000.0; 1000])]));
    let m = all(&recording).values;
    assert_eq!(m.get("oscillation_period"), None);
    assert_near(m.get("longest_silence"), 0.0);
}

#[test]
fn latencies_are_those_of_all_flows_in_seconds() {
    let mut recording = run(Dur::from_secs(1), vec![carried(0, 1_446_000)]);
    let mut histogram = Histogram::default();
    for n in 1..=1000 {
        histogram.record(Dur::from_nanos(n));
    }
    recording.latencies = vec![Latency { kind: LatencyKind::Rtt, entity: "all".to_owned(), histogram }];
    let m = all(&recording).values;
    assert_near(m.get("rtt_mean"), 500.5e-9);
    assert_near(m.get("rtt_min"), 1e-9);
    assert_near(m.get("rtt_p50"), 500e-9);
    assert_near(m.get("rtt_p99"), 990e-9);
    assert_near(m.get("rtt_p999"), 999e-9);
    assert_near(m.get("rtt_max"), 1000e-9);
    assert_eq!((m.get("one_way_p50"), m.get("queue_delay_p50")), (None, None));
}

pub(crate) fn completion(bytes: u64, start: u64, end: u64, ideal: Option<u64>) -> Completion {
    Completion {
        kind: CompletionKind::Rpc,
        class: format!("rpc {bytes}"),
        client: 0,
        server: 1,
        connection: 0,
        request: Bytes::new(bytes),
        response: Bytes::new(100),
        start: ms(start),
        end: ms(end),
        ideal: ideal.map(Dur::from_millis),
        ok: true,
    }
}

#[test]
fn completion_times_are_by_size_with_slowdown_and_failures_stand_apart() {
    let mut recording = run(Dur::from_secs(1), vec![carried(0, 1_446_000)]);
    let failed = Completion { ok: false, ..completion(10_000, 0, 900, Some(1)) };
    let round = Completion { kind: CompletionKind::Round, ..completion(100, 0, 700, None) };
    recording.completions = vec![
        completion(10_000, 0, 2, Some(1)),
        completion(10_000, 2, 6, Some(1)),
        completion(1_000_000, 0, 100, Some(10)),
        completion(20_000_000, 0, 600, None),
        failed,
        round,
    ];
    let m = all(&recording);
    assert_near(m.values.get("completions"), 4.0);
    assert_near(m.values.get("failures"), 1.0);
    assert_near(m.values.get("completion_mean"), 0.1765);
    assert_near(m.values.get("completion_small_p50"), 0.002);
    assert_near(m.values.get("completion_small_p99"), 0.004);
    assert_near(m.values.get("completion_medium_p50"), 0.1);
    assert_near(m.values.get("completion_large_p50"), 0.6);
    assert_near(m.values.get("slowdown_mean"), 16.0 / 3.0);
    assert_near(m.values.get("slowdown_max"), 10.0);
    assert_near(m.values.get("round_p50"), 0.7);
    // Inverse slowdowns: small (0.5 + 0.25) / 2 = 0.375, medium 0.1: 0.475^2 / (2 * (0.140625 + 0.01)).
    assert_near(m.values.get("jain_sizes"), 0.225_625 / 0.301_25);
    let small = m.classes.iter().find(|c| c.class == "rpc 10000").expect("a class");
    assert_eq!((small.completed, small.failed), (2, 1));
    assert_near(small.mean, 0.003);
}

#[test]
fn shares_of_25_25_50_have_jain_s_index_of_eight_ninths() {
    let mut two = carried(1, 25);
    two.from = 1;
    let recording = run(Dur::from_secs(1), vec![carried(0, 25), two, carried(2, 50)]);
    let m = all(&recording).values;
    assert_near(m.get("jain_flows"), 8.0 / 9.0);
    // Hosts 0 and 1 send 75 and 25.
    assert_near(m.get("jain_hosts"), 10_000.0 / (2.0 * 6250.0));
    assert_near(m.get("share_max"), 0.5);
    assert_near(m.get("share_min"), 0.25);
}

#[test]
fn counters_of_senders_are_summed_and_a_counter_of_no_sender_is_absent() {
    let mut one = carried(0, 1_446_000);
    one.tcp.timeouts = Some(3);
    one.tcp.cwnd_limited_ns = Some(500_000_000);
    one.counters.retransmitted_packets = 10;
    one.counters.ce_packets = 250;
    let mut two = carried(1, 1_446_000);
    two.tcp.timeouts = Some(2);
    let mut acks = Flow { from: 1, to: 0, ..flow(0) };
    acks.counters.acks_sent = 500;
    acks.tcp.delayed_ack_timeouts = Some(7);
    let mut recording = run(Dur::from_secs(2), vec![one, acks, two]);
    let mut queue = device("queue", Rate::from_gbit(1));
    queue.counters.drops = 4;
    recording.devices = vec![queue];
    recording.counters.entry("loss.link".to_owned()).or_default().insert("drops".to_owned(), 6);
    let m = all(&recording).values;
    assert_near(m.get("timeouts"), 5.0);
    assert_near(m.get("timeouts_per_second"), 2.5);
    assert_near(m.get("retransmissions"), 10.0);
    assert_near(m.get("lost"), 10.0);
    // 10 of 1000 + 1000 packets with data and 500 ACKs.
    assert_near(m.get("loss_rate"), 0.004);
    assert_near(m.get("ce_share"), 0.125);
    assert_near(m.get("acks_per_segment"), 0.25);
    assert_near(m.get("delayed_ack_timeouts"), 7.0);
    assert_near(m.get("limited_cwnd"), 0.125);
    assert_eq!((m.get("undos"), m.get("cpu_per_gbit"), m.get("limited_rwnd")), (None, None, None));
}

#[test]
fn means_of_a_series_leave_out_absent_values() {
    let mut recording = run(Dur::from_millis(4), vec![carried(0, 1_446_000)]);
    let cwnd = [10_000.0, f64::NAN, 20_000.0, 60_000.0];
    recording.series = Some(series(Dur::from_millis(1), &[("flow.0", "cwnd_bytes", &cwnd)]));
    assert_near(all(&recording).values.get("cwnd_mean"), 30_000.0);
    let warm = metrics(&recording, MetricOptions { warmup: Dur::from_millis(1) });
    assert_near(warm.values.get("cwnd_mean"), 40_000.0);
}

#[test]
fn metrics_are_json_in_the_order_of_the_table_with_null_for_what_is_absent() {
    let m = all(&run(Dur::from_secs(2), vec![carried(0, 1_446_000)]));
    let text = serde_json::to_string(&m).expect("numbers");
    assert!(text.starts_with(
        r#"{"from_ns":0,"to_ns":2000000000,"values":{"throughput":6000000.0,"goodput":5784000.0,"saturation":null,"#
    ));
}

fn event(at: u64, kind: EventKind, seq: u64, len: u32, ack: u64, flags: Flags) -> EventRow {
    let (seq, len, ack) = (Some(seq), Some(len), Some(ack));
    EventRow { seq, len, ack, flags: Some(flags), ..EventRow::new(ms(at), 0, Some(0), kind) }
}

#[test]
fn a_round_ends_with_the_ack_of_all_data_outstanding_at_its_begin() {
    let ack = Flags::ACK;
    let ece = Flags::ACK | Flags::ECE;
    let out = |at, seq| event(at, EventKind::Out, seq, 100, 1, ack);
    let answer = |at, to, flags| event(at, EventKind::In, 1, 0, to, flags);
    let mut recording = run(Dur::from_secs(1), vec![carried(0, 1_446_000)]);
    recording.events = vec![
        event(0, EventKind::Out, 0, 0, 0, Flags::SYN),
        out(10, 1),
        out(10, 101),
        // Round 0 ends: its first segment is acknowledged; 201 is out.
        answer(20, 101, ack),
        out(20, 201),
        answer(21, 201, ece),
        // Round 1 ended there (all data outstanding at 20 ms are acknowledged); round 2 ends with 301.
        event(22, EventKind::Lost, 201, 100, 0, ack),
        event(22, EventKind::Retransmit, 201, 100, 1, ack),
        EventRow { cwnd: Some(Bytes::new(777)), ..event(23, EventKind::Window, 0, 0, 0, ack) },
        answer(32, 301, ack),
        out(33, 301),
    ]
    .into();
    let rounds = rounds(&recording);
    let brief: Vec<(u64, u64, u64, u64, u32)> = rounds
        .iter()
        .map(|r| {
            (r.start.as_nanos() / 1_000_000, r.length.as_millis(), r.sent_bytes, r.acked_bytes, r.ece_acks)
        })
        .collect();
    assert_eq!(brief, [(10, 10, 200, 100, 0), (20, 1, 100, 100, 1), (21, 11, 0, 100, 0), (32, 1, 100, 0, 0)]);
    assert_eq!((rounds[2].lost_bytes, rounds[2].retransmitted_bytes), (100, 100));
    assert_eq!(rounds[2].cwnd_bytes, Some(777));
}

#[test]
fn acks_that_were_thinned_are_not_lost() {
    let mut recording = run(Dur::from_secs(1), vec![carried(0, 1_446_000)]);
    recording.flows[0].counters.acks_sent = 200;
    recording.devices = vec![device("queue.bottleneck", Rate::from_gbit(1))];
    let thin = recording.counters.entry("thin.bottleneck.back".to_owned()).or_default();
    thin.insert("drops".to_owned(), 300);
    thin.insert("drops.thinned".to_owned(), 300);
    recording.counters.entry("loss.bottleneck".to_owned()).or_default().insert("drops".to_owned(), 12);
    recording.counters.entry("datagrams".to_owned()).or_default().insert("sent".to_owned(), 1_200);
    let m = all(&recording).values;
    assert_near(m.get("lost"), 12.0);
    assert_near(m.get("thinned"), 300.0);
    // 12 of 1000 packets with data, 200 ACKs and 1200 datagrams.
    assert_near(m.get("loss_rate"), 0.005);
}

#[test]
fn a_flow_that_stalls_shows_beside_one_that_does_not() {
    let mut recording = run(Dur::from_millis(40), vec![carried(0, 1_446_000), carried(1, 1_446_000)]);
    let (steady, stalls) = ([10_000.0; 4], [20_000.0, 0.0, 20_000.0, 0.0]);
    let rows = [("flow.0", "wire_bytes", &steady[..]), ("flow.1", "wire_bytes", &stalls[..])];
    recording.series = Some(series(Dur::from_millis(10), &rows));
    let m = all(&recording).values;
    // Coefficients 0 and 1; deviations 0 and 8 Mbit/s.
    assert_near(m.get("flow_throughput_cv_10ms"), 0.5);
    assert_near(m.get("flow_throughput_sd_10ms"), 4e6);
    // Together 30 KB and 10 KB in turn: mean 16, deviation 8 Mbit/s.
    assert_near(m.get("throughput_cv_10ms"), 0.5);
    assert_near(m.get("throughput_sd_10ms"), 8e6);
}

#[test]
fn the_time_before_a_flow_was_opened_is_no_silence_of_it() {
    let mut late = carried(1, 1_446_000);
    late.start = ms(20);
    let mut recording = run(Dur::from_millis(40), vec![carried(0, 1_446_000), late]);
    let (first, second) = ([10_000.0; 4], [0.0, 0.0, 10_000.0, 10_000.0]);
    let rows = [("flow.0", "wire_bytes", &first[..]), ("flow.1", "wire_bytes", &second[..])];
    recording.series = Some(series(Dur::from_millis(10), &rows));
    assert_near(all(&recording).values.get("flow_throughput_cv_10ms"), 0.0);
}

#[test]
fn intervals_of_a_microsecond_without_deliveries_are_zeros() {
    let mut recording = run(Dur::from_micros(8), vec![carried(0, 1_446_000), carried(1, 1_446_000)]);
    let delivery =
        |at, flow| Delivery { at: us(at), flow, wire_bytes: 125, bytes: 100, one_way: Dur::ZERO, ce: false };
    recording.deliveries = vec![delivery(1, 0), delivery(5, 0), delivery(5, 1), delivery(7, 0)];
    let m = all(&recording).values;
    // 1, 2 and 1 Gbit/s in three of eight microseconds: mean 0.5, mean of squares 0.75.
    assert_near(m.get("throughput_sd_1us"), 0.5_f64.sqrt() * 1e9);
    assert_near(m.get("throughput_cv_1us"), 2.0 * 0.5_f64.sqrt());
    // Flow 0: three of eight; flow 1: one of eight.
    let of = |share: f64| (share - share * share).sqrt();
    assert_near(m.get("flow_throughput_sd_1us"), 0.5e9 * (of(0.375) + of(0.125)));
    recording.deliveries.clear();
    recording.series = Some(series(Dur::from_micros(4), &[("flow.0", "wire_bytes", &[125.0, 250.0])]));
    assert_eq!(
        all(&recording).values.get("throughput_sd_1us"),
        None,
        "a series of 4 us does not support 1 us"
    );
}

#[test]
fn shares_goodputs_and_fairness_leave_out_the_warm_up() {
    let mut flows = vec![carried(0, 4_000), carried(1, 4_000)];
    flows[1].from = 2;
    let mut recording = run(Dur::from_millis(4), flows);
    recording.hosts = ["a", "b", "c"].map(str::to_owned).to_vec();
    let both = |read: [f64; 4]| {
        let wire = read.map(|n| n * 1.5);
        [("read_bytes", read), ("wire_bytes", wire)]
            .map(|(name, values)| SeriesColumn { name: name.to_owned(), values: values.to_vec() })
            .to_vec()
    };
    let entity = |name: &str, read| EntitySeries { entity: name.to_owned(), first: 0, columns: both(read) };
    let entities = vec![
        entity("flow.0", [1_000.0, 1_000.0, 1_000.0, 1_000.0]),
        entity("flow.1", [4_000.0, 0.0, 0.0, 0.0]),
    ];
    recording.series = Some(Series { interval: Dur::from_millis(1), entities });
    let cold = all(&recording);
    assert_near(cold.values.get("jain_flows"), 1.0);
    assert_near(cold.values.get("host_share_max"), 0.5);
    let warm = metrics(&recording, MetricOptions { warmup: Dur::from_millis(1) });
    for name in ["jain_flows", "jain_hosts"] {
        assert_near(warm.values.get(name), 0.5);
    }
    for name in ["share_max", "host_share_max"] {
        assert_near(warm.values.get(name), 1.0);
    }
    assert_near(warm.values.get("host_share_min"), 0.0);
    // 3000 B in 3 ms.
    assert_near(warm.flows[0].goodput, 8e6);
    assert_near(warm.flows[0].throughput, 12e6);
    assert_near(warm.flows[0].share, 1.0);
    assert_near(warm.flows[1].goodput, 0.0);
    let hosts: Vec<_> = warm.hosts.iter().map(|h| (h.name.as_str(), h.flows, h.goodput)).collect();
    assert_eq!(hosts, [("a", 1, Some(8e6)), ("c", 1, Some(0.0))]);
    assert_near(warm.hosts[0].share, 1.0);
}

#[test]
fn a_warm_up_without_series_leaves_whole_rates_and_utilisation_of_the_whole_run() {
    let mut recording = run(Dur::from_millis(4), vec![carried(0, 1_446_000)]);
    let mut queue = device("queue.bottleneck", Rate::from_mbit(1000));
    queue.counters.bytes = 400_000;
    recording.devices = vec![queue];
    recording.header.bottleneck = Some(0);
    let warm = metrics(&recording, MetricOptions { warmup: Dur::from_millis(2) });
    // 400 KB of the 500 KB of 4 ms, and not of the 250 KB of 2 ms.
    assert_near(warm.values.get("saturation"), 0.8);
    assert_near(warm.flows[0].goodput, 1_446_000.0 * 8.0 / 0.004);
}

#[test]
fn tiers_have_mean_and_largest_utilisation_and_all_drops_by_direction() {
    let mut recording = run(Dur::from_millis(4), vec![carried(0, 1_446_000)]);
    let of = |name: &str, bytes, drops| {
        let mut device = device(name, Rate::from_mbit(1000));
        (device.counters.bytes, device.counters.drops, device.counters.marks) = (bytes, drops, 1);
        device
    };
    recording.devices = vec![
        of("queue.access-sender0", 250_000, 1),
        of("queue.access-sender1", 500_000, 2),
        of("queue.access-sender0.back", 5_000, 0),
        of("queue.uplink-rack0", 495_000, 40),
        of("queue.a-b", 0, 7),
    ];
    let m = all(&recording);
    let tiers: Vec<_> = m.tiers.iter().map(|t| (t.tier.as_str(), t.devices, t.drops, t.marks)).collect();
    assert_eq!(
        tiers,
        [("access", 2, 3, 2), ("access.back", 1, 0, 1), ("link", 1, 7, 1), ("uplink", 1, 40, 1)]
    );
    assert_near(m.tiers[0].utilisation_mean, 0.75);
    assert_near(m.tiers[0].utilisation_max, 1.0);
    assert_near(m.values.get("utilisation_access"), 0.75);
    assert_near(m.values.get("utilisation_uplink"), 0.99);
    assert_near(m.values.get("drops_access"), 3.0);
    assert_near(m.values.get("drops_uplink"), 40.0);
}

#[test]
fn a_timeout_lasts_from_the_last_transmission_or_the_last_new_ack() {
    let ack = Flags::ACK;
    let fires = |at| EventRow {
        why: tcpassay_measure::reason::Timer::Rto.name().into(),
        ..EventRow::new(ms(at), 0, Some(0), EventKind::TimerFire)
    };
    let mut recording = run(Dur::from_secs(3), vec![carried(0, 1_446_000)]);
    recording.events = vec![
        event(0, EventKind::Out, 1, 100, 1, ack),
        event(10, EventKind::Out, 101, 100, 1, ack),
        event(20, EventKind::In, 1, 0, 101, ack),
        event(90, EventKind::In, 1, 0, 101, ack), // acknowledges nothing new
        fires(220),                               // 200 ms after the ACK at 20
        event(221, EventKind::Retransmit, 101, 100, 1, ack),
        EventRow { why: "Tlp".into(), ..fires(300) }, // another timer
        fires(621),                                   // 400 ms after the retransmission
    ]
    .into();
    let m = all(&recording).values;
    assert_near(m.get("timeout_time"), 0.6);
    assert_near(m.get("timeout_mean"), 0.3);
    assert_near(m.get("timeout_p50"), 0.2);
    assert_near(m.get("timeout_max"), 0.4);
    assert_eq!(rounds(&recording).iter().map(|r| r.timeouts).sum::<u32>(), 2);
}
