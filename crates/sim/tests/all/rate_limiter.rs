//! The paper's rate limiter ("Rethinking the development and test of TCP", sections 2 and 3).
//!
//! A sender with HTB at 2 Gbit/s above its 10 Gbit/s NIC, a threshold of 30 KB, TSO and GRO on, an interrupt
//! delay of 30 us at both ends, DCTCP, Linux 4.6. A connection stalls if its last segment in flight is the
//! one with CWR whose CE mark differs from the segment before. This requires small windows, so several
//! connections share the limiter, as on a host.

use crate::{CollectOptions, data, float, go, go_with, ms};
use tcpassay_measure::{EventKind, EventRow, LatencyKind, PacketRecord, Recording};
use tcpassay_wire::Ecn;

const PAPER: &[(&str, &str)] = &[
    ("link.rate", "10Gbit"),
    ("link.delay", "25us"),
    ("queue.kind", "htb"),
    ("queue.rate", "2Gbit"),
    ("queue.ecn_threshold", "30KB"),
    ("stack.profile", "linux-4.6"),
    ("stack.cc", "dctcp"),
    ("stack.ecn", "dctcp"),
    ("nic.tso", "on"),
    ("nic.gro", "on"),
    ("nic.rx_usecs", "30us"),
    ("app.flows", "12"),
    ("app.duration", "2s"),
];

fn paper(more: &[(&str, &str)]) -> Recording {
    let rows: Vec<_> = PAPER.iter().chain(more).copied().collect();
    go_with(&rows, CollectOptions { series: Some(ms(10)), latency: true, ..CollectOptions::default() })
        .recording
}

fn timeouts(r: &Recording) -> u64 {
    data(r).iter().map(|f| f.tcp.timeouts.unwrap()).sum()
}

fn rtt(r: &Recording, q: f64) -> f64 {
    let all = r.latencies.iter().find(|l| l.kind == LatencyKind::Rtt && l.entity == "all").unwrap();
    all.histogram.quantile(q).unwrap().as_secs_f64()
}

/// The coefficients of variation of throughput per 10 ms, after the first 100 ms: the median over flows, and that of their
/// sum.
fn variation(r: &Recording) -> (f64, f64) {
    let series = r.series.as_ref().unwrap();
    let flows: Vec<&[f64]> = data(r)
        .iter()
        .map(|f| &series.entity(&f.name).unwrap().column("wire_bytes").unwrap()[10..])
        .collect();
    let of = |values: &[f64]| {
        let n = float(values.len() as u64);
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
        variance.sqrt() / mean
    };
    let mut all: Vec<f64> = flows.iter().map(|values| of(values)).collect();
    all.sort_by(f64::total_cmp);
    let sum: Vec<f64> = (0..flows[0].len()).map(|i| flows.iter().map(|values| values[i]).sum()).collect();
    (all[all.len() / 2], of(&sum))
}

fn saturation(r: &Recording) -> f64 {
    float(data(r).iter().map(|f| f.counters.delivered_wire_bytes).sum()) * 8.0 / 2.0 / 2e9
}

#[test]
fn a_shaper_without_marking_multiplies_the_round_trip_time_by_ten_and_more() {
    let without = go(&[
        ("link.rate", "10Gbit"),
        ("link.delay", "25us"),
        ("app.duration", "1s"),
        ("queue.limit", "100KB"),
    ]);
    let with = paper(&[]);
    assert!(
        rtt(&with, 0.5) > 10.0 * rtt(&without.recording, 0.5),
        "{} {}",
        rtt(&with, 0.5),
        rtt(&without.recording, 0.5)
    );
}

#[test]
fn with_marks_on_data_flows_to_the_old_receiver_stall_for_200_ms_although_nothing_is_lost() {
    let r = paper(&[("queue.ecn_mark", "data")]);
    assert!(r.devices[0].counters.marks > 1000, "the regime: packets were marked");
    assert_eq!(r.devices.iter().map(|d| d.counters.drops).sum::<u64>(), 0, "nothing was lost");
    // One a second; here several.
    assert!(timeouts(&r) >= 2, "{}", timeouts(&r));
    assert!(variation(&r).0 > 0.3, "{:?}", variation(&r));
}

