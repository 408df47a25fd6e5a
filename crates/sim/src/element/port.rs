//! A port: a queueing discipline before a transmitter of any pace. Two events for each packet that has to wait.
//!
//! What a [`LinkSpec`](super::LinkSpec) can do (FIFO, fixed rate), it does at half the cost. A port is for every other
//! discipline, for shapers, traces, buffers shared with other ports, segmentation on the way out (TSO), and hosts that
//! want to know when a packet has left.

use super::backlog::Backlog;
use super::queue::QueueSpec;
use super::queue::{DequeueResult, Queue};
use super::split::split;
use super::transmitter::Transmitter;
use crate::engine::{
    Core, DropReason, ElementContext, FlowKey, HostEvent, PacketId, PacketList, SharedBufferId, TxCompletion,
};
use std::collections::VecDeque;
use tcpassay_case::pace::Pace;
use tcpassay_units::{Dur, Seed, Time};

/// A share of a buffer that several ports of a switch have in common.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BufferShare {
    /// The buffer; see [`Network::add_pool`](crate::engine::Network::add_pool).
    pub pool: SharedBufferId,
    /// Dynamic threshold: this port may hold at most `alpha` times what is free (Choudhury and Hahne 1998; 0.5 to 2 in
    /// merchant silicon). `None`: as much as there is.
    pub alpha: Option<f64>,
}

/// A port. See the module.
#[derive(Clone, PartialEq, Debug)]
pub struct PortSpec {
    /// What waits, in which order, what is dropped and marked.
    pub queue: QueueSpec,
    /// How fast it sends.
    pub pace: Pace,
    /// Propagation to the next element, one way.
    pub delay: Dur,
    /// Bytes that every wire packet occupies besides its IP packet, as in [`LinkSpec`](super::LinkSpec).
    pub overhead: u32,
    /// Super-segments leave as wire packets, one after the other (TSO). Otherwise they leave whole.
    pub segment: bool,
    /// A buffer shared with other ports.
    pub share: Option<BufferShare>,
    /// How long the NIC collects completions before it tells the host ([`Packet::notify`](crate::engine::Packet)) that
    /// packets have left (`ethtool` tx-usecs); zero tells at once.
    pub tx_coalesce: Dur,
}

impl PortSpec {
    /// `queue` before `pace`, whose packets arrive `delay` later.
    pub fn new(queue: impl Into<QueueSpec>, pace: Pace, delay: Dur) -> PortSpec {
        PortSpec {
            queue: queue.into(),
            pace,
            delay,
            overhead: 0,
            segment: false,
            share: None,
            tx_coalesce: Dur::ZERO,
        }
    }
}

