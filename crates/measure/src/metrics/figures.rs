//! The functions that compute the metrics of the table.

use super::context::{MetricContext, open_window, ratio, seconds, utilisation, whole};
use super::groups;
use super::rates::ByteKind;
use super::stats::sorted;
use super::stats::{count, longest_silence, mean, period, quantile};
use crate::recording::{CompletionKind, Device, LatencyKind};
use std::collections::BTreeMap;
use tcpassay_units::Dur;

pub(super) fn mean_deviation(c: &MetricContext<'_>, interval: Dur) -> Option<f64> {
    mean(&c.spreads(interval).1.iter().map(|spread| spread.deviation).collect::<Vec<_>>())
}

pub(super) fn mean_variation(c: &MetricContext<'_>, interval: Dur) -> Option<f64> {
    mean(&c.spreads(interval).1.iter().filter_map(|spread| spread.variation()).collect::<Vec<_>>())
}

/// The devices of a tier.
fn of_tier<'a>(c: &MetricContext<'a>, tier: &str) -> Vec<&'a Device> {
    c.recording.devices.iter().filter(|device| groups::tier(device) == tier).collect()
}

pub(super) fn tier_utilisation(c: &MetricContext<'_>, tier: &str) -> Option<f64> {
    mean(&of_tier(c, tier).into_iter().filter_map(|device| utilisation(c, device)).collect::<Vec<_>>())
}

pub(super) fn tier_drops(c: &MetricContext<'_>, tier: &str) -> Option<f64> {
    let devices = of_tier(c, tier);
    (!devices.is_empty()).then(|| whole(devices.iter().map(|device| device.counters.drops).sum()))
}

pub(super) fn timeout_quantile(c: &MetricContext<'_>, q: f64) -> Option<f64> {
    quantile(c.timeouts()?, q)
}

/// Shares of bytes read by sending host, in ascending order; `None` with one host.
pub(super) fn host_shares(c: &MetricContext<'_>) -> Option<Vec<f64>> {
    let hosts = groups::read_by_host(c);
    let all: f64 = hosts.values().map(|(_, bytes)| bytes).sum();
    (hosts.len() > 1 && all > 0.0).then(|| sorted(hosts.values().map(|(_, bytes)| bytes / all)))
}

pub(super) fn at(c: &MetricContext<'_>, kind: LatencyKind, q: f64) -> Option<f64> {
    c.latency(kind)?.quantile(q).map(Dur::as_secs_f64)
}

/// How many values a distribution has.
pub(super) fn samples(c: &MetricContext<'_>, kind: LatencyKind) -> Option<f64> {
    c.latency(kind).map(|values| whole(values.count()))
}

pub(super) fn any(values: &[f64]) -> Option<&[f64]> {
    (!values.is_empty()).then_some(values)
}

pub(super) fn longest_silence_of(c: &MetricContext<'_>) -> Option<f64> {
    let interval = c.fine_interval()?;
    Some((interval * longest_silence(c.fine_rates()?) as u64).as_secs_f64())
}

pub(super) fn oscillation(c: &MetricContext<'_>) -> Option<(f64, f64)> {
    let interval = c.fine_interval()?;
    let found = period(c.fine_rates()?)?;
    Some(((interval * found.lag as u64).as_secs_f64(), found.strength))
}

pub(super) fn failures(c: &MetricContext<'_>) -> Option<f64> {
    (!c.ended.is_empty()).then(|| count(c.ended.iter().filter(|x| !x.ok).count()))
}

pub(super) fn rounds_of(c: &MetricContext<'_>) -> Vec<f64> {
    let rounds = c.recording.completions.iter().filter(|x| x.ok && x.kind == CompletionKind::Round);
    sorted(rounds.filter(|x| x.start >= c.window.from).map(seconds))
}

