//! The table of all metrics.

use super::context::{ratio, utilisation, whole};
use super::figures::{
    acks_per_segment, any, at, delayed_ack_timeouts, failures, goodputs_by_host, host_shares, in_network,
    limited, longest_silence_of, lost, mean_deviation, mean_variation, oscillation, queue_peak_mean,
    rounds_of, samples, sent, shares, tier_drops, tier_utilisation, timeout_quantile,
};
use super::metric::{Metric, higher, lower, neither};
use super::rates::ByteKind;
use super::stats::{count, jain, mean, quantile};
use super::time;
use crate::recording::LatencyKind;
use tcpassay_states::SendLimit;
use tcpassay_units::Dur;

const SECOND: Dur = Dur::from_secs(1);
const TEN_MS: Dur = Dur::from_millis(10);
const MS: Dur = Dur::from_millis(1);
const US: Dur = Dur::from_micros(1);

/// All metrics, in the order of tables.
pub static TABLE: &[Metric] = &[
    higher(
        "throughput",
        "bit/s",
        "Bytes with headers that reached the receivers of the flows of the test, over the window",
        |c| c.carried(ByteKind::Wire, c.counted(|f| f.counters.delivered_wire_bytes)),
    ),
    higher(
        "goodput",
        "bit/s",
        "Bytes that the receiving applications of the flows of the test read, over the window",
        |c| c.carried(ByteKind::Read, c.read()),
    ),
    higher(
        "saturation",
        "1",
        "Bytes that left the bottleneck in the window, divided by those that its rate allowed in it: rate times time, or its integral if it varies (`steps:`, `trace:`; unused opportunities of a trace count); if parameters without an address apply to several links, as in racks, the bottleneck is the busiest of them",
        |c| utilisation(c, c.bottleneck()?),
    ),
    lower(
        "throughput_sd_1s",
        "bit/s",
        "Standard deviation of the throughput of all flows of the test together, in whole intervals of 1 s of the window",
        |c| Some(c.spreads(SECOND).0?.deviation),
    ),
    lower(
        "throughput_cv_1s",
        "1",
        "Coefficient of variation of this throughput: standard deviation over mean, in intervals of 1 s",
        |c| c.spreads(SECOND).0?.variation(),
    ),
    lower(
        "throughput_sd_10ms",
        "bit/s",
        "Standard deviation of the throughput of all flows of the test together, in whole intervals of 10 ms of the window",
        |c| Some(c.spreads(TEN_MS).0?.deviation),
    ),
    lower(
        "throughput_cv_10ms",
        "1",
        "Coefficient of variation of this throughput: standard deviation over mean, in intervals of 10 ms",
        |c| c.spreads(TEN_MS).0?.variation(),
    ),
    lower(
        "throughput_sd_1ms",
        "bit/s",
        "Standard deviation of the throughput of all flows of the test together, in whole intervals of 1 ms of the window",
        |c| Some(c.spreads(MS).0?.deviation),
    ),
    lower(
        "throughput_cv_1ms",
        "1",
        "Coefficient of variation of this throughput: standard deviation over mean, in intervals of 1 ms",
        |c| c.spreads(MS).0?.variation(),
    ),
    lower(
        "throughput_sd_1us",
        "bit/s",
        "Standard deviation of the throughput of all flows of the test together, in whole intervals of 1 us of the window; requires the log of deliveries",
        |c| Some(c.spreads(US).0?.deviation),
    ),
    lower(
        "throughput_cv_1us",
        "1",
        "Coefficient of variation of this throughput: standard deviation over mean, in intervals of 1 us",
        |c| c.spreads(US).0?.variation(),
    ),
    lower(
        "flow_throughput_sd_1s",
        "bit/s",
        "Mean over the flows of the test of the standard deviation of each one's throughput, in whole intervals of 1 s of the window in which it was open",
        |c| mean_deviation(c, SECOND),
    ),
    lower(
        "flow_throughput_cv_1s",
        "1",
        "Mean over the flows of the test that carried data of the coefficient of variation of each one's throughput, in intervals of 1 s",
        |c| mean_variation(c, SECOND),
    ),
    lower(
        "flow_throughput_sd_10ms",
        "bit/s",
        "Mean over the flows of the test of the standard deviation of each one's throughput, in whole intervals of 10 ms of the window in which it was open",
        |c| mean_deviation(c, TEN_MS),
    ),
    lower(
        "flow_throughput_cv_10ms",
        "1",
        "Mean over the flows of the test that carried data of the coefficient of variation of each one's throughput, in intervals of 10 ms",
        |c| mean_variation(c, TEN_MS),
    ),
    lower(
        "flow_throughput_sd_1ms",
        "bit/s",
        "Mean over the flows of the test of the standard deviation of each one's throughput, in whole intervals of 1 ms of the window in which it was open",
        |c| mean_deviation(c, MS),
    ),
    lower(
        "flow_throughput_cv_1ms",
        "1",
        "Mean over the flows of the test that carried data of the coefficient of variation of each one's throughput, in intervals of 1 ms",
        |c| mean_variation(c, MS),
    ),
    lower(
        "flow_throughput_sd_1us",
        "bit/s",
        "Mean over the flows of the test of the standard deviation of each one's throughput, in whole intervals of 1 us of the window in which it was open; requires the log of deliveries",
        |c| mean_deviation(c, US),
    ),
    lower(
        "flow_throughput_cv_1us",
        "1",
        "Mean over the flows of the test that carried data of the coefficient of variation of each one's throughput, in intervals of 1 us",
        |c| mean_variation(c, US),
    ),
    lower(
        "longest_silence",
        "s",
        "Longest time in which all flows of the test received no data, in whole intervals of the finest series",
        longest_silence_of,
    ),
    neither(
        "oscillation_period",
        "s",
        "Shortest period of the throughput; absent if its autocorrelation is not significant",
        |c| Some(oscillation(c)?.0),
    ),
    neither(
        "oscillation_strength",
        "1",
        "Autocorrelation of the throughput at this period; 1 is an exact repetition",
        |c| Some(oscillation(c)?.1),
    ),
    lower(
        "one_way_mean",
        "s",
        "Mean of the one-way delay of packets with payload of the test, from the sender's stack to the receiving host, in the window",
        |c| c.latency(LatencyKind::OneWay)?.mean_ns().map(|ns| ns / 1e9),
    ),
    lower(
        "one_way_p50",
        "s",
        "Median of the one-way delay of packets with payload of the test, from the sender's stack to the receiving host, in the window",
        |c| at(c, LatencyKind::OneWay, 0.5),
    ),
    lower(
        "one_way_p90",
        "s",
        "90th percentile of the one-way delay of packets with payload of the test, from the sender's stack to the receiving host, in the window",
        |c| at(c, LatencyKind::OneWay, 0.9),
    ),
    lower(
        "one_way_p99",
        "s",
        "99th percentile of the one-way delay of packets with payload of the test, from the sender's stack to the receiving host, in the window",
        |c| at(c, LatencyKind::OneWay, 0.99),
    ),
    lower(
        "one_way_p999",
        "s",
        "99.9th percentile of the one-way delay of packets with payload of the test, from the sender's stack to the receiving host, in the window",
        |c| at(c, LatencyKind::OneWay, 0.999),
    ),
    lower(
        "one_way_max",
        "s",
        "Maximum of the one-way delay of packets with payload of the test, from the sender's stack to the receiving host, in the window",
        |c| c.latency(LatencyKind::OneWay)?.max().map(Dur::as_secs_f64),
    ),
    lower(
        "rtt_mean",
        "s",
        "Mean of the senders' round-trip time samples, of both directions of the connections of the test, in the window",
        |c| c.latency(LatencyKind::Rtt)?.mean_ns().map(|ns| ns / 1e9),
    ),
    lower(
        "rtt_p50",
        "s",
        "Median of the senders' round-trip time samples, of both directions of the connections of the test, in the window",
        |c| at(c, LatencyKind::Rtt, 0.5),
    ),
    lower(
        "rtt_p90",
        "s",
        "90th percentile of the senders' round-trip time samples, of both directions of the connections of the test, in the window",
        |c| at(c, LatencyKind::Rtt, 0.9),
    ),
    lower(
        "rtt_p99",
        "s",
        "99th percentile of the senders' round-trip time samples, of both directions of the connections of the test, in the window; a sample includes the time for which the receiver delayed the ACK, which queue_delay_p99 does not",
        |c| at(c, LatencyKind::Rtt, 0.99),
    ),
    lower(
        "rtt_p999",
        "s",
        "99.9th percentile of the senders' round-trip time samples, of both directions of the connections of the test, in the window",
        |c| at(c, LatencyKind::Rtt, 0.999),
    ),
    lower(
        "rtt_max",
        "s",
        "Maximum of the senders' round-trip time samples, of both directions of the connections of the test, in the window",
        |c| c.latency(LatencyKind::Rtt)?.max().map(Dur::as_secs_f64),
    ),
    lower(
        "queue_delay_mean",
        "s",
        "Mean of the waiting time of packets in the bottleneck, including background traffic, without their transmission, after the warm-up",
        |c| c.latency(LatencyKind::QueueDelay)?.mean_ns().map(|ns| ns / 1e9),
    ),
    lower(
        "queue_delay_p50",
        "s",
        "Median of the waiting time of packets in the bottleneck, including background traffic, without their transmission, after the warm-up",
        |c| at(c, LatencyKind::QueueDelay, 0.5),
    ),
    lower(
        "queue_delay_p90",
        "s",
        "90th percentile of the waiting time of packets in the bottleneck, including background traffic, without their transmission, after the warm-up",
        |c| at(c, LatencyKind::QueueDelay, 0.9),
    ),
    lower(
        "queue_delay_p99",
        "s",
        "99th percentile of the waiting time of packets in the bottleneck, including background traffic, without their transmission, after the warm-up",
        |c| at(c, LatencyKind::QueueDelay, 0.99),
    ),
    lower(
        "queue_delay_p999",
        "s",
        "99.9th percentile of the waiting time of packets in the bottleneck, including background traffic, without their transmission, after the warm-up",
        |c| at(c, LatencyKind::QueueDelay, 0.999),
    ),
    lower(
        "queue_delay_max",
        "s",
        "Maximum of the waiting time of packets in the bottleneck, including background traffic, without their transmission, after the warm-up",
        |c| c.latency(LatencyKind::QueueDelay)?.max().map(Dur::as_secs_f64),
    ),
    neither("rtt_samples", "samples", "Number of the round-trip time samples of rtt_p99", |c| {
        samples(c, LatencyKind::Rtt)
    }),
    neither("one_way_samples", "samples", "Number of the packets of one_way_p99", |c| {
        samples(c, LatencyKind::OneWay)
    }),
    neither("queue_delay_samples", "samples", "Number of the packets of queue_delay_p99", |c| {
        samples(c, LatencyKind::QueueDelay)
    }),
    neither(
        "rtt_min",
        "s",
        "Minimum of the senders' round-trip time samples, of both directions of the connections of the test, in the window",
        |c| c.latency(LatencyKind::Rtt)?.min().map(Dur::as_secs_f64),
    ),
    higher(
        "completions",
        "completions",
        "Flows and requests that began in the window and completed, without background",
        |c| any(&c.times).map(|t| count(t.len())),
    ),
    lower(
        "failures",
        "completions",
        "Flows and requests that began in the window and whose connection failed, without background",
        failures,
    ),
    lower(
        "completion_mean",
        "s",
        "Mean time from the arrival of a flow or request that began in the window to its end",
        |c| mean(&c.times),
    ),
    lower("completion_p50", "s", "Median of the completion time", |c| quantile(&c.times, 0.5)),
    lower("completion_p90", "s", "90th percentile of the completion time", |c| quantile(&c.times, 0.9)),
    lower("completion_p99", "s", "99th percentile of the completion time", |c| quantile(&c.times, 0.99)),
    lower("completion_p999", "s", "99.9th percentile of the completion time", |c| quantile(&c.times, 0.999)),
    lower("completion_max", "s", "Maximum of the completion time", |c| c.times.last().copied()),
    lower("completion_small_p50", "s", "Median of the time of flows and requests up to 100 KB", |c| {
        quantile(&c.times_of_size(0), 0.5)
    }),
    lower(
        "completion_small_p99",
        "s",
        "99th percentile of the time of flows and requests up to 100 KB",
        |c| quantile(&c.times_of_size(0), 0.99),
    ),
    lower(
        "completion_small_p999",
        "s",
        "99.9th percentile of the time of flows and requests up to 100 KB",
        |c| quantile(&c.times_of_size(0), 0.999),
    ),
    lower(
        "completion_medium_p50",
        "s",
        "Median of the time of flows and requests above 100 KB, up to 10 MB",
        |c| quantile(&c.times_of_size(1), 0.5),
    ),
    lower(
        "completion_medium_p99",
        "s",
        "99th percentile of the time of flows and requests above 100 KB, up to 10 MB",
        |c| quantile(&c.times_of_size(1), 0.99),
    ),
    lower(
        "completion_medium_p999",
        "s",
        "99.9th percentile of the time of flows and requests above 100 KB, up to 10 MB",
        |c| quantile(&c.times_of_size(1), 0.999),
    ),
    lower("completion_large_p50", "s", "Median of the time of flows and requests above 10 MB", |c| {
        quantile(&c.times_of_size(2), 0.5)
    }),
    lower(
        "completion_large_p99",
        "s",
        "99th percentile of the time of flows and requests above 10 MB",
        |c| quantile(&c.times_of_size(2), 0.99),
    ),
    lower(
        "completion_large_p999",
        "s",
        "99.9th percentile of the time of flows and requests above 10 MB",
        |c| quantile(&c.times_of_size(2), 0.999),
    ),
    lower("round_p50", "s", "Median time of a barrier round of incast", |c| quantile(&rounds_of(c), 0.5)),
    lower("round_p99", "s", "99th percentile of the time of a barrier round of incast", |c| {
        quantile(&rounds_of(c), 0.99)
    }),
    lower(
        "slowdown_mean",
        "1",
        "Mean of the time of a flow or request that began in the window over its time on an idle path",
        |c| mean(&c.slowdowns),
    ),
    lower("slowdown_p50", "1", "Median of the slowdown", |c| quantile(&c.slowdowns, 0.5)),
    lower("slowdown_p99", "1", "99th percentile of the slowdown", |c| quantile(&c.slowdowns, 0.99)),
    lower("slowdown_max", "1", "Maximum of the slowdown", |c| c.slowdowns.last().copied()),
    higher(
        "jain_flows",
        "1",
        "Jain's index of the goodput of the flows of the test in the window: 1 for equal shares, 1/n if one flow has everything",
        |c| jain(&c.goodputs()),
    ),
    higher(
        "jain_hosts",
        "1",
        "Jain's index over the sending hosts of the sum of the goodputs of their flows of the test in the window",
        |c| jain(&goodputs_by_host(c)),
    ),
    higher("jain_sizes", "1", "Jain's index over size classes of the mean inverse slowdown", |c| {
        jain(&c.speeds_by_size())
    }),
    lower(
        "share_max",
        "1",
        "Largest share that one flow of the test has of the bytes read in the window; absent with one flow",
        |c| shares(c)?.last().copied(),
    ),
    higher("share_min", "1", "Smallest share that one flow of the test has of these bytes", |c| {
        shares(c)?.first().copied()
    }),
    lower(
        "host_share_max",
        "1",
        "Largest share that one sending host has of the bytes read in the window of the flows of the test; absent with one host",
        |c| host_shares(c)?.last().copied(),
    ),
    higher("host_share_min", "1", "Smallest share that one sending host has of these bytes", |c| {
        host_shares(c)?.first().copied()
    }),
    lower(
        "lost",
        "packets",
        "Packets that the network dropped, in the whole run: full queues, active queue management, loss on links, policers, full NIC rings, checksum errors; thinned ACKs are excluded",
        lost,
    ),
    lower(
        "loss_rate",
        "1",
        "Packets that the network dropped, as in `lost`, over all packets that hosts sent: data, ACKs, background and datagrams, in the whole run",
        |c| ratio(lost(c), sent(c)),
    ),
    neither(
        "thinned",
        "packets",
        "Pure ACKs dropped by ACK thinning on the return path, in the whole run",
        |c| in_network(c, "drops.thinned", |_| 0),
    ),
    lower(
        "drops_access",
        "packets",
        "Packets dropped at access links in the direction of data, in the whole run",
        |c| tier_drops(c, "access"),
    ),
    lower(
        "drops_uplink",
        "packets",
        "Packets dropped at uplinks of racks in the direction of data, in the whole run",
        |c| tier_drops(c, "uplink"),
    ),
    lower("retransmissions", "packets", "Retransmitted packets, in the whole run", |c| {
        c.counted(|f| f.counters.retransmitted_packets)
    }),
    lower("retransmission_rate", "1", "Retransmitted payload over sent payload, in the whole run", |c| {
        ratio(c.counted(|f| f.counters.retransmitted_bytes), c.counted(|f| f.counters.sent_bytes))
    }),
    lower(
        "spurious_retransmissions",
        "packets",
        "Retransmissions that were proven unnecessary, in the whole run",
        |c| c.total(|f| f.tcp.spurious_retransmits),
    ),
    lower("timeouts", "timeouts", "Retransmission timeouts that fired, in the whole run", |c| {
        c.total(|f| f.tcp.timeouts)
    }),
    lower(
        "timeouts_per_second",
        "1/s",
        "Retransmission timeouts that fired, over the time from the start of the first flow to the end of the last, in the whole run",
        |c| ratio(c.total(|f| f.tcp.timeouts), c.whole.seconds()),
    ),
    lower(
        "timeout_time",
        "s",
        "Sum over the retransmission timeouts of the time since the sender last sent a segment or an ACK last acknowledged new data, in the whole run; requires the event log",
        |c| Some(c.timeouts()?.iter().fold(0.0, |sum, length| sum + length)),
    ),
    lower("timeout_mean", "s", "Mean of this time over the timeouts, in the whole run", |c| {
        mean(c.timeouts()?)
    }),
    lower("timeout_p50", "s", "Median of this time, in the whole run", |c| timeout_quantile(c, 0.5)),
    lower("timeout_p99", "s", "99th percentile of this time, in the whole run", |c| {
        timeout_quantile(c, 0.99)
    }),
    lower("timeout_max", "s", "Maximum of this time, in the whole run", |c| timeout_quantile(c, 1.0)),
    neither("recoveries", "recoveries", "Entries into fast recovery, in the whole run", |c| {
        c.total(|f| f.tcp.recoveries)
    }),
    neither("undos", "recoveries", "Recoveries and timeouts that were undone, in the whole run", |c| {
        c.total(|f| f.tcp.undos)
    }),
    neither("probes", "probes", "Tail loss probes, in the whole run", |c| c.total(|f| f.tcp.probes)),
    neither("clamps", "clamps", "Controller outputs that were clamped, in the whole run", |c| {
        c.total(|f| f.tcp.clamps)
    }),
    neither(
        "cwnd_mean",
        "B",
        "Mean congestion window over the senders of the test and the ends of the intervals of the series in the window; it depends on the interval",
        |c| c.mean_of("cwnd_bytes"),
    ),
    neither("ssthresh_mean", "B", "Mean slow-start threshold over the same, where one was set", |c| {
        c.mean_of("ssthresh_bytes")
    }),
    lower("srtt_mean", "s", "Mean smoothed round-trip time over the same", |c| {
        c.mean_of("srtt_ns").map(|ns| ns / 1e9)
    }),
    neither("rto_mean", "s", "Mean retransmission timeout over the same", |c| {
        c.mean_of("rto_ns").map(|ns| ns / 1e9)
    }),
    neither("alpha_mean", "1", "Mean of DCTCP's alpha over the same", |c| c.mean_of("alpha")),
    neither(
        "ce_share",
        "1",
        "Share of the packets of the test that arrived with CE, in the whole run",
        |c| ratio(c.counted(|f| f.counters.ce_packets), c.counted(|f| f.counters.delivered_packets)),
    ),
    neither("ece_acks", "packets", "ACKs with ECE that the senders received, in the whole run", |c| {
        c.total(|f| f.tcp.ece_acks)
    }),
    neither(
        "acks_per_segment",
        "1",
        "ACKs without payload that the receivers sent, over packets that they received, in the whole run",
        acks_per_segment,
    ),
    neither(
        "delayed_ack_timeouts",
        "timeouts",
        "ACKs that the receivers of the test sent because the delayed-ACK timer fired, in the whole run",
        delayed_ack_timeouts,
    ),
    neither("time_application", "1", time::APPLICATION, |c| time::share(c, SendLimit::Application)),
    neither("time_nagle", "1", time::NAGLE, |c| time::share(c, SendLimit::Nagle)),
    neither("time_send_buffer", "1", time::SEND_BUFFER, |c| time::share(c, SendLimit::SendBuffer)),
    neither("time_receive_window", "1", time::RECEIVE_WINDOW, |c| time::share(c, SendLimit::ReceiveWindow)),
    neither("time_congestion_window", "1", time::CONGESTION_WINDOW, |c| {
        time::share(c, SendLimit::CongestionWindow)
    }),
    neither("time_pacing", "1", time::PACING, |c| time::share(c, SendLimit::Pacing)),
    neither("time_host_queue", "1", time::HOST_QUEUE, |c| time::share(c, SendLimit::HostQueue)),
    neither("time_recovery", "1", time::RECOVERY, |c| time::share(c, SendLimit::Recovery)),
    neither("time_timers", "1", time::TIMERS, |c| time::share(c, SendLimit::Timers)),
    neither(
        "limited_cwnd",
        "1",
        "The earlier form of time_congestion_window, which also contains pacing, the host's queue and recovery; the next version does not have it",
        |c| limited(c, |f| f.tcp.cwnd_limited_ns),
    ),
    neither(
        "limited_rwnd",
        "1",
        "The earlier form of time_receive_window; the next version does not have it",
        |c| limited(c, |f| f.tcp.rwnd_limited_ns),
    ),
    neither(
        "limited_app",
        "1",
        "The earlier form of time_application, which also contains Nagle's algorithm and the send buffer; the next version does not have it",
        |c| limited(c, |f| f.tcp.app_limited_ns),
    ),
    neither("marks", "packets", "Packets that the network marked, CE or ECE, in the whole run", |c| {
        in_network(c, "marks", |d| d.counters.marks)
    }),
    neither(
        "mark_share",
        "1",
        "Share of marked packets among those that left the bottleneck, in the whole run",
        |c| ratio(Some(whole(c.bottleneck()?.counters.marks)), Some(whole(c.bottleneck()?.counters.packets))),
    ),
    lower("queue_max", "B", "Largest observed backlog of the bottleneck, in the whole run", |c| {
        Some(whole(c.bottleneck()?.counters.max_backlog_bytes)).filter(|n| *n > 0.0)
    }),
    lower(
        "queue_peak_mean",
        "B",
        "Mean over the intervals of the series in the window of the largest backlog of the bottleneck in each; it depends on the interval. On kernels the backlog is sampled at the ends of intervals",
        queue_peak_mean,
    ),
    neither(
        "utilisation_access",
        "1",
        "Mean utilisation of the access links in the direction of data, in the window",
        |c| tier_utilisation(c, "access"),
    ),
    neither(
        "utilisation_uplink",
        "1",
        "Mean utilisation of the uplinks of racks in the direction of data, in the window",
        |c| tier_utilisation(c, "uplink"),
    ),
    lower(
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
}
