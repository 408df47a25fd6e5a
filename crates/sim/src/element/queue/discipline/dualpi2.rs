//! `DualPI2` (RFC 9332): a low-latency queue for L4S traffic and a classic queue, coupled by one controller.
//!
//! Packets with ECT(1) or CE are L4S. A PI controller of the larger queueing delay computes a base probability p.
//! Classic packets are dropped or marked with probability p squared. L4S packets are marked with probability k times
//! p, or when their own delay exceeds a step threshold. As in Linux's `sch_dualpi2` with its defaults: decisions are
//! made at departure; all packets are dropped instead of marked when k times p exceeds 1; a weighted round robin
//! gives the classic queue at least a tenth of the capacity; super-segments are segmented on arrival; no packet is
//! dropped while at most two packets wait. As for PIE, pending updates are computed at the next arrival or departure;
//! the delay of a queue is the age of its head at the time of the update.

use crate::element::split::split;
use crate::element::{Backlog, QueueLimit};
use crate::engine::{Core, DropReason, ElementContext, PacketId, PacketList};
use tcpassay_units::{Bytes, Dur, Seed, Stream, Time};
use tcpassay_wire::Ecn;

/// `DualPI2`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DualPi2Spec {
    /// Target delay of the classic queue.
    pub target: Dur,
    /// Update interval of the controller.
    pub update: Dur,
    /// Gain of the deviation from the target, in 1/s.
    pub alpha: f64,
    /// Gain of the change of the delay, in 1/s.
    pub beta: f64,
    /// k: the ratio of the marking probability of L4S packets to p (2: equal windows at equal round-trip times).
    pub coupling: f64,
    /// L4S packets that waited longer than this are always marked.
    pub step: Dur,
    /// Minimum share of the classic queue in percent of the bytes, 0 to 100.
    pub classic_share: u8,
    /// No packet is dropped while the backlog is at most twice this value.
    pub mtu: Bytes,
    /// Limit of the total backlog.
    pub limit: QueueLimit,
}

impl DualPi2Spec {
    /// The defaults of Linux, which are those of RFC 9332.
    pub const LINUX: DualPi2Spec = DualPi2Spec {
        target: Dur::from_millis(15),
        update: Dur::from_millis(16),
        alpha: 0.16,
        beta: 3.2,
        coupling: 2.0,
        step: Dur::from_millis(1),
        classic_share: 10,
        mtu: Bytes::new(1514),
        limit: QueueLimit::packets(10_000),
    };
}

#[derive(Clone, Debug)]
pub(crate) struct DualPi2 {
    spec: DualPi2Spec,
    rng: Stream,
    l4s: PacketList,
    classic: PacketList,
    /// Base probability, 0 to 1.
    probability: f64,
    last_delay: Dur,
    next_update: Time,
    /// The classic queue is served next when this value is above zero.
    credit: i64,
}

impl DualPi2 {
    pub fn new(spec: DualPi2Spec, name: &str, seed: Seed) -> DualPi2 {
        assert!(!spec.update.is_zero(), "an update without a period");
        assert!(spec.classic_share <= 100, "a share of {} in a hundred", spec.classic_share);
        let mut q = DualPi2 {
            spec,
            rng: seed.stream(&format!("{name}.dualpi2")),
            l4s: PacketList::default(),
            classic: PacketList::default(),
            probability: 0.0,
            last_delay: Dur::ZERO,
            next_update: Time::ZERO + spec.update,
            credit: 0,
        };
        q.reset_credit();
        q
    }

    pub fn enqueue(&mut self, ctx: &mut ElementContext, core: &mut Core, id: PacketId) {
        self.catch_up(core);
        let mut pieces = split(ctx, &mut core.packets, id);
        while let Some(id) = pieces.pop_front(&core.packets) {
            let packet = &core.packets[id];
            let l4s = matches!(packet.ecn, Ecn::Ect1 | Ecn::Ce);
            if !self.spec.limit.fits(self.total(), packet.size().get()) {
                ctx.drop(core, id, DropReason::Full);
            } else if l4s {
                self.l4s.push_back(&mut core.packets, id);
            } else {
                self.classic.push_back(&mut core.packets, id);
            }
        }
    }

    pub fn dequeue(&mut self, ctx: &mut ElementContext, core: &mut Core) -> Option<PacketId> {
        self.catch_up(core);
        loop {
            let backlog = self.total().bytes;
            let share = i64::from(self.spec.classic_share);
            let l4s = !self.l4s.is_empty() && (self.classic.is_empty() || self.credit <= 0);
            let list = if l4s { &mut self.l4s } else { &mut self.classic };
            let Some(id) = list.pop_front(&core.packets) else {
                self.reset_credit();
                return None;
            };
            let spared = backlog <= 2 * self.spec.mtu.get();
            if !spared && self.drops(ctx, core, id, l4s) {
                ctx.drop(core, id, DropReason::Early);
                continue;
            }
            if l4s && core.now - core.packets[id].stamp > self.spec.step && core.packets[id].ecn != Ecn::Ce {
                ctx.mark(core, id);
            }
            let size = i64::try_from(core.packets[id].size().get()).expect("a packet");
            self.credit += if l4s { share * size } else { -(100 - share) * size };
            return Some(id);
        }
    }

    pub fn total(&self) -> Backlog {
        Backlog {
            packets: self.l4s.len() + self.classic.len(),
            bytes: self.l4s.bytes() + self.classic.bytes(),
        }
    }

