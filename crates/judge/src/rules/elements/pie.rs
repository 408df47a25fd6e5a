//! Controllers of the queueing delay: PIE (RFC 8033) and `DualPI2` (RFC 9332), with the choices of Linux.

use super::codel::signed;
use super::element::{CE, ECT_1, Effects, Held};
use super::port::{Discipline, Offer};
use super::queue::Line;
use super::wire::{Limit, segments};
use tcpassay_measure::DropReason;
use tcpassay_units::{Dur, Stream, Time};

/// PIE. Updates that are due are computed before the next packet, because nothing changes between packets.
#[derive(Debug)]
pub(super) struct Pie {
    target: Dur,
    update: Dur,
    ecn: bool,
    /// A backlog below this size is never reduced.
    spared: u64,
    limit: Limit,
    random: Stream,
    line: Line,
    probability: f64,
    accumulated: f64,
    delay: Dur,
    old_delay: Dur,
    burst: Dur,
    left: Option<Time>,
    next_update: Time,
}

/// `MAX_BURST`, and the gains per second (RFC 8033 section 4.2 and 5.1).
const MAX_BURST: Dur = Dur::from_millis(150);
const ALPHA: f64 = 0.125;
const BETA: f64 = 1.25;

impl Pie {
    pub fn new(target: Dur, update: Dur, ecn: bool, frame: u64, limit: Limit, random: Stream) -> Pie {
        Pie {
            target,
            update,
            ecn,
            spared: 2 * frame,
            limit,
            random,
            line: Line::default(),
            probability: 0.0,
            accumulated: 0.0,
            delay: Dur::ZERO,
            old_delay: Dur::ZERO,
            burst: MAX_BURST,
            left: None,
            next_update: Time::ZERO + update,
        }
    }

    fn updates(&mut self, now: Time) {
        while self.next_update <= now {
            self.next_update += self.update;
            self.updates_once();
        }
    }

    /// Section 4.2, 4.3, 5.5 and 5.6.
    fn updates_once(&mut self) {
        let seconds = |d: Dur| d.as_secs_f64();
        let change = seconds(self.delay) - seconds(self.old_delay);
        let mut p = ALPHA * (seconds(self.delay) - seconds(self.target)) + BETA * change;
        let steps = [(1e-6, 2048.0), (1e-5, 512.0), (1e-4, 128.0), (1e-3, 32.0), (1e-2, 8.0), (0.1, 2.0)];
        p /= steps.iter().find(|(below, _)| self.probability < *below).map_or(1.0, |(_, factor)| *factor);
        if self.probability >= 0.1 {
            p = p.min(0.02);
        }
        if self.delay > Dur::from_millis(250) {
            p += 0.02;
        }
        self.probability = (self.probability + p).clamp(0.0, 1.0);
        let idle = self.delay.is_zero() && self.old_delay.is_zero() && self.line.len() == 0;
        if idle {
            self.probability -= self.probability / 64.0;
        }
        let half = self.target / 2;
        if self.probability == 0.0 && self.delay < half && self.old_delay < half {
            (self.burst, self.left, self.accumulated) = (MAX_BURST, None, 0.0);
        }
        self.old_delay = self.delay;
    }

    /// Section 4.1 and 5.4.
    fn chooses(&mut self) -> bool {
        if !self.burst.is_zero()
            || self.delay < self.target / 2 && self.probability < 0.2
            || self.line.bytes < self.spared
        {
            return false;
        }
        if self.probability == 0.0 {
            self.accumulated = 0.0;
        }
        self.accumulated += self.probability;
        let chosen =
            self.accumulated >= 8.5 || self.accumulated >= 0.85 && self.random.chance(self.probability);
        if chosen {
            self.accumulated = 0.0;
        }
        chosen
    }
}

impl Discipline for Pie {
    fn put(&mut self, now: Time, mut held: Held, out: &mut Effects) {
        self.updates(now);
        if !self.limit.holds(self.line.len(), self.line.bytes, held.packet.size) {
            self.accumulated = 0.0;
            out.drops(held, DropReason::Full);
        } else if self.chooses() && !(self.ecn && self.probability <= 0.1 && out.marks(&mut held)) {
            out.drops(held, DropReason::Early);
        } else {
            self.line.push(held);
        }
    }

    fn take(&mut self, now: Time, _: &mut Effects) -> Offer {
        self.updates(now);
        let Some(held) = self.line.pop() else { return Offer::Nothing };
        self.delay = if self.line.len() == 0 { Dur::ZERO } else { now.since(held.since) };
        if let Some(left) = self.left {
            self.burst = self.burst.saturating_sub(now.since(left));
        }
        self.left = Some(now);
        Offer::Packet(held)
    }

