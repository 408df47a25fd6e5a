//! Linux's receive buffer with the overhead of its buffers: what a packet costs, what window that leaves, what is dropped.
//!
//! A packet that came through `tun` costs its pages and structures (`tun_get_user`, `SKB_TRUESIZE`). A packet from a network
//! interface costs its bytes and one buffer; what follows it in order is attached to that buffer without another one, until the
//! buffer has 17 fragments (`tcp_try_coalesce`, `MAX_SKB_FRAGS`).
//!
//! Two releases are implemented ([`MemoryRules`](crate::MemoryRules)). Until 6.5 half of the buffer is window
//! (`tcp_adv_win_scale` = 1). Later the share of payload in what arrives decides (`scaling_ratio`; half at first, since 6.10).
//!
//! Sources: `tcp_select_window`, `__tcp_select_window`, `tcp_grow_window`, `tcp_try_rmem_schedule`, `tcp_prune_queue`,
//! `tcp_rcv_space_adjust`, `tcp_rcvbuf_grow`, `tcp_init_buffer_space`, as of 6.1 and of 7.0. In 7.0 a packet is taken while the
//! buffer is not overdrawn (6.17 and 6.18 ask whether it fits) and the largest window that was ever announced counts.
//!
//! Known differences: nothing is collapsed (`tcp_collapse`), and there is no pressure from other sockets.

use super::Receiver;
use super::window::Offer;
use crate::log::AckReason;
use crate::{MemoryRules, RecvMemory};
use std::collections::VecDeque;
use tcpassay_units::{Dur, Time};

const PAGE: u64 = 4096;
/// `NET_SKB_PAD`
const PAD: u64 = 64;
/// `sizeof(struct skb_shared_info)`, aligned.
const SHARED: u64 = 320;
/// `sizeof(struct sk_buff)`, aligned.
const BUFFER: u64 = 256;
/// `SKB_SMALL_HEAD_SIZE`
const SMALL: u64 = 640;
/// `PAGE_ALLOC_COSTLY_ORDER`
const ORDER: u32 = 3;
/// `MAX_SKB_FRAGS`
const FRAGMENTS: u64 = 17;
/// `MAX_TCP_HEADER` of a kernel without tunnels and wireless networks.
const TCP_HEADER: u64 = 192;

/// What the head of a buffer costs that holds `n` bytes, and what it has room for.
fn head(n: u64) -> (u64, u64) {
    let size = n.next_multiple_of(64) + SHARED;
    let size = if size <= SMALL { SMALL } else { size.next_power_of_two() };
    (size + BUFFER, size - SHARED)
}

/// What a packet of `n` bytes with its headers costs (`truesize`), and what may be appended to it at no cost.
fn cost(n: u64) -> (u64, u64) {
    if PAD + n < PAGE {
        let (cost, room) = head(PAD + n);
        return (cost, room - PAD - n);
    }
    let linear = PAGE - PAD - SHARED;
    let (mut cost, _) = head(PAD + linear);
    let (mut left, mut order) = (n - linear, ORDER);
    while left > 0 {
        while order > 0 && left.next_multiple_of(PAGE) < PAGE << order {
            order -= 1;
        }
        cost += PAGE << order;
        left = left.saturating_sub(PAGE << order);
    }
    (cost, 0)
}

/// A buffer of a queue.
#[derive(Clone, Copy, Debug)]
struct Held {
    start: u64,
    end: u64,
    cost: u64,
    /// What the next may append: bytes that are copied, or fragments that are attached.
    room: u64,
}

/// The account.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    cfg: RecvMemory,
    /// `sk_rcvbuf`
    size: u64,
    locked: bool,
    /// `sk_rmem_alloc`
    used: u64,
    /// `scaling_ratio`, of 256.
    ratio: u64,
    /// `window_clamp` and `rcv_ssthresh`
    clamp: u64,
    threshold: u64,
    advmss: u64,
    /// In order and unread; out of order.
    queue: VecDeque<Held>,
    later: Vec<Held>,
    /// `ICSK_ACK_NOMEM`: the next ACK shuts the window.
    refused: bool,
    /// `rcv_mwnd_seq`
    limit: u64,
    /// The window that was last computed, while nothing that it depends on has changed.
    known: Option<(At, Offer, bool)>,
    /// An application holds the socket.
    owned: bool,
    /// What was read in the best round trip (`rcvq_space`), and what is counted now.
    space: u64,
    from: u64,
    since: Time,
}

