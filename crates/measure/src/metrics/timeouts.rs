//! Durations that senders waited for their retransmission timeouts.

use super::stats::sorted;
use crate::event::EventKind;
use crate::log::{EventField, EventHeader};
use crate::reason::Timer;
use crate::recording::Recording;
use std::collections::BTreeSet;
use tcpassay_units::Time;
use tcpassay_wire::Flags;

/// For each retransmission timeout of `flows`, in ascending order: seconds since the sender last sent a segment or an
/// ACK last acknowledged new data, whichever was later. `None` without an event log. Timeouts of SYNs are not
/// included.
pub(super) fn timeout_lengths(recording: &Recording, flows: &BTreeSet<u32>) -> Option<Vec<f64>> {
    let log = &recording.events;
    if log.is_empty() {
        return None;
    }
    // Most runs have no timeout; then no event is decoded.
    let timeout = |row| log.why(row) == Some(Timer::Rto.name());
    if !(0..log.len()).any(|row| log.head(row).kind == EventKind::TimerFire && timeout(row)) {
        return Some(Vec::new());
    }
    let mut since: Vec<(Time, u64)> = vec![(Time::ZERO, 0); recording.flows.len()];
    let mut lengths = Vec::new();
    for row in 0..log.len() {
        let EventHeader { at, flow, kind, .. } = log.head(row);
        let Some((flow, (since, acked))) = flow.and_then(|f| Some((f, since.get_mut(f as usize)?))) else {
            continue;
        };
        match kind {
            EventKind::Out | EventKind::Retransmit if log.range(row).1 > 0 => *since = at,
            EventKind::In if log.flags(row).has(Flags::ACK) => {
                let ack = log.number(row, EventField::Ack).unwrap_or(0);
                if ack > *acked {
                    (*since, *acked) = (at, ack);
                }
            }
            EventKind::TimerFire if flows.contains(&flow) && timeout(row) => {
                lengths.push(at.since(*since).as_secs_f64());
            }
            _ => {}
        }
    }
    Some(sorted(lengths.into_iter()))
}
