//! The receiving NIC: ring, interrupt coalescing, the poll, and receive merging (GRO, LRO).
//!
//! Wire packets arrive in the ring. The interrupt comes when the first of them has waited `rx_usecs` or when `rx_frames` have
//! come, and starts a poll, which takes up to 64 packets (NAPI's budget), merges what may be merged, and hands the rest up
//! in the order in which merges end. While a poll lasts (`cost` for each packet) no interrupt comes; what arrived
//! meanwhile is the next poll. So batches grow with load, as they do on a real host.
//!
//! Merging follows Linux's `tcp_gro_receive` (`net/ipv4/tcp_offload.c`) and `inet_gro_receive`: a segment is appended to
//! the merge of its flow when it is the next in sequence, acknowledges the same, and has the same flags (but for FIN and
//! PSH), the same options and the same ECN field. CWR, SYN, RST and URG are never appended to anything. A
//! merge ends with PSH, FIN, a segment shorter than the first, its largest size, or a segment that may not be appended.
//! What carries no data is never held. The merge keeps the first header, with the FIN and PSH of the last.
//!
//! Differences: one receive queue, no limit to the number of flows merged at once (Linux: 8 to each of 8 buckets), and
//! checksums are always verified before merging, so that a damaged segment is never merged.

use super::gro::GroTable;
use super::net_dim::InterruptModeration;
use crate::engine::{Core, DropReason, ElementContext, PacketId, PacketList};
use std::ops::RangeInclusive;
use tcpassay_units::{Bytes, Dur, Seed, Stream, Time};

/// What the receiving NIC does. See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RxSpec {
    /// When the interrupt comes.
    pub coalesce: Coalesce,
    /// Packets that the ring holds; those that find it full are dropped.
    pub ring: u32,
    /// Time of the host's processor that a poll takes for each packet; zero: as fast as you like.
    pub cost: Dur,
    /// Receive merging, up to this many IP bytes in one (`gro_max_size`, 65536 in Linux); `None`: off.
    pub gro_max: Option<Bytes>,
    /// How long a merge may wait for its next segment after the poll (`gro_flush_timeout`); zero: it ends with the poll.
    pub gro_timeout: Dur,
    /// In which order a batch goes up.
    pub order: RxOrder,
}

/// When the receive interrupt comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Coalesce {
    /// When the first packet has waited `usecs`, or when `frames` have come (0: only the time counts), as `ethtool -C`
    /// sets it. `usecs` zero: at once.
    Fixed {
        /// How long the first waits.
        usecs: Dur,
        /// How many do not wait longer.
        frames: u32,
    },
    /// The delay follows the load, as Linux's dynamic interrupt moderation (`net_dim`): 1, 8, 64, 128 or 256 us, the
    /// longer the fewer interrupts that makes without costing throughput.
    Adaptive,
    /// A firmware that coalesces on its own and shows nothing of it: it waits `short` while packets come steadily, but
    /// after a pause longer than `idle` it believes the flow asleep and waits `long` (RTTs of 60 us or 1.2 ms).
    Hidden {
        /// The delay while packets come steadily.
        short: Dur,
        /// The delay after a pause.
        long: Dur,
        /// A pause.
        idle: Dur,
    },
}

/// In which order a batch goes up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RxOrder {
    /// As it arrived.
    Arrival,
    /// The driver marks an RSS hash valid that the hardware no longer computes, so that LRO sorts by what it finds there:
    /// the batch arrives in groups of so many packets (chosen evenly), each reversed.
    StaleHash(RangeInclusive<u32>),
}

impl RxSpec {
    /// No coalescing, no merging, an endless ring: packets pass at once.
    pub const PLAIN: RxSpec = RxSpec {
        coalesce: Coalesce::Fixed { usecs: Dur::ZERO, frames: 0 },
        ring: u32::MAX,
        cost: Dur::ZERO,
        gro_max: None,
        gro_timeout: Dur::ZERO,
        order: RxOrder::Arrival,
    };
}

/// NAPI's budget: packets of one poll.
const BUDGET: u32 = 64;