impl Memory {
    /// A server's socket is nobody's before `accept`.
    pub(super) fn new(cfg: RecvMemory, first: u64, advmss: u64) -> Memory {
        let size = cfg.size.get();
        let mut made = Memory {
            cfg,
            size,
            locked: cfg.locked,
            used: 0,
            ratio: 128,
            clamp: 0,
            threshold: first,
            advmss,
            queue: VecDeque::new(),
            later: Vec::new(),
            refused: false,
            limit: 1 + first,
            known: None,
            owned: !cfg.passive,
            space: 0,
            from: 1,
            since: Time::ZERO,
        };
        // `tcp_init_buffer_space`: a segment is reserved.
        let most = made.window_of(size);
        made.clamp = if most > 2 * advmss { (most - advmss).max(2 * advmss) } else { most };
        made.threshold = first.min(made.clamp);
        made.space = made.threshold.min(10 * advmss).max(1);
        made
    }

    /// `tcp_win_from_space`
    fn window_of(&self, space: u64) -> u64 {
        match self.cfg.rules {
            MemoryRules::Half => space - space / 2,
            MemoryRules::Measured => (space * self.ratio) >> 8,
        }
    }

    /// What a packet of `len` bytes with `headers` before them costs, and what may be appended to it.
    fn price(&self, len: u64, headers: u64) -> (u64, u64) {
        let Some(buffer) = self.cfg.buffer else { return cost(self.cfg.ip.get() + headers + len) };
        if len <= self.advmss {
            return (buffer.get() + len, FRAGMENTS - u64::from(len > 0));
        }
        let fragments = self.fragments(len);
        let buffers = fragments.div_ceil(FRAGMENTS).max(1);
        (buffers * buffer.get() + len, buffers * FRAGMENTS - fragments)
    }

    /// Segments of a packet of `len` bytes, each of which is a fragment.
    #[inline]
    fn fragments(&self, len: u64) -> u64 {
        if len <= self.advmss { u64::from(len > 0) } else { len.div_ceil(self.advmss.max(1)) }
    }

