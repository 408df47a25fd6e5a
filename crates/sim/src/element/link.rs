//! A link: a drop-tail queue before a wire of fixed rate and delay. One event for each packet.
//!
//! The instant at which a packet begins to be sent is known when it arrives, because nothing overtakes it and the rate is
//! fixed. So a packet goes into flight at once, with the instant it arrives at the other end; the link's one wake-up is
//! that of the first in flight. How much waits is exact all the same: those that have not begun to be sent are the last of
//! the flight, and are counted again when somebody asks. What is needed for that stands in the flight itself, so that a
//! packet's own memory is touched only when it comes and goes.
//!
//! A packet being sent does not count as waiting, as in Linux a packet that the device took is no longer in the queueing
//! discipline; so a packet that finds the link idle is never dropped. (htsim and ns-2 count the one being sent.)

use super::{Backlog, Element, IntoElement};
use crate::engine::{Core, Drop, Io, PacketId};
use std::collections::VecDeque;
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

impl IntoElement for LinkSpec {
    fn into_element(self, _: &str, _: Seed) -> Element {
        Element::Link(Link {
            free_at: Time::ZERO,
            carry: Carry::default(),
            flight: VecDeque::new(),
            waiting_bytes: 0,
            waiting_packets: 0,
            overhead: self.overhead,
            rate: self.rate,
            delay: self.delay,
            mark_above: self.mark_above.unwrap_or(Bytes::MAX).get(),
            limit: self.limit,
        })
    }
}

/// In the order in which a packet needs it; with what every element has it fills three cache lines.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Link {
    /// When everything taken so far has been sent.
    free_at: Time,
    carry: Carry,
    flight: VecDeque<Flying>,
    /// Of the last of the flight: those that had not begun to be sent when last counted.
    waiting_bytes: u64,
    waiting_packets: u32,
    overhead: u32,
    rate: Option<Rate>,
    delay: Dur,
    /// `u64::MAX`: never.
    mark_above: u64,
    limit: Limit,
}

#[derive(Clone, Copy, Debug)]
struct Flying {
    /// When it begins to be sent.
    start: Time,
    /// When it arrives.
    due: Time,
    id: PacketId,
    size: u32,
}

impl Link {
    #[inline]
    pub fn receive(&mut self, io: &mut Io, core: &mut Core, id: PacketId) {
        let now = core.now;
        self.count(now);
        let start = if self.free_at > now {
            if !self.admits(io, core, id) {
                return;
            }
            self.free_at
        } else {
            self.carry = Carry::default();
            now
        };
        let packet = core.packet(id);
        let size = packet.size_u32();
        self.free_at = match self.rate {
            Some(rate) => {
                let wire = u64::from(size) + u64::from(self.overhead) * u64::from(packet.segs);
                start + rate.tx_time(Bytes::new(wire), &mut self.carry)
            }
            None => start,
        };
        let due = self.free_at + self.delay;
        let first = self.flight.is_empty();
        self.flight.push_back(Flying { start, due, id, size });
        if start > now {
            self.waiting_packets += 1;
            self.waiting_bytes += u64::from(size);
        }
        if io.collects {
            io.queued(core, self.waiting_bytes, self.waiting_packets);
            io.waited(now, start);
        }
        if first {
            io.wake_anew(core, Some(due));
        }
    }

    /// Whether a packet that has to wait fits; marks it when it finds too much waiting, drops it when it does not fit.
    #[inline]
    fn admits(&self, io: &mut Io, core: &mut Core, id: PacketId) -> bool {
        if !self.limit.fits(self.waiting(), core.packets[id].size().get()) {
            io.drop(core, id, Drop::Full);
            return false;
        }
        if self.waiting_bytes > self.mark_above {
            io.mark(core, id);
        }
        true
    }

    #[inline]
    pub fn wake(&mut self, io: &mut Io, core: &mut Core) {
        let next = loop {
            let Some(&first) = self.flight.front() else { break None };
            if first.due > core.now {
                break Some(first.due);
            }
            if self.waiting_packets as usize == self.flight.len() {
                // It began to be sent before now, so it must not count as waiting any more.
                self.count(core.now);
            }
            self.flight.pop_front();
            io.forward(core, first.id);
        };
        io.wake_anew(core, next);
    }

    pub fn held(&self) -> u64 {
        self.flight.len() as u64
    }

    pub fn backlog(&mut self, core: &Core) -> Backlog {
        self.count(core.now);
        self.waiting()
    }

    fn waiting(&self) -> Backlog {
        Backlog { packets: self.waiting_packets, bytes: self.waiting_bytes }
    }

    /// Counts those that have begun to be sent by now as waiting no more.
    #[inline]
    fn count(&mut self, now: Time) {
        while self.waiting_packets > 0 {
            let next = &self.flight[self.flight.len() - self.waiting_packets as usize];
            if next.start > now {
                return;
            }
            self.waiting_packets -= 1;
            self.waiting_bytes -= u64::from(next.size);
        }
    }
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
