//! The receive memory of Linux 6.1, as the model counts it: what a packet costs, what is dropped without memory, and the window that follows
//! (`tcp_select_window`, `__tcp_select_window`, `tcp_grow_window`, `tcp_try_rmem_schedule`, `tcp_prune_ofo_queue`, `tcp_try_coalesce`,
//! `tcp_rcv_space_adjust`). Half of the buffer is window. The interface gives packets of one fragment for each segment, and one more where
//! the sender's area of 32 KiB ends.

use super::window::{Offer, Place};
use std::collections::VecDeque;
use tcpassay_tcp::RecvMemory;
use tcpassay_units::{Dur, Time};

/// `MAX_SKB_FRAGS`.
const FRAGMENTS: u64 = 17;
/// Bytes of an area from which a sender fills packets.
const AREA: u64 = 32_768;
/// Segments in order that are shorter do not open the window.
const RAISES: u64 = 128;
/// `MAX_TCP_HEADER`, `sizeof(struct sk_buff)` and `struct skb_shared_info` (`tcp_rcv_space_adjust`).
const OVERHEAD: u64 = 192 + 256 + 320;

/// A socket buffer with the positions of its data.
#[derive(Clone, Copy, Debug)]
struct Skb {
    start: u64,
    end: u64,
    cost: u64,
    fragments: u64,
}

/// What happened to a packet.
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Taken {
    /// It was dropped.
    pub dropped: bool,
    /// It began outside the window and is answered as a duplicate.
    pub outside: bool,
    /// Memory was short: quick ACKs end.
    pub starved: bool,
    /// Nothing is kept from this position on.
    pub cut: Option<u64>,
    /// The threshold of the window rose.
    pub grew: bool,
}

/// The account of one receiver.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    size: u64,
    max: u64,
    locked: bool,
    overhead: u64,
    advmss: u64,
    sack: bool,
    shift: u32,
    used: u64,
    clamp: u64,
    threshold: u64,
    in_order: VecDeque<Skb>,
    later: Vec<Skb>,
    best: u64,
    from: u64,
    since: Time,
}

impl Memory {
    /// `at`: when the connection is established; `first`: the window of the SYN. `None` for settings that no case has.
    pub fn new(
        at: Time,
        memory: &RecvMemory,
        first: u64,
        shift: u32,
        scaled: bool,
        advmss: u64,
        sack: bool,
    ) -> Option<Memory> {
        let plain = memory.gso.is_none() && !memory.shrink && memory.rules == tcpassay_tcp::MemoryRules::Half;
        let overhead = memory.buffer.filter(|_| plain)?.get();
        let size = memory.size.get();
        let most = size.div_ceil(2);
        let mut clamp = if scaled { most } else { most.min(0xffff) };
        if clamp > 2 * advmss && clamp + advmss > most {
            clamp = (most - advmss).max(2 * advmss);
        }
        let threshold = first.min(clamp);
        Some(Memory {
            size,
            max: memory.max.get(),
            locked: memory.locked,
            overhead,
            advmss,
            sack,
            shift,
            used: 0,
            clamp,
            threshold,
            in_order: VecDeque::new(),
            later: Vec::new(),
            best: threshold.min(10 * advmss).max(1),
            from: 1,
            since: at,
        })
    }

    /// Whether the buffer is not as large as it may become.
    pub fn grows(&self) -> bool {
        !self.locked && self.size < self.max
    }

    /// Whether the buffer may have grown when `read` was reached.
    pub fn may_grow(&self, read: u64) -> bool {
        self.grows() && read > self.from + self.best
    }

    pub fn is_plain(&self) -> bool {
        self.later.is_empty() && self.used <= self.size
    }

    fn skb(&self, start: u64, end: u64) -> Skb {
        let len = end - start;
        let segments = len.div_ceil(self.advmss.max(1));
        // Position 1 is the first byte of the first area.
        let areas = (start + len.max(1) - 2) / AREA - (start - 1) / AREA;
        let fragments = segments + areas;
        let heads = if len <= self.advmss { 1 } else { fragments.div_ceil(FRAGMENTS).max(1) };
        Skb { start, end, cost: heads * self.overhead + len, fragments }
    }