    /// Header prediction needs to know no more than that there is place.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.cfg.buffer.is_some() && self.later.is_empty() && self.used <= self.size
    }

    /// The next `len` bytes, from `start`, while [`Memory::is_plain`]; gives whether the threshold rose.
    #[inline]
    pub(super) fn take_next(&mut self, start: u64, len: u64, rcv_mss: u64) -> bool {
        self.known = None;
        if let Some(last) = self.queue.back_mut()
            && last.end == start
            && last.room > 0
            && len <= self.advmss
        {
            last.room -= 1;
            last.end += len;
            last.cost += len;
            self.used += len;
            return self.grow(len, len, rcv_mss);
        }
        let (cost, room) = self.price(len, 0);
        self.used += cost;
        self.queue.push_back(Held { start, end: start + len, cost, room });
        self.grow(len, cost, rcv_mss)
    }

    fn free(&self) -> u64 {
        self.window_of(self.size.saturating_sub(self.used))
    }

    /// `__tcp_select_window`, of a connection that announces `wnd`; and whether less than half of the buffer is free, which ends
    /// quick ACKs.
    fn select(&self, shift: u8, rcv_mss: u64, wnd: u64) -> (u64, bool) {
        let unit = 1 << shift;
        let allowed = self.window_of(self.size);
        let full = self.clamp.min(allowed);
        let mss = rcv_mss.min(full);
        if mss == 0 {
            return (0, false);
        }
        let shrinks = self.shrinks(shift);
        let down = |n: u64| n >> shift << shift;
        let mut free = if shrinks { down(self.free()) } else { self.free() };
        let tight = free < full / 2;
        if tight {
            free = down(free);
            if free < allowed >> 4 || free < mss || shrinks && free < unit {
                return (0, true);
            }
        }
        free = free.min(self.threshold);
        let window = if shift > 0 {
            free.next_multiple_of(unit)
        } else if wnd + mss <= free || wnd > free {
            free / mss * mss
        } else if mss == full && free > wnd + full / 2 {
            free
        } else {
            wnd
        };
        (window, tight)
    }

    fn shrinks(&self, shift: u8) -> bool {
        self.cfg.shrink && shift > 0
    }

    /// The largest right edge that was ever announced.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// `tcp_measure_rcv_mss`: what share of a buffer is payload, from a packet unlike those before.
    fn weigh(&mut self, len: u64, cost: u64, rcv_mss: u64) {
        let one = self.cfg.gso.map_or(len, |gso| len.min(gso.get()));
        if one > rcv_mss {
            let before = self.ratio;
            self.ratio = ((len << 8) / cost).max(1);
            if self.ratio != before {
                self.clamp = self.window_of(self.size);
            }
        }
    }

    /// `tcp_grow_window`; gives whether the threshold rose.
    #[inline]
    fn grow(&mut self, len: u64, cost: u64, rcv_mss: u64) -> bool {
        if len < 128 || self.clamp <= self.threshold { false } else { self.open(len, cost, rcv_mss) }
    }

    fn open(&mut self, len: u64, cost: u64, rcv_mss: u64) -> bool {
        let most = self.clamp.min(self.free());
        if most <= self.threshold {
            return false;
        }
        // `truesize_adjust`: fragments without the buffer that holds them.
        let cost = if self.cfg.buffer.is_some() { len } else { cost };
        let more = if self.window_of(cost) <= len {
            2 * self.advmss
        } else {
            // `__tcp_grow_window`
            let (mut half, mut window) = (self.window_of(cost) / 2, self.window_of(self.cfg.max.get()) / 2);
            loop {
                if self.threshold > window {
                    break 0;
                }
                if half <= len {
                    break 2 * rcv_mss;
                }
                (half, window) = (half / 2, window / 2);
            }
        };
        if more > 0 {
            self.threshold = (self.threshold + more.max(2 * len)).min(most);
        }
        more > 0
    }

    /// `tcp_rcv_space_adjust` until 6.12: the buffer has place for twice what was read in a round trip and sixteen segments, more
    /// while that grows, in packets of a segment each.
    fn follow(&mut self, read: u64) {
        let before = std::mem::replace(&mut self.space, read);
        if self.locked {
            return;
        }
        let mut want = 2 * read + 16 * self.advmss;
        want += 2 * (want * (read - before) / before);
        let packet = self.advmss + TCP_HEADER + BUFFER + SHARED;
        // Packets are counted larger in steps of 128 until half of each holds a segment.
        let packet = packet + (2 * self.advmss).saturating_sub(packet + 1).div_ceil(128) * 128;
        let size = (want / self.advmss * packet).min(self.cfg.max.get());
        if size > self.size {
            self.size = size;
            self.clamp = self.window_of(size);
        }
    }

    /// `tcp_rcvbuf_grow`: the buffer holds twice what was read in a round trip, more while that grows, and what is out of order.
    fn tune(&mut self, read: u64, ahead: u64) {
        let before = std::mem::replace(&mut self.space, read.max(1));
        if self.locked || !self.owned {
            return;
        }
        let mut want = 2 * read;
        want += 2 * (want * (read - before) / before);
        let size = (((want + ahead) << 8) / self.ratio).min(self.cfg.max.get());
        if size > self.size {
            self.size = size;
            self.clamp = self.window_of(size);
        }
    }

    /// The application has read up to `read`, of data up to `nxt`.
    pub(super) fn read(&mut self, now: Time, read: u64, nxt: u64, rtt: Dur) {
        self.known = None;
        while let Some(first) = self.queue.front().filter(|h| h.end <= read) {
            self.used -= first.cost;
            self.queue.pop_front();
        }
        if rtt.is_zero() || now.since(self.since) < rtt {
            return;
        }
        let copied = read - self.from;
        if self.cfg.rules == MemoryRules::Half {
            if copied > self.space {
                self.follow(copied);
            }
            (self.from, self.since) = (read, now);
            return;
        }
        let copied = copied.saturating_sub(nxt - read);
        if copied > self.space {
            let ahead = self.later.last().map_or(0, |h| h.end.saturating_sub(nxt));
            self.tune(copied, ahead);
        }
        (self.from, self.since) = (read, now);
    }

    /// `SO_RCVBUF` of an open connection.
    pub(crate) fn set_size(&mut self, size: u64) {
        self.size = size;
        self.locked = true;
    }

    /// `accept`
    pub(crate) fn own(&mut self) {
        self.owned = true;
    }

    /// Bytes in use, and the bound.
    pub(crate) fn account(&self) -> (u64, u64) {
        (self.used, self.size)
    }

    pub(super) fn acked(&mut self) {
        if self.refused {
            self.refused = false;
            self.known = None;
        }
    }

    /// The window that an ACK announces, and whether less than half of the buffer is free.
    #[inline]
    pub(super) fn offer(&mut self, at: At) -> (Offer, bool) {
        match self.known {
            Some((known, offer, tight)) if known == at => {
                debug_assert_eq!((offer, tight), self.offer_anew(at), "memory changed unnoticed");
                (offer, tight)
            }
            _ => {
                let (offer, tight) = self.offer_anew(at);
                self.known = Some((at, offer, tight));
                (offer, tight)
            }
        }
    }

    fn offer_anew(&self, at: At) -> (Offer, bool) {
        let At { nxt, edge, acked, rcv_mss, shift } = at;
        if self.refused {
            return (Offer { field: 0, edge: nxt }, true);
        }
        let current = edge.saturating_sub(nxt);
        let (mut window, tight) = self.select(shift, rcv_mss, edge.saturating_sub(acked));
        if window < current && !self.shrinks(shift) {
            window = current.next_multiple_of(1 << shift);
        }
        let field = u16::try_from(window >> shift).unwrap_or(u16::MAX);
        (Offer { field, edge: nxt + (u64::from(field) << shift) }, tight)
    }
}

