//! Linux's receive buffer with the overhead of its socket buffers: the memory of a packet, the remaining window, and dropped packets.
//!
//! A packet from `tun` costs its pages and structures (`tun_get_user`, `SKB_TRUESIZE`). A packet from a network
//! interface costs its bytes and one buffer; what follows it in order is attached to that buffer without another one, until the
//! buffer has 17 fragments (`tcp_try_coalesce`, `MAX_SKB_FRAGS`), also in the queue of data out of order and when that becomes in
//! order. The interface is one of a virtual pair: a packet has the fragments with which its sender filled it from areas of 32 KiB
//! (`skb_page_frag_refill`), so that a segment across the end of an area has two.
//!
//! Two releases are implemented ([`MemoryRules`](crate::MemoryRules)). Until 6.5 half of the buffer is window
//! (`tcp_adv_win_scale` = 1). Later the share of payload in what arrives decides (`scaling_ratio`; half at first, since 6.10).
//!
//! Sources: `tcp_select_window`, `__tcp_select_window`, `tcp_grow_window`, `tcp_try_rmem_schedule`, `tcp_prune_queue`,
//! `tcp_rcv_space_adjust`, `tcp_rcvbuf_grow`, `tcp_init_buffer_space`, as of 6.1 and of 7.0. In 7.0 a packet is taken while the
//! buffer is not overdrawn (6.17 and 6.18 require that it fits) and the largest window that was ever announced counts.
//!
//! Known differences: nothing is collapsed (`tcp_collapse`), and there is no pressure from other sockets.

pub(super) mod admit;
mod cost;
mod queue;

use super::window::Offer;
use crate::{MemoryRules, PacketPages, RecvMemory};
use cost::{BUFFER, FRAGMENTS, SHARED, area_ends, cost, ring_pages};
use std::collections::VecDeque;
use tcpassay_units::{Bytes, Dur, Time};

/// Segments in order that are shorter do not open the window (`tcp_event_data_recv`).
const GROWS_FROM: u64 = 128;

/// `PAGE_SIZE`, by which socket memory is charged.
const PAGE: u64 = 4096;

/// `MAX_TCP_HEADER` of a kernel without tunnels and wireless networks.
const TCP_HEADER: u64 = 192;

/// A buffer of a queue.
#[derive(Clone, Copy, Debug)]
struct QueuedBuffer {
    start: u64,
    end: u64,
    cost: u64,
    /// Space for further data: bytes that can be copied, or fragments that can be attached.
    room: u64,
}

impl QueuedBuffer {
    /// Stands for the absence of a buffer: no space is left in it, and every position is above its end.
    const NONE: QueuedBuffer = QueuedBuffer { start: 0, end: 0, cost: 0, room: 0 };
}

/// The accounting of receive memory of a connection.
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
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
    /// SACK is in use, so that data out of order may open the window, too.
    sack: bool,
    /// The last buffer in order, while a part of it is unread; otherwise its end is zero. An application that reads at once never
    /// has another one.
    last: QueuedBuffer,
    /// The buffers before `last`, in order and unread.
    queue: VecDeque<QueuedBuffer>,
    /// The buffers of data out of order.
    later: Vec<QueuedBuffer>,
    /// `ICSK_ACK_NOMEM`: the next ACK closes the window.
    refused: bool,
    /// `rcv_mwnd_seq`
    limit: u64,
    /// The window that was last computed, while nothing that it depends on has changed.
    known: Option<(Offer, bool)>,
    /// True after `accept`: an application has the socket.
    owned: bool,
    /// The largest number of bytes read in a round trip (`rcvq_space`); then the state of the current
    /// measurement.
    space: u64,
    from: u64,
    since: Time,
    /// The round-trip time that the receiver has measured (`rcv_rtt_est`).
    rtt: Dur,
}