#[test]
fn every_remedy_saturates_the_limiter_steadily_at_low_latency_without_a_timeout() {
    let unmarked = rtt(&paper(&[]), 0.5);
    for remedy in [
        &[("queue.ecn_mark", "ack")][..],
        &[("queue.ecn_mark", "data"), ("stack.dctcp_receiver", "rearm")],
        &[("queue.ecn_mark", "data"), ("stack.dctcp_receiver", "immediate")],
    ] {
        let r = paper(remedy);
        assert_eq!(timeouts(&r), 0, "{remedy:?}");
        assert!(saturation(&r) >= 0.95, "{remedy:?}: {}", saturation(&r));
        // The plan asks for 0.1 of each of two flows, too. A flow of twelve has a window of a few segments, and its share of
        // 10 ms moves with each of DCTCP's steps: 0.13 to 0.15, where the fault makes it 2.3.
        let (flow, sum) = variation(&r);
        assert!(sum < 0.1 && flow < 0.2, "{remedy:?}: {flow} of a flow, {sum} of the sum");
        assert!(rtt(&r, 0.99) < unmarked / 10.0, "{remedy:?}: {}", rtt(&r, 0.99));
        let marked = r.devices.iter().map(|d| d.counters.marks).sum::<u64>()
            + data(&r).iter().map(|f| f.tcp.ece_acks.unwrap()).sum::<u64>();
        assert!(marked > 1000, "{remedy:?}: the regime: {marked} marks");
    }
}

#[test]
fn the_event_log_shows_the_forgotten_ack_and_the_timeout_200_ms_later() {
    let rows: Vec<_> = PAPER.iter().copied().chain([("queue.ecn_mark", "data")]).collect();
    let r = go_with(&rows, CollectOptions { events: true, ..CollectOptions::default() }).recording;
    let fire = r.events.iter().find(|e| e.kind == EventKind::TimerFire && e.why == "Rto").expect("a timeout");
    // The peer's end of the same connection: flows come in pairs.
    let peer = fire.flow.unwrap() ^ 1;
    // Its application reads on; the TCP does nothing more.
    let of_tcp = |e: &EventRow| e.at < fire.at && e.flow == Some(peer) && e.kind != EventKind::App;
    let before = r.events.iter().rev().find(of_tcp).expect("the receiver's log");
    assert_eq!(before.kind, EventKind::AckForget, "the receiver's last event: {before:?}");
    let silence = fire.at - before.at;
    assert!((199..205).contains(&silence.as_millis()), "{silence}");
}

#[test]
fn a_queue_shows_each_packet_once_and_a_mark_is_a_note_of_it() {
    let rows: Vec<_> =
        PAPER.iter().chain(&[("queue.ecn_mark", "data"), ("app.duration", "20ms")]).copied().collect();
    let recording = go_with(&rows, CollectOptions { packets: true, ..CollectOptions::default() }).recording;
    let at = |name: &str| {
        let name = name.to_owned();
        let points = &recording.interfaces;
        recording.packets.iter().filter(move |p| points[p.interface as usize].name == name)
    };
    let key = |p: &PacketRecord| (p.from, p.from_port, p.segment.map(|s| (s.seq, s.len, s.ack)));
    let is_marked = |p: &PacketRecord| p.note.as_deref() == Some("marked");
    let marked: Vec<_> = at("queue.bottleneck").filter(|p| is_marked(p)).collect();
    assert!(marked.len() > 500, "the regime: {} marked packets", marked.len());
    assert!(at("queue.bottleneck").all(|p| is_marked(p) == (p.ecn == Ecn::Ce)));
    for (n, packet) in marked.iter().enumerate() {
        let same = at("queue.bottleneck").filter(|other| key(other) == key(packet)).count();
        assert_eq!(same, 1, "marked packet {n}: {packet:?}");
    }
}