impl PortSpec {
    pub(super) fn make(self, name: &str, seed: Seed) -> Port {
        Port {
            queue: Queue::new(self.queue, name, seed),
            pacer: Transmitter::new(self.pace),
            delay: self.delay,
            overhead: u64::from(self.overhead),
            segment: self.segment,
            share: self.share,
            tx_coalesce: self.tx_coalesce,
            free_at: Time::ZERO,
            pull_at: None,
            flight: PacketList::default(),
            completions: VecDeque::new(),
            tell_at: None,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Port {
    queue: Queue,
    pacer: Transmitter,
    delay: Dur,
    overhead: u64,
    segment: bool,
    share: Option<BufferShare>,
    tx_coalesce: Dur,
    /// When the packet being sent has left.
    free_at: Time,
    /// When to ask the queue for its next packet.
    pull_at: Option<Time>,
    flight: PacketList,
    /// What hosts asked to be told, with when it leaves: being sent, or waiting for the completion interrupt.
    completions: VecDeque<(Time, TxCompletion)>,
    /// When the host is told of those that have left.
    tell_at: Option<Time>,
}

impl Port {
    pub fn receive(&mut self, ctx: &mut ElementContext, core: &mut Core, id: PacketId) {
        let before = self.queue.total();
        let waits = self.free_at > core.now || before.packets > 0;
        if waits
            && let Some(share) = self.share
            && !admits(share, before, core, id)
        {
            ctx.drop(core, id, DropReason::Full);
            return;
        }
        core.packets[id].stamp = core.now;
        self.queue.enqueue(ctx, core, id);
        let after = self.queue.total();
        self.account(core, before, after);
        ctx.queued(core, after.bytes, after.packets);
        if self.free_at > core.now {
            self.pull_at = Some(self.free_at);
        } else {
            self.pull(ctx, core);
        }
        self.arm(ctx, core);
    }

    pub fn wake(&mut self, ctx: &mut ElementContext, core: &mut Core) {
        while let Some(id) = self.flight.front()
            && core.packets[id].due <= core.now
        {
            self.flight.pop_front(&core.packets);
            ctx.forward(core, id);
        }
        self.complete(core);
        if self.pull_at.is_some_and(|at| at <= core.now) {
            self.pull(ctx, core);
        }
        self.arm(ctx, core);
    }

    pub fn held(&self) -> u64 {
        u64::from(self.queue.total().packets) + u64::from(self.flight.len())
    }

    /// All that waits.
    pub fn waiting(&self) -> Backlog {
        self.queue.total()
    }

    pub fn backlog(&mut self, flow: FlowKey) -> Backlog {
        self.queue.backlog(flow)
    }

    /// Sends what the queue offers until the transmitter is busy or nothing is offered.
    fn pull(&mut self, ctx: &mut ElementContext, core: &mut Core) {
        self.pull_at = None;
        while self.free_at <= core.now {
            let before = self.queue.total();
            let offer = self.queue.dequeue(ctx, core);
            let after = self.queue.total();
            self.account(core, before, after);
            match offer {
                DequeueResult::Packet(id) => {
                    ctx.waited(core.packets[id].stamp, core.now);
                    self.transmit(ctx, core, id);
                }
                DequeueResult::At(at) => {
                    debug_assert!(at > core.now, "a shaper that is ready offers its packet");
                    self.pull_at = Some(at);
                    return;
                }
                DequeueResult::Nothing => return,
            }
        }
        if self.queue.total().packets > 0 {
            self.pull_at = Some(self.free_at);
        }
    }

    fn transmit(&mut self, ctx: &mut ElementContext, core: &mut Core, id: PacketId) {
        self.free_at = self.free_at.max(core.now);
        let sent = core.take_tx_completion(id);
        if !self.segment || core.packets[id].segs == 1 {
            self.launch(core, id);
        } else {
            let mut pieces = split(ctx, &mut core.packets, id);
            while let Some(piece) = pieces.pop_front(&core.packets) {
                self.launch(core, piece);
            }
        }
        self.completions.extend(sent.map(|sent| (self.free_at, sent)));
    }

    fn launch(&mut self, core: &mut Core, id: PacketId) {
        let packet = &mut core.packets[id];
        let wire = u64::from(packet.size_u32()) + self.overhead * u64::from(packet.segs);
        self.free_at = self.pacer.sent_at(self.free_at, wire);
        packet.due = self.free_at + self.delay;
        self.flight.push_back(&mut core.packets, id);
    }

    /// The completion interrupt, when it is due: hosts hear of everything that has left by now.
    fn complete(&mut self, core: &mut Core) {
        if self.tell_at.is_none_or(|at| at > core.now) {
            return;
        }
        self.tell_at = None;
        while let Some(&(left, sent)) = self.completions.front()
            && left <= core.now
        {
            core.host_events.push(HostEvent::TxCompleted(sent));
            self.completions.pop_front();
        }
    }

    fn arm(&mut self, ctx: &ElementContext, core: &mut Core) {
        let arrival = self.flight.front().map(|id| core.packets[id].due);
        if self.tell_at.is_none() {
            self.tell_at = self.completions.front().map(|c| c.0 + self.tx_coalesce);
        }
        let first = [arrival, self.pull_at, self.tell_at].into_iter().flatten().min();
        ctx.wake_at(core, first);
    }

    fn account(&self, core: &mut Core, before: Backlog, after: Backlog) {
        if let Some(share) = self.share {
            let pool = &mut core.shared_buffers[share.pool.0 as usize];
            pool.used = pool.used + after.bytes - before.bytes;
        }
    }
}

/// Whether the shared buffer has room for a packet behind `queue`.
fn admits(share: BufferShare, queue: Backlog, core: &Core, id: PacketId) -> bool {
    let pool = core.shared_buffers[share.pool.0 as usize];
    let free = pool.capacity.saturating_sub(pool.used);
    let size = u64::from(core.packets[id].size_u32());
    let within = share.alpha.is_none_or(|alpha| as_f64(queue.bytes) < alpha * as_f64(free));
    size <= free && within
}

#[expect(clippy::cast_precision_loss, reason = "a buffer is far below 2^53 bytes")]
fn as_f64(bytes: u64) -> f64 {
    bytes as f64
}

#[cfg(test)]
#[path = "port_tests.rs"]
mod tests;