    /// Attaches `next` to `last` without the buffer that holds it, if there is room.
    fn attach(&self, last: &Skb, next: &Skb) -> Option<Skb> {
        let fragments = last.fragments + next.fragments;
        let fits = last.end == next.start && fragments <= FRAGMENTS;
        let cost = last.cost + next.cost - self.overhead;
        fits.then_some(Skb { start: last.start, end: next.end, cost, fragments })
    }

    fn queue(&mut self, skb: Skb) {
        let joined = self.in_order.back().and_then(|last| self.attach(last, &skb));
        if let Some(joined) = joined {
            self.used += skb.cost - self.overhead;
            *self.in_order.back_mut().expect("it was joined") = joined;
        } else {
            self.used += skb.cost;
            self.in_order.push_back(skb);
        }
    }

    fn free(&self) -> u64 {
        self.size.saturating_sub(self.used).div_ceil(2)
    }

    /// `tcp_grow_window`.
    fn raise(&mut self, len: u64, cost: u64, rcv_mss: u64) -> bool {
        let most = self.clamp.min(self.free());
        if self.threshold >= most {
            return false;
        }
        let mut more = 2 * self.advmss;
        if cost.div_ceil(2) > len {
            // `__tcp_grow_window`: the window is halved as often as the packet until its data are half of it.
            let (mut packet, mut window) = (cost.div_ceil(2) / 2, self.max.div_ceil(2) / 2);
            more = loop {
                if self.threshold > window {
                    break 0;
                }
                if packet <= len {
                    break 2 * rcv_mss;
                }
                (packet, window) = (packet / 2, window / 2);
            };
        }
        if more > 0 {
            self.threshold = (self.threshold + more.max(2 * len)).min(most);
        }
        more > 0
    }

    /// The buffer of an application that set no size grows to what is used; otherwise the window shrinks to two segments, and what is out
    /// of order is dropped, at least an eighth of the buffer.
    fn prune(&mut self) -> Option<u64> {
        if self.size < self.max && !self.locked {
            self.size = self.used.min(self.max);
        }
        if self.used > self.size {
            self.threshold = self.clamp.min(2 * self.advmss);
        }
        let (mut cut, mut goal) = (None, self.size / 8);
        while self.used > self.size || cut.is_some() && goal > 0 {
            let Some(last) = self.later.pop() else { break };
            self.used -= last.cost;
            goal = goal.saturating_sub(last.cost);
            cut = Some(last.start);
        }
        cut
    }

    /// A packet with positions `start` to `end` arrives at `place`; `fin`: it is a FIN without data.
    pub fn arrives(&mut self, start: u64, end: u64, fin: bool, place: &Place) -> Taken {
        let Place { nxt, edge, rcv_mss, .. } = *place;
        let mut taken = Taken::default();
        if end <= nxt && !(fin && end == nxt) {
            return taken;
        }
        let in_order = start <= nxt;
        if in_order && edge <= nxt && !fin || !in_order && start >= edge.max(nxt) {
            return Taken { dropped: true, outside: true, ..taken };
        }
        if self.used > self.size {
            taken.starved = true;
            taken.cut = self.prune();
            if self.used > self.size && (!in_order || !self.in_order.is_empty()) {
                taken.dropped = true;
                return taken;
            }
        }
        if start == end {
            return taken;
        }
        let skb = self.skb(start, end);
        taken.grew = if in_order {
            self.queue(skb);
            end - start >= RAISES && self.raise(end - start, skb.cost - self.overhead, rcv_mss)
        } else {
            self.keep(skb, rcv_mss)
        };
        taken
    }

    /// `tcp_data_queue_ofo`.
    fn keep(&mut self, skb: Skb, rcv_mss: u64) -> bool {
        if self.later.iter().any(|one| one.start <= skb.start && skb.end <= one.end) {
            return false;
        }
        let len = skb.end - skb.start;
        let mut place = self.later.partition_point(|one| one.start <= skb.start);
        let joined = place.checked_sub(1).and_then(|before| self.attach(&self.later[before], &skb));
        if let Some(joined) = joined {
            self.used += skb.cost - self.overhead;
            self.later[place - 1] = joined;
            return self.sack && self.raise(len, skb.cost - self.overhead, rcv_mss);
        }
        if place > 0 && self.later[place - 1].start == skb.start {
            place -= 1;
        }
        let covered = self.later[place..].iter().take_while(|one| one.end <= skb.end).count();
        self.used -= self.later.drain(place..place + covered).map(|one| one.cost).sum::<u64>();
        let grew = self.sack && self.raise(len, skb.cost, rcv_mss);
        self.used += skb.cost;
        self.later.insert(place, skb);
        grew
    }

