//! The queues of data in order and unread, and of data out of order, and the data that are dropped without
//! free memory.

use super::cost::FRAGMENTS;
use super::{Fate, Memory, QueuedBuffer};
use crate::MemoryRules;

impl Memory {
    /// `tcp_can_ingest`
    pub(super) fn has_place(&self) -> bool {
        self.used <= self.size
    }

    /// The data in order end at `nxt` now: what of the out-of-order queue is in order, too, moves to the other queue, and what repeats
    /// older data is freed (`tcp_ofo_queue`).
    pub(in crate::recv) fn move_in_order(&mut self, mut nxt: u64) {
        self.known = None;
        let mut moved = 0;
        while let Some(&held) = self.later.get(moved).filter(|h| h.start <= nxt) {
            moved += 1;
            self.used -= held.cost;
            if held.end > nxt {
                nxt = held.end;
                self.append(held);
            }
        }
        self.later.drain(..moved);
    }

    /// Data out of order are not kept any more (`tcp_fin`).
    pub(in crate::recv) fn forget_later(&mut self) {
        self.known = None;
        self.used -= self.later.drain(..).map(|held| held.cost).sum::<u64>();
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

    /// `tcp_prune_ofo_queue`: data out of order are dropped, the farthest first, until the rest fits, and at least an eighth of the buffer; since
    /// 6.13 only those that do not begin before the packet, which begins at `start`. Returns the position from which on nothing is kept.
    pub(super) fn prune(&mut self, start: u64) -> u64 {
        let nearest = if self.cfg.rules == MemoryRules::Measured { start } else { 0 };
        self.clamp_window();
        let mut from = u64::MAX;
        let mut goal = self.size / 8;
        while self.used > self.size || from < u64::MAX && goal > 0 {
            let Some(last) = self.later.pop_if(|last| last.start >= nearest) else { break };
            self.used -= last.cost;
            goal = goal.saturating_sub(last.cost);
            from = last.start;
        }
        from
    }

    /// Appends `held` to `last` if that has room: copied into it at no cost, or its fragments attached without the buffer that held
    /// them. Returns by how much the cost of `last` rises (`tcp_try_coalesce`).
    fn join(&self, last: &mut QueuedBuffer, held: &QueuedBuffer) -> Option<u64> {
        if last.end != held.start {
            return None;
        }
        let (takes, costs) = match self.cfg.buffer {
            Some(buffer) => (FRAGMENTS - held.room, held.cost - buffer.get()),
            None => (held.end - held.start, 0),
        };
        last.room = last.room.checked_sub(takes)?;
        last.end = held.end;
        last.cost += costs;
        Some(costs)
    }

    /// `tcp_queue_rcv`
    #[inline]
    pub(super) fn append(&mut self, held: QueuedBuffer) {
        let mut last = self.last;
        if let Some(more) = self.join(&mut last, &held) {
            self.used += more;
            self.last = last;
        } else {
            self.push(held);
        }
    }

    /// Appends `held` to the data in order, as a separate buffer.
    #[expect(clippy::inline_always, reason = "once for each packet")]
    #[inline(always)]
    pub(super) fn push(&mut self, held: QueuedBuffer) {
        self.used += held.cost;
        if self.has_unread() {
            self.queue.push_back(self.last);
        }
        self.last = held;
    }

    /// Whether data in order are unread.
    #[inline]
    pub(super) fn has_unread(&self) -> bool {
        self.last.end > 0
    }

    /// Frees the buffers that have been read completely, up to `read`.
    #[inline]
    pub(super) fn release(&mut self, read: u64) {
        if !self.queue.is_empty() {
            self.release_first(read);
        }
        if self.last.end <= read && self.queue.is_empty() {
            self.used -= self.last.cost;
            self.last = QueuedBuffer::NONE;
        }
    }

    #[inline(never)]
    fn release_first(&mut self, read: u64) {
        while let Some(first) = self.queue.front().filter(|h| h.end <= read) {
            self.used -= first.cost;
            self.queue.pop_front();
        }
    }

    /// The end of the buffer that is read next.
    pub(super) fn first_end(&self) -> Option<u64> {
        let last = self.has_unread().then_some(&self.last);
        self.queue.front().or(last).map(|held| held.end)
    }

    /// Data of a SYN are kept independently of the size of the buffer (`sk_forced_mem_schedule`).
    pub(in crate::recv) fn hold(&mut self, start: u64, len: u64, headers: u64) {
        self.known = None;
        let (cost, room) = self.price(start, len, headers);
        self.append(QueuedBuffer { start, end: start + len, cost, room });
    }

    /// `tcp_data_queue_ofo`, which lets the window, and since 6.17 the buffer, grow by what is out of order. Returns whether the
    /// threshold of the window rose.
    pub(super) fn keep(&mut self, held: QueuedBuffer, nxt: u64, rcv_mss: u64) -> (bool, Fate) {
        if self.later.iter().any(|h| h.start <= held.start && held.end <= h.end) {
            self.grow_for_later(nxt);
            return (false, Fate::Kept);
        }
        let len = held.end - held.start;
        let mut at = self.later.partition_point(|h| h.start <= held.start);
        let (mut grew, mut fate) = (false, Fate::Kept);
        if let Some(mut before) = at.checked_sub(1).map(|i| self.later[i])
            && let Some(more) = self.join(&mut before, &held)
        {
            self.used += more;
            self.later[at - 1] = before;
            fate = Fate::Attached;
            grew = self.sack && self.grow(len, self.payload_cost(held.cost), rcv_mss);
        } else {
            // Buffers that it covers are freed. A buffer that begins at the same position is shorter.
            at -= usize::from(at > 0 && self.later[at - 1].start == held.start);
            let covered = self.later[at..].iter().take_while(|h| h.end <= held.end).count();
            self.used -= self.later.drain(at..at + covered).map(|h| h.cost).sum::<u64>();
            grew |= self.sack && self.grow(len, held.cost, rcv_mss);
            self.used += held.cost;
            self.later.insert(at, held);
        }
        self.grow_for_later(nxt);
        (grew, fate)
    }

    /// Since 6.17 the buffer grows by what is out of order.
    fn grow_for_later(&mut self, nxt: u64) {
        if self.cfg.rules == MemoryRules::Measured {
            let ahead = self.later.last().map_or(0, |h| h.end - nxt);
            self.tune(self.space, ahead);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PacketPages, RecvMemory};
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use tcpassay_units::{Bytes, Dur, Time};

    /// An account of packets from an interface, or through `tun`.
    fn memory(interface: bool) -> Memory {
        let cfg = RecvMemory {
            size: Bytes::new(1 << 20),
            max: Bytes::new(1 << 20),
            ip: Bytes::new(20),
            gso: None,
            locked: true,
            shrink: false,
            passive: false,
            rules: MemoryRules::Half,
            buffer: interface.then(|| Bytes::new(768)),
            pages: PacketPages::Sender,
        };
        Memory::new(Time::ZERO, cfg, 65_000, 1000, true, true)
    }

    fn held(start: u64, end: u64) -> QueuedBuffer {
        QueuedBuffer { start, end, cost: 768 + end - start, room: FRAGMENTS - (end - start).div_ceil(1000) }
    }

    #[test]
    fn a_buffer_out_of_order_is_attached_to_the_buffer_before_it() {
        let mut m = memory(true);
        m.append(held(1, 1001));
        m.keep(held(2001, 3001), 1001, 1000);
        m.keep(held(3001, 4001), 1001, 1000);
        assert_eq!(m.used, 1768 + 2768, "one buffer in order, and one that is not");
        m.append(held(1001, 2001));
        m.move_in_order(2001);
        assert_eq!((m.used, m.last.end, m.later.len()), (768 + 4000, 4001, 0));
        m.read(Time::ZERO, 4001, 4001, Dur::ZERO);
        assert_eq!(m.used, 0);
    }

    #[test]
    fn a_buffer_without_room_is_not_attached() {
        let mut m = memory(true);
        m.append(held(1, 10_001));
        m.keep(held(11_001, 18_001), 10_001, 1000);
        m.append(held(10_001, 11_001));
        m.move_in_order(11_001);
        // 10 and 1 fragments are in one buffer, and 7 more would be 18.
        assert_eq!((m.used, m.queue.len(), m.last.end), (2 * 768 + 18_000, 1, 18_001));
    }

    #[test]
    fn a_segment_across_the_end_of_an_area_of_32_kib_has_two_fragments() {
        // Segments of 1000 bytes: the 33rd holds bytes 32,001 to 33,000.
        let mut m = memory(true);
        for at in 0..34 {
            m.take_next(1 + 1000 * at, 1000, 1000);
        }
        // 17 segments, then 16 of which the last has two fragments, then one.
        assert_eq!((m.queue.len(), m.last.start, m.used), (2, 33_001, 3 * 768 + 34_000));
        let mut other = memory(true);
        for at in 0..34 {
            let (cost, room) = other.price(1 + 1000 * at, 1000, 32);
            other.append(QueuedBuffer { start: 1 + 1000 * at, end: 1001 + 1000 * at, cost, room });
        }
        assert_eq!((other.queue.len(), other.last.start, other.used), (2, 33_001, m.used));
    }

    #[test]
    fn without_room_an_eighth_of_the_buffer_is_dropped_but_nothing_from_before_the_packet_since_6_13() {
        // `tcp_prune_ofo_queue`
        for (rules, cut, left) in [(MemoryRules::Half, 10_001, 2), (MemoryRules::Measured, 30_001, 4)] {
            let mut m = memory(true);
            m.cfg.rules = rules;
            m.size = 80_000;
            for start in [1, 5001, 10_001, 20_001, 30_001] {
                m.later.push(QueuedBuffer { start, end: start + 1000, cost: 4000, room: 0 });
            }
            m.used = 81_000;
            assert_eq!((m.prune(25_001), m.later.len()), (cut, left), "{rules:?}");
        }
    }

    #[test]
    fn buffers_that_repeat_data_in_order_or_lie_within_a_later_packet_are_freed() {
        let mut m = memory(true);
        m.keep(held(2001, 3001), 1, 1000);
        m.keep(held(2001, 4001), 1, 1000);
        assert_eq!(m.used, 2768, "the longer one replaces the shorter one");
        m.keep(held(6001, 7001), 1, 1000);
        m.keep(held(5001, 8001), 1, 1000);
        assert_eq!(m.used, 2768 + 3768);
        m.append(held(1, 4501));
        m.move_in_order(4501);
        assert_eq!(m.used, 768 + 4500 + 3768);
        m.forget_later();
        assert_eq!(m.used, 768 + 4500);
    }

    proptest! {
        // The model is one list of buffers, as `sk_receive_queue` is. Reads end inside of buffers, too.
        #[test]
        fn the_account_is_the_cost_of_the_buffers_that_are_not_read_to_their_end(
            interface: bool,
            steps in prop::collection::vec((1_u64..3000, 0_u64..12_000, any::<bool>()), 1..200),
        ) {
            let mut memory = memory(interface);
            let mut list: VecDeque<QueuedBuffer> = VecDeque::new();
            let (mut nxt, mut read) = (1, 1);
            for (len, wanted, predicted) in steps {
                let (cost, room) = memory.price(nxt, len, 32);
                let held = QueuedBuffer { start: nxt, end: nxt + len, cost, room };
                let taken = if interface { FRAGMENTS - room } else { len };
                match list.back_mut().filter(|last| last.room >= taken) {
                    Some(last) => {
                        last.end += len;
                        last.room -= taken;
                        last.cost += if interface { len } else { 0 };
                    }
                    None => list.push_back(held),
                }
                if interface && predicted {
                    memory.take_next(nxt, len, 1000);
                } else {
                    memory.append(held);
                }
                nxt += len;
                read = nxt.min(read + wanted.saturating_sub(6000));
                memory.read(Time::ZERO, read, nxt, Dur::ZERO);
                list.retain(|held| held.end > read);
                prop_assert_eq!(memory.used, list.iter().map(|held| held.cost).sum::<u64>());
                prop_assert_eq!(memory.first_end(), list.front().map(|held| held.end));
                prop_assert_eq!(memory.has_unread(), read < nxt);
            }
        }
    }
}