pub(super) fn goodputs_by_host(c: &MetricContext<'_>) -> Vec<f64> {
    let mut hosts: BTreeMap<u32, f64> = BTreeMap::new();
    for ((_, flow), goodput) in c.flow_rows().zip(c.goodputs()) {
        *hosts.entry(flow.from).or_default() += goodput;
    }
    hosts.into_values().collect()
}

/// Shares of bytes read in the window by flow, in ascending order; `None` with one flow.
pub(super) fn shares(c: &MetricContext<'_>) -> Option<Vec<f64>> {
    let read: Vec<f64> =
        c.flow_rows().map(|(place, flow)| c.bytes_of(place, flow, ByteKind::Read).unwrap_or(0.0)).collect();
    let all: f64 = read.iter().sum();
    (read.len() > 1 && all > 0.0).then(|| sorted(read.iter().map(|bytes| bytes / all)))
}

/// Sum of a counter over all devices, and of the counter `name` of all other entities.
pub(super) fn in_network(
    c: &MetricContext<'_>,
    name: &str,
    get: impl Fn(&crate::Device) -> u64,
) -> Option<f64> {
    let devices = &c.recording.devices;
    let others: u64 = c.recording.counters.values().filter_map(|counters| counters.get(name)).sum();
    (!devices.is_empty()).then(|| whole(devices.iter().map(get).sum::<u64>() + others))
}

pub(super) fn lost(c: &MetricContext<'_>) -> Option<f64> {
    Some(in_network(c, "drops", |d| d.counters.drops)? - in_network(c, "drops.thinned", |_| 0)?)
}

/// Number of packets that hosts sent; `None` when packets were not counted.
pub(super) fn sent(c: &MetricContext<'_>) -> Option<f64> {
    let flows = &c.recording.flows;
    let datagrams = c.recording.counters.get("datagrams").and_then(|d| d.get("sent")).copied().unwrap_or(0);
    let packets: u64 = flows.iter().map(|f| f.counters.sent_packets + f.counters.acks_sent).sum();
    flows.iter().all(|f| !f.counters.unseen).then(|| whole(packets + datagrams))
}

/// For each flow of the test, the opposite direction: its sender is the receiver of the flow.
fn reverse<'a>(c: &MetricContext<'a>) -> impl Iterator<Item = &'a crate::Flow> {
    let ends: BTreeMap<u32, u32> = c.flow_rows().map(|(_, flow)| (flow.connection, flow.to)).collect();
    c.recording.flows.iter().filter(move |flow| ends.get(&flow.connection) == Some(&flow.from))
}

pub(super) fn acks_per_segment(c: &MetricContext<'_>) -> Option<f64> {
    let acks: u64 = reverse(c).map(|flow| flow.counters.acks_sent).sum();
    ratio(Some(whole(acks)).filter(|n| *n > 0.0), c.counted(|f| f.counters.delivered_packets))
}

pub(super) fn delayed_ack_timeouts(c: &MetricContext<'_>) -> Option<f64> {
    let said: Vec<u64> = reverse(c).filter_map(|flow| flow.tcp.delayed_ack_timeouts).collect();
    (!said.is_empty()).then(|| whole(said.iter().sum()))
}

pub(super) fn limited(c: &MetricContext<'_>, get: impl Fn(&crate::Flow) -> Option<u64>) -> Option<f64> {
    let open: f64 = c.flow_rows().filter_map(|(_, flow)| open_window(flow, c.whole).seconds()).sum();
    ratio(c.total(get).map(|ns| ns / 1e9), Some(open))
}

pub(super) fn queue_peak_mean(c: &MetricContext<'_>) -> Option<f64> {
    let series = c.recording.series.as_ref()?;
    let entity = series.entity(&c.bottleneck()?.name)?;
    let inside = |i: usize| {
        let at = entity.time(series.interval, i);
        at >= c.window.from && at < c.window.to
    };
    let column = entity.column("max_backlog_bytes")?.iter().enumerate();
    let peaks: Vec<f64> = column.filter(|(i, n)| inside(*i) && !n.is_nan()).map(|(_, n)| *n).collect();
    mean(&peaks)
}
