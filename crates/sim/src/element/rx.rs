//! The receive side of a NIC: ring, interrupt coalescing, polling, and receive offload (GRO, LRO).
//!
//! Wire packets are stored in the ring. An interrupt occurs when the first packet has waited `rx_usecs` or when
//! `rx_frames` packets have arrived. It starts a poll, which takes up to 64 packets (NAPI's budget), merges segments,
//! and passes packets up in the order in which merges are closed. During a poll, which takes `cost` per packet,
//! interrupts are disabled; packets that arrive meanwhile are processed by the next poll. As on a real host, batches
//! therefore grow with the load.
//!
//! Merging follows Linux's `tcp_gro_receive` (`net/ipv4/tcp_offload.c`) and `inet_gro_receive`. A segment is appended
//! to the merge of its flow when it is next in sequence and has the same acknowledgement number, the same flags
//! (except FIN and PSH), the same options and the same ECN field. Segments with CWR, SYN, RST or URG are never
//! appended. PSH, FIN, a segment shorter than the first one, the maximum size, and a segment that may not be appended
//! close the merge. Segments without data are never held. The merged packet has the first header with the FIN and PSH
//! of the last one.
//!
//! Differences from Linux: there is one receive queue; the number of flows merged at the same time is not limited
//! (Linux: 8 in each of 8 buckets); checksums are always verified before merging, so that a damaged segment is never
//! merged.

use super::gro::GroTable;
use crate::engine::{Core, DropReason, ElementContext, PacketId, PacketList};
use std::ops::RangeInclusive;
use tcpassay_case::interrupts::{Coalesce, POLL_BUDGET, ReceiveInterrupts, group_size};
use tcpassay_units::{Bytes, Dur, Seed, Stream, Time};

/// The receive side of a NIC. See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RxSpec {
    /// Interrupt coalescing.
    pub coalesce: Coalesce,
    /// Capacity of the ring in packets. Packets that find it full are dropped.
    pub ring: u32,
    /// Processor time of a poll per packet; zero means unlimited speed.
    pub cost: Dur,
    /// Maximum size of a merged packet in IP bytes (`gro_max_size`, 65536 in Linux); `None` disables merging.
    pub gro_max: Option<Bytes>,
    /// How long merges may stay open after the last poll (`gro_flush_timeout`), at most until a poll in a later tick of 1 ms; zero
    /// closes them at the end of the poll.
    pub gro_timeout: Dur,
    /// The order in which the packets of a batch are passed up.
    pub order: RxOrder,
}

/// The order in which the packets of a batch are passed up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RxOrder {
    /// The order of arrival.
    Arrival,
    /// A driver error: the driver marks an RSS hash as valid that the hardware no longer computes, so that LRO sorts
    /// by an undefined value. The batch is passed up in groups whose size is drawn uniformly from this range, each
    /// group in reverse order.
    StaleHash(RangeInclusive<u32>),
}

impl RxSpec {
    /// No coalescing, no merging, unlimited ring: packets pass immediately.
    pub const PLAIN: RxSpec = RxSpec {
        coalesce: Coalesce::Fixed { usecs: Dur::ZERO, frames: 0 },
        ring: u32::MAX,
        cost: Dur::ZERO,
        gro_max: None,
        gro_timeout: Dur::ZERO,
        order: RxOrder::Arrival,
    };
}

