//! Metrics computed from recordings, with the same code for every substrate.
//!
//! [`TABLE`] declares each metric once: its name, unit, meaning and function. [`metrics`] computes all of them. A
//! metric for which the recording has no data is absent; it is never replaced by 0.
//!
//! * *Flows of the test*: for each connection that is not background traffic, the direction that carried more payload.
//!   If no connection of a run carried payload, because each SYN was lost, each counts with its first direction.
//! * *Window*: from the end of the warm-up, counted from the start of the first of these flows, to the end of the
//!   last one, or to the end of the run when one of them was still open. Metrics from counters of the whole run
//!   (retransmissions, timeouts, drops, marks) include the warm-up, and their definitions state this. Latency
//!   distributions exclude the warm-up that was set for their collection.

mod context;
mod figures;
mod groups;
mod metric;
mod rates;
mod rounds;
mod stats;
mod table;
mod time;
mod timeouts;

pub(crate) use context::BACKGROUND;
pub use context::{MetricContext, MetricOptions};
pub use groups::{HostMetrics, TierMetrics};
pub use metric::{Direction, Metric};
pub use rates::{ByteKind, TimeWindow, finest, rates};
pub use rounds::{RttRound, rounds};
pub use stats::{Period, deviation, jain, longest_silence, mean, period, quantile, variation};
pub use table::TABLE;

use crate::recording::{Completion, CompletionKind, Device, LatencyKind, Recording};
use crate::serial;
use context::{quantile_of, ratio, seconds, slowdown, utilisation, whole};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use stats::sorted;
use std::collections::BTreeMap;
use tcpassay_units::Time;

/// All metrics of a recording.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Metrics {
    /// Start of the window.
    #[serde(rename = "from_ns", with = "serial::time")]
    pub from: Time,
    /// End of the window.
    #[serde(rename = "to_ns", with = "serial::time")]
    pub to: Time,
    /// In the order of [`TABLE`].
    pub values: MetricValues,
    /// One entry for each flow of the test.
    pub flows: Vec<FlowMetrics>,
    /// One entry for each class of completions.
    pub classes: Vec<ClassMetrics>,
    /// One entry for each device.
    pub devices: Vec<DeviceMetrics>,
    /// One entry for each tier of the network.
    pub tiers: Vec<TierMetrics>,
    /// One entry for each host that sends a flow of the test.
    pub hosts: Vec<HostMetrics>,
}

/// The values of [`TABLE`]; a JSON object in which absent values are null.
#[derive(Clone, PartialEq, Debug)]
pub struct MetricValues(pub Vec<(&'static str, Option<f64>)>);

impl MetricValues {
    /// The value of metric `name`; `None` when it is absent or unknown.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|(have, _)| *have == name).and_then(|(_, value)| *value)
    }
}

impl Serialize for MetricValues {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// Metrics of one flow.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FlowMetrics {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Its congestion control.
    pub cc: String,
    /// Received bytes with headers over the part of the window in which the flow was open, in bit/s.
    pub throughput: Option<f64>,
    /// Bytes that the application read over the same time, in bit/s.
    pub goodput: Option<f64>,
    /// Share of the flow in the bytes with headers of all flows of the test in the window.
    pub share: Option<f64>,
    /// Retransmission timeouts, in the whole run.
    pub timeouts: Option<u64>,
    /// Retransmitted packets, in the whole run.
    pub retransmissions: Option<u64>,
    /// Share of its packets that arrived with CE, in the whole run.
    pub ce_share: Option<f64>,
    /// Median of its round-trip times, in seconds.
    pub rtt_p50: Option<f64>,
    /// 99th percentile of its round-trip times, in seconds.
    pub rtt_p99: Option<f64>,
}

/// Durations of the flows or requests of one class.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ClassMetrics {
    /// The class, `rpc 10KB/100B`.
    pub class: String,
    /// The kind of completion.
    pub kind: CompletionKind,
    /// Number of completed ones.
    pub completed: usize,
    /// Number of failed ones.
    pub failed: usize,
    /// Mean time in seconds.
    pub mean: Option<f64>,
    /// Median time in seconds.
    pub p50: Option<f64>,
    /// 90th percentile of the time in seconds.
    pub p90: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// 99.9th percentile.
    pub p999: Option<f64>,
    /// Longest time in seconds.
    pub max: Option<f64>,
    /// Mean of the duration over the duration on an idle path.
    pub slowdown_mean: Option<f64>,
    /// 99th percentile of the same.
    pub slowdown_p99: Option<f64>,
}

