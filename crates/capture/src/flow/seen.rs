//! What the analysis of a connection uses of a packet.

use tcpassay_units::Time;
use tcpassay_wire::{Ecn, Segment};

/// The way on which a packet reached the capture: copies of different places on the path differ in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Way {
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// The outermost VLAN, 0 without one.
    pub vlan: u16,
    /// Index of the interface.
    pub interface: u16,
}

/// The fields of a packet that one direction uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    pub at: Time,
    pub ecn: Ecn,
    pub id: u16,
    pub checksum: u16,
    pub way: Way,
    pub segment: &'a Segment,
    /// The capture does not have all of its options, or they are malformed: others are unknown.
    pub cut: bool,
}
