//! What a port queues packets in: a discipline, or one below a shaper.

use super::discipline::{Discipline, DisciplineSpec};
use super::htb::{Htb, HtbSpec};
use super::tbf::{Tbf, TbfSpec};
use crate::element::backlog::Backlog;
use crate::engine::{Core, ElementContext, FlowKey, PacketId};
use tcpassay_units::{Seed, Time};

/// A queueing discipline.
#[derive(Clone, PartialEq, Debug)]
pub enum QueueSpec {
    /// No shaper.
    Plain(DisciplineSpec),
    /// A token bucket.
    Tbf(TbfSpec),
    /// A hierarchy of token buckets.
    Htb(HtbSpec),
}

impl From<DisciplineSpec> for QueueSpec {
    fn from(spec: DisciplineSpec) -> QueueSpec {
        QueueSpec::Plain(spec)
    }
}

/// What a queue has to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DequeueResult {
    /// This packet, now.
    Packet(PacketId),
    /// Something, but not before this instant.
    At(Time),
    /// Nothing.
    Nothing,
}

/// The state of a [`QueueSpec`].
#[derive(Clone, Debug)]
pub(crate) enum Queue {
    Plain(Discipline),
    Tbf(Box<Tbf>),
    Htb(Box<Htb>),
}

impl Queue {
    pub fn new(spec: QueueSpec, name: &str, seed: Seed) -> Queue {
        match spec {
            QueueSpec::Plain(s) => Queue::Plain(Discipline::new(s, name, seed)),
            QueueSpec::Tbf(s) => Queue::Tbf(Box::new(Tbf::new(s, name, seed))),
            QueueSpec::Htb(s) => Queue::Htb(Box::new(Htb::new(s, name, seed))),
        }
    }

    /// Takes a packet, or drops it or another. Its `stamp` is the present instant.
    pub fn enqueue(&mut self, ctx: &mut ElementContext, core: &mut Core, id: PacketId) {
        match self {
            Queue::Plain(q) => q.enqueue(ctx, core, id),
            Queue::Tbf(q) => q.enqueue(ctx, core, id),
            Queue::Htb(q) => q.enqueue(ctx, core, id),
        }
    }

    /// Gives up the next packet, if it may leave now. May drop packets on the way.
    pub fn dequeue(&mut self, ctx: &mut ElementContext, core: &mut Core) -> DequeueResult {
        let due = match self {
            Queue::Plain(q) => Ok(q.dequeue(ctx, core)),
            Queue::Tbf(q) => q.dequeue(ctx, core),
            Queue::Htb(q) => q.dequeue(ctx, core),
        };
        match due {
            Ok(Some(id)) => DequeueResult::Packet(id),
            Ok(None) => DequeueResult::Nothing,
            Err(at) => DequeueResult::At(at),
        }
    }

    /// Everything that waits.
    pub fn total(&self) -> Backlog {
        match self {
            Queue::Plain(q) => q.total(),
            Queue::Tbf(q) => q.total(),
            Queue::Htb(q) => q.total(),
        }
    }

    /// What waits before a packet of `flow`.
    pub fn backlog(&self, flow: FlowKey) -> Backlog {
        match self {
            Queue::Plain(q) => q.backlog(flow),
            Queue::Htb(q) => q.backlog(flow),
            Queue::Tbf(q) => q.total(),
        }
    }
}
