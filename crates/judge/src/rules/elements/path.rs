//! Impairments: losses, damage, duplicates, policers, and what holds packets (reordering, slots, jitter).

use super::element::{Effects, Element, Held, World};
use super::shaper::Bucket;
use std::collections::VecDeque;
use tcpassay_case::draws::Distribution;
use tcpassay_measure::{DropReason, ElementPacket};
use tcpassay_units::{Dur, Stream, Time};
use tcpassay_wire::Flags;

/// A random number for each packet, which depends on the previous one as in netem.
#[derive(Debug)]
pub(super) struct Correlated {
    pub random: Stream,
    pub correlation: f64,
    pub last: f64,
}

impl Correlated {
    pub fn new(random: Stream, correlation: f64) -> Correlated {
        Correlated { random, correlation, last: 0.0 }
    }

    fn next(&mut self) -> f64 {
        let fresh = self.random.unit();
        if self.correlation <= 0.0 {
            return fresh;
        }
        self.last = fresh * (1.0 - self.correlation) + self.last * self.correlation;
        self.last
    }

    fn is_below(&mut self, p: f64) -> bool {
        p > 0.0 && self.next() < p
    }
}

/// Which packets are lost.
#[derive(Debug)]
pub(super) enum Model {
    /// Each with this probability.
    Alone(f64, Correlated),
    /// Gilbert and Elliott: good to bad, bad to good, loss in the good and in the bad state; the state before the change decides.
    Bursts { change: [f64; 2], loss: [f64; 2], bad: usize, random: Stream },
    /// Those with these numbers, counted from 1.
    List(Vec<u64>),
}

/// The packets that may be lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Which {
    All,
    Data,
    Acks,
}

/// Losses.
#[derive(Debug)]
pub(super) struct Loss {
    pub model: Model,
    pub which: Which,
    pub seen: u64,
}

/// Whether a packet is a TCP segment without data, SYN, FIN and RST.
pub(super) fn is_ack(packet: &ElementPacket) -> bool {
    let flags = Flags::from_bits(packet.flags);
    !packet.is(ElementPacket::DATAGRAM) && packet.len == 0 && !flags.any(Flags::SYN | Flags::FIN | Flags::RST)
}

impl Loss {
    fn loses(&mut self, packet: &ElementPacket) -> bool {
        let applies = match self.which {
            Which::All => true,
            Which::Data => packet.len > 0,
            Which::Acks => is_ack(packet),
        };
        if !applies {
            return false;
        }
        self.seen += 1;
        match &mut self.model {
            Model::Alone(p, random) => random.is_below(*p),
            Model::List(list) => list.binary_search(&self.seen).is_ok(),
            Model::Bursts { change, loss, bad, random } => {
                let before = *bad;
                if random.chance(change[before]) {
                    *bad = 1 - before;
                }
                random.chance(loss[before])
            }
        }
    }
}

impl Element for Loss {
    fn arrives(&mut self, _: Time, held: Held, _: &mut World, out: &mut Effects) {
        if self.loses(&held.packet) { out.drops(held, DropReason::Loss) } else { out.departs(held) }
    }
}

/// Damages packets.
#[derive(Debug)]
pub(super) struct Damage(pub f64, pub Correlated);

impl Element for Damage {
    fn arrives(&mut self, _: Time, mut held: Held, _: &mut World, out: &mut Effects) {
        if self.1.is_below(self.0) {
            held.packet.is |= ElementPacket::CORRUPT;
        }
        out.departs(held);
    }
}

/// Duplicates packets.
#[derive(Debug)]
pub(super) struct Duplicates(pub f64, pub Correlated);

impl Element for Duplicates {
    fn arrives(&mut self, _: Time, held: Held, _: &mut World, out: &mut Effects) {
        out.departs(held);
        if self.1.is_below(self.0) {
            out.departs(Held { known: false, ..held });
        }
    }
}

/// Drops what exceeds a token bucket.
#[derive(Debug)]
pub(super) struct Policer(pub Bucket);

impl Element for Policer {
    fn arrives(&mut self, now: Time, held: Held, _: &mut World, out: &mut Effects) {
        match self.0.takes(now, held.packet.size) {
            Ok(()) => out.departs(held),
            Err(_) => out.drops(held, DropReason::Policed),
        }
    }
}

/// Labels packets with the buffer that they use at the next switch.
#[derive(Debug)]
pub(super) struct Tag(pub bool);

impl Element for Tag {
    fn arrives(&mut self, _: Time, mut held: Held, _: &mut World, out: &mut Effects) {
        held.packet.is &= !ElementPacket::SECOND;
        if self.0 {
            held.packet.is |= ElementPacket::SECOND;
        }
        out.departs(held);
    }
}

/// Delays each packet by a random time.
#[derive(Debug)]
pub(super) struct Jitter {
    pub delay: Dur,
    pub size: Dur,
    pub distribution: Distribution,
    pub random: Correlated,
    /// In the order in which they leave, and of those that leave together in the order of arrival.
    pub flight: VecDeque<(Time, Held)>,
}

impl Jitter {
    /// The delay of the next packet.
    fn draw(&mut self) -> Dur {
        let u = self.random.next();
        let deviation = match self.distribution {
            Distribution::Uniform => 2.0 * u - 1.0,
            Distribution::Normal => normal(u),
            Distribution::Pareto => pareto(u),
            Distribution::ParetoNormal => 0.25 * normal(u) + 0.75 * pareto(u),
        };
        Dur::from_secs_f64(self.delay.as_secs_f64() + self.size.as_secs_f64() * deviation)
    }
}

