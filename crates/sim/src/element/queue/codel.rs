//! CoDel (RFC 8289), with ECN as Linux's `codel_impl.h`: a packet that would be dropped is marked instead and leaves.
//!
//! The root in the control law is Linux's, too (`codel_Newton_step`): one step of Newton's method for each count, so that the
//! second drop of a dropping state comes half an interval after the first, where the RFC has 0.71.

use crate::element::{Backlog, QueueLimit};
use crate::engine::{Core, DropReason, ElementContext, PacketId, PacketList};
use tcpassay_units::{Bytes, Dur, Time};

/// CoDel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CoDelSpec {
    /// Standing delay that is acceptable; RFC 8289 section 4.4: 5 to 10 % of `interval`.
    pub target: Dur,
    /// A round-trip time of the slower flows (section 4.3).
    pub interval: Dur,
    /// Up to so many bytes waiting nothing is dropped: one largest packet.
    pub mtu: Bytes,
    /// ECN-capable packets are marked instead of dropped.
    pub ecn: bool,
    /// ECN-capable packets that waited longer than this are marked in any case (Linux `ce_threshold`, for DCTCP).
    pub ce_threshold: Option<Dur>,
    /// How much may wait.
    pub limit: QueueLimit,
}

impl CoDelSpec {
    /// The RFC's values for the Internet, without ECN, and Linux's limit of 1000 packets.
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
    /// One over the root of the count, in 1/65536.
    inverse_root: u16,
}

impl CoDelState {
    /// Takes the next packet that may leave from `list`, dropping as the law says. `backlog` is what the law looks at to
    /// tell whether only a packet is left; it is called after each packet taken.
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
                // Section 5.5: the state is entered whatever the next packet is; this only keeps `first_above`.
                self.should_drop(spec, core, head, backlog);
            }
            self.dropping = true;
            // Section 5.4: resume near the rate that controlled the queue, if that was not long ago.
            let delta = self.count.wrapping_sub(self.last_count);
            // Zero is a state that has not dropped yet, whatever an overflow has counted.
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

    /// An overflow dropped packets of this queue, which counts as a stronger signal (Linux `fq_codel_drop`).
    pub fn overflowed(&mut self, packets: u32) {
        self.count = self.count.wrapping_add(packets);
    }

    /// RFC 8289 section 5.2: the next drop comes an interval over the root of the count later.
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
