//! The timestamp echo of each segment that arrives, from the rows of its sender: the log of an arrival has the sender's timestamp, that of a
//! transmission the echo (RFC 7323 section 3.2).

use crate::step::Step;
use std::collections::VecDeque;
use tcpassay_units::{Dur, Time};
use tcpassay_wire::Flags;

/// Age of a transmission from which on it is not looked for.
const KEPT: Dur = Dur::from_secs(5);
const MS: u64 = 1_000_000;

/// The echo of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Stamp {
    /// It has no timestamps.
    #[default]
    Absent,
    /// More than one transmission may have arrived.
    Unknown,
    /// Its echo, and the milliseconds since the receiver had this time.
    Known { echo: u32, age: u32 },
}

/// A segment that left.
#[derive(Clone, Copy, Debug)]
struct Departure {
    at: Time,
    start: u64,
    end: u64,
    ack: u64,
    echo: u32,
}

/// The clock and the transmissions of one end.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    /// What the clock shows at the start of the run; `None` before a SYN arrived that was sent once.
    offset: Option<u32>,
    syns: u32,
    first: Time,
    sent: VecDeque<Departure>,
}

fn millis(at: Time) -> u32 {
    u32::try_from(at.as_nanos() / MS).unwrap_or(u32::MAX)
}

impl Clock {
    /// This end sends a segment.
    pub fn leaves(&mut self, step: &Step<'_>) {
        if step.flags().has(Flags::SYN) {
            self.syns += 1;
            self.first = step.at();
            return;
        }
        let Some(echo) = step.event.value.and_then(|value| u32::try_from(value).ok()) else { return };
        let (start, end, ack) = (step.seq(), step.seq_end(), step.event.ack.unwrap_or(0));
        self.sent.push_back(Departure { at: step.at(), start, end, ack, echo });
    }

    /// A segment of this end arrives at its peer, whose clock is `other`.
    pub fn arrives(&mut self, step: &Step<'_>, other: &Clock) -> Stamp {
        let Some(stamp) = step.event.value.and_then(|value| u32::try_from(value).ok()) else {
            return Stamp::Absent;
        };
        if step.flags().has(Flags::SYN) {
            if self.syns == 1 {
                self.offset = Some(stamp.wrapping_sub(millis(self.first)));
            }
            return Stamp::Unknown;
        }
        let (Some(own), Some(offset)) = (self.offset, other.offset) else { return Stamp::Unknown };
        while self.sent.front().is_some_and(|one| one.at.saturating_add(KEPT) < step.at()) {
            self.sent.pop_front();
        }
        let ms = u64::from(stamp.wrapping_sub(own));
        let from = self.sent.partition_point(|one| one.at.as_nanos() / MS < ms);
        let (start, end, ack) = (step.seq(), step.seq_end(), step.event.ack.unwrap_or(0));
        let fits = |one: &&Departure| {
            one.ack == ack
                && if start == end { one.start == start } else { one.start < end && start < one.end }
        };
        let mut fitting = self
            .sent
            .range(from..)
            .take_while(|one| one.at.as_nanos() / MS == ms)
            .filter(fits)
            .map(|one| one.echo);
        let Some(echo) = fitting.next() else { return Stamp::Unknown };
        if fitting.any(|other| other != echo) {
            return Stamp::Unknown;
        }
        Stamp::Known { echo, age: millis(step.at()).wrapping_add(offset).wrapping_sub(echo) }
    }
}
