//! A port: a queueing discipline in front of a transmitter. A packet that waits causes two events.
//!
//! A [`LinkSpec`](super::LinkSpec) (FIFO, fixed rate) costs half as much. A port supports all other disciplines,
//! shapers, traces, buffers shared with other ports, segmentation on transmission (TSO), and transmit completions for
//! hosts.

use super::backlog::Backlog;
use super::queue::QueueSpec;
use super::queue::{DequeueResult, Queue};
use super::split::split;
use super::transmitter::Transmitter;
use crate::engine::{
    Core, DropReason, ElementContext, FlowLabel, HostEvent, PacketId, PacketList, SharedBufferId,
    TxCompletion,
};
use std::collections::VecDeque;
use tcpassay_case::pace::Pace;
use tcpassay_units::{Dur, Seed, Time};

/// The share of a port in a buffer of the switch.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BufferShare {
    /// The buffer; see [`Network::add_shared_buffer`](crate::engine::Network::add_shared_buffer).
    pub pool: SharedBufferId,
    /// Dynamic threshold: this port may hold at most `alpha` times the free space (Choudhury and Hahne 1998; 0.5 to 2
    /// in merchant silicon). `None`: no threshold.
    pub alpha: Option<f64>,
}

/// A port. See the module.
#[derive(Clone, PartialEq, Debug)]
pub struct PortSpec {
    /// The queueing discipline.
    pub queue: QueueSpec,
    /// The transmission rate.
    pub pace: Pace,
    /// One-way propagation delay to the next element.
    pub delay: Dur,
    /// Link-layer bytes of every wire packet, as in [`LinkSpec`](super::LinkSpec).
    pub overhead: u32,
    /// Super-segments are transmitted as wire packets, one after the other (TSO). Otherwise they are transmitted as
    /// one packet.
    pub segment: bool,
    /// The buffer shared with other ports.
    pub share: Option<BufferShare>,
    /// Delay of transmit completions ([`Packet::notify`](crate::engine::Packet)): the NIC collects completions for
    /// this time before it notifies the host (`ethtool` tx-usecs). Zero notifies at once.
    pub tx_coalesce: Dur,
}

impl PortSpec {
    /// A port with `queue` and `pace` and the propagation delay `delay`.
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
    /// The time at which the current transmission ends.
    free_at: Time,
    /// The time at which the queue has its next packet.
    pull_at: Option<Time>,
    flight: PacketList,
    /// Pending completions with the time at which their packets leave: in transmission, or waiting for the completion
    /// interrupt.
    completions: VecDeque<(Time, TxCompletion)>,
    /// The time of the next completion interrupt.
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

    /// The total backlog.
    pub fn waiting(&self) -> Backlog {
        self.queue.total()
    }

    pub fn backlog(&mut self, flow: FlowLabel) -> Backlog {
        self.queue.backlog(flow)
    }

    /// Transmits packets from the queue until the transmitter is busy or the queue has no packet to send.
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

    /// Delivers the completion interrupt when it is due: hosts are notified of all packets that have left by now.
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

/// Whether the shared buffer has space for a packet behind the backlog `queue`.
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
