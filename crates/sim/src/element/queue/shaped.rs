//! What a port queues packets in: a discipline, or one below a shaper.

use super::discipline::{Discipline, DisciplineSpec};
use super::htb::{Htb, HtbSpec};
use super::tbf::{Tbf, TbfSpec};
use crate::element::backlog::Backlog;
use crate::engine::{Core, FlowId, Io, PacketId};
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
pub(crate) enum Offer {
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
    pub fn enqueue(&mut self, io: &mut Io, core: &mut Core, id: PacketId) {
        match self {
            Queue::Plain(q) => q.enqueue(io, core, id),
            Queue::Tbf(q) => q.enqueue(io, core, id),
            Queue::Htb(q) => q.enqueue(io, core, id),
        }
    }

    /// Gives up the next packet, if it may leave now. May drop packets on the way.
    pub fn dequeue(&mut self, io: &mut Io, core: &mut Core) -> Offer {
        let due = match self {
            Queue::Plain(q) => Ok(q.dequeue(io, core)),
            Queue::Tbf(q) => q.dequeue(io, core),
            Queue::Htb(q) => q.dequeue(io, core),
        };
        match due {
            Ok(Some(id)) => Offer::Packet(id),
            Ok(None) => Offer::Nothing,
            Err(at) => Offer::At(at),
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
    pub fn backlog(&self, flow: FlowId) -> Backlog {
        match self {
            Queue::Plain(q) => q.backlog(flow),
            Queue::Htb(q) => q.backlog(flow),
            Queue::Tbf(q) => q.total(),
        }
    }
}