    /// Marks the packet with the coupled probability. Returns whether to drop it instead.
    fn drops(&mut self, ctx: &mut ElementContext, core: &mut Core, id: PacketId, l4s: bool) -> bool {
        let p = self.probability;
        let coupled = p * self.spec.coupling;
        let overload = coupled > 1.0;
        // The square is computed with two random numbers, as by a router without a multiplier.
        let squared = |rng: &mut Stream| rng.chance(p) && rng.chance(p);
        if l4s {
            if overload && squared(&mut self.rng) {
                return true;
            }
            if overload || self.rng.chance(coupled) {
                ctx.mark(core, id);
            }
            false
        } else {
            squared(&mut self.rng) && (overload || !ctx.mark(core, id))
        }
    }

    fn catch_up(&mut self, core: &Core) {
        while self.next_update <= core.now {
            if self.total().packets == 0 && self.probability == 0.0 && self.last_delay.is_zero() {
                let missed = (core.now - self.next_update) / self.spec.update;
                self.next_update += self.spec.update * (missed + 1);
                return;
            }
            let age = |list: &PacketList| {
                list.front().map_or(Dur::ZERO, |id| self.next_update.since(core.packets[id].stamp))
            };
            let delay = age(&self.l4s).max(age(&self.classic));
            self.update(delay);
            self.next_update += self.spec.update;
        }
    }

    /// The PI controller of RFC 9332 appendix A.1.
    fn update(&mut self, delay: Dur) {
        let (now, last) = (delay.as_secs_f64(), self.last_delay.as_secs_f64());
        let target = self.spec.target.as_secs_f64();
        self.probability += self.spec.alpha * (now - target) + self.spec.beta * (now - last);
        self.probability = self.probability.clamp(0.0, 1.0);
        self.last_delay = delay;
    }

    fn reset_credit(&mut self) {
        let mtu = i64::try_from(self.spec.mtu.get()).expect("a packet");
        self.credit = mtu * (2 * i64::from(self.spec.classic_share) - 100);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::DisciplineSpec;
    use crate::element::test_net::{TestPath, data, numbered};
    use crate::element::{Pace, PortSpec};
    use crate::engine::Packet;
    use tcpassay_units::Rate;

    fn line() -> TestPath {
        let pace = Pace::Fixed(Rate::from_mbit(12));
        TestPath::new(PortSpec::new(DisciplineSpec::DualPi2(DualPi2Spec::LINUX), pace, Dur::ZERO))
    }

    fn l4s(seq: u32) -> Packet {
        let mut p = numbered(seq, 1460);
        p.ecn = Ecn::Ect1;
        p
    }

    #[test]
    fn the_controller_adds_its_gains_times_distance_and_change() {
        let mut q = DualPi2::new(DualPi2Spec::LINUX, "q", Seed(1));
        (q.probability, q.last_delay) = (0.1, Dur::from_millis(18));
        q.update(Dur::from_millis(20));
        // 0.16 * 5 ms + 3.2 * 2 ms = 0.0072.
        assert!((q.probability - 0.1072).abs() < 1e-12, "{}", q.probability);
    }

    #[test]
    fn l4s_packets_pass_classic_ones_but_leave_them_a_tenth() {
        let mut line = line();
        for n in 0..100 {
            line.send(numbered(1000 + n, 1460));
        }
        for n in 0..100 {
            line.send(l4s(n));
        }
        line.run_until(101_000_000);
        let seqs = line.seqs();
        // The first packet was sent before an L4S packet arrived; then L4S packets are sent until the credit is above zero, then one
        // classic packet in ten.
        let classic = seqs[1..].iter().filter(|s| **s >= 1000).count();
        assert!((8..=11).contains(&classic), "{classic}");
        assert_eq!(seqs[1..6], [0, 1, 2, 3, 4]);
    }

    #[test]
    fn an_l4s_packet_that_waited_longer_than_the_step_is_marked() {
        let mut line = line();
        for n in 0..5 {
            line.send(l4s(n));
        }
        line.finish();
        // They wait 0, 1, 2, 3 and 4 ms.
        let marks: Vec<bool> = line.arrived.iter().map(|(_, p)| p.ecn == Ecn::Ce).collect();
        assert_eq!(marks, [false, false, true, true, true]);
    }

    /// Shares of 20,000 packets marked or dropped at a base probability.
    fn shares(p: f64, ecn: Ecn) -> (f64, f64) {
        let mut line = line();
        let core = line.net.core();
        let mut ctx = ElementContext::detached();
        let mut q = DualPi2::new(DualPi2Spec::LINUX, "q", Seed(1));
        q.probability = p;
        let (mut marked, mut dropped) = (0.0, 0.0);
        for _ in 0..20_000 {
            let mut packet = data(1460);
            packet.ecn = ecn;
            let id = core.packets.insert(packet);
            if q.drops(&mut ctx, core, id, ecn == Ecn::Ect1) {
                dropped += 1.0;
            } else if core.packets[id].ecn == Ecn::Ce {
                marked += 1.0;
            }
            core.packets.free(id);
        }
        (marked / 20_000.0, dropped / 20_000.0)
    }

    fn near(got: (f64, f64), want: (f64, f64)) {
        assert!((got.0 - want.0).abs() < 0.01 && (got.1 - want.1).abs() < 0.01, "{got:?} is not {want:?}");
    }

    #[test]
    fn classic_packets_feel_the_square_and_l4s_packets_k_times_the_probability() {
        near(shares(0.3, Ecn::NotEct), (0.0, 0.09));
        near(shares(0.3, Ecn::Ect0), (0.09, 0.0));
        near(shares(0.3, Ecn::Ect1), (0.6, 0.0));
    }

    #[test]
    fn in_overload_all_are_dropped_with_the_square() {
        near(shares(0.7, Ecn::Ect0), (0.0, 0.49));
        near(shares(0.7, Ecn::Ect1), (0.51, 0.49));
    }
}
