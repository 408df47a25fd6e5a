//! Ids of the objects of a network.

use super::scheduler::SourceId;

/// An element.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub(crate) u32);

impl NodeId {
    pub(crate) const NONE: NodeId = NodeId(u32::MAX);
}

/// A host, numbered in the order of [`Network::add_host`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct HostId(pub u16);

/// A timer of a host or connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TimerId(pub(crate) SourceId);

impl TimerId {
    /// A small number that is unique among the existing timers.
    pub(crate) fn index(self) -> usize {
        self.0.0 as usize
    }
}

/// A buffer that several ports of a switch share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SharedBufferId(pub(crate) u32);