/// Where the receiver stands when it announces a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct At {
    /// RCV.NXT.
    pub nxt: u64,
    /// The right edge announced.
    pub edge: u64,
    /// RCV.NXT when the last ACK left.
    pub acked: u64,
    /// The length of the peer's segments.
    pub rcv_mss: u64,
    /// The scale of the window.
    pub shift: u8,
}

/// What is to become of a packet.
pub(super) enum Fate {
    /// It is kept, or was there already.
    Goes,
    Dropped,
}

impl Receiver {
    /// From now on Linux's account of memory decides; we have announced segments of `advmss`.
    pub(crate) fn count_memory(&mut self, memory: RecvMemory, advmss: u64) {
        if let Some(gso) = memory.gso {
            self.acks.set_mss(advmss.min(gso.get()));
        }
        self.memory = Some(Box::new(Memory::new(memory, self.edge - 1, advmss)));
        self.announced = (0, 0, 0);
    }

    /// That account.
    pub(crate) fn memory(&mut self) -> Option<&mut Memory> {
        let memory = self.memory.as_deref_mut()?;
        memory.known = None;
        self.announced = (0, 0, 0);
        Some(memory)
    }

    /// `tcp_sequence` and `tcp_data_queue`: whether there is a place for `span`, with `headers` bytes before its data.
    pub(super) fn admit(&mut self, span: &crate::seam::Span, fin: bool, push: bool, headers: u64) -> Fate {
        let (nxt, edge, read) = (self.nxt, self.edge, self.read);
        let rcv_mss = self.acks.rcv_mss();
        let len = span.end.saturating_sub(span.start);
        let Some(memory) = self.memory.as_deref_mut() else { return Fate::Goes };
        memory.known = None;
        self.announced = (0, 0, 0);
        let shut = edge <= nxt;
        let limit = memory.limit.max(edge).max(nxt);
        let measured = memory.cfg.rules == MemoryRules::Measured;
        if measured && span.end > limit && self.nxt > read {
            self.acks.demand(AckReason::Answer);
            return Fate::Dropped;
        }
        let bare_fin = len == 0 && fin;
        if span.end <= nxt && !(bare_fin && span.end == nxt) {
            return Fate::Goes;
        }
        let in_order = span.start <= nxt;
        if in_order && shut && !bare_fin || !in_order && span.start >= edge.max(nxt) {
            let known = span.start.min(nxt)..nxt;
            self.answer(known);
            self.acks.quick_mode(edge.saturating_sub(nxt));
            return Fate::Dropped;
        }
        let (cost, room) = memory.price(len, headers);
        if !memory.has_place(nxt) && !measured {
            self.acks.stop_quick();
            self.assembly.cut(memory.prune_hard());
            if memory.used > memory.size && !(in_order && memory.queue.is_empty()) {
                return Fate::Dropped;
            }
        } else if memory.used > memory.size {
            self.assembly.cut(memory.prune(in_order));
            if memory.used > memory.size {
                if !in_order {
                    return Fate::Dropped;
                }
                memory.refused = true;
                self.acks.demand(AckReason::Answer);
                if !memory.queue.is_empty() && len > 0 {
                    return Fate::Dropped;
                }
            }
        }
        if len == 0 {
            return Fate::Goes;
        }
        if measured {
            memory.weigh(len, cost, rcv_mss);
        }
        let held = Held { start: span.start, end: span.end, cost, room };
        let grew = if in_order {
            memory.append(held, nxt);
            memory.grow(len, cost, rcv_mss)
        } else {
            if measured {
                self.acks.measured(len, push);
            }
            let grew = self.report_duplicates && memory.grow(len, cost, rcv_mss);
            memory.keep(held, nxt);
            grew
        };
        if grew {
            self.acks.window_grew();
        }
        Fate::Goes
    }

