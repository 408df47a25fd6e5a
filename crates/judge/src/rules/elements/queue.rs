//! Queues that serve packets in the order of arrival: a plain one, RED, and the pair of buffers of a switch port.

use super::element::{Effects, Held};
use super::port::{Discipline, Offer, double};
use super::wire::Limit;
use std::collections::VecDeque;
use tcpassay_measure::{DropReason, ElementPacket};
use tcpassay_units::{Dur, Stream, Time};

/// Packets in order, with the sum of their bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    packets: VecDeque<Held>,
    pub bytes: u64,
}

impl Line {
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    pub fn push(&mut self, held: Held) {
        self.bytes += u64::from(held.packet.size);
        self.packets.push_back(held);
    }

    pub fn pop(&mut self) -> Option<Held> {
        let held = self.packets.pop_front()?;
        self.bytes -= u64::from(held.packet.size);
        Some(held)
    }

    pub fn first(&self) -> Option<&Held> {
        self.packets.front()
    }
}

/// First in, first out: a limit, and a threshold above which packets are marked.
#[derive(Debug)]
pub(super) struct Fifo {
    pub limit: Limit,
    pub mark_above: Option<u64>,
    pub line: Line,
}

impl Fifo {
    pub fn new(limit: Limit, mark_above: Option<u64>) -> Fifo {
        Fifo { limit, mark_above, line: Line::default() }
    }
}

impl Discipline for Fifo {
    fn put(&mut self, _: Time, mut held: Held, out: &mut Effects) {
        if !self.limit.holds(self.line.len(), self.line.bytes, held.packet.size) {
            out.drops(held, DropReason::Full);
            return;
        }
        if self.mark_above.is_some_and(|threshold| self.line.bytes > threshold) {
            out.marks(&mut held);
        }
        self.line.push(held);
    }

    fn take(&mut self, _: Time, _: &mut Effects) -> Offer {
        self.line.pop().map_or(Offer::Nothing, Offer::Packet)
    }

    fn total(&self) -> (usize, u64) {
        (self.line.len(), self.line.bytes)
    }
}

/// Two buffers, served in turn.
#[derive(Debug)]
pub(super) struct Pair {
    pub buffers: [Fifo; 2],
    pub next: usize,
}

impl Discipline for Pair {
    fn put(&mut self, now: Time, held: Held, out: &mut Effects) {
        self.buffers[usize::from(held.packet.is(ElementPacket::SECOND))].put(now, held, out);
    }

    fn take(&mut self, now: Time, out: &mut Effects) -> Offer {
        if self.buffers[self.next].line.len() == 0 {
            self.next = 1 - self.next;
        }
        let offer = self.buffers[self.next].take(now, out);
        if matches!(offer, Offer::Packet(_)) {
            self.next = 1 - self.next;
        }
        offer
    }

    fn total(&self) -> (usize, u64) {
        let [a, b] = &self.buffers;
        (a.line.len() + b.line.len(), a.line.bytes + b.line.bytes)
    }
}

/// RED (Floyd and Jacobson 1993) with the choices of `sch_red`.
#[derive(Debug)]
pub(super) struct Red {
    pub min: f64,
    pub max: f64,
    pub max_p: f64,
    pub weight: f64,
    pub ecn: bool,
    /// Transmission time of a typical packet.
    pub typical: Dur,
    pub limit: Limit,
    pub random: Stream,
    pub average: f64,
    /// Packets since the last one that was chosen, while the average is between the thresholds; -1 before the first.
    pub count: i64,
    /// When the link has sent the last packet, if the queue is empty.
    pub idle: Option<Time>,
    pub line: Line,
}

impl Red {
    fn chooses(&mut self, now: Time) -> bool {
        match self.idle.take() {
            Some(idle) if idle <= now => {
                let packets = now.since(idle).as_secs_f64() / self.typical.as_secs_f64().max(1e-12);
                self.average *= libm::pow(1.0 - self.weight, packets);
            }
            _ => self.average += self.weight * (double(self.line.bytes) - self.average),
        }
        if self.average < self.min {
            self.count = -1;
            return false;
        }
        if self.average >= self.max {
            self.count = -1;
            return true;
        }
        self.count += 1;
        if self.count == 0 {
            return false;
        }
        let p_b = self.max_p * (self.average - self.min) / (self.max - self.min);
        let left = 1.0 - double(self.count.unsigned_abs() - 1) * p_b;
        let chosen = left <= p_b || self.random.chance(p_b / left);
        if chosen {
            self.count = 0;
        }
        chosen
    }
}

impl Discipline for Red {
    fn put(&mut self, now: Time, mut held: Held, out: &mut Effects) {
        if self.chooses(now) && !(self.ecn && out.marks(&mut held)) {
            out.drops(held, DropReason::Early);
        } else if self.limit.holds(self.line.len(), self.line.bytes, held.packet.size) {
            self.line.push(held);
        } else {
            out.drops(held, DropReason::Full);
        }
    }

    fn take(&mut self, now: Time, _: &mut Effects) -> Offer {
        let Some(held) = self.line.pop() else { return Offer::Nothing };
        if self.line.len() == 0 {
            self.idle = Some(now + self.typical);
        }
        Offer::Packet(held)
    }

    fn total(&self) -> (usize, u64) {
        (self.line.len(), self.line.bytes)
    }
}
