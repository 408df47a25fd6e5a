//! Throughput by time, at any interval that the recording can answer.

use crate::recording::Recording;
use std::collections::BTreeSet;
use tcpassay_units::{Dur, Time};

/// The part of a run that metrics look at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// Its start.
    pub from: Time,
    /// Its end.
    pub to: Time,
}

impl Window {
    /// Its length in seconds; `None` when it is empty.
    pub fn seconds(&self) -> Option<f64> {
        let len = self.to.since(self.from);
        (!len.is_zero()).then(|| len.as_secs_f64())
    }
}

/// What is added up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// Bytes that reached the receiving host, with headers, as they came: also what came twice.
    Wire,
    /// Payload of the same.
    Payload,
    /// Bytes that the receiving application read.
    Read,
}

impl What {
    fn column(self) -> &'static str {
        match self {
            What::Wire => "wire_bytes",
            What::Payload => "payload_bytes",
            What::Read => "read_bytes",
        }
    }
}

/// Bits a second of the sum of `flows` in every whole interval of `window`; intervals are counted from the start of the
/// run. From the log of deliveries if there is one, otherwise from the series, whose interval must divide this one.
/// `None` when neither can say.
pub fn rates(
    recording: &Recording,
    flows: &BTreeSet<u32>,
    what: What,
    interval: Dur,
    window: Window,
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
    if !recording.deliveries.is_empty() && what != What::Read {
        let wanted: Vec<bool> = (0u32..).zip(&recording.flows).map(|(f, _)| flows.contains(&f)).collect();
        let is_wanted = |flow: u32| wanted.get(flow as usize).copied().unwrap_or(false);
        for d in recording.deliveries.iter().filter(|d| is_wanted(d.flow)) {
            let n = if what == What::Wire { d.wire_bytes } else { d.bytes };
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

/// The finest interval that a recording can answer: 1 us with a log of deliveries, otherwise that of its series.
pub fn finest(recording: &Recording) -> Option<Dur> {
    if recording.deliveries.is_empty() {
        recording.series.as_ref().map(|s| s.interval)
    } else {
        Some(Dur::from_micros(1))
    }
}
