//! Queueing disciplines of a [`Port`](super::PortSpec): what waits, in which order it leaves, what is dropped or marked.
//!
//! A discipline sees packets and time. It must not know the rate at which it is emptied, apart from shapers, which have
//! their own.

mod codel;
mod dualpi2;
mod fair;
mod fifo;
mod fq_codel;
mod htb;
mod pie;
mod red;
mod tbf;

pub use codel::CoDelSpec;
pub use dualpi2::DualPi2Spec;
pub use fair::{DualSpec, FqSpec};
pub use fifo::FifoSpec;
pub use fq_codel::FqCoDelSpec;
pub use htb::{HtbClass, HtbSpec};
pub use pie::PieSpec;
pub use red::RedSpec;
pub use tbf::TbfSpec;

use super::Backlog;
use crate::engine::{Core, FlowId, Io, PacketId};
use codel::CoDel;
use dualpi2::DualPi2;
use fair::{Dual, Fq};
use fifo::Fifo;
use fq_codel::FqCoDel;
use htb::Htb;
use pie::Pie;
use red::Red;
use tbf::Tbf;
use tcpassay_units::{Seed, Time};

/// A queueing discipline.
#[derive(Clone, PartialEq, Debug)]
pub enum QueueSpec {
    /// First in, first out.
    Fifo(FifoSpec),
    /// Random early detection.
    Red(RedSpec),
    /// CoDel.
    CoDel(CoDelSpec),
    /// Flow queueing under CoDel.
    FqCoDel(FqCoDelSpec),
    /// PIE.
    Pie(PieSpec),
    /// Fair queueing.
    Fq(FqSpec),
    /// L4S and classic traffic in two coupled queues.
    DualPi2(DualPi2Spec),
    /// Two buffers for the halves of a switch's input ports, in turn.
    Dual(DualSpec),
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
    Red(Box<Red>),
    CoDel(Box<CoDel>),
    FqCoDel(Box<FqCoDel>),
    Pie(Box<Pie>),
    Fq(Box<Fq>),
    DualPi2(Box<DualPi2>),
    Dual(Box<Dual>),
    Tbf(Box<Tbf>),
    Htb(Box<Htb>),
}

impl Queue {
    pub fn new(spec: QueueSpec, name: &str, seed: Seed) -> Queue {
        match spec {
            QueueSpec::Fifo(s) => Queue::Fifo(Fifo::new(s)),
            QueueSpec::Red(s) => Queue::Red(Box::new(Red::new(s, name, seed))),
            QueueSpec::CoDel(s) => Queue::CoDel(Box::new(CoDel::new(s))),
            QueueSpec::FqCoDel(s) => Queue::FqCoDel(Box::new(FqCoDel::new(s, name, seed))),
            QueueSpec::Pie(s) => Queue::Pie(Box::new(Pie::new(s, name, seed))),
            QueueSpec::Fq(s) => Queue::Fq(Box::new(Fq::new(s))),
            QueueSpec::DualPi2(s) => Queue::DualPi2(Box::new(DualPi2::new(s, name, seed))),
            QueueSpec::Dual(s) => Queue::Dual(Box::new(Dual::new(s))),
            QueueSpec::Tbf(s) => Queue::Tbf(Box::new(Tbf::new(s, name, seed))),
            QueueSpec::Htb(s) => Queue::Htb(Box::new(Htb::new(s, name, seed))),
        }
    }

    /// Takes a packet, or drops it or another. Its `stamp` is the present instant.
    pub fn enqueue(&mut self, io: &mut Io, core: &mut Core, id: PacketId) {
        match self {
            Queue::Fifo(q) => q.enqueue(io, core, id),
            Queue::Red(q) => q.enqueue(io, core, id),
            Queue::CoDel(q) => q.enqueue(io, core, id),
            Queue::FqCoDel(q) => q.enqueue(io, core, id),
            Queue::Pie(q) => q.enqueue(io, core, id),
            Queue::Fq(q) => q.enqueue(io, core, id),
            Queue::DualPi2(q) => q.enqueue(io, core, id),
            Queue::Dual(q) => q.enqueue(io, core, id),
            Queue::Tbf(q) => q.enqueue(io, core, id),
            Queue::Htb(q) => q.enqueue(io, core, id),
        }
    }

    /// Gives up the next packet, if it may leave now. May drop packets on the way.
    pub fn dequeue(&mut self, io: &mut Io, core: &mut Core) -> Offer {
        let packet = match self {
            Queue::Fifo(q) => q.dequeue(core),
            Queue::Red(q) => q.dequeue(core),
            Queue::CoDel(q) => q.dequeue(io, core),
            Queue::FqCoDel(q) => q.dequeue(io, core),
            Queue::Pie(q) => q.dequeue(core),
            Queue::Fq(q) => q.dequeue(core),
            Queue::DualPi2(q) => q.dequeue(io, core),
            Queue::Dual(q) => q.dequeue(core),
            Queue::Tbf(q) => return q.dequeue(io, core),
            Queue::Htb(q) => return q.dequeue(io, core),
        };
        packet.map_or(Offer::Nothing, Offer::Packet)
    }

    /// Everything that waits.
    pub fn total(&self) -> Backlog {
        match self {
            Queue::Fifo(q) => q.total(),
            Queue::Red(q) => q.total(),
            Queue::CoDel(q) => q.total(),
            Queue::FqCoDel(q) => q.total(),
            Queue::Pie(q) => q.total(),
            Queue::Fq(q) => q.total(),
            Queue::DualPi2(q) => q.total(),
            Queue::Dual(q) => q.total(),
            Queue::Tbf(q) => q.total(),
            Queue::Htb(q) => q.total(),
        }
    }

    /// What waits before a packet of `flow`.
    pub fn backlog(&self, flow: FlowId) -> Backlog {
        match self {
            Queue::Htb(q) => q.backlog(flow),
            Queue::FqCoDel(q) => q.backlog(flow),
            Queue::Fq(q) => q.backlog(flow),
            other => other.total(),
        }
    }
}
