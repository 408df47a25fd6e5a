//! A segment in the history of a run.

use tcpassay_units::Time;
use tcpassay_wire::Flags;

/// A segment that an end sent or received, and the positions of its stream after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Segment {
    /// Row of the event log.
    pub row: usize,
    /// Place in the order of all rows, for comparisons with [`Mark::place`](super::Mark::place).
    pub place: usize,
    pub at: Time,
    /// Sent by this end; otherwise it arrived.
    pub sent: bool,
    /// Sent again.
    pub again: bool,
    /// It arrived and was not accepted.
    pub refused: bool,
    pub flags: Flags,
    /// The first position; of the own flow if the segment was sent, of the peer's if it arrived.
    pub start: u64,
    /// The position after the last one. A FIN occupies one position; a SYN occupies none, because positions begin with 1.
    pub end: u64,
    /// The position that is acknowledged, of the other flow.
    pub ack: u64,
    /// The first position of the own flow that is not acknowledged here.
    pub una: u64,
    /// The next position of the own flow to be sent.
    pub nxt: u64,
    /// The highest position of the peer's flow that this end has acknowledged.
    pub acked_out: u64,
}

impl Segment {
    /// Whether the segment has data or a FIN.
    pub fn has_data(&self) -> bool {
        self.end > self.start
    }

    /// Whether the segment arrived and was accepted.
    pub fn is_arrival(&self) -> bool {
        !self.sent && !self.refused
    }
}