impl RxSpec {
    pub(super) fn make(self, name: &str, seed: Seed) -> Rx {
        Rx {
            rng: seed.stream(&format!("{name}.order")),
            merging: self.gro_max.map(GroTable::new),
            interrupts: ReceiveInterrupts::new(self.coalesce),
            spec: self,
            ring: PacketList::default(),
            batch: PacketList::default(),
            poll_ends: None,
            flush_at: None,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Rx {
    spec: RxSpec,
    rng: Stream,
    merging: Option<GroTable>,
    ring: PacketList,
    interrupts: ReceiveInterrupts,
    /// Packets taken by the current poll.
    batch: PacketList,
    poll_ends: Option<Time>,
    /// The time at which merges that stayed open after the last poll are closed.
    flush_at: Option<Time>,
}

impl Rx {
    pub fn receive(&mut self, ctx: &mut ElementContext, core: &mut Core, id: PacketId) {
        if self.ring.len() >= self.spec.ring {
            ctx.drop(core, id, DropReason::Ring);
            return;
        }
        core.packets[id].stamp = core.now;
        self.ring.push_back(&mut core.packets, id);
        let bytes = core.packets[id].size().get();
        let polling = self.poll_ends.is_some();
        if self.interrupts.arrive(core.now, bytes, self.ring.len(), polling) {
            self.interrupt(ctx, core);
        }
        if polling {
            return; // The current poll will process it.
        }
        self.arm(ctx, core);
    }

    pub fn wake(&mut self, ctx: &mut ElementContext, core: &mut Core) {
        if self.poll_ends.is_some_and(|at| at <= core.now) {
            self.finish_poll(ctx, core);
        }
        if self.interrupts.due().is_some_and(|at| at <= core.now) {
            self.interrupt(ctx, core);
        }
        if self.flush_at.is_some_and(|at| at <= core.now) {
            self.flush(ctx, core);
        }
        self.arm(ctx, core);
    }

    pub fn held(&self) -> u64 {
        let merging = self.merging.as_ref().map_or(0, GroTable::held);
        u64::from(self.ring.len() + self.batch.len()) + merging
    }

    fn interrupt(&mut self, ctx: &mut ElementContext, core: &mut Core) {
        self.interrupts.raise(core.now);
        self.poll(ctx, core);
    }

    /// Takes a batch, and further batches as long as packets are waiting and polling takes no time.
    fn poll(&mut self, ctx: &mut ElementContext, core: &mut Core) {
        loop {
            while self.batch.len() < POLL_BUDGET
                && let Some(id) = self.ring.pop_front(&core.packets)
            {
                self.batch.push_back(&mut core.packets, id);
            }
            let ends = core.now + self.spec.cost * u64::from(self.batch.len());
            if ends > core.now {
                self.poll_ends = Some(ends);
                return;
            }
            self.hand_up(ctx, core);
            if self.ring.is_empty() {
                return;
            }
        }
    }

    fn finish_poll(&mut self, ctx: &mut ElementContext, core: &mut Core) {
        self.poll_ends = None;
        self.hand_up(ctx, core);
        if !self.ring.is_empty() {
            self.poll(ctx, core);
        }
    }

    /// Merges the batch and passes it up. Merges that are open after the last poll wait for the timeout.
    fn hand_up(&mut self, ctx: &mut ElementContext, core: &mut Core) {
        if let RxOrder::StaleHash(sizes) = &self.spec.order {
            let mut sorted = PacketList::default();
            while !self.batch.is_empty() {
                let size = group_size(&mut self.rng, sizes);
                let mut group = PacketList::default();
                while group.len() < size
                    && let Some(id) = self.batch.pop_front(&core.packets)
                {
                    group.push_front(&mut core.packets, id);
                }
                while let Some(id) = group.pop_front(&core.packets) {
                    sorted.push_back(&mut core.packets, id);
                }
            }
            self.batch = sorted;
        }
        let complete = self.batch.len() < POLL_BUDGET;
        while let Some(id) = self.batch.pop_front(&core.packets) {
            ctx.waited(core.packets[id].stamp, core.now);
            match &mut self.merging {
                Some(merging) => merging.receive(ctx, core, id),
                None => ctx.forward(core, id),
            }
        }
        if !complete && !self.ring.is_empty() {
            return; // A poll that used its whole budget continues; open merges stay open.
        }
        if let Some(merging) = &mut self.merging {
            if self.spec.gro_timeout.is_zero() {
                self.flush(ctx, core);
            } else {
                // Each poll starts the timer anew, whatever flow its packets are of; a tick bounds the wait (`napi_complete_done`).
                merging.flush_old(ctx, core);
                self.flush_at = (merging.held() > 0).then(|| core.now + self.spec.gro_timeout);
            }
        }
    }

    fn flush(&mut self, ctx: &mut ElementContext, core: &mut Core) {
        self.flush_at = None;
        if let Some(merging) = &mut self.merging {
            merging.flush(ctx, core);
        }
    }

    fn arm(&self, ctx: &ElementContext, core: &mut Core) {
        let first = [self.interrupts.due(), self.poll_ends, self.flush_at].into_iter().flatten().min();
        ctx.wake_at(core, first);
    }
}

#[cfg(test)]
#[path = "rx_tests.rs"]
mod tests;
