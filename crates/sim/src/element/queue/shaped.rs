//! The queue of a port: a discipline, optionally below a shaper.

use super::discipline::{Discipline, DisciplineSpec, plain};
use super::htb::{Htb, HtbSpec};
use super::tbf::{Tbf, TbfSpec};
use crate::element::backlog::Backlog;
use crate::engine::{Core, ElementContext, FlowLabel, PacketId};
use tcpassay_case::{QueueKind, QueueSettings};
use tcpassay_units::{Bytes, Dur, Rate};
use tcpassay_units::{Seed, Time};

/// A queueing discipline.
#[derive(Clone, PartialEq, Debug)]
pub enum QueueSpec {
    /// A discipline without a shaper.
    Plain(DisciplineSpec),
    /// A token bucket filter.
    Tbf(TbfSpec),
    /// A hierarchy of token buckets.
    Htb(HtbSpec),
}

impl From<DisciplineSpec> for QueueSpec {
    fn from(spec: DisciplineSpec) -> QueueSpec {
        QueueSpec::Plain(spec)
    }
}

/// The result of a dequeue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DequeueResult {
    /// The next packet.
    Packet(PacketId),
    /// Packets wait, but none may leave before this time.
    At(Time),
    /// The queue is empty.
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

    /// Enqueues a packet; this may drop it or another one. Its `stamp` is the current time.
    pub fn enqueue(&mut self, ctx: &mut ElementContext, core: &mut Core, id: PacketId) {
        match self {
            Queue::Plain(q) => q.enqueue(ctx, core, id),
            Queue::Tbf(q) => q.enqueue(ctx, core, id),
            Queue::Htb(q) => q.enqueue(ctx, core, id),
        }
    }

    /// Dequeues the next packet if it may leave now; this may drop packets.
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

    /// The total backlog.
    pub fn total(&self) -> Backlog {
        match self {
            Queue::Plain(q) => q.total(),
            Queue::Tbf(q) => q.total(),
            Queue::Htb(q) => q.total(),
        }
    }

    /// The backlog in front of a packet of `flow`.
    pub fn backlog(&self, flow: FlowLabel) -> Backlog {
        match self {
            Queue::Plain(q) => q.backlog(flow),
            Queue::Htb(q) => q.backlog(flow),
            Queue::Tbf(q) => q.total(),
        }
    }
}

/// The queue of a port that sends at `rate`, as `queue.*` describes it.
pub(crate) fn queue_spec(queue: &QueueSettings, mtu: Bytes, rate: Rate) -> QueueSpec {
    let inner = plain(queue, mtu, rate);
    let shaped = || queue.rate.expect("checked: a shaper has a rate");
    match queue.kind {
        QueueKind::Htb => {
            // The default of tc: the bytes that pass in a tick of a nanosecond, and 1600 bytes.
            let burst = queue.burst.unwrap_or(mtu.max(Bytes::new(1600)));
            if queue.classes == 1 {
                QueueSpec::Htb(HtbSpec::single(shaped(), burst, inner))
            } else {
                QueueSpec::Htb(HtbSpec::equal(shaped(), queue.classes, burst, inner))
            }
        }
        QueueKind::Tbf => {
            let burst = queue.burst.unwrap_or_else(|| shaped().bytes_in(Dur::from_millis(1)).max(mtu * 10));
            QueueSpec::Tbf(TbfSpec { rate: shaped(), burst, inner })
        }
        _ => QueueSpec::Plain(inner),
    }
}
