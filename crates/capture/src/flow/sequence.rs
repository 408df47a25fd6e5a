//! Conversion of the sequence numbers of one direction to 64-bit positions, and the positions that were
//! seen.

use tcpassay_units::{Dur, SeqNum, Time};

/// The position of the first sequence number that is seen. Older ones, which arrive late, have lower positions.
pub(crate) const ORIGIN: u64 = 1 << 32;
/// Largest distance from the known positions. A packet beyond it does not belong to the connection.
pub(crate) const FARTHEST: u64 = 1 << 30;
/// Holes that are remembered; the oldest one is forgotten first.
const MOST_HOLES: usize = 256;

/// Positions that a direction skipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hole {
    pub start: u64,
    pub end: u64,
    /// The packet behind the hole, which is the first one that arrived with a larger position.
    pub behind: Behind,
}

/// A packet that arrived before one with a smaller position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Behind {
    pub at: Time,
    /// Its place among the data packets of the direction.
    pub index: u64,
    pub id: u16,
    pub stamp: Option<u32>,
}

/// The relation of the positions of a packet to those seen before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Range {
    /// It begins where the last one ended, or behind a hole that it makes.
    New,
    /// It fills the beginning or the rest of a hole.
    Fills(Behind),
    /// All positions were seen before.
    Seen,
}

/// The positions of one direction that were seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sequence {
    base: Option<SeqNum>,
    /// After the highest position that was sent, or acknowledged.
    pub nxt: u64,
    holes: Vec<Hole>,
    /// Positions that were acknowledged last without having been seen: start, end, and when.
    ahead: Option<(u64, u64, Time)>,
    /// Positions of holes that were forgotten or acknowledged.
    pub unseen: u64,
}

impl Sequence {
    /// The position of a number; `None` when it is too far from the others to belong to the connection.
    pub fn position(&mut self, seq: SeqNum) -> Option<u64> {
        if self.base.is_none() {
            self.base = Some(seq);
            self.nxt = ORIGIN;
        }
        let position = seq.unwrap_near(self.base?, self.nxt)?;
        (position.abs_diff(self.nxt) <= FARTHEST).then_some(position)
    }

    /// The position of a number when at least one number of this direction is known.
    pub fn known_position(&self, seq: SeqNum) -> Option<u64> {
        seq.unwrap_near(self.base?, self.nxt)
    }

    /// Whether a number may belong to the connection. Without any number of this direction, every one may.
    pub fn is_near(&self, seq: SeqNum) -> bool {
        self.base.is_none() || self.known_position(seq).is_some_and(|at| at.abs_diff(self.nxt) <= FARTHEST)
    }

    /// The number of the SYN, or of what was seen first.
    pub fn base(&self) -> Option<SeqNum> {
        self.base
    }

    /// Processes a packet with the positions from `start` to `end`.
    pub fn arrive(&mut self, start: u64, end: u64, packet: Behind) -> Range {
        if start >= self.nxt {
            if start > self.nxt {
                self.remember(Hole { start: self.nxt, end: start, behind: packet });
            }
            self.nxt = end;
            return Range::New;
        }
        let first = self.holes.iter().position(|hole| hole.start < end && start < hole.end);
        let filled = first.map(|place| {
            let behind = self.holes[place].behind;
            let mut kept = Vec::new();
            self.holes.retain(|hole| {
                if hole.end <= start || end <= hole.start {
                    return true;
                }
                kept.extend((hole.start < start).then_some(Hole { end: start, ..*hole }));
                kept.extend((end < hole.end).then_some(Hole { start: end, ..*hole }));
                false
            });
            for hole in kept {
                self.remember(hole);
            }
            behind
        });
        self.nxt = self.nxt.max(end);
        filled.map_or(Range::Seen, Range::Fills)
    }

    /// A packet at `start` has positions whose ACK was captured before it, at most `limit` ago: a capture at a sender with segmentation
    /// offload may record the ACK of the first segments first. Returns their number, and the packet is new.
    #[cold]
    pub fn catches_up(&mut self, start: u64, end: u64, at: Time, limit: Dur) -> Option<u64> {
        let (from, to, since) = self.ahead?;
        if start != from || at.since(since) > limit {
            return None;
        }
        let seen = end.min(to) - from;
        self.ahead = (end < to).then_some((end, to, since));
        self.unseen = self.unseen.saturating_sub(seen);
        self.nxt = self.nxt.max(end);
        Some(seen)
    }

    /// Everything below `ack` has reached the receiver. Returns the positions that are acknowledged, but were never seen.
    pub fn acknowledge(&mut self, ack: u64, at: Time) -> u64 {
        let before = self.unseen;
        if self.holes.is_empty() && ack <= self.nxt {
            return 0;
        }
        let mut unseen = 0;
        self.holes.retain_mut(|hole| {
            let reached = hole.end.min(ack);
            unseen += reached.saturating_sub(hole.start);
            hole.start = hole.start.max(reached);
            hole.start < hole.end
        });
        if ack > self.nxt {
            self.ahead = Some((self.nxt, ack, at));
            unseen += ack - self.nxt;
        }
        self.nxt = self.nxt.max(ack);
        self.unseen = before + unseen;
        unseen
    }

    fn remember(&mut self, hole: Hole) {
        if self.holes.len() == MOST_HOLES {
            let oldest = self.holes.remove(0);
            self.unseen += oldest.end - oldest.start;
        }
        let place = self.holes.partition_point(|other| other.start < hole.start);
        self.holes.insert(place, hole);
    }
}
