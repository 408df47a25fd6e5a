//! The backlog of an element.

/// The packets that wait in an element; packets in transmission are not included.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Backlog {
    /// Number of packets; a super-segment counts once.
    pub packets: u32,
    /// Sum of the IP bytes of the packets.
    pub bytes: u64,
}
