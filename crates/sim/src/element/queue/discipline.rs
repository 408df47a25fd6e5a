//! The union of all disciplines that are not shapers: a waiting packet may leave at any time.

use super::codel::{CoDel, CoDelSpec};
use super::dualpi2::{DualPi2, DualPi2Spec};
use super::fair::{DualBuffer, DualBufferSpec, Fq, FqSpec};
use super::fifo::{Fifo, FifoSpec};
use super::fq_codel::{FqCoDel, FqCoDelSpec};
use super::pie::{Pie, PieSpec};
use super::red::{Red, RedSpec};
use crate::element::backlog::Backlog;
use crate::engine::{Core, ElementContext, FlowLabel, PacketId};
use tcpassay_units::Seed;

/// A queueing discipline that is not a shaper.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum DisciplineSpec {
    /// First in, first out.
    Fifo(FifoSpec),
    /// Random early detection.
    Red(RedSpec),
    /// CoDel.
    CoDel(CoDelSpec),
    /// FQ-CoDel.
    FqCoDel(FqCoDelSpec),
    /// PIE.
    Pie(PieSpec),
    /// Fair queueing.
    Fq(FqSpec),
    /// L4S and classic traffic in two coupled queues (`DualPI2`).
    DualPi2(DualPi2Spec),
    /// Two buffers, one for each half of a switch's input ports, served alternately.
    DualBuffer(DualBufferSpec),
}

/// The state of a [`DisciplineSpec`].
#[derive(Clone, Debug)]
pub(crate) enum Discipline {
    Fifo(Fifo),
    Red(Box<Red>),
    CoDel(Box<CoDel>),
    FqCoDel(Box<FqCoDel>),
    Pie(Box<Pie>),
    Fq(Box<Fq>),
    DualPi2(Box<DualPi2>),
    DualBuffer(Box<DualBuffer>),
}

impl Discipline {
    pub fn new(spec: DisciplineSpec, name: &str, seed: Seed) -> Discipline {
        match spec {
            DisciplineSpec::Fifo(s) => Discipline::Fifo(Fifo::new(s)),
            DisciplineSpec::Red(s) => Discipline::Red(Box::new(Red::new(s, name, seed))),
            DisciplineSpec::CoDel(s) => Discipline::CoDel(Box::new(CoDel::new(s))),
            DisciplineSpec::FqCoDel(s) => Discipline::FqCoDel(Box::new(FqCoDel::new(s, name, seed))),
            DisciplineSpec::Pie(s) => Discipline::Pie(Box::new(Pie::new(s, name, seed))),
            DisciplineSpec::Fq(s) => Discipline::Fq(Box::new(Fq::new(s))),
            DisciplineSpec::DualPi2(s) => Discipline::DualPi2(Box::new(DualPi2::new(s, name, seed))),
            DisciplineSpec::DualBuffer(s) => Discipline::DualBuffer(Box::new(DualBuffer::new(s))),
        }
    }

    /// Enqueues a packet; this may drop it or another one. Its `stamp` is the current time.
    pub fn enqueue(&mut self, ctx: &mut ElementContext, core: &mut Core, id: PacketId) {
        match self {
            Discipline::Fifo(q) => q.enqueue(ctx, core, id),
            Discipline::Red(q) => q.enqueue(ctx, core, id),
            Discipline::CoDel(q) => q.enqueue(ctx, core, id),
            Discipline::FqCoDel(q) => q.enqueue(ctx, core, id),
            Discipline::Pie(q) => q.enqueue(ctx, core, id),
            Discipline::Fq(q) => q.enqueue(ctx, core, id),
            Discipline::DualPi2(q) => q.enqueue(ctx, core, id),
            Discipline::DualBuffer(q) => q.enqueue(ctx, core, id),
        }
    }

    /// Dequeues the next packet; this may drop packets.
    pub fn dequeue(&mut self, ctx: &mut ElementContext, core: &mut Core) -> Option<PacketId> {
        match self {
            Discipline::Fifo(q) => q.dequeue(core),
            Discipline::Red(q) => q.dequeue(core),
            Discipline::CoDel(q) => q.dequeue(ctx, core),
            Discipline::FqCoDel(q) => q.dequeue(ctx, core),
            Discipline::Pie(q) => q.dequeue(core),
            Discipline::Fq(q) => q.dequeue(core),
            Discipline::DualPi2(q) => q.dequeue(ctx, core),
            Discipline::DualBuffer(q) => q.dequeue(core),
        }
    }

    /// The total backlog.
    pub fn total(&self) -> Backlog {
        match self {
            Discipline::Fifo(q) => q.total(),
            Discipline::Red(q) => q.total(),
            Discipline::CoDel(q) => q.total(),
            Discipline::FqCoDel(q) => q.total(),
            Discipline::Pie(q) => q.total(),
            Discipline::Fq(q) => q.total(),
            Discipline::DualPi2(q) => q.total(),
            Discipline::DualBuffer(q) => q.total(),
        }
    }

    /// The backlog in front of a packet of `flow`.
    pub fn backlog(&self, flow: FlowLabel) -> Backlog {
        match self {
            Discipline::FqCoDel(q) => q.backlog(flow),
            Discipline::Fq(q) => q.backlog(flow),
            other => other.total(),
        }
    }
}