impl RxSpec {
    pub(super) fn make(self, name: &str, seed: Seed) -> Rx {
        Rx {
            rng: seed.stream(&format!("{name}.order")),
            merging: self.gro_max.map(GroTable::new),
            spec: self,
            ring: PacketList::default(),
            interrupt_at: None,
            batch: PacketList::default(),
            poll_ends: None,
            flush_at: None,
            dim: InterruptModeration::new(),
            last_arrival: Time::ZERO,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Rx {
    spec: RxSpec,
    rng: Stream,
    merging: Option<GroTable>,
    ring: PacketList,
    interrupt_at: Option<Time>,
    /// What the present poll took.
    batch: PacketList,
    poll_ends: Option<Time>,
    /// When merges held over the end of a poll are given up.
    flush_at: Option<Time>,
    dim: InterruptModeration,
    last_arrival: Time,
}

impl Rx {
    pub fn receive(&mut self, ctx: &mut ElementContext, core: &mut Core, id: PacketId) {
        if self.ring.len() >= self.spec.ring {
            ctx.drop(core, id, DropReason::Ring);
            return;
        }
        core.packets[id].stamp = core.now;
        if self.spec.coalesce == Coalesce::Adaptive {
            self.dim.packet(core.packets[id].size().get());
        }
        self.ring.push_back(&mut core.packets, id);
        let delay = self.delay(core.now);
        self.last_arrival = core.now;
        if self.poll_ends.is_some() {
            return; // the poll will look again
        }
        let due = *self.interrupt_at.get_or_insert(core.now + delay);
        let full = match self.spec.coalesce {
            Coalesce::Fixed { frames, .. } => frames > 0 && self.ring.len() >= frames,
            Coalesce::Adaptive | Coalesce::Hidden { .. } => false,
        };
        if full || due <= core.now {
            self.interrupt(ctx, core);
        }
        self.arm(ctx, core);
    }

    pub fn wake(&mut self, ctx: &mut ElementContext, core: &mut Core) {
        if self.poll_ends.is_some_and(|at| at <= core.now) {
            self.finish_poll(ctx, core);
        }
        if self.interrupt_at.is_some_and(|at| at <= core.now) {
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

    fn delay(&self, now: Time) -> Dur {
        match self.spec.coalesce {
            Coalesce::Fixed { usecs, .. } => usecs,
            Coalesce::Adaptive => self.dim.delay(),
            Coalesce::Hidden { short, long, idle } => {
                if now.since(self.last_arrival) > idle {
                    long
                } else {
                    short
                }
            }
        }
    }

    fn interrupt(&mut self, ctx: &mut ElementContext, core: &mut Core) {
        self.interrupt_at = None;
        if self.spec.coalesce == Coalesce::Adaptive {
            self.dim.interrupt(core.now);
        }
        self.poll(ctx, core);
    }

    /// Takes a batch, and another while there is more and it costs no time.
    fn poll(&mut self, ctx: &mut ElementContext, core: &mut Core) {
        loop {
            while self.batch.len() < BUDGET
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

    /// Merges the batch and hands it up; what is still open after the last poll waits for the timeout.
    fn hand_up(&mut self, ctx: &mut ElementContext, core: &mut Core) {
        if let RxOrder::StaleHash(sizes) = &self.spec.order {
            let mut sorted = PacketList::default();
            while !self.batch.is_empty() {
                let (low, high) = (u64::from(*sizes.start()), u64::from(*sizes.end()));
                let size = low + self.rng.below(high - low + 1);
                let mut group = PacketList::default();
                while u64::from(group.len()) < size
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
        let complete = self.batch.len() < BUDGET;
        while let Some(id) = self.batch.pop_front(&core.packets) {
            ctx.waited(core.packets[id].stamp, core.now);
            match &mut self.merging {
                Some(merging) => merging.receive(ctx, core, id),
                None => ctx.forward(core, id),
            }
        }
        if !complete && !self.ring.is_empty() {
            return; // a poll that used its budget goes on; merges end when one is complete
        }
        if let Some(merging) = &self.merging {
            if self.spec.gro_timeout.is_zero() {
                self.flush(ctx, core);
            } else if merging.held() > 0 {
                self.flush_at.get_or_insert(core.now + self.spec.gro_timeout);
            } else {
                self.flush_at = None;
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
        let first = [self.interrupt_at, self.poll_ends, self.flush_at].into_iter().flatten().min();
        ctx.wake_at(core, first);
    }
}

#[cfg(test)]
#[path = "rx_tests.rs"]
mod tests;