/// The table `pareto` of netem: shape 3, mean 0, at most four deviations.
fn pareto(u: f64) -> f64 {
    let value = libm::pow(1.0 - u, -1.0 / 3.0);
    ((value - 1.5) * 4.0 / 3.0).min(4.0)
}

/// The quantile of the normal distribution (Abramowitz and Stegun 26.2.23), at most four deviations.
fn normal(u: f64) -> f64 {
    let upper = u >= 0.5;
    let t = libm::sqrt(-2.0 * libm::log(u.min(1.0 - u).max(1e-9)));
    let numerator = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let denominator = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    let deviations = (t - numerator / denominator).min(4.0);
    if upper { deviations } else { -deviations }
}

impl Element for Jitter {
    fn arrives(&mut self, now: Time, held: Held, _: &mut World, _: &mut Effects) {
        let due = now + self.draw();
        let place = self.flight.partition_point(|(other, _)| *other <= due);
        self.flight.insert(place, (due, held));
    }

    fn due(&self) -> Option<Time> {
        self.flight.front().map(|(due, _)| *due)
    }

    fn acts(&mut self, now: Time, _: &mut World, out: &mut Effects) {
        while let Some((_, held)) = self.flight.pop_front_if(|(due, _)| *due <= now) {
            out.departs(held);
        }
    }
}

/// Holds single packets until others have passed them.
#[derive(Debug)]
pub(super) struct HoldsBack {
    pub probability: f64,
    pub gap: u64,
    pub longest: Dur,
    pub random: Stream,
    /// Packets that were not held.
    pub passed: u64,
    /// Held packets: the number of the packet that is the last one to pass, and the latest time.
    pub held: VecDeque<(u64, Time, Held)>,
}

impl Element for HoldsBack {
    fn arrives(&mut self, now: Time, held: Held, _: &mut World, out: &mut Effects) {
        if self.random.chance(self.probability) {
            self.held.push_back((self.passed + self.gap, now + self.longest, held));
            return;
        }
        out.departs(held);
        self.passed += 1;
        while let Some((.., late)) = self.held.pop_front_if(|(last, ..)| *last <= self.passed) {
            out.departs(late);
        }
    }

    fn due(&self) -> Option<Time> {
        self.held.front().map(|(_, latest, _)| *latest)
    }

    fn acts(&mut self, now: Time, _: &mut World, out: &mut Effects) {
        while let Some((.., late)) = self.held.pop_front_if(|(_, latest, _)| *latest <= now) {
            out.departs(late);
        }
    }
}

/// Reverses bursts.
#[derive(Debug)]
pub(super) struct Reverses {
    pub size: usize,
    pub longest: Dur,
    pub burst: Vec<Held>,
    pub until: Time,
}

impl Element for Reverses {
    fn arrives(&mut self, now: Time, held: Held, world: &mut World, out: &mut Effects) {
        if self.burst.is_empty() {
            self.until = now + self.longest;
        }
        self.burst.push(held);
        if self.burst.len() == self.size {
            self.acts(now, world, out);
        }
    }

    fn due(&self) -> Option<Time> {
        (!self.burst.is_empty()).then_some(self.until)
    }

    fn acts(&mut self, _: Time, _: &mut World, out: &mut Effects) {
        self.burst.drain(..).rev().for_each(|held| out.departs(held));
    }
}

/// Lets packets leave in slots (netem's `slot`). The time of the next slot is drawn when a slot is full, or when a packet is the first to wait after a
/// slot.
#[derive(Debug)]
pub(super) struct Slots {
    pub shortest: Dur,
    pub longest: Dur,
    pub packets: u32,
    pub random: Stream,
    pub opens: Time,
    pub left: u32,
    pub waiting: VecDeque<Held>,
}

impl Slots {
    pub fn new(shortest: Dur, longest: Dur, packets: u32, random: Stream) -> Slots {
        let (opens, waiting) = (Time::ZERO, VecDeque::new());
        let mut slots = Slots { shortest, longest, packets, random, opens, left: packets, waiting };
        slots.next(Time::ZERO);
        slots
    }

    fn next(&mut self, now: Time) {
        let range = self.longest.as_nanos() - self.shortest.as_nanos() + 1;
        let wait = self.shortest.as_nanos() + self.random.below(range);
        self.opens = now + Dur::from_nanos(wait.max(1));
        self.left = self.packets;
    }
}

impl Element for Slots {
    fn arrives(&mut self, now: Time, held: Held, _: &mut World, _: &mut Effects) {
        if self.waiting.is_empty() && self.opens < now {
            self.next(now);
        }
        self.waiting.push_back(held);
    }

    fn due(&self) -> Option<Time> {
        (!self.waiting.is_empty()).then_some(self.opens)
    }

    fn acts(&mut self, now: Time, _: &mut World, out: &mut Effects) {
        while let Some(first) = self.waiting.front() {
            if self.opens < first.since {
                self.next(now);
            }
            if self.opens > now {
                return;
            }
            out.departs(self.waiting.pop_front().expect("the first one"));
            self.left -= 1;
            if self.left == 0 {
                self.next(now);
            }
        }
    }
}