/// Metrics of one device.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DeviceMetrics {
    /// Its name.
    pub name: String,
    /// Bits that left it in the window over the capacity of its rate.
    pub utilisation: Option<f64>,
    /// Packets it dropped, in the whole run.
    pub drops: u64,
    /// Packets it marked, in the whole run.
    pub marks: u64,
    /// Median waiting time in the device, in seconds.
    pub delay_p50: Option<f64>,
    /// 99th percentile of the waiting time, in seconds.
    pub delay_p99: Option<f64>,
}

/// The table as JSON: a list of `{name, unit, doc}`.
pub fn table_json() -> String {
    let row = |m: &Metric| serde_json::json!({ "name": m.name, "unit": m.unit, "doc": m.doc });
    serde_json::Value::Array(TABLE.iter().map(row).collect()).to_string()
}

/// Computes all metrics of a recording.
pub fn metrics(recording: &Recording, options: MetricOptions) -> Metrics {
    let context = MetricContext::new(recording, options);
    let finite = |value: Option<f64>| value.filter(|x| x.is_finite());
    Metrics {
        from: context.window.from,
        to: context.window.to,
        values: MetricValues(TABLE.iter().map(|m| (m.name, finite((m.of)(&context)))).collect()),
        flows: flow_metrics(&context),
        classes: class_metrics(recording, context.window),
        devices: recording.devices.iter().map(|d| device_metrics(&context, d)).collect(),
        tiers: groups::tiers(&context),
        hosts: groups::hosts(&context),
    }
}

fn flow_metrics(context: &MetricContext<'_>) -> Vec<FlowMetrics> {
    let recording = context.recording;
    let wires: Option<Vec<f64>> =
        context.flow_rows().map(|(place, flow)| context.bytes_of(place, flow, ByteKind::Wire)).collect();
    let all = wires.map(|all| all.iter().sum::<f64>());
    let rows = context.flow_rows().map(|(place, flow)| {
        let c = &flow.counters;
        FlowMetrics {
            name: flow.name.clone(),
            class: flow.class.clone(),
            cc: flow.cc.clone(),
            throughput: context.rate_of(place, flow, ByteKind::Wire),
            goodput: context.rate_of(place, flow, ByteKind::Read),
            share: ratio(context.bytes_of(place, flow, ByteKind::Wire), all),
            timeouts: flow.tcp.timeouts,
            retransmissions: (!c.unseen).then_some(c.retransmitted_packets),
            ce_share: ratio(Some(whole(c.ce_packets)), Some(whole(c.delivered_packets))),
            rtt_p50: quantile_of(recording, LatencyKind::Rtt, &flow.name, 0.5),
            rtt_p99: quantile_of(recording, LatencyKind::Rtt, &flow.name, 0.99),
        }
    });
    rows.collect()
}

fn class_metrics(recording: &Recording, window: TimeWindow) -> Vec<ClassMetrics> {
    let mut classes: BTreeMap<(&str, CompletionKind), Vec<&Completion>> = BTreeMap::new();
    for c in recording.completions.iter().filter(|c| c.start >= window.from) {
        classes.entry((&c.class, c.kind)).or_default().push(c);
    }
    let rows = classes.into_iter().map(|((class, kind), all)| {
        let ok = || all.iter().filter(|c| c.ok);
        let times = sorted(ok().map(|c| seconds(c)));
        let slowdowns = sorted(ok().filter_map(|c| slowdown(c)));
        ClassMetrics {
            class: class.to_owned(),
            kind,
            completed: times.len(),
            failed: all.len() - times.len(),
            mean: mean(&times),
            p50: quantile(&times, 0.5),
            p90: quantile(&times, 0.9),
            p99: quantile(&times, 0.99),
            p999: quantile(&times, 0.999),
            max: times.last().copied(),
            slowdown_mean: mean(&slowdowns),
            slowdown_p99: quantile(&slowdowns, 0.99),
        }
    });
    rows.collect()
}

fn device_metrics(context: &MetricContext<'_>, device: &Device) -> DeviceMetrics {
    let recording = context.recording;
    DeviceMetrics {
        name: device.name.clone(),
        utilisation: utilisation(context, device),
        drops: device.counters.drops,
        marks: device.counters.marks,
        delay_p50: quantile_of(recording, LatencyKind::QueueDelay, &device.name, 0.5),
        delay_p99: quantile_of(recording, LatencyKind::QueueDelay, &device.name, 0.99),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_as_json_has_a_row_a_metric() {
        let rows: Vec<serde_json::Value> = serde_json::from_str(&table_json()).expect("its own text");
        assert_eq!(rows.len(), TABLE.len());
        assert_eq!(rows[0]["name"], "throughput");
        assert_eq!(rows[0]["unit"], "bit/s");
    }
}