    fn total(&self) -> (usize, u64) {
        (self.line.len(), self.line.bytes)
    }
}

/// `DualPI2`.
#[derive(Debug)]
pub(super) struct DualPi2 {
    target: Dur,
    update: Dur,
    frame: u64,
    limit: Limit,
    random: Stream,
    l4s: Line,
    classic: Line,
    probability: f64,
    last_delay: Dur,
    next_update: Time,
    /// The classic queue is served next while this is above zero.
    credit: i64,
}

/// The coupling factor, the step threshold of L4S, the share of the classic queue in percent, and the gains per second
/// (RFC 9332 appendix A, Linux).
const COUPLING: f64 = 2.0;
const STEP: Dur = Dur::from_millis(1);
const CLASSIC: i64 = 10;
const DUAL_ALPHA: f64 = 0.16;
const DUAL_BETA: f64 = 3.2;

impl DualPi2 {
    pub fn new(target: Dur, update: Dur, frame: u64, limit: Limit, random: Stream) -> DualPi2 {
        DualPi2 {
            target,
            update,
            frame,
            limit,
            random,
            l4s: Line::default(),
            classic: Line::default(),
            probability: 0.0,
            last_delay: Dur::ZERO,
            next_update: Time::ZERO + update,
            credit: start_credit(frame),
        }
    }

    fn updates(&mut self, now: Time) {
        while self.next_update <= now {
            let at = self.next_update;
            let ages = [&self.l4s, &self.classic]
                .map(|line| line.first().map_or(Dur::ZERO, |held| at.since(held.since)));
            let delay = ages[0].max(ages[1]);
            let above = delay.as_secs_f64() - self.target.as_secs_f64();
            let change = delay.as_secs_f64() - self.last_delay.as_secs_f64();
            let p = self.probability + (DUAL_ALPHA * above + DUAL_BETA * change);
            self.probability = p.clamp(0.0, 1.0);
            self.last_delay = delay;
            self.next_update += self.update;
        }
    }

    /// A random decision with the square of the probability.
    fn squared(&mut self) -> bool {
        self.random.chance(self.probability) && self.random.chance(self.probability)
    }

    /// Whether the packet is dropped. Marks it otherwise, if it is chosen.
    fn drops(&mut self, held: &mut Held, l4s: bool, out: &mut Effects) -> bool {
        let coupled = COUPLING * self.probability;
        if !l4s {
            return self.squared() && (coupled > 1.0 || !out.marks(held));
        }
        if coupled > 1.0 && self.squared() {
            return true;
        }
        if coupled > 1.0 || self.random.chance(coupled) {
            out.marks(held);
        }
        false
    }
}

fn start_credit(frame: u64) -> i64 {
    signed(frame) * (2 * CLASSIC - 100)
}

impl Discipline for DualPi2 {
    fn put(&mut self, now: Time, held: Held, out: &mut Effects) {
        self.updates(now);
        for part in parts(held) {
            let (packets, bytes) = self.total();
            if !self.limit.holds(packets, bytes, part.packet.size) {
                out.drops(part, DropReason::Full);
            } else if matches!(part.packet.ecn, ECT_1 | CE) {
                self.l4s.push(part);
            } else {
                self.classic.push(part);
            }
        }
    }

    fn take(&mut self, now: Time, out: &mut Effects) -> Offer {
        self.updates(now);
        loop {
            let spared = self.total().1 <= 2 * self.frame;
            let l4s = self.l4s.len() > 0 && (self.classic.len() == 0 || self.credit <= 0);
            let line = if l4s { &mut self.l4s } else { &mut self.classic };
            let Some(mut held) = line.pop() else {
                self.credit = start_credit(self.frame);
                return Offer::Nothing;
            };
            if !spared && self.drops(&mut held, l4s, out) {
                out.drops(held, DropReason::Early);
                continue;
            }
            if l4s && now.since(held.since) > STEP && held.packet.ecn != CE {
                out.marks(&mut held);
            }
            let size = i64::from(held.packet.size);
            self.credit += if l4s { CLASSIC * size } else { (CLASSIC - 100) * size };
            return Offer::Packet(held);
        }
    }

    fn total(&self) -> (usize, u64) {
        (self.l4s.len() + self.classic.len(), self.l4s.bytes + self.classic.bytes)
    }
}

/// The packets of a super-segment, or the packet.
pub(super) fn parts(held: Held) -> Vec<Held> {
    if held.packet.segs > 1 { segments(held).collect() } else { vec![held] }
}
