//! A policer and a slotted medium.

use crate::engine::{Core, DropReason, ElementContext, PacketId, PacketList};
use tcpassay_units::{Bytes, Carry, Dur, Rate, Seed, Stream, Time};

/// Drops packets that exceed a token bucket, without delaying any (Linux `act_police` with `drop`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PolicerSpec {
    /// The long-term rate.
    pub rate: Rate,
    /// Size of the token bucket: bytes that may pass at once after an idle time.
    pub burst: Bytes,
}

#[derive(Clone, Debug)]
pub(crate) struct Policer {
    rate: Rate,
    depth: Dur,
    tokens: Dur,
    checked: Time,
    carry: Carry,
}

impl PolicerSpec {
    pub(super) fn make(self, _: &str, _: Seed) -> Policer {
        let depth = self.rate.time_for(self.burst);
        Policer { rate: self.rate, depth, tokens: depth, checked: Time::ZERO, carry: Carry::default() }
    }
}

impl Policer {
    pub fn receive(&mut self, ctx: &mut ElementContext, core: &mut Core, id: PacketId) {
        self.tokens = self.depth.min(self.tokens + (core.now - self.checked));
        self.checked = core.now;
        let mut carry = self.carry;
        let cost = self.rate.tx_time(core.packets[id].size(), &mut carry);
        if cost > self.tokens {
            ctx.drop(core, id, DropReason::Policed);
            return;
        }
        self.tokens -= cost;
        self.carry = carry;
        ctx.forward(core, id);
    }
}

/// Packets leave only in slots, as on a shared radio channel (netem's `slot`). Packets that arrived before a slot
/// opens leave together; later packets wait for the next slot. The time between slots is uniformly distributed
/// between `shortest` and `longest`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlottedMediumSpec {
    /// The shortest time between two slots.
    pub shortest: Dur,
    /// The longest time between two slots.
    pub longest: Dur,
    /// Maximum number of packets per slot.
    pub packets: u32,
    /// Maximum number of IP bytes per slot; the last packet may exceed it.
    pub bytes: Bytes,
}

#[derive(Clone, Debug)]
pub(crate) struct SlottedMedium {
    spec: SlottedMediumSpec,
    rng: Stream,
    opens: Time,
    packets_left: u32,
    bytes_left: u64,
    waiting: PacketList,
}

impl SlottedMediumSpec {
    pub(super) fn make(self, name: &str, seed: Seed) -> SlottedMedium {
        assert!(self.shortest <= self.longest, "slots of no length");
        assert!(self.packets > 0 && !self.bytes.is_zero(), "slots that carry nothing");
        let mut slot = SlottedMedium {
            spec: self,
            rng: seed.stream(&format!("{name}.slot")),
            opens: Time::ZERO,
            packets_left: 0,
            bytes_left: 0,
            waiting: PacketList::default(),
        };
        slot.next(Time::ZERO);
        slot
    }
}

impl SlottedMedium {
    pub fn receive(&mut self, ctx: &mut ElementContext, core: &mut Core, id: PacketId) {
        core.packets[id].stamp = core.now;
        self.waiting.push_back(&mut core.packets, id);
        if self.waiting.len() == 1 {
            if self.opens < core.now {
                self.next(core.now);
            }
            ctx.wake_at(core, Some(self.opens));
        }
    }

    pub fn wake(&mut self, ctx: &mut ElementContext, core: &mut Core) {
        while let Some(id) = self.waiting.front() {
            if self.opens < core.packets[id].stamp {
                self.next(core.now);
            }
            if self.opens > core.now {
                break;
            }
            self.waiting.pop_front(&core.packets);
            self.packets_left -= 1;
            self.bytes_left = self.bytes_left.saturating_sub(core.packets[id].size().get());
            ctx.forward(core, id);
            if self.packets_left == 0 || self.bytes_left == 0 {
                self.next(core.now);
            }
        }
        ctx.wake_at(core, self.waiting.front().map(|_| self.opens));
    }

    pub fn held(&self) -> u64 {
        u64::from(self.waiting.len())
    }

    fn next(&mut self, now: Time) {
        let SlottedMediumSpec { shortest, longest, packets, bytes } = self.spec;
        let spread = (longest - shortest).as_nanos();
        let wait = shortest + Dur::from_nanos(self.rng.below(spread + 1));
        self.opens = now + wait.max(Dur::from_nanos(1));
        self.packets_left = packets;
        self.bytes_left = bytes.get();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::test_net::{TestPath, numbered};

    #[test]
    fn a_policer_passes_the_burst_and_then_the_rate_without_delay() {
        let mut line = TestPath::new(PolicerSpec { rate: Rate::from_mbit(8), burst: Bytes::new(3000) });
        for seq in 0..3 {
            line.send(numbered(seq, 1460));
        }
        line.run_until(1_499_999);
        line.send(numbered(3, 1460));
        line.run_until(1_500_000);
        line.send(numbered(4, 1460));
        line.finish();
        assert_eq!(line.seqs(), [0, 1, 4]);
        assert_eq!(line.times(), [0, 0, 1_500_000]);
        assert_eq!(line.counters().dropped[DropReason::Policed], 2);
    }

    #[test]
    fn a_policer_passes_its_rate_in_the_long_run() {
        let mut line = TestPath::new(PolicerSpec { rate: Rate::from_mbit(80), burst: Bytes::new(15_000) });
        for seq in 0..10_000_u32 {
            line.run_until(u64::from(seq) * 75_000);
            line.send(numbered(seq, 1460));
        }
        line.finish();
        // 160 Mbit/s are offered for 0.75 s: half of 10,000 packets, and the burst of 10.
        assert!((5000..=5010).contains(&line.arrived.len()), "{}", line.arrived.len());
    }

    fn slots(packets: u32) -> TestPath {
        let each = Dur::from_millis(5);
        let spec = SlottedMediumSpec { shortest: each, longest: each, packets, bytes: Bytes::MAX };
        let mut line = TestPath::new(spec);
        for seq in 0..12 {
            line.run_until(u64::from(seq) * 1_000_000);
            line.send(numbered(seq, 1460));
        }
        line.finish();
        line
    }

    #[test]
    fn packets_that_arrive_before_a_slot_opens_leave_together() {
        // Slots: 5 ms carries 0..=5; packet 6 makes the next, 6 + 5 = 11 ms, which carries 6..=11.
        let ms: Vec<u64> = slots(u32::MAX).times().iter().map(|t| t / 1_000_000).collect();
        assert_eq!(ms, [5, 5, 5, 5, 5, 5, 11, 11, 11, 11, 11, 11]);
    }

    #[test]
    fn a_slot_carries_only_its_packets() {
        let ms: Vec<u64> = slots(4).times().iter().map(|t| t / 1_000_000).collect();
        assert_eq!(ms, [5, 5, 5, 5, 10, 10, 10, 10, 15, 15, 15, 15]);
    }
}
