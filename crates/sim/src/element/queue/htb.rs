//! Hierarchical token buckets, as in Linux's `net/sched/sch_htb.c`.
//!
//! Every class has two token buckets, one filled at its rate and one at its ceiling. A class may send when neither
//! bucket is negative. A class above its rate and below its ceiling may borrow from its parent. A class above its
//! ceiling may not send. A leaf with packets sends through the first of its ancestors, itself included, that may
//! send. The leaf is selected by the level of the lending class (lowest first), then by priority, then by round robin
//! with a quantum per turn. As in Linux, super-segments are sent whole and may make a bucket negative once.
//!
//! Differences from Linux: transmission times are not rounded (the remainder is carried over); the state of a class
//! is computed at every dequeue instead of through an event queue; the round robin covers all leaves of a priority
//! instead of class by class within inner classes; there is no hysteresis (the kernel's default).

use super::discipline::{Discipline, DisciplineSpec};
use crate::element::Backlog;
use crate::engine::{Core, ElementContext, FlowLabel, PacketId};
use tcpassay_units::{Bytes, Carry, Dur, Rate, Seed, Time};

/// A hierarchy of token buckets.
///
/// Flow n belongs to leaf n modulo the number of leaves, in the order of `classes`.
#[derive(Clone, PartialEq, Debug)]
pub struct HtbSpec {
    /// The classes; each follows its parent.
    pub classes: Vec<HtbClass>,
}

/// A class. A class that is not the parent of another one is a leaf.
#[derive(Clone, PartialEq, Debug)]
pub struct HtbClass {
    /// Index of the parent in [`HtbSpec::classes`]; `None` for a root.
    pub parent: Option<usize>,
    /// The guaranteed rate.
    pub rate: Rate,
    /// The maximum rate when the class borrows from its parent; at least `rate`.
    pub ceil: Rate,
    /// Bytes that may leave at once at `rate` after an idle time.
    pub burst: Bytes,
    /// Bytes that may leave at once at `ceil` after an idle time.
    pub cburst: Bytes,
    /// Priority of a leaf for spare capacity; lower numbers come first. 0 to 7.
    pub prio: u8,
    /// Bytes that a leaf sends per turn.
    pub quantum: Bytes,
    /// The queueing discipline of a leaf.
    pub queue: DisciplineSpec,
}

impl HtbClass {
    /// A class with the defaults of `tc`: priority 0, equal bursts, and a quantum of a tenth of the bytes per second
    /// at `rate` (`r2q` 10), limited to 1000 to 200,000.
    pub fn new(
        parent: Option<usize>,
        rate: Rate,
        ceil: Rate,
        burst: Bytes,
        queue: DisciplineSpec,
    ) -> HtbClass {
        let quantum = (rate.bits_per_sec() / 8 / 10).clamp(1_000, 200_000);
        HtbClass { parent, rate, ceil, burst, cburst: burst, prio: 0, quantum: Bytes::new(quantum), queue }
    }
}

impl HtbSpec {
    /// One class for all flows.
    pub fn single(rate: Rate, burst: Bytes, queue: DisciplineSpec) -> HtbSpec {
        HtbSpec { classes: vec![HtbClass::new(None, rate, rate, burst, queue)] }
    }

    /// `leaves` equal classes, each of which may borrow the capacity of `rate` that the others do not use. Panics
    /// when `leaves` is zero.
    pub fn equal(rate: Rate, leaves: u32, burst: Bytes, queue: DisciplineSpec) -> HtbSpec {
        let share = rate.mul_f64(1.0 / f64::from(leaves));
        let mut classes = vec![HtbClass::new(None, rate, rate, burst, queue)];
        classes.extend((0..leaves).map(|_| HtbClass::new(Some(0), share, rate, burst, queue)));
        HtbSpec { classes }
    }
}

/// Linux's `TC_HTB_MAXDEPTH`: roots are at level 7, leaves at level 0.
const DEPTH: usize = 8;

