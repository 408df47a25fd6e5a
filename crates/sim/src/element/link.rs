//! A link: a drop-tail queue before a wire of fixed rate and delay. One event for each packet.
//!
//! The instant at which a packet begins to be sent is known when it arrives, because nothing overtakes it and the rate is
//! fixed. So a packet goes into flight at once, with the instant it arrives at the other end; the link's one wake-up is
//! that of the first in flight. How much waits is exact all the same: those that have not begun to be sent are the last of
//! the flight, and are counted again when somebody asks. What is needed for that stands in the flight itself, so that a
//! packet's own memory is touched only when it is marked or dropped.
//!
//! A packet being sent does not count as waiting, as in Linux a packet that the device took is no longer in the queueing
//! discipline; so a packet that finds the link idle is never dropped. (htsim and ns-2 count the one being sent.)

#![expect(clippy::inline_always, reason = "a link stands in the run loop")]

use super::backlog::Backlog;
use super::ring::Ring;
use crate::engine::{Core, Drop, FlowId, Io, Ticket};
use tcpassay_units::{Bytes, Carry, Dur, Rate, Seed, Time};

/// How much may wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit {
    /// At most so many bytes.
    pub bytes: Bytes,
    /// At most so many packets.
    pub packets: u32,
}

impl Limit {
    /// No limit at all.
    pub const NONE: Limit = Limit { bytes: Bytes::MAX, packets: u32::MAX };

    /// `n` bytes.
    pub const fn bytes(n: Bytes) -> Limit {
        Limit { bytes: n, packets: u32::MAX }
    }

    /// `n` packets.
    pub const fn packets(n: u32) -> Limit {
        Limit { bytes: Bytes::MAX, packets: n }
    }

    /// Whether `more` bytes in one packet fit behind `backlog`.
    pub(crate) fn fits(self, backlog: Backlog, more: u64) -> bool {
        backlog.packets < self.packets && backlog.bytes.saturating_add(more) <= self.bytes.get()
    }
}

/// A link with a drop-tail queue. See the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkSpec {
    /// Capacity; `None` sends in no time.
    pub rate: Option<Rate>,
    /// Propagation, one way.
    pub delay: Dur,
    /// How much may wait.
    pub limit: Limit,
    /// Packets of ECN-capable flows that find more than this waiting are marked CE (RFC 8257 section 3.1 and RED with
    /// both thresholds equal). Others pass unmarked.
    pub mark_above: Option<Bytes>,
    /// Bytes that every wire packet occupies besides its IP packet: 0 counts a full packet as 1500, 38 is all of
    /// Ethernet (header 14, FCS 4, preamble 8, gap 12). Queues count IP bytes.
    pub overhead: u32,
}

impl LinkSpec {
    /// An unlimited queue before `rate` and `delay`, without marking or overhead.
    pub const fn new(rate: Rate, delay: Dur) -> LinkSpec {
        LinkSpec { rate: Some(rate), delay, limit: Limit::NONE, mark_above: None, overhead: 0 }
    }

    /// A delay alone.
    pub const fn delay(delay: Dur) -> LinkSpec {
        LinkSpec { rate: None, delay, limit: Limit::NONE, mark_above: None, overhead: 0 }
    }
}

impl LinkSpec {
    pub(super) fn make(self, _: &str, _: Seed) -> Link {
        Link {
            free_at: Time::ZERO,
            flight: Ring::default(),
            waiting_bytes: 0,
            waiting_packets: 0,
            overhead: self.overhead,
            delay: self.delay,
            rate: self.rate,
            carry: 0,
            usual: Usual::default(),
            mark_above: self.mark_above.unwrap_or(Bytes::MAX).get(),
            limit: self.limit,
        }
    }
}

/// In the order in which a packet needs it; with what every element has it fills three cache lines.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Link {
    /// When everything taken so far has been sent.
    free_at: Time,
    flight: Ring<Flying>,
    /// Of the last of the flight: those that had not begun to be sent when last counted. Never all of it: the one before the
    /// first of them is being sent.
    waiting_packets: u32,
    overhead: u32,
    waiting_bytes: u64,
    delay: Dur,
    rate: Option<Rate>,
    /// What is left of the division, as [`Carry`](tcpassay_units::Carry).
    carry: u64,
    usual: Usual,
    /// `u64::MAX`: never.
    mark_above: u64,
    limit: Limit,
}

#[derive(Clone, Copy, Debug)]
struct Flying {
    /// When it arrives.
    due: Time,
    ticket: Ticket,
}

/// The division of the last size seen, as most packets of a direction have one size.
#[derive(Clone, Copy, Debug, Default)]
struct Usual {
    wire: u32,
    time: u32,
    rest: u64,
}

impl Link {
    #[inline(always)]
    pub fn receive(&mut self, io: &mut Io, core: &mut Core, ticket: Ticket) {
        io.arrived(core, ticket);
        let now = core.now;
        let start = if self.free_at > now {
            if !self.admits(io, core, ticket) {
                return;
            }
            self.waiting_packets += 1;
            self.waiting_bytes += u64::from(ticket.size);
            self.free_at
        } else {
            (self.waiting_packets, self.waiting_bytes) = (0, 0);
            self.carry = 0;
            now
        };
        self.free_at = start + self.tx_time(ticket);
        let due = self.free_at + self.delay;
        let first = self.flight.is_empty();
        self.flight.push_back(Flying { due, ticket });
        if io.collects {
            io.queued(core, self.waiting_bytes, self.waiting_packets);
            io.waited(now, start);
        }
        if first {
            io.wake_anew(core, due);
        }
    }

