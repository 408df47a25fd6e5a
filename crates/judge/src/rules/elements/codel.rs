//! CoDel (RFC 8289) and FQ-CoDel (RFC 8290), with the choices of Linux.

use super::element::{Effects, Held};
use super::port::{Discipline, Offer};
use super::queue::Line;
use super::wire::{Limit, nanoseconds};
use std::collections::{BTreeMap, VecDeque};
use tcpassay_measure::DropReason;
use tcpassay_units::{Dur, Time};

/// The parameters of CoDel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameters {
    pub target: Dur,
    pub interval: Dur,
    /// A backlog up to this size is never reduced.
    pub spared: u64,
    pub ecn: bool,
}

/// The state of the control law (RFC 8289 section 5.3 to 5.5).
#[derive(Clone, Debug, Default)]
struct Law {
    dropping: bool,
    count: u32,
    last_count: u32,
    next: Option<Time>,
    first_above: Option<Time>,
    /// 65536 over the root of the count, by Newton's method.
    root: u64,
}

impl Law {
    /// Section 5.2 in the arithmetic of Linux: interval over the root of the count.
    fn after(&self, interval: Dur, from: Time) -> Time {
        from + nanoseconds(u128::from(interval.as_nanos()) * u128::from(self.root) / 65_536)
    }

    /// One step of Newton's method: root (3 - count root^2) / 2, with 32 bits after the point.
    fn refine(&mut self) {
        let x = self.root << 16;
        let square = (x * x) >> 32;
        let factor = (3_u64 << 32).wrapping_sub(square.wrapping_mul(u64::from(self.count))) >> 2;
        self.root = (factor.wrapping_mul(x) >> 47) & 0xffff;
    }

    /// Section 5.5: whether the delay was above the target for an interval.
    fn is_above(&mut self, of: Parameters, now: Time, head: Option<&Held>, backlog: u64) -> bool {
        let long = head.is_some_and(|held| now.since(held.since) >= of.target);
        if !long || backlog <= of.spared {
            self.first_above = None;
            return false;
        }
        let since = *self.first_above.get_or_insert(now + of.interval);
        since <= now
    }

    /// The next packet, after those that must be dropped. `take` returns a packet and the backlog behind it.
    fn take(
        &mut self,
        of: Parameters,
        now: Time,
        out: &mut Effects,
        mut take: impl FnMut() -> (Option<Held>, u64),
    ) -> Option<Held> {
        let (mut head, mut backlog) = take();
        if head.is_none() {
            self.dropping = false;
            return None;
        }
        let above = self.is_above(of, now, head.as_ref(), backlog);
        if !self.dropping {
            if above {
                let mut first = head?;
                if of.ecn && out.marks(&mut first) {
                    head = Some(first);
                } else {
                    out.drops(first, DropReason::Early);
                    (head, backlog) = take();
                    self.is_above(of, now, head.as_ref(), backlog);
                }
                self.enter(of, now);
            }
            return head;
        }
        self.dropping = above;
        while self.dropping
            && let Some(next) = self.next.filter(|next| *next <= now)
            && let Some(mut first) = head
        {
            self.count += 1;
            self.refine();
            if of.ecn && out.marks(&mut first) {
                self.next = Some(self.after(of.interval, next));
                return Some(first);
            }
            out.drops(first, DropReason::Early);
            (head, backlog) = take();
            self.dropping = self.is_above(of, now, head.as_ref(), backlog);
            if self.dropping {
                self.next = Some(self.after(of.interval, next));
            }
        }
        head
    }

    /// Section 5.4: a dropping state that follows the last one soon begins near its rate.
    fn enter(&mut self, of: Parameters, now: Time) {
        let drops = self.count.wrapping_sub(self.last_count);
        let soon = self.next.is_some_and(|next| now.since(next) < of.interval * 16);
        if soon && drops > 1 {
            self.count = drops;
            self.refine();
        } else {
            self.count = 1;
            self.root = 0xffff;
        }
        self.dropping = true;
        self.last_count = self.count;
        self.next = Some(self.after(of.interval, now));
    }
}

/// A queue with CoDel.
#[derive(Debug)]
pub(super) struct CoDel {
    of: Parameters,
    limit: Limit,
    line: Line,
    law: Law,
}

impl CoDel {
    pub fn new(of: Parameters, limit: Limit) -> CoDel {
        CoDel { of, limit, line: Line::default(), law: Law::default() }
    }
}

impl Discipline for CoDel {
    fn put(&mut self, _: Time, held: Held, out: &mut Effects) {
        if self.limit.holds(self.line.len(), self.line.bytes, held.packet.size) {
            self.line.push(held);
        } else {
            out.drops(held, DropReason::Full);
        }
    }

