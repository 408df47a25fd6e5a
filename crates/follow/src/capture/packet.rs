//! A packet of a capture.

use tcpassay_units::Time;
use tcpassay_wire::{Ecn, Segment};

/// A packet of a connection.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CapturedPacket {
    /// When it passed, since the first packet of the capture.
    pub at: Time,
    /// Its number in the capture, from 1.
    pub frame: u64,
    /// The end sent it; otherwise it arrived.
    pub sent: bool,
    /// Its header.
    pub segment: Segment,
    /// The ECN field of its IP header.
    pub ecn: Ecn,
    /// The captured bytes end inside of its options.
    pub cut: bool,
    /// Which of [`tcpassay_wire::Layout::ALL`] its options may have.
    pub layouts: [bool; 2],
}
