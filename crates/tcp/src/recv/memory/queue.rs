//! What is kept: in order and unread, and out of order; what goes when there is no room.

use super::cost::cost;
use super::{Held, Memory};
use crate::MemoryRules;

impl Memory {
    /// `tcp_can_ingest`; what was out of order and is in order by now moves over first.
    pub(super) fn has_place(&mut self, nxt: u64) -> bool {
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

    /// The same until 6.12, where what is out of order goes by an eighth of the buffer at least.
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
    pub(super) fn append(&mut self, held: Held, nxt: u64) {
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