    /// How long a packet occupies the wire, without drift, as [`Rate::tx_time`].
    #[inline(always)]
    fn tx_time(&mut self, ticket: Ticket) -> Dur {
        let Some(rate) = self.rate else { return Dur::ZERO };
        let wire = u64::from(ticket.size) + u64::from(self.overhead) * u64::from(ticket.segs);
        if wire != u64::from(self.usual.wire) || wire == 0 {
            return self.divide(rate, wire);
        }
        let rest = self.carry + self.usual.rest;
        let more = rest >= rate.bits_per_sec();
        self.carry = if more { rest - rate.bits_per_sec() } else { rest };
        Dur::from_nanos(u64::from(self.usual.time) + u64::from(more))
    }

    /// Divides, and keeps the division when it fits.
    #[inline(never)]
    fn divide(&mut self, rate: Rate, wire: u64) -> Dur {
        let mut whole = Carry::default();
        let time = rate.tx_time(Bytes::new(wire), &mut whole);
        let rest = whole.get();
        if let (Ok(wire), Ok(time)) = (u32::try_from(wire), u32::try_from(time.as_nanos())) {
            self.usual = Usual { wire, time, rest };
        }
        let rest = self.carry + rest;
        self.carry = rest % rate.bits_per_sec();
        time + Dur::from_nanos(rest / rate.bits_per_sec())
    }

    /// Whether a packet that has to wait fits; marks it when it finds too much waiting, drops it when it does not fit. No more
    /// waits than when last counted: they are counted again only where that decides, or somebody wants to know.
    #[inline(always)]
    fn admits(&mut self, io: &mut Io, core: &mut Core, ticket: Ticket) -> bool {
        let size = u64::from(ticket.size);
        let plain = self.limit.fits(self.waiting(), size) && self.waiting_bytes <= self.mark_above;
        if plain && !io.collects {
            return true;
        }
        self.count(core.now);
        if !self.limit.fits(self.waiting(), size) {
            io.drop(core, ticket.id, Drop::Full);
            return false;
        }
        if self.waiting_bytes > self.mark_above {
            io.mark(core, ticket.id);
        }
        true
    }

    /// Lets go what arrives now. The only one, which is the rule, is the caller's to hand on, and the flow of the one behind it, or
    /// its own, is told.
    #[inline(always)]
    pub fn wake(&mut self, io: &mut Io, core: &mut Core) -> Option<(Ticket, FlowId)> {
        let first = self.pop(io, core);
        match self.flight.front() {
            None => Some((first, first.flow)),
            Some(next) if next.due > core.now => {
                core.packets.fetch(next.ticket.id);
                io.wake_anew(core, next.due);
                Some((first, next.ticket.flow))
            }
            Some(_) => {
                self.let_go(io, core, first);
                None
            }
        }
    }

    /// Several that arrive in one instant.
    #[cold]
    #[inline(never)]
    fn let_go(&mut self, io: &mut Io, core: &mut Core, first: Ticket) {
        core.moving.push((io.next, first));
        while self.flight.front().is_some_and(|f| f.due <= core.now) {
            let ticket = self.pop(io, core);
            core.moving.push((io.next, ticket));
        }
        io.wake_at(core, self.flight.front().map(|f| f.due));
    }

    /// Takes the first of the flight.
    #[inline(always)]
    fn pop(&mut self, io: &mut Io, core: &mut Core) -> Ticket {
        let Flying { due, ticket } = *self.flight.front().expect("woken for the first of the flight");
        debug_assert!(due <= core.now, "woken before the first of the flight arrives");
        self.flight.pop_front();
        if self.waiting_packets > 0 && self.waiting_packets == self.flight.len() {
            // The next began to be sent when this one had been, which must not be forgotten with it.
            self.waiting_packets -= 1;
            self.waiting_bytes -= u64::from(self.flight.get(0).ticket.size);
        }
        io.left(core, ticket);
        ticket
    }

    pub fn held(&self) -> u64 {
        u64::from(self.flight.len())
    }

    pub fn backlog(&mut self, core: &Core) -> Backlog {
        self.count(core.now);
        self.waiting()
    }

    #[inline]
    fn waiting(&self) -> Backlog {
        Backlog { packets: self.waiting_packets, bytes: self.waiting_bytes }
    }

    /// Counts those that have begun to be sent by now as waiting no more. Each begins when the one before it has been sent.
    #[inline(always)]
    fn count(&mut self, now: Time) {
        while self.waiting_packets > 0 {
            let at = self.flight.len() - self.waiting_packets;
            if self.flight.get(at - 1).due - self.delay > now {
                return;
            }
            self.waiting_packets -= 1;
            self.waiting_bytes -= u64::from(self.flight.get(at).ticket.size);
        }
    }
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
