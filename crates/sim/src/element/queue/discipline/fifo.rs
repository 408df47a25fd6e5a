//! A first-in-first-out queue with a limit and step marking. It corresponds to the queue of a
//! [`LinkSpec`](crate::element::LinkSpec), for ports.

use crate::element::{Backlog, QueueLimit};
use crate::engine::{Core, DropReason, ElementContext, PacketId, PacketList};
use tcpassay_units::Bytes;

/// First in, first out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FifoSpec {
    /// Limit of the backlog. A packet that exceeds it is dropped on arrival.
    pub limit: QueueLimit,
    /// ECN-capable packets that find a larger backlog are marked CE.
    pub mark_above: Option<Bytes>,
}

impl FifoSpec {
    /// Without limit or marking.
    pub const UNLIMITED: FifoSpec = FifoSpec { limit: QueueLimit::NONE, mark_above: None };
}

#[derive(Clone, Debug)]
pub(crate) struct Fifo {
    spec: FifoSpec,
    list: PacketList,
}

impl Fifo {
    pub fn new(spec: FifoSpec) -> Fifo {
        Fifo { spec, list: PacketList::default() }
    }

    pub fn enqueue(&mut self, ctx: &mut ElementContext, core: &mut Core, id: PacketId) {
        let backlog = self.total();
        if !self.spec.limit.fits(backlog, core.packets[id].size().get()) {
            ctx.drop(core, id, DropReason::Full);
            return;
        }
        if self.spec.mark_above.is_some_and(|t| backlog.bytes > t.get()) {
            ctx.mark(core, id);
        }
        self.list.push_back(&mut core.packets, id);
    }

    pub fn dequeue(&mut self, core: &Core) -> Option<PacketId> {
        self.list.pop_front(&core.packets)
    }

    pub fn total(&self) -> Backlog {
        Backlog { packets: self.list.len(), bytes: self.list.bytes() }
    }
}
