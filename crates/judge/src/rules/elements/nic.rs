//! The receive side of a NIC: ring, interrupt coalescing, polls and receive offload.

use super::element::{Effects, Element, Held, World};
use super::moderation::Moderation;
use std::collections::VecDeque;
use tcpassay_measure::{DropReason, ElementEvent, ElementPacket};
use tcpassay_units::{Dur, Stream, Time};
use tcpassay_wire::Flags;

/// When the interrupt comes after the first packet.
#[derive(Debug)]
pub(super) enum Interrupt {
    /// After a time, or with this number of packets (0: any).
    Fixed(Dur, usize),
    Adaptive(Moderation),
    /// After the first time, or the second one if no packet arrived for the third.
    Hidden([Dur; 3], usize),
}

/// A NIC.
#[derive(Debug)]
pub(super) struct Nic {
    pub interrupt: Interrupt,
    /// Packets that the ring holds.
    pub ring: usize,
    /// Time of a poll per packet.
    pub cost: Dur,
    /// Largest merged packet; `None`: packets are not merged.
    pub merges: Option<u64>,
    /// How long merges stay open after a poll.
    pub timeout: Dur,
    /// Packets of a poll are reversed in groups of 4 or 5.
    pub reverses: Option<Stream>,
    pub state: State,
}

/// What a NIC holds.
#[derive(Debug, Default)]
pub(super) struct State {
    ring: VecDeque<Held>,
    batch: Vec<Held>,
    interrupt_at: Option<Time>,
    poll_ends: Option<Time>,
    flush_at: Option<Time>,
    last_arrival: Time,
    /// Open merges with the ticks in which they were opened.
    open: Vec<(u64, Held)>,
}

/// NAPI's budget, and the tick of the kernel's clock.
const BUDGET: usize = 64;
const TICK: u64 = 1_000_000;

impl Nic {
    fn wait(&self, now: Time) -> Dur {
        match &self.interrupt {
            Interrupt::Fixed(wait, _) => *wait,
            Interrupt::Adaptive(moderation) => moderation.delay(),
            Interrupt::Hidden([short, long, idle], _) => {
                if now.since(self.state.last_arrival) > *idle {
                    *long
                } else {
                    *short
                }
            }
        }
    }

    fn interrupts(&mut self, now: Time, out: &mut Effects) {
        self.state.interrupt_at = None;
        if let Interrupt::Adaptive(moderation) = &mut self.interrupt {
            moderation.interrupt(now);
        }
        self.polls(now, out);
    }

    /// Takes batches until one of them takes time or the ring is empty.
    fn polls(&mut self, now: Time, out: &mut Effects) {
        loop {
            let state = &mut self.state;
            let count = BUDGET.saturating_sub(state.batch.len()).min(state.ring.len());
            state.batch.extend(state.ring.drain(..count));
            if let Some(first) = state.batch.first() {
                out.add(ElementEvent::Began, *first);
            }
            let takes = self.cost * state.batch.len() as u64;
            if !takes.is_zero() {
                state.poll_ends = Some(now + takes);
                return;
            }
            self.completes(now, out);
            if self.state.ring.is_empty() {
                return;
            }
        }
    }

    /// Passes the batch on.
    fn completes(&mut self, now: Time, out: &mut Effects) {
        let mut batch = std::mem::take(&mut self.state.batch);
        let full = batch.len() == BUDGET;
        if let Some(random) = &mut self.reverses {
            let mut rest = batch.as_mut_slice();
            while !rest.is_empty() {
                let size = usize::from(random.below(2) == 1) + 4;
                let (group, behind) = rest.split_at_mut(size.min(rest.len()));
                group.reverse();
                rest = behind;
            }
        }
        for held in batch {
            match self.merges {
                Some(largest) => self.state.merge(largest, now, held, out),
                None => out.departs(held),
            }
        }
        // A poll that used its budget goes on.
        if full && !self.state.ring.is_empty() || self.merges.is_none() {
            return;
        }
        if self.timeout.is_zero() {
            self.state.flush(u64::MAX, out);
            self.state.flush_at = None;
        } else {
            self.state.flush(tick(now), out);
            self.state.flush_at = (!self.state.open.is_empty()).then(|| now + self.timeout);
        }
    }
}

fn tick(now: Time) -> u64 {
    now.as_nanos() / TICK
}