/// Lower limit of a bucket (`mbuffer`).
const DEBT: i64 = 60_000_000_000;

#[derive(Clone, Debug)]
struct Bucket {
    rate: Rate,
    /// Capacity in nanoseconds at its rate.
    depth: i64,
    tokens: i64,
    carry: Carry,
}

impl Bucket {
    fn new(rate: Rate, burst: Bytes) -> Bucket {
        let depth = nanos(rate.time_for(burst));
        Bucket { rate, depth, tokens: depth, carry: Carry::default() }
    }

    fn charge(&mut self, passed: i64, bytes: u64) {
        let cost = nanos(self.rate.tx_time(Bytes::new(bytes), &mut self.carry));
        self.tokens = ((self.tokens + passed).min(self.depth) - cost).max(1 - DEBT);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    CanSend,
    MayBorrow,
    CannotSend,
}

#[derive(Clone, Debug)]
struct Class {
    parent: Option<usize>,
    level: usize,
    rate: Bucket,
    ceil: Bucket,
    /// The time at which the buckets were last filled.
    filled: Time,
}

impl Class {
    fn passed(&self, now: Time) -> i64 {
        nanos(now - self.filled).min(DEBT)
    }

    fn mode(&self, now: Time) -> Mode {
        let passed = self.passed(now);
        if self.ceil.tokens + passed < 0 {
            Mode::CannotSend
        } else if self.rate.tokens + passed >= 0 {
            Mode::CanSend
        } else {
            Mode::MayBorrow
        }
    }

    /// The time at which `tokens` of this class reach zero.
    fn ready(&self, tokens: i64) -> Time {
        self.filled + Dur::from_nanos(u64::try_from(-tokens).expect("in debt"))
    }
}

#[derive(Clone, Debug)]
struct Leaf {
    class: usize,
    prio: u8,
    quantum: i64,
    deficit: [i64; DEPTH],
    queue: Discipline,
}

#[derive(Clone, Debug)]
pub(crate) struct Htb {
    classes: Vec<Class>,
    leaves: Vec<Leaf>,
    /// For each level and priority, the leaf whose turn is next.
    turn: [[usize; 8]; DEPTH],
    total: Backlog,
}

impl Htb {
    pub fn new(spec: HtbSpec, name: &str, seed: Seed) -> Htb {
        let mut classes: Vec<Class> = Vec::new();
        let mut leaves = Vec::new();
        let parents: Vec<Option<usize>> = spec.classes.iter().map(|c| c.parent).collect();
        for (at, c) in spec.classes.into_iter().enumerate() {
            assert!(c.ceil >= c.rate, "a class with a ceiling below its rate");
            assert!(c.parent.is_none_or(|p| p < at), "a class before its parent");
            let leaf = !parents.contains(&Some(at));
            let level = match c.parent {
                _ if leaf => 0,
                None => DEPTH - 1,
                Some(p) => classes[p].level.checked_sub(1).filter(|l| *l > 0).expect("at most eight levels"),
            };
            classes.push(Class {
                parent: c.parent,
                level,
                rate: Bucket::new(c.rate, c.burst),
                ceil: Bucket::new(c.ceil, c.cburst),
                filled: Time::ZERO,
            });
            if leaf {
                assert!(c.prio < 8, "a priority above 7");
                let quantum = i64::try_from(c.quantum.get()).expect("a quantum below 2^63");
                assert!(quantum > 0, "a quantum of zero");
                let queue = Discipline::new(c.queue, &format!("{name}.{at}"), seed);
                leaves.push(Leaf { class: at, prio: c.prio, quantum, deficit: [0; DEPTH], queue });
            }
        }
        assert!(!leaves.is_empty(), "a hierarchy without classes");
        Htb { classes, leaves, turn: [[0; 8]; DEPTH], total: Backlog::default() }
    }

