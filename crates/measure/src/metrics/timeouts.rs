//! Durations that senders waited for their retransmission timeouts.

use super::stats::sorted;
use crate::event::EventKind;
use crate::reason::Timer;
use crate::recording::Recording;
use std::collections::BTreeSet;
use tcpassay_units::Time;
use tcpassay_wire::Flags;

/// For each retransmission timeout of `flows`, in ascending order: seconds since the sender last sent a segment or an
/// ACK last acknowledged new data, whichever was later. `None` without an event log. Timeouts of SYNs are not
/// included.
pub(super) fn timeout_lengths(recording: &Recording, flows: &BTreeSet<u32>) -> Option<Vec<f64>> {
    if recording.events.is_empty() {
        return None;
    }
    let mut since: Vec<(Time, u64)> = vec![(Time::ZERO, 0); recording.flows.len()];
    let mut lengths = Vec::new();
    for event in recording.events.iter() {
        let Some((flow, (since, acked))) = event.flow.and_then(|f| Some((f, since.get_mut(f as usize)?)))
        else {
            continue;
        };
        match event.kind {
            EventKind::Out | EventKind::Retransmit if event.len.is_some_and(|len| len > 0) => {
                *since = event.at;
            }
            EventKind::In if event.flags.is_some_and(|f| f.has(Flags::ACK)) => {
                let ack = event.ack.unwrap_or(0);
                if ack > *acked {
                    (*since, *acked) = (event.at, ack);
                }
            }
            EventKind::TimerFire if event.why == Timer::Rto.name() && flows.contains(&flow) => {
                lengths.push(event.at.since(*since).as_secs_f64());
            }
            _ => {}
        }
    }
    Some(sorted(lengths.into_iter()))
}
