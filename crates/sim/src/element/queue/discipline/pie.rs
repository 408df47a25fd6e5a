//! PIE (RFC 8033): a proportional-integral controller of the queueing delay that drops at random on arrival.
//!
//! The delay is measured with time stamps (section 5.2), as in Linux's `sch_pie`: it is the delay of the last packet
//! that left, and zero when the queue is empty. Derandomisation (section 5.4) and the cap of section 5.5 are
//! implemented. The controller is always active (section 5.3 is optional). As in Linux: the probability rises by two
//! percent per update while the delay exceeds 250 ms; it decays by 1/64 without delay; the test that lets a packet
//! pass uses the current delay and not that of the last update; the burst allowance is consumed by the time between
//! departures and restored at an update. Pending updates are computed at the next arrival or departure, because their
//! inputs do not change between packets.

use crate::element::{Backlog, QueueLimit};
use crate::engine::{Core, DropReason, ElementContext, PacketId, PacketList};
use tcpassay_units::{Bytes, Dur, Seed, Stream, Time};

/// PIE.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PieSpec {
    /// Target delay (`QDELAY_REF`).
    pub target: Dur,
    /// Update interval (`T_UPDATE`).
    pub update: Dur,
    /// Burst allowance after an idle time (`MAX_BURST`).
    pub max_burst: Dur,
    /// Gain of the deviation from the target, in 1/s.
    pub alpha: f64,
    /// Gain of the change of the delay, in 1/s.
    pub beta: f64,
    /// ECN-capable packets are marked instead of dropped while the probability is at most 10 % (section 5.1).
    pub ecn: bool,
    /// No packet is dropped while the backlog is below twice this value.
    pub mtu: Bytes,
    /// Limit of the backlog.
    pub limit: QueueLimit,
}

impl PieSpec {
    /// The values of RFC 8033, without ECN, and Linux's limit of 1000 packets.
    pub const RFC: PieSpec = PieSpec {
        target: Dur::from_millis(15),
        update: Dur::from_millis(15),
        max_burst: Dur::from_millis(150),
        alpha: 0.125,
        beta: 1.25,
        ecn: false,
        mtu: Bytes::new(1514),
        limit: QueueLimit::packets(1000),
    };
}

/// `mark_ecnth`: above this probability ECN-capable packets are dropped, too.
const MARK_UP_TO: f64 = 0.1;

#[derive(Clone, Debug)]
pub(crate) struct Pie {
    spec: PieSpec,
    list: PacketList,
    rng: Stream,
    probability: f64,
    accumulated: f64,
    delay: Dur,
    old_delay: Dur,
    burst: Dur,
    /// The departure time of the last packet since the burst allowance was restored.
    left: Option<Time>,
    next_update: Time,
}

impl Pie {
    pub fn new(spec: PieSpec, name: &str, seed: Seed) -> Pie {
        assert!(!spec.update.is_zero(), "an update without a period");
        Pie {
            spec,
            list: PacketList::default(),
            rng: seed.stream(&format!("{name}.pie")),
            probability: 0.0,
            accumulated: 0.0,
            delay: Dur::ZERO,
            old_delay: Dur::ZERO,
            burst: spec.max_burst,
            left: None,
            next_update: Time::ZERO + spec.update,
        }
    }

    pub fn enqueue(&mut self, ctx: &mut ElementContext, core: &mut Core, id: PacketId) {
        self.catch_up(core.now);
        if !self.spec.limit.fits(self.total(), core.packets[id].size().get()) {
            self.accumulated = 0.0;
            ctx.drop(core, id, DropReason::Full);
            return;
        }
        if self.burst.is_zero() && self.hits() {
            let marked = self.spec.ecn && self.probability <= MARK_UP_TO && ctx.mark(core, id);
            if !marked {
                self.accumulated = 0.0;
                ctx.drop(core, id, DropReason::Early);
                return;
            }
        }
        self.list.push_back(&mut core.packets, id);
    }

    pub fn dequeue(&mut self, core: &Core) -> Option<PacketId> {
        self.catch_up(core.now);
        let id = self.list.pop_front(&core.packets)?;
        self.delay = if self.list.is_empty() { Dur::ZERO } else { core.now - core.packets[id].stamp };
        let since = self.left.replace(core.now).map_or(Dur::ZERO, |left| core.now - left);
        self.burst = self.burst.saturating_sub(since);
        Some(id)
    }

    pub fn total(&self) -> Backlog {
        Backlog { packets: self.list.len(), bytes: self.list.bytes() }
    }

    /// RFC 8033 section 4.1 and 5.4.
    fn hits(&mut self) -> bool {
        let calm = self.delay < self.spec.target / 2 && self.probability < 0.2;
        if calm || self.list.bytes() < 2 * self.spec.mtu.get() {
            return false;
        }
        if self.probability == 0.0 {
            self.accumulated = 0.0;
        }
        self.accumulated += self.probability;
        if self.accumulated < 0.85 {
            return false;
        }
        if self.accumulated < 8.5 && !self.rng.chance(self.probability) {
            return false;
        }
        self.accumulated = 0.0;
        true
    }

    fn catch_up(&mut self, now: Time) {
        while self.next_update <= now {
            if self.is_at_rest() {
                // The remaining updates would change nothing and are skipped.
                let missed = (now - self.next_update) / self.spec.update;
                self.next_update += self.spec.update * (missed + 1);
                return;
            }
            self.update();
            self.next_update += self.spec.update;
        }
    }

    fn is_at_rest(&self) -> bool {
        self.probability == 0.0
            && self.delay.is_zero()
            && self.old_delay.is_zero()
            && self.burst == self.spec.max_burst
            && self.left.is_none()
    }

    /// RFC 8033 section 4.2, 4.4, 5.3 and 5.5.
    fn update(&mut self) {
        let (delay, target) = (self.delay.as_secs_f64(), self.spec.target.as_secs_f64());
        let change = delay - self.old_delay.as_secs_f64();
        let mut p = self.spec.alpha * (delay - target) + self.spec.beta * change;
        // Small probabilities are adjusted in small steps.
        p /= match self.probability {
            x if x < 0.000_001 => 2048.0,
            x if x < 0.000_01 => 512.0,
            x if x < 0.000_1 => 128.0,
            x if x < 0.001 => 32.0,
            x if x < 0.01 => 8.0,
            x if x < 0.1 => 2.0,
            _ => 1.0,
        };
        if self.probability >= 0.1 && p > 0.02 {
            p = 0.02;
        }
        if self.delay > Dur::from_millis(250) {
            p += 0.02;
        }
        self.probability += p;
        self.probability = self.probability.clamp(0.0, 1.0);
        if self.delay.is_zero() && self.old_delay.is_zero() && self.list.is_empty() {
            self.probability -= self.probability / 64.0;
        }
        let low = |d: Dur| d < self.spec.target / 2;
        if self.probability == 0.0 && low(self.delay) && low(self.old_delay) {
            self.burst = self.spec.max_burst;
            self.left = None;
            self.accumulated = 0.0;
        }
        self.old_delay = self.delay;
    }
}

#[cfg(test)]
#[path = "pie_tests.rs"]
mod tests;
