//! RFC 7323 section 3.2: the timestamp of a segment is the value of the sender's clock when it sends the segment.

use super::names::SEGMENT_CONTENTS as NAME;
use crate::finding::Findings;
use crate::step::{Context, Step};
use std::collections::{BTreeMap, VecDeque};
use tcpassay_units::Time;
use tcpassay_wire::Flags;

/// The largest difference that is not reported, in milliseconds. Linux's clock has a tick of a millisecond.
const TOLERANCE: i64 = 15;
/// Number of departures that are kept for the comparison.
const KEPT: usize = 4096;

/// What identifies a segment at both ends: sequence number, acknowledgment number and length.
type Key = (u64, u64, u64);

/// The latest of equal segments that left.
#[derive(Clone, Copy, Debug)]
struct Departure {
    at: Time,
    row: usize,
    /// Number of equal segments among those that are kept.
    equal: u32,
}

/// The clock of one sender.
#[derive(Clone, Debug, Default)]
pub(super) struct TimestampClock {
    /// The segments that are kept, in order of departure.
    order: VecDeque<Key>,
    departures: BTreeMap<Key, Departure>,
    /// The timestamp and the time of transmission of the segment whose timestamp is the latest in relation to its time.
    known: Option<(u32, Time)>,
}

impl TimestampClock {
    /// Processes a segment that this end sent.
    pub fn sent(&mut self, step: &Step<'_>) {
        if self.order.len() == KEPT
            && let Some(oldest) = self.order.pop_front()
            && let Some(departure) = self.departures.get_mut(&oldest)
        {
            departure.equal -= 1;
            if departure.equal == 0 {
                self.departures.remove(&oldest);
            }
        }
        let key = key(step);
        self.order.push_back(key);
        let equal = self.departures.get(&key).map_or(0, |before| before.equal) + 1;
        self.departures.insert(key, Departure { at: step.at(), row: step.row, equal });
    }

    /// Processes the arrival of a segment of this sender at its peer. The log has the timestamps of arrivals.
    pub fn arrived(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let direct = context.facts.is_some_and(|facts| !facts.queues_in_host());
        // With pacing a timestamp is the time at which its segment may leave, which may lie ahead.
        let paced = context.may_pace(step.peer);
        let Some(stamp) = step.event.value.and_then(|value| u32::try_from(value).ok()) else { return };
        if !context.of_kernel() || !direct || paced || step.flags().any(Flags::SYN | Flags::RST) {
            return;
        }
        let segment = key(step);
        // Of several equal segments it is not known which one arrived.
        let Some(left) = self.departures.get(&segment).filter(|left| left.equal == 1) else { return };
        let Some((known, at)) = self.known else {
            self.known = Some((stamp, left.at));
            return;
        };
        // Milliseconds by which the timestamp clock advanced, and milliseconds that passed.
        let went = i64::from(stamp.wrapping_sub(known).cast_signed());
        let passed = millis(left.at) - millis(at);
        if went >= passed {
            self.known = Some((stamp, left.at));
        } else if passed - went > TOLERANCE {
            let who = context.recording.flows[step.peer].from;
            let mut one =
                step.of_receiver(context, NAME, "a timestamp of an earlier time").since(left.row, left.at);
            one.host = who;
            found.add(one, || {
                let (seq, ack, _) = segment;
                format!(
                    "{} sent a segment at {:#} (position {seq}, ACK {ack}) whose timestamp is {} ms older than its clock was then, compared with its \
                     other segments (RFC 7323 section 3.2).", context.who(step.peer), left.at, passed - went
                )
            });
        }
    }
}

fn key(step: &Step<'_>) -> Key {
    (step.seq(), step.event.ack.unwrap_or(0), step.len())
}

fn millis(at: Time) -> i64 {
    i64::try_from(at.as_nanos() / 1_000_000).expect("a run is shorter than 292 million years")
}