impl Memory {
    /// `scaled`: both ends use window scaling. A server's socket has no owner before `accept`. The first measurement of what is read begins
    /// at `now`, when the connection is established (`tcp_init_buffer_space`).
    pub(super) fn new(
        now: Time,
        cfg: RecvMemory,
        first: u64,
        advmss: u64,
        scaled: bool,
        sack: bool,
    ) -> Memory {
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
            sack,
            last: QueuedBuffer::NONE,
            queue: VecDeque::new(),
            later: Vec::new(),
            refused: false,
            limit: 1 + first,
            known: None,
            owned: !cfg.passive,
            space: 0,
            from: 1,
            since: now,
            rtt: Dur::ZERO,
        };
        // `tcp_init_buffer_space`: a segment is reserved. Without scaling the clamp is 65535 B, until the buffer grows.
        let most = made.window_of(size);
        made.clamp = if scaled { most } else { most.min(0xffff) };
        if made.clamp > 2 * advmss && made.clamp + advmss > most {
            made.clamp = (most - advmss).max(2 * advmss);
        }
        made.threshold = first.min(made.clamp);
        made.space = made.threshold.min(10 * advmss).max(1);
        made
    }

    /// `tcp_win_from_space`
    #[inline]
    fn window_of(&self, space: u64) -> u64 {
        match self.cfg.rules {
            MemoryRules::Half => space - space / 2,
            MemoryRules::Measured => space.saturating_mul(self.ratio) >> 8,
        }
    }

    /// Returns the memory of a packet of `len` bytes with `headers` before them, and the space for further
    /// data in its buffer.
    fn price(&self, start: u64, len: u64, headers: u64) -> (u64, u64) {
        let Some(buffer) = self.cfg.buffer else { return cost(self.cfg.ip.get() + headers + len) };
        if len <= self.advmss {
            return (buffer.get() + len, FRAGMENTS - self.fragments(start, len));
        }
        let fragments = self.fragments(start, len);
        let buffers = fragments.div_ceil(FRAGMENTS).max(1);
        // Nothing is attached to a list of buffers (`frag_list`).
        (buffers * buffer.get() + len, FRAGMENTS.saturating_sub(fragments))
    }

    /// Fragments of a packet of `len` bytes from `start`: one for each segment, and one more for each end of an area or of a page of a ring
    /// within it.
    #[inline]
    fn fragments(&self, start: u64, len: u64) -> u64 {
        let most = self.advmss.max(1);
        let segments = if len <= self.advmss { u64::from(len > 0) } else { len.div_ceil(most) };
        match self.cfg.pages {
            PacketPages::Sender => segments + area_ends(start, len),
            PacketPages::Ring => segments * ring_pages(len.min(most)),
        }
    }

    /// A packet of `len` bytes needs more than is left of the pages that are charged (`sk_forward_alloc`). Since 6.0 whole pages are
    /// returned when data are read (`sk_mem_uncharge`), so that less than a page is left.
    pub(super) fn is_charged_for(&self, len: u64) -> bool {
        let left = self.used.next_multiple_of(PAGE) - self.used;
        self.price(1, len, 0).0 > left
    }

    /// Whether header prediction needs no check except for free memory. A measured share of payload needs each packet's cost.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.cfg.buffer.is_some()
            && self.cfg.rules == MemoryRules::Half
            && self.later.is_empty()
            && self.used <= self.size
    }

    /// The next `len` bytes in order arrive, from `start`, while [`Memory::is_plain`] is true. Returns whether the threshold rose.
    #[expect(clippy::inline_always, reason = "once for each packet, from one place")]
    #[inline(always)]
    pub(super) fn take_next(&mut self, start: u64, len: u64, rcv_mss: u64) -> bool {
        self.known = None;
        if len > self.advmss {
            return self.take_many(start, len, rcv_mss);
        }
        let fragments = match self.cfg.pages {
            PacketPages::Sender => 1 + area_ends(start, len),
            PacketPages::Ring => ring_pages(len),
        };
        if self.last.room >= fragments && self.last.end == start {
            self.last.room -= fragments;
            self.last.end += len;
            self.last.cost += len;
            self.used += len;
        } else {
            let buffer = self.cfg.buffer.map_or(0, Bytes::get);
            self.push(QueuedBuffer {
                start,
                end: start + len,
                cost: buffer + len,
                room: FRAGMENTS - fragments,
            });
        }
        len >= GROWS_FROM && self.grow(len, len, rcv_mss)
    }

    /// [`Memory::take_next`] for a packet of more than one segment.
    #[inline(never)]
    fn take_many(&mut self, start: u64, len: u64, rcv_mss: u64) -> bool {
        let (cost, room) = self.price(start, len, 0);
        self.append(QueuedBuffer { start, end: start + len, cost, room });
        self.grow(len, self.payload_cost(cost), rcv_mss)
    }

    #[inline]
    fn free(&self) -> u64 {
        self.window_of(self.size.saturating_sub(self.used))
    }

    /// Returns the window to announce (`__tcp_select_window`) for a connection that announces `wnd`, and whether less than
    /// half of the buffer is free, which ends quick ACKs.
    #[inline]
    fn select(&self, shift: u8, rcv_mss: u64, wnd: u64) -> (u64, bool) {
        let full = self.clamp.min(self.window_of(self.size));
        let free = self.free();
        if shift == 0 || self.cfg.shrink || full == 0 || free < full / 2 {
            return self.select_seldom(shift, rcv_mss, wnd);
        }
        (round_up(free.min(self.threshold), shift), false)
    }

    /// [`Memory::select`] without its fast path.
    #[inline(never)]
    fn select_seldom(&self, shift: u8, rcv_mss: u64, wnd: u64) -> (u64, bool) {
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
            round_up(free, shift)
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

    /// `tcp_measure_rcv_mss`: updates the share of payload in a buffer after a packet of another size.
    fn weigh(&mut self, len: u64, cost: u64, rcv_mss: u64) {
        let one = self.cfg.gso.map_or(len, |gso| len.min(gso.get()));
        if one > rcv_mss {
            let before = self.ratio;
            self.ratio = ((len << 8) / cost).max(1);
            if self.ratio != before {
                self.clamp = self.window_of(self.size);
                self.space = self.space.min(self.clamp);
            }
        }
    }

    /// `truesize_adjust`: the part of a packet's cost that its fragments cause, without the buffer that holds them.
    #[inline]
    fn payload_cost(&self, cost: u64) -> u64 {
        cost - self.cfg.buffer.map_or(0, Bytes::get)
    }

    /// `tcp_grow_window`: `len` bytes arrived in a packet that counts as `cost`. Returns whether the threshold rose.
    #[expect(clippy::inline_always, reason = "once for each packet")]
    #[inline(always)]
    fn grow(&mut self, len: u64, cost: u64, rcv_mss: u64) -> bool {
        self.clamp.min(self.free()) > self.threshold && self.open(len, cost, rcv_mss)
    }

    #[inline(never)]
    fn open(&mut self, len: u64, cost: u64, rcv_mss: u64) -> bool {
        let most = self.clamp.min(self.free());
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

    /// `tcp_rcv_space_adjust` until 6.12: the buffer holds twice the bytes read in a round trip and sixteen segments, and more
    /// while this number grows, in packets of one segment each.
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

    /// `tcp_rcvbuf_grow`: the buffer holds twice what was read in a round trip, more while that grows, and what is out of order. A
    /// round trip of less than `tcp_rcvbuf_low_rtt` adds its share of this time instead.
    fn tune(&mut self, read: u64, ahead: u64) {
        const LOW_RTT: Dur = Dur::from_millis(1);
        let before = std::mem::replace(&mut self.space, read.max(1));
        if self.locked || !self.owned {
            return;
        }
        let mut want = 2 * read;
        want += if self.rtt < LOW_RTT {
            want * self.rtt.as_micros() / LOW_RTT.as_micros()
        } else {
            2 * want * (read - before) / before
        };
        let size = (((want + ahead) << 8) / self.ratio).min(self.cfg.max.get());
        if size > self.size {
            self.size = size;
            self.clamp = self.window_of(size);
        }
    }

    /// The application has read up to `read`, of data up to `nxt`. Linux measures after each buffer that a call copies from
    /// (`tcp_recvmsg_locked`). No time passes within a call, so that only the first counts.
    #[inline]
    pub(super) fn read(&mut self, now: Time, read: u64, nxt: u64, rtt: Dur) {
        self.known = None;
        if !rtt.is_zero() && now.since(self.since) >= rtt {
            self.rtt = rtt;
            self.adjust(now, read, nxt);
        }
        self.release(read);
    }

    /// `tcp_rcv_space_adjust`: a round trip of reading is over.
    #[inline(never)]
    fn adjust(&mut self, now: Time, read: u64, nxt: u64) {
        let counted = self.first_end().map_or(read, |end| end.min(read));
        let copied = counted.saturating_sub(self.from);
        (self.from, self.since) = (counted, now);
        if self.cfg.rules == MemoryRules::Half {
            if copied > self.space {
                self.follow(copied);
            }
            return;
        }
        let copied = copied.saturating_sub(nxt - counted);
        if copied > self.space {
            let ahead = self.later.last().map_or(0, |h| h.end.saturating_sub(nxt));
            self.tune(copied, ahead);
        }
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

    /// The size, the bound of the window, and the state of the measurement of what is read.
    pub(super) fn tuned(&self, rtt: u64) -> [u64; 6] {
        [self.size, self.threshold, self.space, self.from, self.since.as_nanos(), rtt]
    }

    /// Bytes in use, and the bound.
    pub(crate) fn account(&self) -> (u64, u64) {
        (self.used, self.size)
    }

    /// Discards the stored window, because its inputs may have changed.
    pub(super) fn invalidate(&mut self) {
        self.known = None;
    }

    /// A window with this right edge is announced.
    pub(super) fn announced(&mut self, edge: u64) {
        self.limit = self.limit.max(edge);
        self.known = None;
    }

    /// The window of a segment that leaves now.
    pub(super) fn announce(&mut self, at: At) -> Announced {
        let (offer, tight) = self.offer_again(at);
        self.announced(offer.edge);
        // With the new edge and everything acknowledged the result is the same.
        let stays = !tight && !self.refused && at.acked == at.nxt && at.edge == offer.edge;
        Announced { offer, tight, stays }
    }

    /// Whether the window is `field` and the right edge stays.
    pub(super) fn leads_to(&self, at: At, field: u16) -> bool {
        let (offer, tight) = self.offer_anew(at);
        (offer.field, offer.edge, tight) == (field, at.edge, false)
    }

    /// `__tcp_cleanup_rbuf`: the window has at least doubled by reading.
    pub(super) fn has_doubled(&self, at: At) -> bool {
        let current = at.edge.saturating_sub(at.nxt);
        if 2 * current > self.clamp {
            return false;
        }
        let (window, _) = self.select(at.shift, at.rcv_mss, at.edge.saturating_sub(at.acked));
        window > 0 && window >= 2 * current
    }

    /// Records that all data that have arrived are acknowledged.
    #[inline]
    pub(super) fn acked(&mut self) {
        self.refused = false;
        self.known = None;
    }

    /// The window that an ACK announces, and whether less than half of the buffer is free; computed from the present state.
    #[expect(clippy::inline_always, reason = "once for each ACK, from one place")]
    #[inline(always)]
    pub(super) fn offer(&mut self, at: At) -> (Offer, bool) {
        let made = self.offer_anew(at);
        self.known = Some(made);
        made
    }

    /// [`Memory::offer`], computed again only if its inputs have changed since the last call.
    #[inline]
    pub(super) fn offer_again(&mut self, at: At) -> (Offer, bool) {
        if let Some(known) = self.known {
            debug_assert_eq!(known, self.offer_anew(at), "memory changed unnoticed");
            return known;
        }
        self.offer_seldom(at)
    }

    #[inline(never)]
    fn offer_seldom(&mut self, at: At) -> (Offer, bool) {
        self.offer(at)
    }

    #[expect(clippy::inline_always, reason = "once for each ACK, from one place")]
    #[inline(always)]
    fn offer_anew(&self, at: At) -> (Offer, bool) {
        let At { nxt, edge, acked, rcv_mss, shift } = at;
        if self.refused {
            return (Offer { field: 0, edge: nxt }, true);
        }
        let current = edge.saturating_sub(nxt);
        let (mut window, tight) = self.select(shift, rcv_mss, edge.saturating_sub(acked));
        if window < current && !self.shrinks(shift) {
            window = round_up(current, shift);
        }
        // Linux remembers the window as it was before the field bounds it (`tcp_select_window`). Without window scaling an autotuned
        // buffer may hold more than 64 KiB; when that internal window shrinks, ACKs wait although the announced window does not.
        let field = u16::try_from(window >> shift).unwrap_or(u16::MAX);
        (Offer { field, edge: nxt + (window >> shift << shift) }, tight)
    }
}

/// The next multiple of 2^`shift`.
#[inline]
fn round_up(n: u64, shift: u8) -> u64 {
    (n + (1 << shift) - 1) >> shift << shift
}

/// The state of the receiver when it announces a window.
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

/// The decision about a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// It is kept, or was received before.
    Kept,
    /// It is kept in the buffer of the data before it.
    Attached,
    Dropped,
}

/// A window that leaves with a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Announced {
    pub offer: Offer,
    /// Less than half of the buffer is free.
    pub tight: bool,
    /// The window stays the same until something arrives or is read.
    pub stays: bool,
}

#[cfg(test)]
mod tests;
