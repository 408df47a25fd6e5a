//! The table of all metrics.

use super::context::{MetricContext, ratio, utilisation, whole};
use super::figures::{
    acks_per_segment, any, at, delayed_ack_timeouts, failures, goodputs_by_host, host_shares, in_network,
    limited, longest_silence_of, lost, mean_deviation, mean_variation, oscillation, queue_peak_mean,
    rounds_of, sent, shares, tier_drops, tier_utilisation, timeout_quantile,
};
use super::rates::ByteKind;
use super::stats::{count, jain, mean, quantile};
use super::timeouts::timeout_lengths;
use crate::recording::LatencyKind;
use tcpassay_units::Dur;

/// One metric.
pub struct Metric {
    /// The name in plans, tables and JSON.
    pub name: &'static str,
    /// The unit: `s`, `bit/s`, `B`, `1` for a ratio, or the counted item.
    pub unit: &'static str,
    /// The exact definition.
    pub doc: &'static str,
    /// The function that computes the metric.
    pub(super) of: fn(&MetricContext<'_>) -> Option<f64>,
}

const SECOND: Dur = Dur::from_secs(1);
const TEN_MS: Dur = Dur::from_millis(10);
const MS: Dur = Dur::from_millis(1);
const US: Dur = Dur::from_micros(1);

/// The table as JSON: a list of `{name, unit, doc}`.
pub fn table_json() -> String {
    let row = |m: &Metric| serde_json::json!({ "name": m.name, "unit": m.unit, "doc": m.doc });
    serde_json::Value::Array(TABLE.iter().map(row).collect()).to_string()
}

const fn metric(
    name: &'static str,
    unit: &'static str,
    doc: &'static str,
    of: fn(&MetricContext<'_>) -> Option<f64>,
) -> Metric {
    Metric { name, unit, doc, of }
}

/// All metrics, in the order of tables.
pub static TABLE: &[Metric] = &[
    metric(
        "throughput",
        "bit/s",
        "Bytes with headers that reached the receivers of the flows of the test, over the window",
        |c| c.carried(ByteKind::Wire, c.counted(|f| f.counters.delivered_wire_bytes)),
    ),
    metric(
        "goodput",
        "bit/s",
        "Bytes that the receiving applications of the flows of the test read, over the window",
        |c| c.carried(ByteKind::Read, c.read()),
    ),
    metric(
        "saturation",
        "1",
        "Bytes that left the bottleneck in the window, divided by the capacity of its rate; if parameters without an address apply to several links, as in racks, the bottleneck is the busiest of them",
        |c| utilisation(c, c.bottleneck()?),
    ),
    metric(
        "throughput_sd_1s",
        "bit/s",
        "Standard deviation of the throughput of all flows of the test together, in whole intervals of 1 s of the window",
        |c| Some(c.spreads(SECOND).0?.deviation),
    ),
    metric(
        "throughput_cv_1s",
        "1",
        "Coefficient of variation of this throughput: standard deviation over mean, in intervals of 1 s",
        |c| c.spreads(SECOND).0?.variation(),
    ),
    metric(
        "throughput_sd_10ms",
        "bit/s",
        "Standard deviation of the throughput of all flows of the test together, in whole intervals of 10 ms of the window",
        |c| Some(c.spreads(TEN_MS).0?.deviation),
    ),
    metric(
        "throughput_cv_10ms",
        "1",
        "Coefficient of variation of this throughput: standard deviation over mean, in intervals of 10 ms",
        |c| c.spreads(TEN_MS).0?.variation(),
    ),
    metric(
        "throughput_sd_1ms",
        "bit/s",
        "Standard deviation of the throughput of all flows of the test together, in whole intervals of 1 ms of the window",
        |c| Some(c.spreads(MS).0?.deviation),
    ),
    metric(
        "throughput_cv_1ms",
        "1",
        "Coefficient of variation of this throughput: standard deviation over mean, in intervals of 1 ms",
        |c| c.spreads(MS).0?.variation(),
    ),
    metric(
        "throughput_sd_1us",
        "bit/s",
        "Standard deviation of the throughput of all flows of the test together, in whole intervals of 1 us of the window; requires the log of deliveries",
        |c| Some(c.spreads(US).0?.deviation),
    ),
    metric(
        "throughput_cv_1us",
        "1",
        "Coefficient of variation of this throughput: standard deviation over mean, in intervals of 1 us",
        |c| c.spreads(US).0?.variation(),
    ),
    metric(
        "flow_throughput_sd_1s",
        "bit/s",
        "Mean over the flows of the test of the standard deviation of each one's throughput, in whole intervals of 1 s of the window in which it was open",
        |c| mean_deviation(c, SECOND),
    ),
    metric(
        "flow_throughput_cv_1s",
        "1",
        "Mean over the flows of the test that carried data of the coefficient of variation of each one's throughput, in intervals of 1 s",
        |c| mean_variation(c, SECOND),
    ),
    metric(
        "flow_throughput_sd_10ms",
        "bit/s",
        "Mean over the flows of the test of the standard deviation of each one's throughput, in whole intervals of 10 ms of the window in which it was open",
        |c| mean_deviation(c, TEN_MS),
    ),
    metric(
        "flow_throughput_cv_10ms",
        "1",
        "Mean over the flows of the test that carried data of the coefficient of variation of each one's throughput, in intervals of 10 ms",
        |c| mean_variation(c, TEN_MS),
    ),
    metric(
        "flow_throughput_sd_1ms",
        "bit/s",
        "Mean over the flows of the test of the standard deviation of each one's throughput, in whole intervals of 1 ms of the window in which it was open",
        |c| mean_deviation(c, MS),
    ),
    metric(
        "flow_throughput_cv_1ms",
        "1",
        "Mean over the flows of the test that carried data of the coefficient of variation of each one's throughput, in intervals of 1 ms",
        |c| mean_variation(c, MS),
    ),
    metric(
        "flow_throughput_sd_1us",
        "bit/s",
        "Mean over the flows of the test of the standard deviation of each one's throughput, in whole intervals of 1 us of the window in which it was open; requires the log of deliveries",
        |c| mean_deviation(c, US),
    ),
    metric(
        "flow_throughput_cv_1us",
        "1",
        "Mean over the flows of the test that carried data of the coefficient of variation of each one's throughput, in intervals of 1 us",
        |c| mean_variation(c, US),
    ),
    metric(
        "longest_silence",
        "s",
        "Longest time in which all flows of the test received no data, in whole intervals of the finest series",
        longest_silence_of,
    ),
    metric(
        "oscillation_period",
        "s",
        "Shortest period of the throughput; absent if its autocorrelation is not significant",
        |c| Some(oscillation(c)?.0),
    ),
    metric(
        "oscillation_strength",
        "1",
        "Autocorrelation of the throughput at this period; 1 is an exact repetition",
        |c| Some(oscillation(c)?.1),
    ),
    metric(
        "one_way_mean",
        "s",
        "Mean of the one-way delay of packets with payload of the test, from the sender's stack to the receiving host, in the window",
        |c| c.latency(LatencyKind::OneWay)?.mean_ns().map(|ns| ns / 1e9),
    ),
    metric(
        "one_way_p50",
        "s",
        "Median of the one-way delay of packets with payload of the test, from the sender's stack to the receiving host, in the window",
        |c| at(c, LatencyKind::OneWay, 0.5),
    ),
    metric(
        "one_way_p90",
        "s",
        "90th percentile of the one-way delay of packets with payload of the test, from the sender's stack to the receiving host, in the window",
        |c| at(c, LatencyKind::OneWay, 0.9),
    ),
    metric(
        "one_way_p99",
        "s",
        "99th percentile of the one-way delay of packets with payload of the test, from the sender's stack to the receiving host, in the window",
        |c| at(c, LatencyKind::OneWay, 0.99),
    ),
    metric(
        "one_way_p999",
        "s",
        "99.9th percentile of the one-way delay of packets with payload of the test, from the sender's stack to the receiving host, in the window",
        |c| at(c, LatencyKind::OneWay, 0.999),
    ),
    metric(
        "one_way_max",
        "s",
        "Maximum of the one-way delay of packets with payload of the test, from the sender's stack to the receiving host, in the window",
        |c| c.latency(LatencyKind::OneWay)?.max().map(Dur::as_secs_f64),
    ),
    metric(
        "rtt_mean",
        "s",
        "Mean of the senders' round-trip time samples, of both directions of the connections of the test, in the window",
        |c| c.latency(LatencyKind::Rtt)?.mean_ns().map(|ns| ns / 1e9),
    ),
    metric(
        "rtt_p50",
        "s",
        "Median of the senders' round-trip time samples, of both directions of the connections of the test, in the window",
        |c| at(c, LatencyKind::Rtt, 0.5),
    ),
    metric(
        "rtt_p90",
        "s",
        "90th percentile of the senders' round-trip time samples, of both directions of the connections of the test, in the window",
        |c| at(c, LatencyKind::Rtt, 0.9),
    ),
    metric(
        "rtt_p99",
        "s",
        "99th percentile of the senders' round-trip time samples, of both directions of the connections of the test, in the window",
        |c| at(c, LatencyKind::Rtt, 0.99),
    ),
    metric(
        "rtt_p999",
        "s",
        "99.9th percentile of the senders' round-trip time samples, of both directions of the connections of the test, in the window",
        |c| at(c, LatencyKind::Rtt, 0.999),
    ),
    metric(
        "rtt_max",
        "s",
        "Maximum of the senders' round-trip time samples, of both directions of the connections of the test, in the window",
        |c| c.latency(LatencyKind::Rtt)?.max().map(Dur::as_secs_f64),
    ),
    metric(
        "queue_delay_mean",
        "s",
        "Mean of the waiting time of packets in the bottleneck, including background traffic, without their transmission, after the warm-up",
        |c| c.latency(LatencyKind::QueueDelay)?.mean_ns().map(|ns| ns / 1e9),
    ),
    metric(
        "queue_delay_p50",
        "s",
        "Median of the waiting time of packets in the bottleneck, including background traffic, without their transmission, after the warm-up",
        |c| at(c, LatencyKind::QueueDelay, 0.5),
    ),
    metric(
        "queue_delay_p90",
        "s",
        "90th percentile of the waiting time of packets in the bottleneck, including background traffic, without their transmission, after the warm-up",
        |c| at(c, LatencyKind::QueueDelay, 0.9),
    ),
    metric(
        "queue_delay_p99",
        "s",
        "99th percentile of the waiting time of packets in the bottleneck, including background traffic, without their transmission, after the warm-up",
        |c| at(c, LatencyKind::QueueDelay, 0.99),
    ),
    metric(
        "queue_delay_p999",
        "s",
        "99.9th percentile of the waiting time of packets in the bottleneck, including background traffic, without their transmission, after the warm-up",
        |c| at(c, LatencyKind::QueueDelay, 0.999),
    ),
    metric(
        "queue_delay_max",
        "s",
        "Maximum of the waiting time of packets in the bottleneck, including background traffic, without their transmission, after the warm-up",
        |c| c.latency(LatencyKind::QueueDelay)?.max().map(Dur::as_secs_f64),
    ),
    metric(
        "rtt_min",
        "s",
        "Minimum of the senders' round-trip time samples, of both directions of the connections of the test, in the window",
        |c| c.latency(LatencyKind::Rtt)?.min().map(Dur::as_secs_f64),
    ),
    metric(
        "completions",
        "completions",
        "Flows and requests that began in the window and completed, without background",
        |c| any(&c.times).map(|t| count(t.len())),
    ),
    metric(
        "failures",
        "completions",
        "Flows and requests that began in the window and whose connection failed, without background",
        failures,
    ),
    metric(
        "completion_mean",
        "s",
        "Mean time from the arrival of a flow or request that began in the window to its end",
        |c| mean(&c.times),
    ),
    metric("completion_p50", "s", "Median of the completion time", |c| quantile(&c.times, 0.5)),
    metric("completion_p90", "s", "90th percentile of the completion time", |c| quantile(&c.times, 0.9)),
    metric("completion_p99", "s", "99th percentile of the completion time", |c| quantile(&c.times, 0.99)),
    metric("completion_p999", "s", "99.9th percentile of the completion time", |c| quantile(&c.times, 0.999)),
    metric("completion_max", "s", "Maximum of the completion time", |c| c.times.last().copied()),
    metric("completion_small_p50", "s", "Median of the time of flows and requests up to 100 KB", |c| {
        quantile(&c.times_of_size(0), 0.5)
    }),
    metric(
        "completion_small_p99",
        "s",
        "99th percentile of the time of flows and requests up to 100 KB",
        |c| quantile(&c.times_of_size(0), 0.99),
    ),
    metric(
        "completion_small_p999",
        "s",
        "99.9th percentile of the time of flows and requests up to 100 KB",
        |c| quantile(&c.times_of_size(0), 0.999),
    ),
    metric(
        "completion_medium_p50",
        "s",
        "Median of the time of flows and requests above 100 KB, up to 10 MB",
        |c| quantile(&c.times_of_size(1), 0.5),
    ),
    metric(
        "completion_medium_p99",
        "s",
        "99th percentile of the time of flows and requests above 100 KB, up to 10 MB",
        |c| quantile(&c.times_of_size(1), 0.99),
    ),
    metric(
        "completion_medium_p999",
        "s",
        "99.9th percentile of the time of flows and requests above 100 KB, up to 10 MB",
        |c| quantile(&c.times_of_size(1), 0.999),
    ),
    metric("completion_large_p50", "s", "Median of the time of flows and requests above 10 MB", |c| {
        quantile(&c.times_of_size(2), 0.5)
    }),
    metric(
        "completion_large_p99",
        "s",
        "99th percentile of the time of flows and requests above 10 MB",
        |c| quantile(&c.times_of_size(2), 0.99),
    ),
    metric(
        "completion_large_p999",
        "s",
        "99.9th percentile of the time of flows and requests above 10 MB",
        |c| quantile(&c.times_of_size(2), 0.999),
    ),
    metric("round_p50", "s", "Median time of a barrier round of incast", |c| quantile(&rounds_of(c), 0.5)),
    metric("round_p99", "s", "99th percentile of the time of a barrier round of incast", |c| {
        quantile(&rounds_of(c), 0.99)
    }),
    metric(
        "slowdown_mean",
        "1",
        "Mean of the time of a flow or request that began in the window over its time on an idle path",
        |c| mean(&c.slowdowns),
    ),
    metric("slowdown_p50", "1", "Median of the slowdown", |c| quantile(&c.slowdowns, 0.5)),
    metric("slowdown_p99", "1", "99th percentile of the slowdown", |c| quantile(&c.slowdowns, 0.99)),
    metric("slowdown_max", "1", "Maximum of the slowdown", |c| c.slowdowns.last().copied()),
    metric(
        "jain_flows",
        "1",
        "Jain's index of the goodput of the flows of the test in the window: 1 for equal shares, 1/n if one flow has everything",
        |c| jain(&c.goodputs()),
    ),
    metric(
        "jain_hosts",
        "1",
        "Jain's index over the sending hosts of the sum of the goodputs of their flows of the test in the window",
        |c| jain(&goodputs_by_host(c)),
    ),
    metric("jain_sizes", "1", "Jain's index over size classes of the mean inverse slowdown", |c| {
        jain(&c.speeds_by_size())
    }),
    metric(
        "share_max",
        "1",
        "Largest share that one flow of the test has of the bytes read in the window; absent with one flow",
        |c| shares(c)?.last().copied(),
    ),
    metric("share_min", "1", "Smallest share that one flow of the test has of these bytes", |c| {
        shares(c)?.first().copied()
    }),
    metric(
        "host_share_max",
        "1",
        "Largest share that one sending host has of the bytes read in the window of the flows of the test; absent with one host",
        |c| host_shares(c)?.last().copied(),
    ),
    metric("host_share_min", "1", "Smallest share that one sending host has of these bytes", |c| {
        host_shares(c)?.first().copied()
    }),
    metric(
        "lost",
        "packets",
        "Packets that the network dropped, in the whole run: full queues, active queue management, loss on links, policers, full NIC rings, checksum errors; thinned ACKs are excluded",
        lost,
    ),
    metric(
        "loss_rate",
        "1",
        "Packets that the network dropped, as in `lost`, over all packets that hosts sent: data, ACKs, background and datagrams, in the whole run",
        |c| ratio(lost(c), sent(c)),
    ),
    metric(
        "thinned",
        "packets",
        "Pure ACKs dropped by ACK thinning on the return path, in the whole run",
        |c| in_network(c, "drops.thinned", |_| 0),
    ),
    metric(
        "drops_access",
        "packets",
        "Packets dropped at access links in the direction of data, in the whole run",
        |c| tier_drops(c, "access"),
    ),
    metric(
        "drops_uplink",
        "packets",
        "Packets dropped at uplinks of racks in the direction of data, in the whole run",
        |c| tier_drops(c, "uplink"),
    ),
    metric("retransmissions", "packets", "Retransmitted packets, in the whole run", |c| {
        c.counted(|f| f.counters.retransmitted_packets)
    }),
    metric("retransmission_rate", "1", "Retransmitted payload over sent payload, in the whole run", |c| {
        ratio(c.counted(|f| f.counters.retransmitted_bytes), c.counted(|f| f.counters.sent_bytes))
    }),
    metric(
        "spurious_retransmissions",
        "packets",
        "Retransmissions that were proven unnecessary, in the whole run",
        |c| c.total(|f| f.tcp.spurious_retransmits),
    ),
    metric("timeouts", "timeouts", "Retransmission timeouts that fired, in the whole run", |c| {
        c.total(|f| f.tcp.timeouts)
    }),
    metric(
        "timeouts_per_second",
        "1/s",
        "Retransmission timeouts that fired, over the time from the start of the first flow to the end of the last, in the whole run",
        |c| ratio(c.total(|f| f.tcp.timeouts), c.whole.seconds()),
    ),
    metric(
        "timeout_time",
        "s",
        "Sum over the retransmission timeouts of the time since the sender last sent a segment or an ACK last acknowledged new data, in the whole run; requires the event log",
        |c| Some(timeout_lengths(c.recording, &c.flows)?.iter().fold(0.0, |sum, length| sum + length)),
    ),
    metric("timeout_mean", "s", "Mean of this time over the timeouts, in the whole run", |c| {
        mean(&timeout_lengths(c.recording, &c.flows)?)
    }),
    metric("timeout_p50", "s", "Median of this time, in the whole run", |c| timeout_quantile(c, 0.5)),
    metric("timeout_p99", "s", "99th percentile of this time, in the whole run", |c| {
        timeout_quantile(c, 0.99)
    }),
    metric("timeout_max", "s", "Maximum of this time, in the whole run", |c| timeout_quantile(c, 1.0)),
    metric("recoveries", "recoveries", "Entries into fast recovery, in the whole run", |c| {
        c.total(|f| f.tcp.recoveries)
    }),
    metric("undos", "recoveries", "Recoveries and timeouts that were undone, in the whole run", |c| {
        c.total(|f| f.tcp.undos)
    }),
    metric("probes", "probes", "Tail loss probes, in the whole run", |c| c.total(|f| f.tcp.probes)),
    metric("clamps", "clamps", "Controller outputs that were clamped, in the whole run", |c| {
        c.total(|f| f.tcp.clamps)
    }),
    metric(
        "cwnd_mean",
        "B",
        "Mean congestion window over the senders of the test and the ends of the intervals of the series in the window; it depends on the interval",
        |c| c.mean_of("cwnd_bytes"),
    ),
    metric("ssthresh_mean", "B", "Mean slow-start threshold over the same, where one was set", |c| {
        c.mean_of("ssthresh_bytes")
    }),
    metric("srtt_mean", "s", "Mean smoothed round-trip time over the same", |c| {
        c.mean_of("srtt_ns").map(|ns| ns / 1e9)
    }),
    metric("rto_mean", "s", "Mean retransmission timeout over the same", |c| {
        c.mean_of("rto_ns").map(|ns| ns / 1e9)
    }),
    metric("alpha_mean", "1", "Mean of DCTCP's alpha over the same", |c| c.mean_of("alpha")),
    metric("ce_share", "1", "Share of the packets of the test that arrived with CE, in the whole run", |c| {
        ratio(c.counted(|f| f.counters.ce_packets), c.counted(|f| f.counters.delivered_packets))
    }),
    metric("ece_acks", "packets", "ACKs with ECE that the senders received, in the whole run", |c| {
        c.total(|f| f.tcp.ece_acks)
    }),
    metric(
        "acks_per_segment",
        "1",
        "ACKs without payload that the receivers sent, over packets that they received, in the whole run",
        acks_per_segment,
    ),
    metric(
        "delayed_ack_timeouts",
        "timeouts",
        "ACKs that the receivers of the test sent because the delayed-ACK timer fired, in the whole run",
        delayed_ack_timeouts,
    ),
    metric(
        "limited_cwnd",
        "1",
        "Share of the time of all senders in which the congestion window limited them, in the whole run",
        |c| limited(c, |f| f.tcp.cwnd_limited_ns),
    ),
    metric(
        "limited_rwnd",
        "1",
        "Share of the time of all senders in which the receive window limited them, in the whole run",
        |c| limited(c, |f| f.tcp.rwnd_limited_ns),
    ),
    metric(
        "limited_app",
        "1",
        "Share of the time of all senders in which the application limited them, in the whole run",
        |c| limited(c, |f| f.tcp.app_limited_ns),
    ),
    metric("marks", "packets", "Packets that the network marked, CE or ECE, in the whole run", |c| {
        in_network(c, "marks", |d| d.counters.marks)
    }),
    metric(
        "mark_share",
        "1",
        "Share of marked packets among those that left the bottleneck, in the whole run",
        |c| ratio(Some(whole(c.bottleneck()?.counters.marks)), Some(whole(c.bottleneck()?.counters.packets))),
    ),
    metric("queue_max", "B", "Largest observed backlog of the bottleneck, in the whole run", |c| {
        Some(whole(c.bottleneck()?.counters.max_backlog_bytes)).filter(|n| *n > 0.0)
    }),
    metric(
        "queue_peak_mean",
        "B",
        "Mean over the intervals of the series in the window of the largest backlog of the bottleneck in each; it depends on the interval. On kernels the backlog is sampled at the ends of intervals",
        queue_peak_mean,
    ),
    metric(
        "utilisation_access",
        "1",
        "Mean utilisation of the access links in the direction of data, in the window",
        |c| tier_utilisation(c, "access"),
    ),
    metric(
        "utilisation_uplink",
        "1",
        "Mean utilisation of the uplinks of racks in the direction of data, in the window",
        |c| tier_utilisation(c, "uplink"),
    ),
    metric(
        "cpu_per_gbit",
        "s/Gbit",
        "CPU time of the hosts over what was read, in the whole run; absent where time is virtual",
        |c| ratio(c.cpu_seconds(), c.read().map(|n| n * 8.0 / 1e9)),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_metric_has_a_name_of_its_own_a_unit_and_a_meaning() {
        let names: BTreeSet<&str> = TABLE.iter().map(|m| m.name).collect();
        assert_eq!(names.len(), TABLE.len());
        for m in TABLE {
            assert!(
                m.name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'),
                "{}",
                m.name
            );
            assert!(!m.unit.is_empty() && m.doc.len() > 10, "{}", m.name);
        }
    }

    #[test]
    fn the_table_as_json_has_a_row_a_metric() {
        let rows: Vec<serde_json::Value> = serde_json::from_str(&table_json()).expect("its own text");
        assert_eq!(rows.len(), TABLE.len());
        assert_eq!(rows[0]["name"], "throughput");
        assert_eq!(rows[0]["unit"], "bit/s");
    }
}