    pub fn enqueue(&mut self, ctx: &mut ElementContext, core: &mut Core, id: PacketId) {
        let leaf = self.leaf_of(core.packets[id].flow);
        let queue = &mut self.leaves[leaf].queue;
        let before = queue.total();
        queue.enqueue(ctx, core, id);
        let after = queue.total();
        self.account(before, after);
    }

    /// The next packet. The error is the time at which a class may send.
    pub fn dequeue(&mut self, ctx: &mut ElementContext, core: &mut Core) -> Result<Option<PacketId>, Time> {
        while let Some((leaf, level)) = self.choose(core.now)? {
            let queue = &mut self.leaves[leaf].queue;
            let before = queue.total();
            let packet = queue.dequeue(ctx, core);
            let after = queue.total();
            self.account(before, after);
            // The leaf may have dropped all its packets.
            if let Some(id) = packet {
                self.charge(leaf, level, core.now, core.packets[id].size().get());
                return Ok(packet);
            }
        }
        Ok(None)
    }

    pub fn total(&self) -> Backlog {
        self.total
    }

    pub fn backlog(&self, flow: FlowLabel) -> Backlog {
        self.leaves[self.leaf_of(flow)].queue.total()
    }

    fn leaf_of(&self, flow: FlowLabel) -> usize {
        flow.0 as usize % self.leaves.len()
    }

    fn account(&mut self, before: Backlog, after: Backlog) {
        self.total.packets = self.total.packets + after.packets - before.packets;
        self.total.bytes = self.total.bytes + after.bytes - before.bytes;
    }

    /// Selects the leaf that sends next and the level of the lending class; the error is the time of the next
    /// attempt.
    fn choose(&self, now: Time) -> Result<Option<(usize, usize)>, Time> {
        let mut best: Option<(usize, u8, usize, usize)> = None;
        let mut soonest: Option<Time> = None;
        for (at, leaf) in self.leaves.iter().enumerate() {
            if leaf.queue.total().packets == 0 {
                continue;
            }
            let mut class = Some(leaf.class);
            while let Some(c) = class {
                let c = &self.classes[c];
                let ready = match c.mode(now) {
                    Mode::CanSend => {
                        let turn = self.turn[c.level][usize::from(leaf.prio)];
                        let place = (at + self.leaves.len() - turn) % self.leaves.len();
                        let offer = (c.level, leaf.prio, place, at);
                        best = Some(best.map_or(offer, |b| b.min(offer)));
                        break;
                    }
                    Mode::CannotSend => {
                        class = None;
                        c.ready(c.ceil.tokens)
                    }
                    Mode::MayBorrow => {
                        class = c.parent;
                        c.ready(c.rate.tokens)
                    }
                };
                soonest = Some(soonest.map_or(ready, |s| s.min(ready)));
            }
        }
        match (best, soonest) {
            (Some((level, _, _, leaf)), _) => Ok(Some((leaf, level))),
            (None, Some(at)) => Err(at),
            (None, None) => Ok(None),
        }
    }

    fn charge(&mut self, leaf: usize, level: usize, now: Time, bytes: u64) {
        let leaves = self.leaves.len();
        let l = &mut self.leaves[leaf];
        l.deficit[level] -= i64::try_from(bytes).expect("a packet");
        let turn = &mut self.turn[level][usize::from(l.prio)];
        *turn = leaf;
        if l.deficit[level] < 0 {
            l.deficit[level] += l.quantum;
            *turn = (leaf + 1) % leaves;
        }
        let mut class = Some(l.class);
        while let Some(c) = class {
            let c = &mut self.classes[c];
            let passed = c.passed(now);
            if c.level >= level {
                c.rate.charge(passed, bytes);
            } else {
                // The class borrowed: its own rate bucket is filled and not charged.
                c.rate.tokens += passed;
            }
            c.ceil.charge(passed, bytes);
            c.filled = now;
            class = c.parent;
        }
    }
}

fn nanos(d: Dur) -> i64 {
    i64::try_from(d.as_nanos()).expect("below 292 years")
}

#[cfg(test)]
#[path = "htb_tests.rs"]
mod tests;