impl State {
    /// Passes merges on that were opened before a tick, the oldest first.
    fn flush(&mut self, before: u64, out: &mut Effects) {
        let count = self.open.iter().take_while(|(opened, _)| *opened < before).count();
        self.open.drain(..count).for_each(|(_, held)| out.departs(held));
    }

    /// Appends a packet to the merge of its connection, or opens one (`tcp_gro_receive`, `inet_gro_receive`).
    fn merge(&mut self, largest: u64, now: Time, mut new: Held, out: &mut Effects) {
        let packet = new.packet;
        if packet.is(ElementPacket::DATAGRAM | ElementPacket::CORRUPT) {
            out.departs(new);
            return;
        }
        let flags = Flags::from_bits(packet.flags);
        let partial = packet.segs > 1 && !packet.len.is_multiple_of(u32::from(packet.mss));
        let last = partial
            || packet.len == 0
            || flags.any(Flags::FIN | Flags::SYN | Flags::RST | Flags::PSH | Flags::URG);
        let connection = (packet.flow, packet.src);
        if let Some(place) =
            self.open.iter().position(|(_, held)| (held.packet.flow, held.packet.src) == connection)
        {
            let first = &mut self.open[place].1.packet;
            if belongs(first, &packet, largest) {
                let short = packet.len < u32::from(first.mss);
                first.len += packet.len;
                first.segs += packet.segs;
                first.flags |= packet.flags & (Flags::FIN | Flags::PSH).bits();
                first.size = first.len + u32::from(first.segs) * u32::from(first.headers);
                if last || short {
                    out.departs(self.open.remove(place).1);
                }
                return;
            }
            out.departs(self.open.remove(place).1);
        }
        if last {
            out.departs(new);
            return;
        }
        if packet.segs == 1 {
            new.packet.mss = u16::try_from(packet.len).unwrap_or(u16::MAX);
        }
        self.open.push((tick(now), new));
    }
}

/// Whether `new` continues a merge.
fn belongs(merge: &ElementPacket, new: &ElementPacket, largest: u64) -> bool {
    let counts = new.is(ElementPacket::COUNTS);
    let mut free = Flags::FIN | Flags::PSH;
    if !counts {
        free |= Flags::CWR;
    }
    let same_flags = (merge.flags ^ new.flags) & !free.bits() == 0;
    let reduced = !counts && Flags::from_bits(new.flags).has(Flags::CWR);
    let size = u64::from(merge.headers) + u64::from(merge.len) + u64::from(new.len);
    same_flags
        && !reduced
        && merge.seq.wrapping_add(merge.len) == new.seq
        && merge.ack == new.ack
        && merge.options == new.options
        && merge.ecn == new.ecn
        && new.len > 0
        && new.len <= u32::from(merge.mss)
        && size < largest
}

impl Element for Nic {
    fn arrives(&mut self, now: Time, held: Held, _: &mut World, out: &mut Effects) {
        if self.state.ring.len() >= self.ring {
            out.drops(held, DropReason::Ring);
            return;
        }
        if let Interrupt::Adaptive(moderation) = &mut self.interrupt {
            moderation.packet(held.packet.size);
        }
        let wait = self.wait(now);
        self.state.ring.push_back(held);
        self.state.last_arrival = now;
        if self.state.poll_ends.is_some() {
            return;
        }
        let at = *self.state.interrupt_at.get_or_insert(now + wait);
        let enough = match self.interrupt {
            Interrupt::Fixed(_, frames) | Interrupt::Hidden(_, frames) => {
                frames > 0 && self.state.ring.len() >= frames
            }
            Interrupt::Adaptive(_) => false,
        };
        if enough || at <= now {
            self.interrupts(now, out);
        }
    }

    fn due(&self) -> Option<Time> {
        let State { interrupt_at, poll_ends, flush_at, .. } = self.state;
        [interrupt_at, poll_ends, flush_at].into_iter().flatten().min()
    }

    fn acts(&mut self, now: Time, _: &mut World, out: &mut Effects) {
        if self.state.poll_ends.is_some_and(|at| at <= now) {
            self.state.poll_ends = None;
            self.completes(now, out);
            if !self.state.ring.is_empty() {
                self.polls(now, out);
            }
        }
        if self.state.interrupt_at.is_some_and(|at| at <= now) {
            self.interrupts(now, out);
        }
        if self.state.flush_at.is_some_and(|at| at <= now) {
            self.state.flush_at = None;
            self.state.flush(u64::MAX, out);
        }
    }
}
