//! Names of what a network has.

use super::scheduler::SourceId;

/// An element of the network.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub(crate) u32);

impl NodeId {
    pub(crate) const NONE: NodeId = NodeId(u32::MAX);
}

/// An endpoint, in the order of [`Network::add_host`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct HostId(pub u16);

/// A timer of a host or connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TimerId(pub(crate) SourceId);

impl TimerId {
    /// A small number that no other timer has as long as this one lives.
    pub(crate) fn index(self) -> usize {
        self.0.0 as usize
    }
}

/// A buffer shared by ports of a switch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SharedBufferId(pub(crate) u32);
