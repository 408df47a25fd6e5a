//! Throughput over time, for every interval that the recording supports.

use crate::recording::Recording;
use crate::series::{EntitySeries, Series};
use std::collections::{BTreeMap, BTreeSet};
use tcpassay_units::{Dur, Time};

/// The part of a run that metrics cover.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeWindow {
    /// Its start.
    pub from: Time,
    /// Its end.
    pub to: Time,
}

impl TimeWindow {
    /// Its length in seconds; `None` when it is empty.
    pub fn seconds(&self) -> Option<f64> {
        let len = self.to.since(self.from);
        (!len.is_zero()).then(|| len.as_secs_f64())
    }
}

/// The bytes that are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ByteKind {
    /// Bytes with headers that arrived at the receiving host, including duplicates.
    Wire,
    /// Payload bytes of the same packets.
    Payload,
    /// Bytes that the receiving application read.
    Read,
}

impl ByteKind {
    fn column(self) -> &'static str {
        match self {
            ByteKind::Wire => "wire_bytes",
            ByteKind::Payload => "payload_bytes",
            ByteKind::Read => "read_bytes",
        }
    }
}

/// Throughput of the sum of `flows` in bit/s in every whole interval of `window`. Intervals are counted from the
/// start of the run. The values come from the log of deliveries, or else from the series, whose interval must divide
/// this one. `None` when the recording has neither.
pub fn rates(
    recording: &Recording,
    flows: &BTreeSet<u32>,
    what: ByteKind,
    interval: Dur,
    window: TimeWindow,
) -> Option<Vec<f64>> {
    let ns = interval.as_nanos();
    let first = window.from.as_nanos().div_ceil(ns);
    let count = (window.to.as_nanos() / ns).checked_sub(first).filter(|n| *n > 0)?;
    let mut bytes = vec![0.0; usize::try_from(count).ok()?];
    let mut add = |at: u64, n: f64| {
        let place = (at / ns).checked_sub(first).and_then(|i| usize::try_from(i).ok());
        if let Some(place) = place.and_then(|i| bytes.get_mut(i)) {
            *place += n;
        }
    };
    if !recording.deliveries.is_empty() && what != ByteKind::Read {
        let wanted: Vec<bool> = (0u32..).zip(&recording.flows).map(|(f, _)| flows.contains(&f)).collect();
        let is_wanted = |flow: u32| wanted.get(flow as usize).copied().unwrap_or(false);
        for d in recording.deliveries.iter().filter(|d| is_wanted(d.flow)) {
            let n = if what == ByteKind::Wire { d.wire_bytes } else { d.bytes };
            add(d.at.as_nanos(), f64::from(n));
        }
    } else {
        let series = recording.series.as_ref()?;
        if !ns.is_multiple_of(series.interval.as_nanos()) {
            return None;
        }
        let names: BTreeSet<&str> =
            flows.iter().filter_map(|f| recording.flows.get(*f as usize)).map(|f| f.name.as_str()).collect();
        for entity in series.entities.iter().filter(|e| names.contains(e.entity.as_str())) {
            for (i, n) in entity.column(what.column())?.iter().enumerate() {
                if !n.is_nan() {
                    add(entity.time(series.interval, i).as_nanos(), *n);
                }
            }
        }
    }
    let scale = 8.0 / interval.as_secs_f64();
    Some(bytes.into_iter().map(|n| n * scale).collect())
}

/// Mean and standard deviation of a throughput.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct MeanDeviation {
    pub mean: f64,
    pub deviation: f64,
}

impl MeanDeviation {
    /// Coefficient of variation; `None` where the mean is 0.
    pub fn variation(self) -> Option<f64> {
        (self.mean > 0.0).then(|| self.deviation / self.mean)
    }
}

/// Mean and standard deviation of the throughput of groups of flows, each in the whole intervals of its own window,
/// computed in one pass from the same data as [`rates`]. `group` returns the group of a flow. `None` for a group with
/// fewer than two intervals, and for all groups when the recording has no data.
pub(super) fn spreads(
    recording: &Recording,
    interval: Dur,
    windows: &[TimeWindow],
    group: &dyn Fn(u32) -> Option<usize>,
) -> Vec<Option<MeanDeviation>> {
    let ns = interval.as_nanos();
    let mut sums: Vec<GroupTotals> = windows.iter().map(|window| GroupTotals::new(*window, ns)).collect();
    if recording.deliveries.is_empty() {
        let Some(series) = &recording.series else { return vec![None; windows.len()] };
        if !ns.is_multiple_of(series.interval.as_nanos()) {
            return vec![None; windows.len()];
        }
        // Without packet counters the series have no such column.
        let mut known = vec![false; windows.len()];
        for (flow, entity) in of_flows(recording, series) {
            let (Some(group), Some(column)) = (group(flow), entity.column(ByteKind::Wire.column())) else {
                continue;
            };
            known[group] = true;
            for (i, bytes) in column.iter().enumerate().filter(|(_, n)| **n > 0.0) {
                sums[group].add(entity.time(series.interval, i).as_nanos() / ns, *bytes);
            }
        }
        let spread = |(group, known): (GroupTotals, bool)| if known { group.spread(interval) } else { None };
        return sums.into_iter().zip(known).map(spread).collect();
    }
    for d in &recording.deliveries {
        if let Some(group) = group(d.flow) {
            sums[group].add(d.at.as_nanos() / ns, f64::from(d.wire_bytes));
        }
    }
    sums.into_iter().map(|group| group.spread(interval)).collect()
}

