//! Variation of throughput, oscillation, timeouts, limits and queues among the metrics, and a check that every metric has a literal test.

use crate::metrics::{all, assert_near, carried, run, series};
use crate::sample::{device, us};
use tcpassay_measure::metrics::{MetricOptions, TABLE, metrics};
use tcpassay_measure::reason::Timer;
use tcpassay_measure::{Delivery, EventKind, EventRow};
use tcpassay_units::{Dur, Rate};

#[test]
fn the_spread_of_a_second_and_of_a_millisecond_is_of_all_flows_together_and_of_each() {
    for (interval, suffix) in [(Dur::from_secs(1), "1s"), (Dur::from_millis(1), "1ms")] {
        let mut recording = run(interval * 4, vec![carried(0, 1_446_000), carried(1, 1_446_000)]);
        // Rates of 8 and 24 Mbit/s in turn, and of 16 Mbit/s.
        let bytes = |mbit: f64| mbit * 1e6 / 8.0 * interval.as_secs_f64();
        let (turns, steady) = ([8.0, 24.0, 8.0, 24.0].map(bytes), [16.0; 4].map(bytes));
        let rows = [("flow.0", "wire_bytes", &turns[..]), ("flow.1", "wire_bytes", &steady[..])];
        recording.series = Some(series(interval, &rows));
        let m = all(&recording).values;
        let got = |name: &str| m.get(name);
        // Together 24 and 40 Mbit/s: mean 32, deviation 8. Alone: deviations of 8 and 0, means of 16 and 16.
        if suffix == "1s" {
            assert_near(got("throughput_sd_1s"), 8e6);
            assert_near(got("throughput_cv_1s"), 0.25);
            assert_near(got("flow_throughput_sd_1s"), 4e6);
            assert_near(got("flow_throughput_cv_1s"), 0.25);
        } else {
            assert_near(got("throughput_sd_1ms"), 8e6);
            assert_near(got("throughput_cv_1ms"), 0.25);
            assert_near(got("flow_throughput_sd_1ms"), 4e6);
            assert_near(got("flow_throughput_cv_1ms"), 0.25);
        }
    }
}

#[test]
fn the_variation_of_flows_in_microseconds_is_the_mean_of_theirs() {
    let mut recording = run(Dur::from_micros(8), vec![carried(0, 1_446_000), carried(1, 1_446_000)]);
    let delivery = |(at, flow)| Delivery {
        at: us(at),
        flow,
        wire_bytes: 125,
        bytes: 100,
        one_way: Dur::ZERO,
        ce: false,
    };
    // Flow 0 in four of eight microseconds: variation 1. Flow 1 in two of eight: sqrt(0.25 * 0.75) / 0.25 = sqrt(3).
    recording.deliveries = [(0, 0), (2, 0), (3, 1), (4, 0), (6, 0), (6, 1)].map(delivery).to_vec();
    assert_near(all(&recording).values.get("flow_throughput_cv_1us"), 1.366_025_403_784_438_6);
}

#[test]
fn the_strength_of_an_oscillation_is_the_autocorrelation_at_its_period() {
    let mut recording = run(Dur::from_millis(120), vec![carried(0, 1_446_000)]);
    // 0 and 2 in turn, and 1 at the end. In units of 1/12 around the mean of 11/12: -11, 13 and 1, with squares of 131 in the mean. Two
    // intervals apart are five pairs of -11, four of 13 and one of 13 and 1: 1294 / 10.
    let mut bytes = [0.0, 2e6].repeat(6);
    bytes[11] = 1e6;
    recording.series = Some(series(Dur::from_millis(10), &[("flow.0", "wire_bytes", &bytes)]));
    let m = all(&recording).values;
    assert_near(m.get("oscillation_period"), 0.02);
    assert_near(m.get("oscillation_strength"), 129.4 / 131.0);
}

#[test]
fn the_99th_percentile_of_timeouts_is_not_the_longest() {
    let mut recording = run(Dur::from_secs(60), vec![carried(0, 1_446_000)]);
    let (mut at, mut events) = (0, Vec::new());
    for millis in 1..=200 {
        let sent = EventRow::new(us(at * 1000), 0, Some(0), EventKind::Retransmit);
        events.push(EventRow { len: Some(100), ..sent });
        at += millis;
        let fired = EventRow::new(us(at * 1000), 0, Some(0), EventKind::TimerFire);
        events.push(EventRow { why: Timer::Rto.name().into(), ..fired });
    }
    recording.events = events.into();
    let m = all(&recording).values;
    assert_near(m.get("timeout_p99"), 0.198);
    assert_near(m.get("timeout_max"), 0.2);
}

#[test]
fn each_limit_of_a_sender_has_its_share_of_the_time_of_all_senders() {
    let mut flows = vec![carried(0, 1_446_000), carried(1, 1_446_000)];
    flows[0].tcp.app_limited_ns = Some(500_000_000);
    flows[1].tcp.app_limited_ns = Some(300_000_000);
    flows[0].tcp.rwnd_limited_ns = Some(1_000_000_000);
    flows[1].tcp.cwnd_limited_ns = Some(100_000_000);
    let m = all(&run(Dur::from_secs(2), flows)).values;
    // Of 4 s.
    assert_near(m.get("limited_app"), 0.2);
    assert_near(m.get("limited_rwnd"), 0.25);
    assert_near(m.get("limited_cwnd"), 0.025);
}

