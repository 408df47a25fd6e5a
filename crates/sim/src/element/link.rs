//! A link: a drop-tail queue in front of a wire with fixed rate and delay. It causes one event per packet.
//!
//! The start of a packet's transmission is known when the packet arrives, because the rate is fixed and no packet
//! overtakes another. A packet therefore enters the flight list at once, with its arrival time at the other end, and
//! the only pending event of the link is the arrival of the first packet in flight. The backlog is still exact: the
//! packets whose transmission has not begun are the last entries of the flight list, and they are counted when the
//! backlog is needed. The flight list contains all data for this, so that the memory of a packet is accessed only
//! when it is marked or dropped.
//!
//! A packet in transmission does not belong to the backlog, as in Linux, where a packet that the device has taken is
//! no longer in the queueing discipline. A packet that finds the link idle is therefore never dropped. (htsim and
//! ns-2 count the packet in transmission.)

#![expect(clippy::inline_always, reason = "called in the run loop")]

use super::backlog::Backlog;
use super::ring_buffer::RingBuffer;
use crate::engine::{Core, DropReason, ElementContext, FlowLabel, PacketHandle};
use tcpassay_units::{Bytes, Carry, Dur, Rate, Seed, Time};

/// Limit of a backlog.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueLimit {
    /// Maximum number of bytes.
    pub bytes: Bytes,
    /// Maximum number of packets.
    pub packets: u32,
}

impl QueueLimit {
    /// No limit.
    pub const NONE: QueueLimit = QueueLimit { bytes: Bytes::MAX, packets: u32::MAX };

    /// A limit of `n` bytes.
    pub const fn bytes(n: Bytes) -> QueueLimit {
        QueueLimit { bytes: n, packets: u32::MAX }
    }

    /// A limit of `n` packets.
    pub const fn packets(n: u32) -> QueueLimit {
        QueueLimit { bytes: Bytes::MAX, packets: n }
    }

    /// Whether one more packet of `more` bytes fits behind `backlog`.
    pub(crate) fn fits(self, backlog: Backlog, more: u64) -> bool {
        backlog.packets < self.packets && backlog.bytes.saturating_add(more) <= self.bytes.get()
    }
}

/// A link with a drop-tail queue. See the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkSpec {
    /// Rate; `None` means that transmission takes no time.
    pub rate: Option<Rate>,
    /// One-way propagation delay.
    pub delay: Dur,
    /// Limit of the backlog.
    pub limit: QueueLimit,
    /// ECN-capable packets that find a larger backlog are marked CE (RFC 8257 section 3.1; RED with equal
    /// thresholds). Other packets are not marked.
    pub mark_above: Option<Bytes>,
    /// Link-layer bytes of every wire packet. With 0 a full packet counts 1500 bytes; 38 is the overhead of Ethernet
    /// (header 14, FCS 4, preamble 8, gap 12). Queues count IP bytes.
    pub overhead: u32,
}

impl LinkSpec {
    /// A link with `rate` and `delay`, an unlimited queue, no marking and no overhead.
    pub const fn new(rate: Rate, delay: Dur) -> LinkSpec {
        LinkSpec { rate: Some(rate), delay, limit: QueueLimit::NONE, mark_above: None, overhead: 0 }
    }

    /// A link that only delays packets.
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

/// The fields are in the order in which a packet needs them; with the common part of elements they occupy three cache
/// lines.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Link {
    /// The time at which all accepted packets have been transmitted.
    free_at: Time,
    flight: RingBuffer<InFlight>,
    /// The backlog when last counted: the last entries of the flight list whose transmission had not begun. It is
    /// never the whole list, because the packet in front of them is in transmission.
    waiting_packets: u32,
    overhead: u32,
    waiting_bytes: u64,
    delay: Dur,
    rate: Option<Rate>,
    /// The remainder of the division, as in [`Carry`](tcpassay_units::Carry).
    carry: u64,
    usual: CachedTxTime,
    /// `u64::MAX` disables marking.
    mark_above: u64,
    limit: QueueLimit,
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    /// The arrival time.
    due: Time,
    handle: PacketHandle,
}

/// The transmission time of the last packet size. Most packets of a direction have the same size.
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

    /// Transmission time of a packet without cumulative rounding error, as in [`Rate::tx_time`].
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

    /// Computes the transmission time, and stores it when it fits.
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

    /// Whether a packet that has to wait fits. Marks the packet when the backlog exceeds the threshold, and drops it
    /// when it exceeds the limit. The stored backlog is an upper bound, so that it is recounted only when the result
    /// depends on it or statistics need it.
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

    /// Delivers the packets that arrive now. When there is one, which is the usual case, the caller forwards it; the
    /// result contains it and the flow of the packet behind it (or its own).
    #[inline(always)]
    pub fn wake(&mut self, ctx: &mut ElementContext, core: &mut Core) -> Option<(PacketHandle, FlowLabel)> {
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

    /// Several packets arrive at the same instant.
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

    /// Removes the first packet in flight.
    #[inline(always)]
    fn pop(&mut self, ctx: &mut ElementContext, core: &mut Core) -> PacketHandle {
        let InFlight { due, handle } = *self.flight.front().expect("woken for the first of the flight");
        debug_assert!(due <= core.now, "woken before the first of the flight arrives");
        self.flight.pop_front();
        if self.waiting_packets > 0 && self.waiting_packets == self.flight.len() {
            // The transmission of the next packet began when this one ended; this fact must be kept.
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

    /// Removes packets from the backlog whose transmission has begun by now. Each begins when the previous one ends.
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
