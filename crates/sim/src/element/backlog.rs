//! What waits in an element.

/// What waits in an element: packets that are not yet being sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Backlog {
    /// Packets (super-segments count once).
    pub packets: u32,
    /// Their IP bytes.
    pub bytes: u64,
}