#[test]
fn the_backlog_of_the_bottleneck_has_its_largest_value_and_the_mean_of_its_peaks() {
    let mut recording = run(Dur::from_millis(4), vec![carried(0, 1_446_000)]);
    let mut queue = device("queue.bottleneck", Rate::from_gbit(1));
    queue.counters.max_backlog_bytes = 50_000;
    recording.devices = vec![device("queue.other", Rate::from_gbit(1)), queue];
    recording.header.bottleneck = Some(1);
    let peaks = [10_000.0, f64::NAN, 50_000.0, 30_000.0];
    recording.series =
        Some(series(Dur::from_millis(1), &[("queue.bottleneck", "max_backlog_bytes", &peaks)]));
    let m = all(&recording).values;
    assert_near(m.get("queue_max"), 50_000.0);
    assert_near(m.get("queue_peak_mean"), 30_000.0);
    let warm = metrics(&recording, MetricOptions { warmup: Dur::from_millis(1) }).values;
    assert_near(warm.get("queue_peak_mean"), 40_000.0);
}

#[test]
fn retransmitted_bytes_marks_and_processor_time_are_shares_and_sums_of_the_whole_run() {
    let mut flows = vec![carried(0, 3_000_000), carried(1, 1_000_000)];
    flows[0].counters.retransmitted_bytes = 100_000;
    let mut recording = run(Dur::from_secs(2), flows);
    let mut queue = device("queue", Rate::from_gbit(1));
    queue.counters.marks = 40;
    recording.devices = vec![queue];
    recording.counters.entry("program".to_owned()).or_default().insert("marks".to_owned(), 2);
    for (host, nanos) in [("sender", 50_000_000), ("receiver", 30_000_000)] {
        recording.counters.entry(host.to_owned()).or_default().insert("cpu_ns".to_owned(), nanos);
    }
    let m = all(&recording).values;
    // 100 KB of 4 MB.
    assert_near(m.get("retransmission_rate"), 0.025);
    assert_near(m.get("marks"), 42.0);
    // 80 ms for 4 MB, which are 0.032 Gbit.
    assert_near(m.get("cpu_per_gbit"), 2.5);
}

/// Whether a text begins with a number, after closing brackets, commas, spaces and at most one string.
fn number_follows(text: &str) -> bool {
    let between = |c: char| c == ')' || c == ',' || c.is_whitespace();
    let rest = text.trim_start_matches(between);
    let rest = match rest.strip_prefix('"').and_then(|rest| rest.split_once('"')) {
        Some((_, rest)) => rest.trim_start_matches(between),
        None => rest,
    };
    rest.starts_with(|c: char| c.is_ascii_digit())
}

#[test]
fn every_metric_of_the_table_is_compared_with_a_number() {
    let tests =
        [include_str!("metrics.rs"), include_str!("metrics_ranks.rs"), include_str!("metrics_spread.rs")];
    let compared = |name: &str| {
        let quoted = format!("\"{name}\"");
        tests
            .iter()
            .any(|text| text.match_indices(&quoted).any(|(at, _)| number_follows(&text[at + quoted.len()..])))
    };
    let without: Vec<_> = TABLE.iter().map(|metric| metric.name).filter(|name| !compared(name)).collect();
    assert!(without.is_empty(), "{without:?}");
    assert!(!compared("no_such_metric"));
}

#[test]
fn a_name_without_a_number_behind_it_is_not_compared() {
    assert!(number_follows("), 8e6);") && number_follows(", \"alpha\", 20_000.0)"));
    assert!(!number_follows("), None);") && !number_follows(", \"a\", \"b\", 1.0)"));
}

#[test]
fn the_times_of_senders_are_shares_of_the_time_of_all_senders() {
    let mut flows = vec![carried(0, 1_446_000), carried(1, 1_446_000)];
    flows[0].tcp.limits.application = Some(500_000_000);
    flows[0].tcp.limits.send_buffer = Some(1_500_000_000);
    flows[1].tcp.limits.application = Some(0);
    flows[1].tcp.limits.nagle = Some(250_000_000);
    flows[1].tcp.limits.congestion_window = Some(1_000_000_000);
    flows[1].tcp.limits.pacing = Some(200_000_000);
    flows[1].tcp.limits.host_queue = Some(200_000_000);
    flows[1].tcp.limits.recovery = Some(100_000_000);
    flows[1].tcp.limits.timers = Some(250_000_000);
    let m = all(&run(Dur::from_secs(2), flows)).values;
    assert_near(m.get("time_application"), 0.125);
    assert_near(m.get("time_nagle"), 0.0625);
    assert_near(m.get("time_send_buffer"), 0.375);
    assert_near(m.get("time_congestion_window"), 0.25);
    assert_near(m.get("time_pacing"), 0.05);
    assert_near(m.get("time_host_queue"), 0.05);
    assert_near(m.get("time_recovery"), 0.025);
    assert_near(m.get("time_timers"), 0.0625);
    assert_eq!(m.get("time_receive_window"), None);
}

#[test]
fn a_kernel_tells_the_time_without_data_as_the_rest_and_no_time_of_the_congestion_window() {
    let mut flows = vec![carried(0, 1_446_000)];
    flows[0].tcp.limits.send_buffer = Some(0);
    flows[0].tcp.limits.receive_window = Some(1_000_000_000);
    flows[0].tcp.limits.congestion_window = Some(500_000_000);
    let m = all(&run(Dur::from_secs(2), flows)).values;
    assert_near(m.get("time_application"), 0.25);
    assert_near(m.get("time_receive_window"), 0.5);
    assert_eq!(m.get("time_congestion_window"), None);
}