    /// Data are in order up to `nxt`, and what follows them directly, too (`tcp_ofo_queue`).
    pub fn joins(&mut self, mut nxt: u64) {
        while let Some(first) = self.later.first().copied().filter(|first| first.start <= nxt) {
            self.later.remove(0);
            self.used -= first.cost;
            if first.end > nxt {
                nxt = first.end;
                self.queue(first);
            }
        }
    }

    /// The peer's FIN in order drops what is out of order.
    pub fn finishes(&mut self) {
        self.used -= self.later.drain(..).map(|one| one.cost).sum::<u64>();
    }

    /// `__tcp_select_window`: the window, and whether less than half of the buffer is free.
    fn select(&self, rcv_mss: u64, present: u64) -> (u64, bool) {
        let (unit, allowed) = (1_u64 << self.shift, self.size.div_ceil(2));
        let full = self.clamp.min(allowed);
        let mss = rcv_mss.min(full);
        if mss == 0 {
            return (0, false);
        }
        let mut free = self.free();
        let tight = free < full / 2;
        if tight {
            free = free / unit * unit;
            if free < allowed / 16 || free < mss {
                return (0, true);
            }
        }
        free = free.min(self.threshold);
        let window = if self.shift > 0 {
            free.next_multiple_of(unit)
        } else if present + mss <= free || present > free {
            free / mss * mss
        } else if mss == full && free > present + full / 2 {
            free
        } else {
            present
        };
        (window, tight)
    }

    pub fn offer(&self, place: &Place) -> Offer {
        let Place { nxt, edge, acked, rcv_mss, .. } = *place;
        let unit = 1_u64 << self.shift;
        let promised = edge.saturating_sub(nxt);
        let (mut window, tight) = self.select(rcv_mss, edge.saturating_sub(acked));
        if window < promised {
            window = promised.next_multiple_of(unit);
        }
        let units = window / unit;
        Offer { bytes: units.min(0xffff) * unit, edge: nxt + units * unit, tight }
    }

    /// Whether an ACK would announce no less than the last one.
    pub fn keeps(&self, place: &Place) -> bool {
        self.offer(place).edge - place.nxt >= place.edge.saturating_sub(place.acked)
    }

    /// The application has read up to `read`.
    pub fn read(&mut self, at: Time, read: u64, rtt: Dur) {
        if !rtt.is_zero() && at.since(self.since) >= rtt {
            let counted = self.in_order.front().map_or(read, |first| first.end.min(read));
            let taken = counted.saturating_sub(self.from);
            (self.from, self.since) = (counted, at);
            if taken > self.best {
                self.follow(taken);
            }
        }
        self.release(read);
    }

    /// Buffers that were read to their end are freed.
    pub fn release(&mut self, read: u64) {
        while let Some(first) = self.in_order.front().filter(|first| first.end <= read) {
            self.used -= first.cost;
            self.in_order.pop_front();
        }
    }

    /// The buffer holds twice the bytes read in a round trip and sixteen segments, more while that grows, in packets of one segment.
    fn follow(&mut self, taken: u64) {
        let before = std::mem::replace(&mut self.best, taken);
        if self.locked {
            return;
        }
        let base = 2 * taken + 16 * self.advmss;
        let wanted = base + 2 * (base * (taken - before) / before);
        // The memory of a packet is counted in steps of 128 until half of it holds a segment.
        let packet = self.advmss + OVERHEAD;
        let packet = packet + (2 * self.advmss).saturating_sub(packet + 1).div_ceil(128) * 128;
        let size = (wanted / self.advmss * packet).min(self.max);
        if size > self.size {
            self.size = size;
            self.clamp = size.div_ceil(2);
        }
    }

    /// Whether the window at least doubled by reading (`__tcp_cleanup_rbuf`).
    pub fn updates(&self, place: &Place) -> bool {
        let present = place.edge.saturating_sub(place.nxt);
        if 2 * present > self.clamp {
            return false;
        }
        let (window, _) = self.select(place.rcv_mss, place.edge.saturating_sub(place.acked));
        window > 0 && window >= 2 * present
    }
}
