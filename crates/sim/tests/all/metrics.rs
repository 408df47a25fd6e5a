//! Metrics of runs with known results.

use crate::{Rows, case, data, go, go_with, ms};
use tcpassay_case::Case;
use tcpassay_measure::metrics::{self, metrics};
use tcpassay_measure::{CollectOptions, EventKind, Recording};
use tcpassay_units::Dur;

fn value(recording: &Recording, name: &str) -> Option<f64> {
    metrics(recording, metrics::MetricOptions::default()).values.get(name)
}

/// A slow path whose queue takes seconds to drain after one short transfer.
const DRAINS: Rows = &[
    ("link.rate", "1Mbit"),
    ("link.delay", "1ms"),
    ("queue.limit", "1MB"),
    ("app.flow_size", "100KB"),
    ("app.duration", "2s"),
    ("stack.cc", "reno"),
];

#[test]
fn a_queue_that_drains_without_arrivals_has_a_backlog_in_every_interval() {
    for kind in ["fifo", "codel", "fq_codel", "pie", "red", "fq"] {
        let rows = [DRAINS, &[("queue.kind", kind)]].concat();
        let collect = CollectOptions { series: Some(ms(1)), latency: true, ..CollectOptions::default() };
        let recording = go_with(&rows, collect).recording;
        let series = recording.series.as_ref().expect("asked for");
        let entity = series.entity("queue.bottleneck").expect("a queue");
        let backlog = entity.column("max_backlog_bytes").expect("a series");
        let out = entity.column("out_bytes").expect("a series");
        // While packets of 12 ms leave one behind the other the queue is full in the intervals between them, too.
        let busy: Vec<usize> = (0..out.len()).filter(|i| out[*i] > 0.0).collect();
        let silent: Vec<usize> = busy
            .windows(2)
            .filter(|w| w[1] - w[0] <= 13 && backlog[w[0]] > 3_000.0)
            .flat_map(|w| (w[0] + 1..w[1]).filter(|i| backlog[*i] == 0.0).collect::<Vec<_>>())
            .collect();
        let peak = backlog.iter().copied().fold(0.0, f64::max);
        assert!(peak > 10_000.0, "{kind}: the queue never filled: {peak}");
        assert!(silent.is_empty(), "{kind}: no backlog in the intervals {silent:?}");
    }
}

#[test]
fn an_interval_without_arrivals_has_what_waited_when_it_began() {
    // Datagrams would be simpler; the first ten segments of a flow are a burst: 15 KB at 1 Mbit/s last 120 ms.
    let rows = [("stack.initial_window", "10"), ("app.flow_size", "14480B")];
    let rows = [&[("link.rate", "1Mbit"), ("link.delay", "1ms"), ("app.duration", "1s")], &rows[..]].concat();
    let collect = CollectOptions { series: Some(ms(1)), latency: true, ..CollectOptions::default() };
    let recording = go_with(&rows, collect).recording;
    let series = recording.series.as_ref().expect("asked for");
    let backlog =
        series.entity("queue.bottleneck").expect("a queue").column("max_backlog_bytes").expect("it");
    let (most, start) =
        backlog.iter().enumerate().fold((0.0, 0), |best, (i, n)| if *n > best.0 { (*n, i) } else { best });
    assert!(most >= 9.0 * 1_492.0, "a burst of ten waits behind its first: {most}");
    // Packets of 1500 bytes begin to leave every 12 ms, the first at once: before 60 ms have passed, the fifth has. Five wait, and
    // the FIN of 52 bytes.
    assert!((backlog[start + 60] - 7_552.0).abs() < 0.5, "{}", backlog[start + 60]);
    assert!(backlog[start..start + 90].is_sorted_by(|a, b| a >= b), "it only drains");
}

#[test]
fn thinned_acks_are_no_losses_and_the_last_ack_of_a_burst_arrives() {
    let rows: Rows = &[
        ("link.ack_thinning", "4"),
        ("link.rate", "100Mbit"),
        ("link.delay", "5ms"),
        ("app.flow_size", "10MB"),
        ("queue.limit", "10MB"),
    ];
    let recording = go(rows).recording;
    assert_eq!(value(&recording, "lost"), Some(0.0));
    assert_eq!(value(&recording, "loss_rate"), Some(0.0));
    assert!(value(&recording, "thinned").expect("counted") > 500.0);
    assert_eq!(value(&recording, "timeouts"), Some(0.0));
    assert_eq!(value(&recording, "retransmissions"), Some(0.0));
}

