//! How far an end of a capture was followed.

use super::end::CapturedEnd;
use crate::difference::Difference;

/// Why an end was not followed any further, although it does not differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stop {
    /// The frame that is not followed any more; `None` if no packet was.
    pub frame: Option<u64>,
    /// Why.
    pub why: String,
}

/// How far an end was followed.
#[derive(Clone, PartialEq, Debug)]
pub struct CaptureOutcome {
    /// Packets of the connection.
    pub packets: usize,
    /// Packets before the first difference or the stop.
    pub followed: usize,
    /// ACKs without payload among them that the profile would have sent, too.
    pub acks: usize,
    /// Segments with payload or FIN whose ACK field, SACK blocks, echoes of timestamps and of marks are those of the profile.
    pub carriers: usize,
    /// Segments with payload that arrived.
    pub arrivals: usize,
    /// The frame of the first difference, or the last one before something that is missing, and the difference.
    pub first: Option<(u64, Difference)>,
    /// Why it was not followed to the end without a difference.
    pub stop: Option<Stop>,
    /// A setting of the end that its packets show, other than the default of the profile.
    pub setting: Option<&'static str>,
}

/// Nothing was followed.
pub(super) fn empty(end: &CapturedEnd) -> CaptureOutcome {
    CaptureOutcome {
        packets: end.packets.len(),
        followed: 0,
        acks: 0,
        carriers: 0,
        arrivals: 0,
        first: None,
        stop: None,
        setting: None,
    }
}
