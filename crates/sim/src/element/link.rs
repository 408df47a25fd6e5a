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
use super::ring_buffer::RingBuffer;
use crate::engine::{Core, DropReason, ElementContext, FlowKey, PacketHandle};
use tcpassay_units::{Bytes, Carry, Dur, Rate, Seed, Time};

/// How much may wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueLimit {
    /// At most so many bytes.
    pub bytes: Bytes,
    /// At most so many packets.
    pub packets: u32,
}

impl QueueLimit {
    /// No limit at all.
    pub const NONE: QueueLimit = QueueLimit { bytes: Bytes::MAX, packets: u32::MAX };

    /// `n` bytes.
    pub const fn bytes(n: Bytes) -> QueueLimit {
        QueueLimit { bytes: n, packets: u32::MAX }
    }

    /// `n` packets.
    pub const fn packets(n: u32) -> QueueLimit {
        QueueLimit { bytes: Bytes::MAX, packets: n }
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
    pub limit: QueueLimit,
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
        LinkSpec { rate: Some(rate), delay, limit: QueueLimit::NONE, mark_above: None, overhead: 0 }
    }

    /// A delay alone.
    pub const fn delay(delay: Dur) -> LinkSpec {
        LinkSpec { rate: None, delay, limit: QueueLimit::NONE, mark_above: None, overhead: 0 }
    }
}

impl LinkSpec {
    pub(super) fn make(self, _: &str, _: Seed) -> Link {
        Link {
            free_at: Time::ZERO,
            flight: RingBuffer::default(),
            waiting_bytes: 0,
            waiting_packets: 0,
            overhead: self.overhead,
            delay: self.delay,
            rate: self.rate,
            carry: 0,
            usual: CachedTxTime::default(),
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
    flight: RingBuffer<InFlight>,
    /// Of the last of the flight: those that had not begun to be sent when last counted. Never all of it: the one before the
    /// first of them is being sent.
    waiting_packets: u32,
    overhead: u32,
    waiting_bytes: u64,
    delay: Dur,
    rate: Option<Rate>,
    /// What is left of the division, as [`Carry`](tcpassay_units::Carry).
    carry: u64,
    usual: CachedTxTime,
    /// `u64::MAX`: never.
    mark_above: u64,
    limit: QueueLimit,
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    /// When it arrives.
    due: Time,
    handle: PacketHandle,
}

/// The division of the last size seen, as most packets of a direction have one size.
#[derive(Clone, Copy, Debug, Default)]
struct CachedTxTime {
    wire: u32,
    time: u32,
    cold: u64,
}

impl Link {
    #[inline(always)]
    pub fn receive(&mut self, ctx: &mut ElementContext, core: &mut Core, handle: PacketHandle) {
        ctx.arrived(core, handle);
        let now = core.now;
        let start = if self.free_at > now {
            if !self.admits(ctx, core, handle) {
                return;
            }
            self.waiting_packets += 1;
            self.waiting_bytes += u64::from(handle.size);
            self.free_at
        } else {
            (self.waiting_packets, self.waiting_bytes) = (0, 0);
            self.carry = 0;
            now
        };
        self.free_at = start + self.tx_time(handle);
        let due = self.free_at + self.delay;
        let first = self.flight.is_empty();
        self.flight.push_back(InFlight { due, handle });
        if ctx.collects {
            ctx.queued(core, self.waiting_bytes, self.waiting_packets);
            ctx.waited(now, start);
        }
        if first {
            ctx.wake_at_last(core, due);
        }
    }

    /// How long a packet occupies the wire, without drift, as [`Rate::tx_time`].
    #[inline(always)]
    fn tx_time(&mut self, handle: PacketHandle) -> Dur {
        let Some(rate) = self.rate else { return Dur::ZERO };
        let wire = u64::from(handle.size) + u64::from(self.overhead) * u64::from(handle.segs);
        if wire != u64::from(self.usual.wire) || wire == 0 {
            return self.divide(rate, wire);
        }
        let cold = self.carry + self.usual.cold;
        let more = cold >= rate.bits_per_sec();
        self.carry = if more { cold - rate.bits_per_sec() } else { cold };
        Dur::from_nanos(u64::from(self.usual.time) + u64::from(more))
    }

    /// Divides, and keeps the division when it fits.
    #[inline(never)]
    fn divide(&mut self, rate: Rate, wire: u64) -> Dur {
        let mut whole = Carry::default();
        let time = rate.tx_time(Bytes::new(wire), &mut whole);
        let cold = whole.get();
        if let (Ok(wire), Ok(time)) = (u32::try_from(wire), u32::try_from(time.as_nanos())) {
            self.usual = CachedTxTime { wire, time, cold };
        }
        let cold = self.carry + cold;
        self.carry = cold % rate.bits_per_sec();
        time + Dur::from_nanos(cold / rate.bits_per_sec())
    }

    /// Whether a packet that has to wait fits; marks it when it finds too much waiting, drops it when it does not fit. No more
    /// waits than when last counted: they are counted again only where that decides, or somebody wants to know.
    #[inline(always)]
    fn admits(&mut self, ctx: &mut ElementContext, core: &mut Core, handle: PacketHandle) -> bool {
        let size = u64::from(handle.size);
        let plain = self.limit.fits(self.waiting(), size) && self.waiting_bytes <= self.mark_above;
        if plain && !ctx.collects {
            return true;
        }
        self.count(core.now);
        if !self.limit.fits(self.waiting(), size) {
            ctx.drop(core, handle.id, DropReason::Full);
            return false;
        }
        if self.waiting_bytes > self.mark_above {
            ctx.mark(core, handle.id);
        }
        true
    }

    /// Lets go what arrives now. The only one, which is the rule, is the caller's to hand on, and the flow of the one behind it, or
    /// its own, is told.
    #[inline(always)]
    pub fn wake(&mut self, ctx: &mut ElementContext, core: &mut Core) -> Option<(PacketHandle, FlowKey)> {
        let first = self.pop(ctx, core);
        match self.flight.front() {
            None => Some((first, first.flow)),
            Some(next) if next.due > core.now => {
                core.packets.prefetch(next.handle.id);
                ctx.wake_at_last(core, next.due);
                Some((first, next.handle.flow))
            }
            Some(_) => {
                self.let_go(ctx, core, first);
                None
            }
        }
    }

    /// Several that arrive in one instant.
    #[cold]
    #[inline(never)]
    fn let_go(&mut self, ctx: &mut ElementContext, core: &mut Core, first: PacketHandle) {
        core.moving.push((ctx.next, first));
        while self.flight.front().is_some_and(|f| f.due <= core.now) {
            let handle = self.pop(ctx, core);
            core.moving.push((ctx.next, handle));
        }
        ctx.wake_at(core, self.flight.front().map(|f| f.due));
    }

    /// Takes the first of the flight.
    #[inline(always)]
    fn pop(&mut self, ctx: &mut ElementContext, core: &mut Core) -> PacketHandle {
        let InFlight { due, handle } = *self.flight.front().expect("woken for the first of the flight");
        debug_assert!(due <= core.now, "woken before the first of the flight arrives");
        self.flight.pop_front();
        if self.waiting_packets > 0 && self.waiting_packets == self.flight.len() {
            // The next began to be sent when this one had been, which must not be forgotten with it.
            self.waiting_packets -= 1;
            self.waiting_bytes -= u64::from(self.flight.get(0).handle.size);
        }
        ctx.left(core, handle);
        handle
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
            self.waiting_bytes -= u64::from(self.flight.get(at).handle.size);
        }
    }
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