    /// What the window depends on besides memory.
    #[inline]
    pub(super) fn at(&self) -> At {
        let Receiver { nxt, edge, acked, .. } = *self;
        At { nxt, edge, acked, rcv_mss: self.acks.rcv_mss(), shift: self.window.shift }
    }

    /// [`Receiver::announce`].
    #[inline(never)]
    pub(super) fn announce_by_memory(&mut self) -> u16 {
        let at = self.at();
        let memory = self.memory.as_deref_mut().expect("asked where there is one");
        let (offer, tight) = memory.offer(at);
        memory.limit = memory.limit.max(offer.edge);
        // With the new edge and everything acknowledged the same comes out.
        if !tight && !memory.refused && at.acked == at.nxt && at.edge == offer.edge {
            // The answer until something arrives or is read.
            self.announced = (self.read, self.nxt, offer.field);
        }
        self.edge = offer.edge;
        if tight {
            self.acks.stop_quick();
        }
        offer.field
    }

    /// The account of memory, where there is one, leads to the window `field` and leaves its edge where it is.
    pub(super) fn announces_still(&self, field: u16) -> bool {
        self.memory.as_deref().is_none_or(|memory| {
            let (offer, tight) = memory.offer_anew(self.at());
            (offer.field, offer.edge, tight) == (field, self.edge, false)
        })
    }

    /// `__tcp_cleanup_rbuf`: the window has at least doubled by reading.
    pub(super) fn reading_tells(&self, memory: &Memory) -> bool {
        let current = self.edge.saturating_sub(self.nxt);
        if 2 * current > memory.clamp {
            return false;
        }
        let (window, _) =
            memory.select(self.window.shift, self.acks.rcv_mss(), self.edge.saturating_sub(self.acked));
        window > 0 && window >= 2 * current
    }
}

impl Memory {
    /// `tcp_can_ingest`; what was out of order and is in order by now moves over first.
    fn has_place(&mut self, nxt: u64) -> bool {
        self.settle(nxt);
        self.used <= self.size
    }

    /// What of the queue of the future has come in order.
    fn settle(&mut self, nxt: u64) {
        let ready = self.later.partition_point(|h| h.start < nxt);
        self.queue.extend(self.later.drain(..ready));
    }

    /// `tcp_clamp_window`: the buffer grows to what is used, up to its maximum; if that is not enough, the window shrinks.
    fn clamp_window(&mut self) {
        let most = self.cfg.max.get();
        if self.size < most && !self.locked {
            self.size = self.used.min(most);
        }
        if self.used > self.size {
            self.threshold = self.clamp.min(2 * self.advmss);
        }
    }

    /// `tcp_prune_ofo_queue`: data out of order are dropped, the farthest first, until the rest fits. Returns the position from which
    /// on nothing is kept.
    fn prune(&mut self, next: bool) -> u64 {
        self.clamp_window();
        let mut from = u64::MAX;
        while next && self.used > self.size {
            let Some(last) = self.later.pop() else { break };
            self.used -= last.cost;
            from = last.start;
        }
        from
    }

    /// The same until 6.12, where what is out of order goes by an eighth of the buffer at least.
    fn prune_hard(&mut self) -> u64 {
        self.clamp_window();
        let mut from = u64::MAX;
        let mut goal = self.size / 8;
        while self.used > self.size || from < u64::MAX && goal > 0 {
            let Some(last) = self.later.pop() else { break };
            self.used -= last.cost;
            goal = goal.saturating_sub(last.cost);
            from = last.start;
        }
        from
    }

    /// Appends `held` to `last` where that has room: copied into it at no cost, or its fragments attached. Gives what `last` costs
    /// more then.
    fn join(&self, last: &mut Held, held: &Held, len: u64) -> Option<u64> {
        if last.end != held.start {
            return None;
        }
        let (takes, costs) = match self.cfg.buffer {
            Some(_) => (self.fragments(len), len),
            None => (len, 0),
        };
        last.room = last.room.checked_sub(takes)?;
        last.end = held.end;
        last.cost += costs;
        Some(costs)
    }

