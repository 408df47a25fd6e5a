//! The disciplines that are not shapers: a waiting packet may leave at any time.

mod codel;
mod dualpi2;
mod fair;
mod fifo;
mod fq_codel;
mod pie;
mod red;

pub use codel::CoDelSpec;
pub use dualpi2::DualPi2Spec;
pub use fair::{DualBufferSpec, FqSpec};
pub use fifo::FifoSpec;
pub use fq_codel::FqCoDelSpec;
pub use pie::PieSpec;
pub use red::RedSpec;

use codel::CoDel;
use dualpi2::DualPi2;
use fair::{DualBuffer, Fq};
use fifo::Fifo;
use fq_codel::FqCoDel;
use pie::Pie;
use red::Red;
use tcpassay_case::params::grammar;
use tcpassay_case::{Mark, QueueKind, QueuePlace, QueueSettings};
use tcpassay_units::{Bytes, Rate, Seed};

use crate::element::backlog::Backlog;
use crate::element::link::QueueLimit;
use crate::engine::{Core, ElementContext, FlowLabel, PacketId};
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

/// `queue.limit`, or the default limit of the discipline for `auto`.
fn limit_or(queue: &QueueSettings, auto: QueueLimit) -> QueueLimit {
    match queue.limit {
        Some(grammar::QueueLimitValue::Bytes(bytes)) => QueueLimit::bytes(bytes),
        Some(grammar::QueueLimitValue::Packets(n)) => QueueLimit::packets(n),
        None if queue.place == QueuePlace::Undescribed => QueueLimit::NONE,
        None => auto,
    }
}

pub(crate) fn limit(queue: &QueueSettings) -> QueueLimit {
    limit_or(queue, QueueLimit::packets(1000))
}

/// The limit of a discipline that counts packets in Linux; a limit in bytes is converted to packets of the MTU.
fn packets_or(queue: &QueueSettings, mtu: Bytes, auto: QueueLimit) -> QueueLimit {
    match queue.limit {
        Some(grammar::QueueLimitValue::Bytes(bytes)) => {
            QueueLimit::packets(u32::try_from((bytes.get() / mtu.get()).max(1)).unwrap_or(u32::MAX))
        }
        _ => limit_or(queue, auto),
    }
}

/// A discipline that is not a shaper.
pub(super) fn plain(queue: &QueueSettings, mtu: Bytes, rate: Rate) -> DisciplineSpec {
    let mark_above = (queue.mark == Mark::Data).then_some(queue.threshold);
    let fifo = DisciplineSpec::Fifo(FifoSpec { limit: limit(queue), mark_above });
    // Linux's size of a full frame: the MTU and an Ethernet header.
    let frame = mtu + Bytes::new(14);
    match queue.kind {
        QueueKind::Red => DisciplineSpec::Red(RedSpec {
            min: queue.red_min,
            max: queue.red_max,
            max_p: queue.red_probability,
            weight: 0.002,
            gentle: false,
            ecn: queue.ecn,
            harddrop: false,
            packet_time: rate.time_for(mtu),
            limit: limit(queue),
        }),
        QueueKind::CoDel => {
            DisciplineSpec::CoDel(codel(queue, frame, packets_or(queue, mtu, QueueLimit::packets(1000))))
        }
        QueueKind::FqCoDel => DisciplineSpec::FqCoDel(FqCoDelSpec {
            codel: codel(queue, frame, packets_or(queue, mtu, FqCoDelSpec::LINUX.codel.limit)),
            quantum: frame,
            ..FqCoDelSpec::LINUX
        }),
        QueueKind::Pie => DisciplineSpec::Pie(PieSpec {
            target: queue.target.unwrap_or(PieSpec::RFC.target),
            update: queue.interval.unwrap_or(PieSpec::RFC.update),
            ecn: queue.ecn,
            mtu: frame,
            limit: packets_or(queue, mtu, PieSpec::RFC.limit),
            ..PieSpec::RFC
        }),
        QueueKind::Fq => DisciplineSpec::Fq(FqSpec {
            quantum: frame * 2,
            initial_quantum: frame * 10,
            limit: packets_or(queue, mtu, FqSpec::LINUX.limit),
            ..FqSpec::LINUX
        }),
        QueueKind::DualPi2 => DisciplineSpec::DualPi2(DualPi2Spec {
            target: queue.target.unwrap_or(DualPi2Spec::LINUX.target),
            update: queue.interval.unwrap_or(DualPi2Spec::LINUX.update),
            mtu: frame,
            limit: limit_or(queue, DualPi2Spec::LINUX.limit),
            ..DualPi2Spec::LINUX
        }),
        QueueKind::Fifo | QueueKind::Htb | QueueKind::Tbf => fifo,
    }
}

fn codel(queue: &QueueSettings, frame: Bytes, limit: QueueLimit) -> CoDelSpec {
    CoDelSpec {
        target: queue.target.unwrap_or(CoDelSpec::INTERNET.target),
        interval: queue.interval.unwrap_or(CoDelSpec::INTERNET.interval),
        mtu: frame,
        ecn: queue.ecn,
        ce_threshold: None,
        limit,
    }
}