    fn take(&mut self, now: Time, out: &mut Effects) -> Offer {
        let line = &mut self.line;
        let next = self.law.take(self.of, now, out, || {
            let held = line.pop();
            (held, line.bytes)
        });
        next.map_or(Offer::Nothing, Offer::Packet)
    }

    fn total(&self) -> (usize, u64) {
        (self.line.len(), self.line.bytes)
    }
}

/// A queue of FQ-CoDel.
#[derive(Debug, Default)]
struct Bucket {
    line: Line,
    law: Law,
    deficit: i64,
    /// It is on one of the lists.
    listed: bool,
}

/// FQ-CoDel.
#[derive(Debug)]
pub(super) struct FqCoDel {
    of: Parameters,
    limit: Limit,
    quantum: i64,
    salt: u32,
    buckets: BTreeMap<u32, Bucket>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    packets: usize,
    bytes: u64,
}

/// Number of queues, and of packets that an overflow drops at most (Linux).
const BUCKETS: u64 = 1024;
const MOST_DROPPED: usize = 64;

impl FqCoDel {
    pub fn new(of: Parameters, limit: Limit, quantum: u64, salt: u32) -> FqCoDel {
        FqCoDel {
            of,
            limit,
            quantum: signed(quantum),
            salt,
            buckets: BTreeMap::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            packets: 0,
            bytes: 0,
        }
    }

    fn bucket(&self, flow: u32) -> u32 {
        let all = u64::from(mixed(flow ^ self.salt)) * BUCKETS;
        u32::try_from(all >> 32).expect("below the number of queues")
    }

    /// RFC 8290 section 4.1: half of the longest queue, the first one of several.
    fn overflow(&mut self, out: &mut Effects) {
        let longest = self.buckets.values().map(|bucket| bucket.line.bytes).max().unwrap_or(0);
        let Some(bucket) = self.buckets.values_mut().find(|bucket| bucket.line.bytes == longest) else {
            return;
        };
        let (mut dropped, mut count) = (0, 0);
        while count < MOST_DROPPED
            && let Some(held) = bucket.line.pop()
        {
            count += 1;
            dropped += u64::from(held.packet.size);
            out.drops(held, DropReason::Full);
            if dropped >= longest / 2 {
                break;
            }
        }
        bucket.law.count += u32::try_from(count).expect("at most 64");
        self.packets -= count;
        self.bytes -= dropped;
    }
}

/// The finalizer of `MurmurHash3`.
pub(super) fn mixed(mut h: u32) -> u32 {
    h ^= h >> 16;
    h = h.wrapping_mul(0x85eb_ca6b);
    h ^= h >> 13;
    h = h.wrapping_mul(0xc2b2_ae35);
    h ^ h >> 16
}

pub(super) fn signed(n: u64) -> i64 {
    i64::try_from(n).expect("a size")
}

impl Discipline for FqCoDel {
    fn put(&mut self, _: Time, held: Held, out: &mut Effects) {
        let fits = self.limit.holds(self.packets, self.bytes, held.packet.size);
        let place = self.bucket(held.packet.flow);
        let bucket = self.buckets.entry(place).or_default();
        bucket.line.push(held);
        if !bucket.listed {
            (bucket.listed, bucket.deficit) = (true, self.quantum);
            self.new.push_back(place);
        }
        self.packets += 1;
        self.bytes += u64::from(held.packet.size);
        if !fits {
            self.overflow(out);
        }
    }

    fn take(&mut self, now: Time, out: &mut Effects) -> Offer {
        loop {
            let of_new = !self.new.is_empty();
            let list = if of_new { &mut self.new } else { &mut self.old };
            let Some(place) = list.pop_front() else { return Offer::Nothing };
            let bucket = self.buckets.get_mut(&place).expect("a listed queue");
            if bucket.deficit <= 0 {
                bucket.deficit += self.quantum;
                self.old.push_back(place);
                continue;
            }
            let (line, packets, bytes) = (&mut bucket.line, &mut self.packets, &mut self.bytes);
            let next = bucket.law.take(self.of, now, out, || {
                let held = line.pop();
                if let Some(held) = held {
                    *packets -= 1;
                    *bytes -= u64::from(held.packet.size);
                }
                (held, *bytes)
            });
            if let Some(held) = next {
                bucket.deficit -= i64::from(held.packet.size);
                if of_new {
                    self.new.push_front(place);
                } else {
                    self.old.push_front(place);
                }
                return Offer::Packet(held);
            }
            // Section 4.2: an empty new queue becomes the last one of the old list, if that is not empty.
            if of_new && !self.old.is_empty() {
                self.old.push_back(place);
            } else {
                bucket.listed = false;
            }
        }
    }

    fn total(&self) -> (usize, u64) {
        (self.packets, self.bytes)
    }

    fn backlog(&self, flow: u32) -> u64 {
        self.buckets.get(&self.bucket(flow)).map_or(0, |bucket| bucket.line.bytes)
    }
}
