//! Queueing disciplines of a [`Port`](super::PortSpec): what waits, in which order it leaves, what is dropped or marked.
//!
//! A discipline sees packets and time. It must not know the rate at which it is emptied, apart from shapers, which have
//! their own.

mod fifo;
mod htb;
mod tbf;

pub use fifo::FifoSpec;
pub use htb::{HtbClass, HtbSpec};
pub use tbf::TbfSpec;

use super::Backlog;
use crate::engine::{Core, FlowId, Io, PacketId};
use fifo::Fifo;
use htb::Htb;
use tbf::Tbf;
use tcpassay_units::{Seed, Time};

/// A queueing discipline.
#[derive(Clone, PartialEq, Debug)]
pub enum QueueSpec {
    /// First in, first out.
    Fifo(FifoSpec),
    /// A token bucket.
    Tbf(TbfSpec),
    /// A hierarchy of token buckets.
    Htb(HtbSpec),
}

/// What a discipline has to send.
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
    Fifo(Fifo),
    Tbf(Box<Tbf>),
    Htb(Box<Htb>),
}

impl Queue {
    pub fn new(spec: QueueSpec, name: &str, seed: Seed) -> Queue {
        match spec {
            QueueSpec::Fifo(s) => Queue::Fifo(Fifo::new(s)),
            QueueSpec::Tbf(s) => Queue::Tbf(Box::new(Tbf::new(s, name, seed))),
            QueueSpec::Htb(s) => Queue::Htb(Box::new(Htb::new(s, name, seed))),
        }
    }

    /// Takes a packet, or drops it or another. Its `stamp` is the present instant.
    pub fn enqueue(&mut self, io: &mut Io, core: &mut Core, id: PacketId) {
        match self {
            Queue::Fifo(q) => q.enqueue(io, core, id),
            Queue::Tbf(q) => q.enqueue(io, core, id),
            Queue::Htb(q) => q.enqueue(io, core, id),
        }
    }

    /// Gives up the next packet, if it may leave now. May drop packets on the way.
    pub fn dequeue(&mut self, io: &mut Io, core: &mut Core) -> Offer {
        match self {
            Queue::Fifo(q) => q.dequeue(core).map_or(Offer::Nothing, Offer::Packet),
            Queue::Tbf(q) => q.dequeue(io, core),
            Queue::Htb(q) => q.dequeue(io, core),
        }
    }

    /// Everything that waits.
    pub fn total(&self) -> Backlog {
        match self {
            Queue::Fifo(q) => q.total(),
            Queue::Tbf(q) => q.total(),
            Queue::Htb(q) => q.total(),
        }
    }

    /// What waits before a packet of `flow`.
    pub fn backlog(&self, flow: FlowId) -> Backlog {
        match self {
            Queue::Htb(q) => q.backlog(flow),
            other => other.total(),
        }
    }
}
