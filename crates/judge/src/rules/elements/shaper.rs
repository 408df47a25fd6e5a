//! Shapers: the token bucket filter (Linux `sch_tbf`) and hierarchical token buckets (`sch_htb`).
//!
//! Tokens are measured in the time that their bytes take at the rate of the bucket.

use super::codel::signed;
use super::element::{Effects, Held};
use super::pie::parts;
use super::port::{Discipline, Offer};
use super::queue::Fifo;
use super::wire::nanoseconds;
use tcpassay_measure::DropReason;
use tcpassay_units::{Bytes, Dur, Rate, Time};

/// The time that bytes take at a rate, without rounding errors over many packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    rate: u64,
    bits: u128,
}

impl Cost {
    pub fn new(rate: Rate) -> Cost {
        Cost { rate: rate.bits_per_sec(), bits: 0 }
    }

    /// What the next packet costs.
    pub fn of(&self, size: u32) -> Dur {
        let time = |bits: u128| bits * 1_000_000_000 / u128::from(self.rate);
        nanoseconds(time(self.bits + u128::from(size) * 8) - time(self.bits))
    }

    /// Charges the packet.
    pub fn charge(&mut self, size: u32) {
        self.bits += u128::from(size) * 8;
    }
}

/// A bucket that permits a packet if it holds all its tokens.
#[derive(Debug)]
pub(super) struct Bucket {
    depth: Dur,
    tokens: Dur,
    filled: Time,
    cost: Cost,
}

impl Bucket {
    pub fn new(rate: Rate, depth: Bytes) -> Bucket {
        let depth = rate.time_for(depth);
        Bucket { depth, tokens: depth, filled: Time::ZERO, cost: Cost::new(rate) }
    }

    /// Takes the tokens of a packet; the error is the time that is missing.
    pub fn takes(&mut self, now: Time, size: u32) -> Result<(), Dur> {
        self.tokens = (self.tokens + now.since(self.filled)).min(self.depth);
        self.filled = now;
        let cost = self.cost.of(size);
        if cost > self.tokens {
            return Err(cost - self.tokens);
        }
        self.tokens -= cost;
        self.cost.charge(size);
        Ok(())
    }
}

/// The token bucket filter.
#[derive(Debug)]
pub(super) struct Tbf {
    bucket: Bucket,
    burst: u64,
    inner: Fifo,
    head: Option<Held>,
}

impl Tbf {
    pub fn new(rate: Rate, burst: Bytes, inner: Fifo) -> Tbf {
        Tbf { bucket: Bucket::new(rate, burst), burst: burst.get(), inner, head: None }
    }
}

impl Discipline for Tbf {
    fn put(&mut self, now: Time, held: Held, out: &mut Effects) {
        if u64::from(held.packet.size) <= self.burst {
            self.inner.put(now, held, out);
            return;
        }
        // What the bucket can never hold is segmented, and a packet that cannot be is dropped.
        for part in parts(held) {
            if u64::from(part.packet.size) <= self.burst {
                self.inner.put(now, part, out);
            } else {
                out.drops(part, DropReason::Full);
            }
        }
    }

    fn take(&mut self, now: Time, _: &mut Effects) -> Offer {
        if self.head.is_none() {
            self.head = self.inner.line.pop();
        }
        let Some(held) = self.head else { return Offer::Nothing };
        if let Err(missing) = self.bucket.takes(now, held.packet.size) {
            return Offer::Until(now + missing);
        }
        self.head = None;
        Offer::Packet(held)
    }

    fn total(&self) -> (usize, u64) {
        let (packets, bytes) = self.inner.total();
        self.head.map_or((packets, bytes), |held| (packets + 1, bytes + u64::from(held.packet.size)))
    }

    fn peeks(&self) -> bool {
        self.head.is_none()
    }
}

/// A bucket that a packet may overdraw.
#[derive(Debug)]
struct Debt {
    depth: i64,
    tokens: i64,
    cost: Cost,
}

/// The largest debt, and the longest time that is filled in at once (`mbuffer`).
const MOST: i64 = 60_000_000_000;

impl Debt {
    fn new(rate: Rate, burst: Bytes) -> Debt {
        let depth = signed(rate.time_for(burst).as_nanos());
        Debt { depth, tokens: depth, cost: Cost::new(rate) }
    }

    fn charge(&mut self, passed: i64, size: u32) {
        let cost = signed(self.cost.of(size).as_nanos());
        self.cost.charge(size);
        self.tokens = ((self.tokens + passed).min(self.depth) - cost).max(1 - MOST);
    }
}

#[derive(Debug)]
struct Class {
    rate: Debt,
    ceil: Debt,
    filled: Time,
}

impl Class {
    fn new(rate: Rate, ceil: Rate, burst: Bytes) -> Class {
        Class { rate: Debt::new(rate, burst), ceil: Debt::new(ceil, burst), filled: Time::ZERO }
    }

