//! Ranks, sums and means among the metrics, of values whose ranks are known.

use crate::metrics::{all, assert_near, carried, completion, run, series};
use crate::sample::device;
use tcpassay_measure::metrics::{MetricOptions, metrics};
use tcpassay_measure::{Completion, CompletionKind, Histogram, Latency, LatencyKind};
use tcpassay_units::{Dur, Rate};

#[test]
fn each_kind_of_latency_has_its_mean_its_ranks_its_maximum_and_its_number_of_samples() {
    // Of the values 1 to 1000 ns, in nanoseconds.
    let kinds = [
        (
            LatencyKind::OneWay,
            [
                ("one_way_mean", 500.5),
                ("one_way_p50", 500.0),
                ("one_way_p90", 900.0),
                ("one_way_p99", 990.0),
                ("one_way_p999", 999.0),
                ("one_way_max", 1000.0),
            ],
            ("one_way_samples", 1000.0),
        ),
        (
            LatencyKind::Rtt,
            [
                ("rtt_mean", 500.5),
                ("rtt_p50", 500.0),
                ("rtt_p90", 900.0),
                ("rtt_p99", 990.0),
                ("rtt_p999", 999.0),
                ("rtt_max", 1000.0),
            ],
            ("rtt_samples", 1000.0),
        ),
        (
            LatencyKind::QueueDelay,
            [
                ("queue_delay_mean", 500.5),
                ("queue_delay_p50", 500.0),
                ("queue_delay_p90", 900.0),
                ("queue_delay_p99", 990.0),
                ("queue_delay_p999", 999.0),
                ("queue_delay_max", 1000.0),
            ],
            ("queue_delay_samples", 1000.0),
        ),
    ];
    for (kind, expected, (samples, count)) in kinds {
        let mut recording = run(Dur::from_secs(1), vec![carried(0, 1_446_000)]);
        recording.devices = vec![device("queue", Rate::from_gbit(1))];
        recording.header.bottleneck = Some(0);
        let mut histogram = Histogram::default();
        for n in 1..=1000 {
            histogram.record(Dur::from_nanos(n));
        }
        let entity = if kind == LatencyKind::QueueDelay { "queue" } else { "all" };
        recording.latencies = vec![Latency { kind, entity: entity.to_owned(), histogram }];
        let m = all(&recording).values;
        for (name, nanos) in expected {
            assert_near(m.get(name), nanos * 1e-9);
        }
        assert_near(m.get(samples), count);
    }
}

#[test]
fn completions_and_slowdowns_have_nearest_ranks() {
    let mut recording = run(Dur::from_secs(10), vec![carried(0, 1_446_000)]);
    for time in 1..=1000 {
        for bytes in [10_000, 1_000_000, 20_000_000] {
            recording.completions.push(completion(bytes, 0, time, Some(10)));
        }
        let round = completion(100, 0, time, None);
        recording.completions.push(Completion { kind: CompletionKind::Round, ..round });
    }
    let m = all(&recording).values;
    for (name, seconds) in [
        ("completion_p50", 0.5),
        ("completion_p90", 0.9),
        ("completion_p99", 0.99),
        ("completion_p999", 0.999),
        ("completion_max", 1.0),
        ("completion_small_p999", 0.999),
        ("completion_medium_p99", 0.99),
        ("completion_medium_p999", 0.999),
        ("completion_large_p99", 0.99),
        ("completion_large_p999", 0.999),
        ("round_p99", 0.99),
        ("slowdown_p50", 50.0),
        ("slowdown_p99", 99.0),
    ] {
        assert_near(m.get(name), seconds);
    }
}

#[test]
fn counters_of_senders_are_summed_over_the_flows() {
    let mut flows = vec![carried(0, 1_446_000), carried(1, 1_446_000)];
    for (flow, n) in flows.iter_mut().zip([3, 4]) {
        let tcp = &mut flow.tcp;
        (tcp.spurious_retransmits, tcp.recoveries, tcp.probes) = (Some(n), Some(10 * n), Some(100 * n));
        (tcp.clamps, tcp.ece_acks, tcp.undos) = (Some(1000 * n), Some(10_000 * n), Some(2 * n));
    }
    let m = all(&run(Dur::from_secs(1), flows)).values;
    assert_near(m.get("spurious_retransmissions"), 7.0);
    assert_near(m.get("recoveries"), 70.0);
    assert_near(m.get("probes"), 700.0);
    assert_near(m.get("clamps"), 7000.0);
    assert_near(m.get("ece_acks"), 70_000.0);
    assert_near(m.get("undos"), 14.0);
}

#[test]
fn each_mean_of_a_series_is_of_its_own_column() {
    for (name, column, mean) in [
        ("ssthresh_mean", "ssthresh_bytes", 20_000.0),
        ("srtt_mean", "srtt_ns", 20_000e-9),
        ("rto_mean", "rto_ns", 20_000e-9),
        ("alpha_mean", "alpha", 20_000.0),
    ] {
        let mut recording = run(Dur::from_millis(3), vec![carried(0, 1_446_000)]);
        let values = [10_000.0, f64::NAN, 30_000.0];
        recording.series = Some(series(Dur::from_millis(1), &[("flow.0", column, &values)]));
        assert_near(all(&recording).values.get(name), mean);
    }
}

#[test]
fn failures_and_fairness_of_sizes_are_of_transfers_that_began_in_the_window() {
    let mut recording = run(Dur::from_secs(1), vec![carried(0, 1_446_000)]);
    let failed = |start| Completion { ok: false, ..completion(10_000, start, start + 1, Some(1)) };
    recording.completions = vec![
        failed(0),
        failed(500),
        completion(10_000, 0, 9, Some(1)),
        completion(10_000, 500, 502, Some(1)),
        completion(1_000_000, 500, 520, Some(10)),
    ];
    let warm = metrics(&recording, MetricOptions { warmup: Dur::from_millis(100) }).values;
    assert_near(warm.get("failures"), 1.0);
    assert_near(warm.get("completions"), 2.0);
    // Both sizes at half of the speed of an idle path.
    assert_near(warm.get("jain_sizes"), 1.0);
}
