//! CoDel (RFC 8289), with ECN as in Linux's `codel_impl.h`: a packet that would be dropped is marked instead and
//! sent.
//!
//! The square root of the control law is computed as in Linux (`codel_Newton_step`): one step of Newton's method per
//! count. The second drop of a dropping state therefore comes half an interval after the first one; RFC 8289 gives
//! 0.71 of an interval.

use crate::element::{Backlog, QueueLimit};
use crate::engine::{Core, DropReason, ElementContext, PacketId, PacketList};
use tcpassay_units::{Bytes, Dur, Time};

/// CoDel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CoDelSpec {
    /// Acceptable standing delay; RFC 8289 section 4.4: 5 to 10 % of `interval`.
    pub target: Dur,
    /// A typical round-trip time of the slower flows (section 4.3).
    pub interval: Dur,
    /// No packet is dropped while the backlog is at most this large: one maximum-size packet.
    pub mtu: Bytes,
    /// ECN-capable packets are marked instead of dropped.
    pub ecn: bool,
    /// ECN-capable packets that waited longer than this are always marked (Linux `ce_threshold`, for DCTCP).
    pub ce_threshold: Option<Dur>,
    /// Limit of the backlog.
    pub limit: QueueLimit,
}

impl CoDelSpec {
    /// The values of RFC 8289 for the Internet, without ECN, and Linux's limit of 1000 packets.
    pub const INTERNET: CoDelSpec = CoDelSpec {
        target: Dur::from_millis(5),
        interval: Dur::from_millis(100),
        mtu: Bytes::new(1514),
        ecn: false,
        ce_threshold: None,
        limit: QueueLimit::packets(1000),
    };
}

/// The control law of one queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct CoDelState {
    dropping: bool,
    count: u32,
    last_count: u32,
    drop_next: Time,
    first_above: Option<Time>,
    /// Inverse square root of the count, in units of 1/65536.
    inverse_root: u16,
}

impl CoDelState {
    /// Dequeues the next packet from `list`, dropping packets as the control law requires. `backlog` returns the
    /// backlog that the law compares with `mtu`; it is called after each dequeued packet.
    pub fn dequeue(
        &mut self,
        spec: &CoDelSpec,
        ctx: &mut ElementContext,
        core: &mut Core,
        mut take: impl FnMut(&Core) -> (Option<PacketId>, u64),
    ) -> Option<PacketId> {
        let now = core.now;
        let (mut head, backlog) = take(core);
        if head.is_none() {
            self.dropping = false;
            return None;
        }
        let drop = self.should_drop(spec, core, head, backlog);
        if self.dropping {
            if !drop {
                self.dropping = false;
            }
            while self.dropping && now >= self.drop_next {
                let id = head.expect("something that should be dropped");
                self.count += 1;
                self.newton_step();
                if spec.ecn && ctx.mark(core, id) {
                    self.drop_next = self.law(spec, self.drop_next);
                    break;
                }
                ctx.drop(core, id, DropReason::Early);
                let backlog;
                (head, backlog) = take(core);
                if self.should_drop(spec, core, head, backlog) {
                    self.drop_next = self.law(spec, self.drop_next);
                } else {
                    self.dropping = false;
                }
            }
        } else if drop {
            let id = head.expect("something that should be dropped");
            if !(spec.ecn && ctx.mark(core, id)) {
                ctx.drop(core, id, DropReason::Early);
                let backlog;
                (head, backlog) = take(core);
                // Section 5.5: the state is entered regardless of the next packet; this call only updates
                // `first_above`.
                self.should_drop(spec, core, head, backlog);
            }
            self.dropping = true;
            // Section 5.4: if the last dropping state was recent, resume near the drop rate that controlled the
            // queue.
            let delta = self.count.wrapping_sub(self.last_count);
            // Zero means that no dropping state has occurred yet, regardless of the count of overflow drops.
            let recent = self.drop_next > Time::ZERO && now.since(self.drop_next) < spec.interval * 16;
            if delta > 1 && recent {
                self.count = delta;
                self.newton_step();
            } else {
                self.count = 1;
                self.inverse_root = u16::MAX;
            }
            self.last_count = self.count;
            self.drop_next = self.law(spec, now);
        }
        if let (Some(id), Some(threshold)) = (head, spec.ce_threshold)
            && now - core.packets[id].stamp > threshold
        {
            ctx.mark(core, id);
        }
        head
    }

    fn should_drop(&mut self, spec: &CoDelSpec, core: &Core, head: Option<PacketId>, backlog: u64) -> bool {
        let below = head.is_none_or(|id| core.now - core.packets[id].stamp < spec.target);
        if below || backlog <= spec.mtu.get() {
            self.first_above = None;
            return false;
        }
        match self.first_above {
            None => {
                self.first_above = Some(core.now + spec.interval);
                false
            }
            Some(at) => core.now >= at,
        }
    }

    /// An overflow dropped packets of this queue. The count increases accordingly (Linux `fq_codel_drop`).
    pub fn overflowed(&mut self, packets: u32) {
        self.count = self.count.wrapping_add(packets);
    }

    /// RFC 8289 section 5.2: the next drop follows after interval / sqrt(count).
    fn law(&self, spec: &CoDelSpec, from: Time) -> Time {
        let ns = (u128::from(spec.interval.as_nanos()) * u128::from(self.inverse_root)) >> 16;
        from + Dur::from_nanos(u64::try_from(ns).expect("less than the interval"))
    }

    /// `x (3 - count x^2) / 2` in the arithmetic of Linux (`codel_Newton_step`).
    fn newton_step(&mut self) {
        let root = u64::from(self.inverse_root) << 16;
        let square = (root * root) >> 32;
        let value = (3_u64 << 32).wrapping_sub(u64::from(self.count) * square) >> 2;
        let value = value.wrapping_mul(root) >> (32 - 2 + 1);
        self.inverse_root = u16::try_from((value >> 16) & 0xffff).expect("16 bits");
    }
}

#[derive(Clone, Debug)]
pub(crate) struct CoDel {
    spec: CoDelSpec,
    list: PacketList,
    state: CoDelState,
}

impl CoDel {
    pub fn new(spec: CoDelSpec) -> CoDel {
        CoDel { spec, list: PacketList::default(), state: CoDelState::default() }
    }

    pub fn enqueue(&mut self, ctx: &mut ElementContext, core: &mut Core, id: PacketId) {
        if self.spec.limit.fits(self.total(), core.packets[id].size().get()) {
            self.list.push_back(&mut core.packets, id);
        } else {
            ctx.drop(core, id, DropReason::Full);
        }
    }

    pub fn dequeue(&mut self, ctx: &mut ElementContext, core: &mut Core) -> Option<PacketId> {
        let list = &mut self.list;
        self.state.dequeue(&self.spec, ctx, core, |core| (list.pop_front(&core.packets), list.bytes()))
    }

    pub fn total(&self) -> Backlog {
        Backlog { packets: self.list.len(), bytes: self.list.bytes() }
    }
}

#[cfg(test)]
#[path = "codel_tests.rs"]
mod tests;