    fn passed(&self, now: Time) -> i64 {
        signed(now.since(self.filled).as_nanos()).min(MOST)
    }

    /// When `tokens` reach zero.
    fn ready(&self, tokens: i64) -> Time {
        self.filled + Dur::from_nanos(tokens.min(0).unsigned_abs())
    }
}

#[derive(Debug)]
struct Leaf {
    class: Class,
    queue: Fifo,
    /// What it may still send in its turn with its own tokens, and with borrowed ones.
    deficits: [i64; 2],
}

/// HTB with one class, or with equal classes that may borrow from their parent.
#[derive(Debug)]
pub(super) struct Htb {
    leaves: Vec<Leaf>,
    parent: Option<Class>,
    quantum: i64,
    /// Whose turn it is with own tokens, and with borrowed ones.
    turns: [usize; 2],
}

impl Htb {
    pub fn new(rate: Rate, classes: u32, burst: Bytes, queue: impl Fn() -> Fifo) -> Htb {
        let share = if classes == 1 { rate } else { rate.mul_f64(1.0 / f64::from(classes)) };
        let leaf = || Leaf { class: Class::new(share, rate, burst), queue: queue(), deficits: [0; 2] };
        Htb {
            leaves: (0..classes).map(|_| leaf()).collect(),
            parent: (classes > 1).then(|| Class::new(rate, rate, burst)),
            // A tenth of the bytes of a second (`r2q`).
            quantum: signed((share.bits_per_sec() / 80).clamp(1000, 200_000)),
            turns: [0; 2],
        }
    }

    fn leaf(&self, flow: u32) -> usize {
        flow as usize % self.leaves.len()
    }

    /// Whether a leaf may send with its own tokens (0) or borrowed ones (1); the error is when to ask again.
    fn permits(&self, leaf: &Leaf, now: Time) -> Result<usize, Time> {
        let passed = leaf.class.passed(now);
        if leaf.class.ceil.tokens + passed < 0 {
            return Err(leaf.class.ready(leaf.class.ceil.tokens));
        }
        if leaf.class.rate.tokens + passed >= 0 {
            return Ok(0);
        }
        let own = leaf.class.ready(leaf.class.rate.tokens);
        let Some(parent) = &self.parent else { return Err(own) };
        let passed = parent.passed(now);
        if parent.ceil.tokens + passed < 0 {
            return Err(own.min(parent.ready(parent.ceil.tokens)));
        }
        if parent.rate.tokens + passed >= 0 {
            return Ok(1);
        }
        Err(own.min(parent.ready(parent.rate.tokens)))
    }

    fn charge(&mut self, place: usize, level: usize, now: Time, size: u32) {
        let count = self.leaves.len();
        let leaf = &mut self.leaves[place];
        leaf.deficits[level] -= i64::from(size);
        self.turns[level] = place;
        if leaf.deficits[level] < 0 {
            leaf.deficits[level] += self.quantum;
            self.turns[level] = (place + 1) % count;
        }
        let passed = leaf.class.passed(now);
        if level == 0 {
            leaf.class.rate.charge(passed, size);
        } else {
            leaf.class.rate.tokens += passed;
        }
        leaf.class.ceil.charge(passed, size);
        leaf.class.filled = now;
        if let Some(parent) = &mut self.parent {
            let passed = parent.passed(now);
            parent.rate.charge(passed, size);
            parent.ceil.charge(passed, size);
            parent.filled = now;
        }
    }
}

impl Discipline for Htb {
    fn put(&mut self, now: Time, held: Held, out: &mut Effects) {
        let leaf = self.leaf(held.packet.flow);
        self.leaves[leaf].queue.put(now, held, out);
    }

    fn take(&mut self, now: Time, out: &mut Effects) -> Offer {
        let count = self.leaves.len();
        let (mut best, mut soonest) = (None, None);
        for (place, leaf) in self.leaves.iter().enumerate().filter(|(_, leaf)| leaf.queue.line.len() > 0) {
            match self.permits(leaf, now) {
                Ok(level) => {
                    let turn = (place + count - self.turns[level]) % count;
                    let offer = (level, turn, place);
                    best = Some(best.map_or(offer, |other: (usize, usize, usize)| other.min(offer)));
                }
                Err(at) => soonest = Some(soonest.map_or(at, |other: Time| other.min(at))),
            }
        }
        let Some((level, _, place)) = best else { return soonest.map_or(Offer::Nothing, Offer::Until) };
        let offer = self.leaves[place].queue.take(now, out);
        if let Offer::Packet(held) = offer {
            self.charge(place, level, now, held.packet.size);
        }
        offer
    }

    fn total(&self) -> (usize, u64) {
        let totals = self.leaves.iter().map(|leaf| leaf.queue.total());
        totals.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    fn backlog(&self, flow: u32) -> u64 {
        self.leaves[self.leaf(flow)].queue.line.bytes
    }
}