    /// `tcp_queue_rcv`
    #[inline]
    fn append(&mut self, held: Held, nxt: u64) {
        let len = held.end - held.start.max(nxt);
        if let Some(mut last) = self.queue.back().copied()
            && let Some(more) = self.join(&mut last, &held, len)
        {
            self.used += more;
            *self.queue.back_mut().expect("it is there") = last;
            return;
        }
        self.used += held.cost;
        self.queue.push_back(held);
    }

    /// What came with a SYN is kept, whatever the buffer (`sk_forced_mem_schedule`).
    pub(super) fn hold(&mut self, start: u64, len: u64, headers: u64) {
        self.known = None;
        let (cost, room) = cost(self.cfg.ip.get() + headers + len);
        self.append(Held { start, end: start + len, cost, room }, start);
    }

    /// `tcp_data_queue_ofo`, which lets the buffer grow by what is out of order.
    fn keep(&mut self, held: Held, nxt: u64) {
        if self.later.iter().any(|h| h.start <= held.start && held.end <= h.end) {
            return;
        }
        let at = self.later.partition_point(|h| h.start <= held.start);
        // `tcp_ooo_try_coalesce`
        if self.cfg.buffer.is_some()
            && let Some(mut last) = at.checked_sub(1).map(|i| self.later[i])
            && let Some(more) = self.join(&mut last, &held, held.end - held.start)
        {
            self.used += more;
            self.later[at - 1] = last;
        } else {
            self.used += held.cost;
            self.later.insert(at, held);
        }
        if self.cfg.rules == MemoryRules::Half {
            return;
        }
        let ahead = self.later.last().map_or(0, |h| h.end - nxt);
        self.tune(self.space, ahead);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpassay_units::Bytes;

    #[test]
    fn a_packet_costs_its_pages_and_structures() {
        // One byte: the small head; 1000 bytes: 2 KiB; 4000, 10000 and 20000: a page and the rest in pages.
        assert_eq!(cost(41), (640 + 256, 320 - 64 - 41));
        assert_eq!(cost(1040).0, 2048 + 256);
        assert_eq!(cost(4040).0, 4096 + 256 + 4096);
        assert_eq!(cost(10_040).0, 4096 + 256 + 8192);
        assert_eq!(cost(20_040).0, 4096 + 256 + 16_384);
        assert_eq!(cost(60_040).0, 4096 + 256 + 32_768 + 16_384 + 8192);
    }

    fn memory(size: u64) -> Memory {
        let (size, max) = (Bytes::new(size), Bytes::new(15 << 20));
        let ip = Bytes::new(20);
        let gso = Some(Bytes::new(1000));
        Memory::new(
            RecvMemory {
                size,
                max,
                ip,
                gso,
                locked: true,
                shrink: false,
                passive: false,
                rules: MemoryRules::Measured,
                buffer: None,
            },
            18_980,
            1460,
        )
    }

    #[test]
    fn a_segment_is_reserved_and_a_packet_of_20000_bytes_leaves_18_of_1000() {
        let mut m = memory(40_000);
        assert_eq!((m.clamp, m.threshold), (18_540, 18_540));
        m.weigh(20_000, 20_736, 536);
        m.append(Held { start: 1, end: 20_001, cost: 20_736, room: 0 }, 1);
        assert_eq!(m.ratio, 246);
        assert_eq!(m.select(0, 1000, 18_980), (18_000, true));
        m.append(Held { start: 20_001, end: 40_001, cost: 20_736, room: 0 }, 20_001);
        assert_eq!(m.select(0, 1000, 18_000), (0, true));
        assert!(!m.has_place(40_001));
    }

    #[test]
    fn small_packets_are_copied_into_the_room_of_the_last() {
        let mut m = memory(40_000);
        let (cost, room) = cost(140);
        m.append(Held { start: 1, end: 101, cost, room }, 1);
        m.append(Held { start: 101, end: 201, cost, room }, 101);
        assert_eq!(m.used, 896);
        m.append(Held { start: 201, end: 301, cost, room }, 201);
        assert_eq!(m.used, 1792);
        m.read(Time::ZERO, 201, 301, Dur::ZERO);
        assert_eq!(m.used, 896);
    }
}