#[test]
fn a_window_of_two_segments_does_not_wait_for_the_retransmission_timer_when_acks_are_thinned() {
    let rows: Rows = &[
        ("link.ack_thinning", "100"),
        ("link.delay", "5ms"),
        ("stack.initial_window", "2"),
        ("app.flow_size", "20KB"),
        ("app.duration", "3s"),
    ];
    let outcome = go(rows);
    let done = &outcome.recording.completions;
    assert!(done.len() == 1 && done[0].ok, "{done:?}");
    assert_eq!(value(&outcome.recording, "timeouts"), Some(0.0));
    assert_eq!(data(&outcome.recording)[0].counters.retransmitted_packets, 0);
}

#[test]
fn latency_after_a_warm_up_does_not_hold_what_came_before() {
    // Ten milliseconds of handshake and slow start on an empty path, then a full queue of 100 ms.
    let rows: Rows =
        &[("link.rate", "10Mbit"), ("link.delay", "5ms"), ("queue.limit", "125KB"), ("app.duration", "3s")];
    let at = |warmup| {
        let collect =
            CollectOptions { latency: true, series: Some(ms(10)), warmup, ..CollectOptions::default() };
        let recording = go_with(rows, collect).recording;
        let m = metrics(&recording, metrics::MetricOptions { warmup }).values;
        ["rtt_min", "one_way_p50", "queue_delay_mean"].map(|name| m.get(name).expect("measured"))
    };
    let (cold, warm) = (at(Dur::ZERO), at(Dur::from_secs(1)));
    assert!(cold[0] < 0.015 && warm[0] > 0.03, "{cold:?} {warm:?}");
    assert!(warm[2] > cold[2], "{cold:?} {warm:?}");
}

#[test]
fn in_racks_the_bottleneck_is_the_busiest_link() {
    let rows: Rows = &[
        ("topology", "racks:1x1"),
        ("rack.hosts", "4"),
        ("rack.uplink", "50Mbit"),
        ("link.rate", "100Mbit"),
        ("app.duration", "2s"),
    ];
    let recording =
        go_with(rows, CollectOptions { latency: true, series: Some(ms(10)), ..CollectOptions::default() })
            .recording;
    let saturation = value(&recording, "saturation").expect("a bottleneck");
    assert!(saturation > 0.9, "{saturation}");
    let uplink = value(&recording, "utilisation_uplink").expect("uplinks");
    let access = value(&recording, "utilisation_access").expect("access links");
    assert!(uplink > 0.9 && access < 0.3, "{uplink} {access}");
}

#[test]
fn a_reduction_after_a_mark_is_logged_with_linux_s_name_of_the_state() {
    let rows: Rows = &[
        ("stack.ecn", "classic"),
        ("queue.ecn_mark", "data"),
        ("queue.ecn_threshold", "20KB"),
        ("link.rate", "100Mbit"),
        ("link.delay", "5ms"),
        ("app.duration", "1s"),
    ];
    let recording = go_with(rows, CollectOptions { events: true, ..CollectOptions::default() }).recording;
    let moves: Vec<_> = recording.events.iter().filter(|e| e.kind == EventKind::Congestion).collect();
    assert!(moves.iter().any(|e| e.why.starts_with("Open->CWR: ")), "{moves:?}");
}

#[test]
fn a_run_that_ends_before_anything_can_cross_the_path_is_refused() {
    let refused = |rows: Rows| {
        let errors = Case::from_triples(&crate::triples(rows)).expect_err("refused");
        format!("{errors:?}")
    };
    let slow = refused(&[("link.rate", "1bit"), ("app.duration", "1s")]);
    assert!(slow.contains("link.rate") && slow.contains("app.duration"), "{slow}");
    let far = refused(&[("link.delay", "600ms"), ("app.duration", "1s")]);
    assert!(far.contains("link.delay"), "{far}");
    case(&[("link.delay", "400ms"), ("app.duration", "1s")]);
}

#[test]
fn a_greedy_flow_saturates_a_rate_that_varies() {
    // 10 Mbit/s and 30 Mbit/s in turn, which a queue of 500 KB fills: 20 Mbit/s on average, and nothing while the link is out.
    for (rate, mean) in [("steps:0,10Mbit;0.5,30Mbit;1,30Mbit", 20e6), ("steps:0,40Mbit;0.5,0;1,0", 20e6)] {
        let rows =
            [("link.rate", rate), ("link.delay", "1ms"), ("queue.limit", "500KB"), ("app.duration", "4s")];
        for series in [None, Some(ms(100))] {
            let recording = go_with(&rows, CollectOptions { series, ..CollectOptions::default() }).recording;
            let values = metrics(&recording, metrics::MetricOptions::default()).values;
            let (saturation, throughput) = (values.get("saturation"), values.get("throughput"));
            let (saturation, throughput) = (saturation.expect("a value"), throughput.expect("a value"));
            assert!((0.97..=1.0).contains(&saturation), "{rate}: {saturation}");
            assert!((throughput / mean - saturation).abs() < 0.02, "{rate}: {throughput}");
        }
    }
}
