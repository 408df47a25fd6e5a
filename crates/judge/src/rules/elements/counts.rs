//! The counters of a recording against the log of elements.

use std::collections::BTreeMap;
use tcpassay_measure::{ElementEvent, ElementPacket, ElementRow, Latency, LatencyKind, Recording};

/// Sums over the rows of an element.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Counts {
    packets: u64,
    bytes: u64,
    drops: u64,
    dropped_bytes: u64,
    marks: u64,
}

/// Sums over the packets with data that a host received.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Received {
    packets: u64,
    bytes: u64,
    wire_bytes: u64,
    marked: u64,
}

impl Counts {
    pub fn add(&mut self, row: &ElementRow) {
        let size = u64::from(row.packet.size);
        match row.event {
            ElementEvent::Departed => (self.packets, self.bytes) = (self.packets + 1, self.bytes + size),
            ElementEvent::Dropped(_) => {
                (self.drops, self.dropped_bytes) = (self.drops + 1, self.dropped_bytes + size);
            }
            ElementEvent::Marked => self.marks += 1,
            ElementEvent::Arrived | ElementEvent::Began => {}
        }
    }
}

impl Received {
    /// Adds a row of a host.
    pub fn add(&mut self, row: &ElementRow) {
        let packet = &row.packet;
        if row.event != ElementEvent::Departed || packet.is(ElementPacket::DATAGRAM) || packet.len == 0 {
            return;
        }
        let segs = u64::from(packet.segs);
        self.packets += segs;
        self.bytes += u64::from(packet.len);
        self.wire_bytes += u64::from(packet.size);
        if packet.ecn == super::element::CE {
            self.marked += segs;
        }
    }
}

/// The longest backlog of a device in bytes, if its queue was observed.
pub(super) fn longest(recording: &Recording, name: &str) -> Option<u64> {
    let seen = |one: &Latency| one.kind == LatencyKind::QueueDelay && one.entity == name;
    let device = recording.devices.iter().find(|device| device.name == name)?;
    recording.latencies.iter().any(seen).then_some(device.counters.max_backlog_bytes)
}

/// The differences between the counters of the recording and the log: what is counted, its counter, and the sum of the log.
pub(super) fn differences(
    recording: &Recording,
    counts: &BTreeMap<&str, Counts>,
    received: &Received,
) -> Vec<(String, String, String)> {
    let mut wrong = Vec::new();
    let mut compare = |what: String, counter: String, log: String| {
        if counter != log {
            wrong.push((what, counter, log));
        }
    };
    for device in &recording.devices {
        let is = &device.counters;
        let counted = Counts {
            packets: is.packets,
            bytes: is.bytes,
            drops: is.drops,
            dropped_bytes: is.dropped_bytes,
            marks: is.marks,
        };
        let log = counts.get(device.name.as_str()).copied().unwrap_or_default();
        compare(device.name.clone(), format!("{counted:?}"), format!("{log:?}"));
    }
    let devices: Vec<&str> = recording.devices.iter().map(|device| device.name.as_str()).collect();
    for (name, log) in counts.iter().filter(|(name, _)| !devices.contains(name)) {
        let counter = |what: &str| {
            recording.counters.get(*name).and_then(|counters| counters.get(what)).copied().unwrap_or(0)
        };
        let (drops, marks) = (counter("drops"), counter("marks"));
        compare(
            (*name).to_owned(),
            format!("{drops} drops, {marks} marks"),
            format!("{} drops, {} marks", log.drops, log.marks),
        );
    }
    // What arrives after the end of a connection belongs to no flow.
    if recording.flows.iter().all(|flow| flow.end.is_none() && !flow.counters.unseen) {
        let sum = recording.flows.iter().fold(Received::default(), |sum, flow| Received {
            packets: sum.packets + flow.counters.delivered_packets,
            bytes: sum.bytes + flow.counters.delivered_bytes,
            wire_bytes: sum.wire_bytes + flow.counters.delivered_wire_bytes,
            marked: sum.marked + flow.counters.ce_packets,
        });
        compare(
            "the packets with data that arrived at hosts".to_owned(),
            format!("{sum:?}"),
            format!("{received:?}"),
        );
    }
    wrong
}
