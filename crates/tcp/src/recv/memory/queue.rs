//! The queues: data in order and unread, and data out of order; what is dropped if there is no room.

use super::cost::cost;
use super::{Held, Memory};
use crate::MemoryRules;

impl Memory {
    /// `tcp_can_ingest`, after data that are in order by now have been moved from the out-of-order queue.
    pub(super) fn has_place(&mut self, nxt: u64) -> bool {
        self.settle(nxt);
        self.used <= self.size
    }

    /// Moves data of the out-of-order queue that are in order now.
    fn settle(&mut self, nxt: u64) {
        let ready = self.later.partition_point(|h| h.start < nxt);
        for i in 0..ready {
            self.follow_up(self.later[i]);
        }
        self.later.drain(..ready);
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
    pub(super) fn prune(&mut self, next: bool) -> u64 {
        self.clamp_window();
        let mut from = u64::MAX;
        while next && self.used > self.size {
            let Some(last) = self.later.pop() else { break };
            self.used -= last.cost;
            from = last.start;
        }
        from
    }

    /// The same until 6.12, where at least an eighth of the buffer is dropped from the out-of-order queue.
    pub(super) fn prune_hard(&mut self) -> u64 {
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

    /// Appends `held` to `last` if that has room: copied into it at no cost, or its fragments attached. Returns by how much the
    /// cost of `last` rises.
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
    pub(super) fn append(&mut self, held: Held, nxt: u64) {
        let len = held.end - held.start.max(nxt);
        let mut last = self.last;
        if let Some(more) = self.join(&mut last, &held, len) {
            self.used += more;
            self.last = last;
        } else {
            self.push(held);
        }
    }

    /// `held` is the last in order from now on, a buffer of its own.
    #[inline]
    pub(super) fn push(&mut self, held: Held) {
        self.used += held.cost;
        self.follow_up(held);
    }

    #[inline]
    fn follow_up(&mut self, held: Held) {
        if self.has_unread() {
            self.queue.push_back(self.last);
        }
        self.last = held;
    }

    /// Something in order is unread.
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
            self.last = Held::NONE;
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
        self.queue.front().or(last).or(self.later.first()).map(|held| held.end)
    }

    /// Data of a SYN are kept, whatever the size of the buffer (`sk_forced_mem_schedule`).
    pub(in crate::recv) fn hold(&mut self, start: u64, len: u64, headers: u64) {
        self.known = None;
        let (cost, room) = cost(self.cfg.ip.get() + headers + len);
        self.append(Held { start, end: start + len, cost, room }, start);
    }

    /// `tcp_data_queue_ofo`, which lets the buffer grow by what is out of order.
    pub(super) fn keep(&mut self, held: Held, nxt: u64) {
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
    use crate::RecvMemory;
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
        };
        Memory::new(cfg, 65_000, 1000, true)
    }

    proptest! {
        // The model is one list of buffers, as `sk_receive_queue` is. Reads end inside of buffers, too.
        #[test]
        fn the_account_is_the_cost_of_the_buffers_that_are_not_read_to_their_end(
            interface: bool,
            steps in prop::collection::vec((1_u64..3000, 0_u64..12_000, any::<bool>()), 1..200),
        ) {
            let mut memory = memory(interface);
            let mut list: VecDeque<Held> = VecDeque::new();
            let (mut nxt, mut read) = (1, 1);
            for (len, wanted, predicted) in steps {
                let (cost, room) = memory.price(len, 32);
                let held = Held { start: nxt, end: nxt + len, cost, room };
                let taken = if interface { len.div_ceil(1000) } else { len };
                match list.back_mut().filter(|last| last.room >= taken) {
                    Some(last) => {
                        last.end += len;
                        last.room -= taken;
                        last.cost += if interface { len } else { 0 };
                    }
                    None => list.push_back(held),
                }
                if interface && predicted && len <= 1000 {
                    memory.take_next(nxt, len, 1000);
                } else {
                    memory.append(held, nxt);
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