/// Bytes of each flow, by index, and the duration of the transfer in seconds.
pub(super) type FlowTotals = (Vec<f64>, f64);

/// Bytes of each flow, by index, in the whole intervals of `window`, and their duration in seconds. The values come
/// from the log of deliveries, or else from the series. `None` when the recording has neither.
pub(super) fn sums(recording: &Recording, what: ByteKind, window: TimeWindow) -> Option<FlowTotals> {
    let logged = !recording.deliveries.is_empty() && what != ByteKind::Read;
    let series = recording.series.as_ref();
    let interval = series.map(|s| s.interval).or(logged.then_some(Dur::from_millis(1)))?;
    let ns = interval.as_nanos();
    let (first, last) = (window.from.as_nanos().div_ceil(ns), window.to.as_nanos() / ns);
    let count = last.checked_sub(first).filter(|n| *n > 0)?;
    let inside = |at: Time| (first..last).contains(&(at.as_nanos() / ns));
    let mut bytes = vec![0.0; recording.flows.len()];
    if logged {
        for d in recording.deliveries.iter().filter(|d| inside(d.at)) {
            let n = if what == ByteKind::Wire { d.wire_bytes } else { d.bytes };
            if let Some(sum) = bytes.get_mut(d.flow as usize) {
                *sum += f64::from(n);
            }
        }
    } else {
        for (flow, entity) in of_flows(recording, series?) {
            // Without packet counters there is no such column.
            for (i, n) in entity.column(what.column())?.iter().enumerate() {
                if !n.is_nan() && inside(entity.time(interval, i)) {
                    bytes[flow as usize] += n;
                }
            }
        }
    }
    Some((bytes, (interval * count).as_secs_f64()))
}

/// The series of flows, with the indices of the flows.
fn of_flows<'a>(
    recording: &'a Recording,
    series: &'a Series,
) -> impl Iterator<Item = (u32, &'a EntitySeries)> {
    let places: BTreeMap<&str, u32> =
        (0u32..).zip(&recording.flows).map(|(i, f)| (f.name.as_str(), i)).collect();
    series.entities.iter().filter_map(move |entity| Some((*places.get(entity.entity.as_str())?, entity)))
}

/// Bytes of a group of flows by interval.
struct GroupTotals {
    first: u64,
    count: u64,
    /// Intervals and bytes, in the order of arrival.
    rows: Vec<(u64, f64)>,
}

impl GroupTotals {
    fn new(window: TimeWindow, ns: u64) -> GroupTotals {
        let first = window.from.as_nanos().div_ceil(ns);
        GroupTotals { first, count: (window.to.as_nanos() / ns).saturating_sub(first), rows: Vec::new() }
    }

    fn add(&mut self, place: u64, bytes: f64) {
        if place < self.first || place - self.first >= self.count {
            return;
        }
        match self.rows.last_mut() {
            Some((last, sum)) if *last == place => *sum += bytes,
            _ => self.rows.push((place, bytes)),
        }
    }

    fn spread(mut self, interval: Dur) -> Option<MeanDeviation> {
        if self.count < 2 {
            return None;
        }
        self.rows.sort_by_key(|(place, _)| *place);
        let sums =
            || self.rows.chunk_by(|a, b| a.0 == b.0).map(|one| one.iter().map(|(_, n)| n).sum::<f64>());
        #[expect(clippy::cast_precision_loss, reason = "exact below 2^53")]
        let (n, silent) = (self.count as f64, (self.count - sums().count() as u64) as f64);
        let mean = sums().sum::<f64>() / n;
        // Intervals without an entry have 0 bytes.
        let squares = sums().map(|bytes| (bytes - mean).powi(2)).sum::<f64>() + silent * mean * mean;
        let scale = 8.0 / interval.as_secs_f64();
        Some(MeanDeviation { mean: mean * scale, deviation: (squares / n).sqrt() * scale })
    }
}

/// The finest interval that a recording supports: 1 us with a log of deliveries, otherwise the interval of its
/// series.
pub fn finest(recording: &Recording) -> Option<Dur> {
    if recording.deliveries.is_empty() {
        recording.series.as_ref().map(|s| s.interval)
    } else {
        Some(Dur::from_micros(1))
    }
}
