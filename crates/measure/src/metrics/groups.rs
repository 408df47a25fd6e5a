//! Metrics by host and by tier of the network.

use super::context::{MetricContext, ratio, utilisation};
use super::rates::ByteKind;
use super::stats::mean;
use crate::recording::Device;
use serde::Serialize;
use std::collections::BTreeMap;

/// Metrics of the flows of the test that one host sent.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct HostMetrics {
    /// Its name.
    pub name: String,
    /// Number of flows of the test that it sent.
    pub flows: usize,
    /// Bytes that the receiving applications of these flows read over the window, in bit/s.
    pub goodput: Option<f64>,
    /// Share of the host in the bytes read of all flows of the test in the window.
    pub share: Option<f64>,
}

/// Metrics of the links of one tier in one direction.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TierMetrics {
    /// `access`, `uplink`, `bottleneck`, or `link` for a link of a topology file; `.back` marks the direction of
    /// ACKs.
    pub tier: String,
    /// Number of devices.
    pub devices: usize,
    /// Mean utilisation in the window.
    pub utilisation_mean: Option<f64>,
    /// Largest utilisation in the window.
    pub utilisation_max: Option<f64>,
    /// Packets that the devices dropped, in the whole run.
    pub drops: u64,
    /// Packets that the devices marked, in the whole run.
    pub marks: u64,
}

/// The tier of a device, derived from the name of its link.
pub(super) fn tier(device: &Device) -> String {
    let link = device.name.split_once('.').map_or(device.name.as_str(), |(_, link)| link);
    let (link, back) = link.strip_suffix(".back").map_or((link, ""), |link| (link, ".back"));
    let group = ["access", "uplink", "bottleneck"]
        .into_iter()
        .find(|group| link.strip_prefix(group).is_some_and(|rest| rest.is_empty() || rest.starts_with('-')));
    format!("{}{back}", group.unwrap_or("link"))
}

pub(super) fn tiers(c: &MetricContext<'_>) -> Vec<TierMetrics> {
    let mut tiers: BTreeMap<String, Vec<&Device>> = BTreeMap::new();
    for device in &c.recording.devices {
        tiers.entry(tier(device)).or_default().push(device);
    }
    let rows = tiers.into_iter().map(|(tier, devices)| {
        let busy: Vec<f64> = devices.iter().filter_map(|device| utilisation(c, device)).collect();
        TierMetrics {
            tier,
            devices: devices.len(),
            utilisation_mean: mean(&busy),
            utilisation_max: busy.iter().copied().reduce(f64::max),
            drops: devices.iter().map(|d| d.counters.drops).sum(),
            marks: devices.iter().map(|d| d.counters.marks).sum(),
        }
    });
    rows.collect()
}

/// Number of flows, and bytes read of the flows of the test in the window, by sending host.
pub(super) fn read_by_host(c: &MetricContext<'_>) -> BTreeMap<u32, (usize, f64)> {
    let mut hosts: BTreeMap<u32, (usize, f64)> = BTreeMap::new();
    for (place, flow) in c.flow_rows() {
        let host = hosts.entry(flow.from).or_default();
        host.0 += 1;
        host.1 += c.bytes_of(place, flow, ByteKind::Read).unwrap_or(0.0);
    }
    hosts
}

pub(super) fn hosts(c: &MetricContext<'_>) -> Vec<HostMetrics> {
    let hosts = read_by_host(c);
    let all: f64 = hosts.values().map(|(_, bytes)| bytes).sum();
    let seconds = c.warm(ByteKind::Read).map_or_else(|| c.whole.seconds(), |(_, seconds)| Some(*seconds));
    let rows = hosts.into_iter().map(|(host, (flows, bytes))| HostMetrics {
        name: c.recording.hosts.get(host as usize).cloned().unwrap_or_default(),
        flows,
        goodput: seconds.map(|seconds| bytes * 8.0 / seconds),
        share: ratio(Some(bytes), Some(all)),
    });
    rows.collect()
}
