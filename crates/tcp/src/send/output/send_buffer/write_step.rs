//! A write into a queue of buffers, one buffer after the other.
//!
//! Sources: Linux `tcp_sendmsg_locked`, `tcp_push`, `tcp_should_autocork`, `forced_push`.

use super::{Progress, Record, SendBuffer, WriteStep};

impl SendBuffer {
    /// The end of a write: whether its data may be sent. If the last buffer has room, and packets of the connection wait in the own
    /// host, they wait for what the application writes next, until a packet has left (`tcp_should_autocork`, Linux 3.14).
    fn push(&mut self, step: &WriteStep, progress: &Progress) -> bool {
        if self.below == 0 || progress.una == progress.nxt {
            return true;
        }
        let Some((skbs, last)) = self.skbs.zip(self.records.back()) else { return true };
        let from = self.records.iter().rev().nth(1).map_or(0, |r| r.end).max(progress.nxt);
        let len = last.end.saturating_sub(from);
        // The kernel's counter begins at 1, so that a packet of the same size is enough.
        let corks = len > 0 && len < step.goal && !last.closed && self.below >= skbs.overhead.get() + len;
        self.autocorked |= corks;
        !corks
    }

    /// One step of a write into a queue of buffers: up to the end of a buffer. Returns how many bytes were taken, zero if there is
    /// no room, and whether something may be sent before the next step.
    pub fn write_step(&mut self, step: &WriteStep, progress: &Progress) -> (u64, bool) {
        self.set_more(step.more);
        self.record_end(progress.nxt);
        let (taken, sends) = self.fill_one(step, progress);
        if step.first || sends || taken == 0 {
            return (taken, sends);
        }
        (taken + self.fill_whole(step.bytes - taken, step, progress), false)
    }

    /// Fills whole buffers as long as there is room, the write has more data than they hold, and no transmission follows from a filled
    /// buffer. Returns the bytes taken.
    fn fill_whole(&mut self, n: u64, step: &WriteStep, progress: &Progress) -> u64 {
        let Some(skbs) = self.skbs.filter(|_| self.reaches.is_none()) else { return 0 };
        let goal = step.goal;
        let room = self.size.saturating_sub(self.queued(progress));
        let mut buffers = room.div_ceil(goal + skbs.overhead.get()).min(n.saturating_sub(1) / goal);
        if let Some(low) = self.notsent_lowat {
            buffers = buffers.min(low.saturating_sub(self.unsent(progress.nxt)).div_ceil(goal));
        }
        let unpushed = (self.pushed + step.largest_window / 2).saturating_sub(self.end);
        buffers = buffers.min(unpushed / goal);
        for _ in 0..buffers {
            self.end += goal;
            self.records.push_back(Record { end: self.end, push: false, closed: false });
        }
        buffers * goal
    }

    /// Writes as many bytes as the last buffer, or a new one, can hold.
    fn fill_one(&mut self, step: &WriteStep, progress: &Progress) -> (u64, bool) {
        let nxt = progress.nxt;
        let from = self.records.iter().rev().nth(1).map_or(0, |r| r.end).max(nxt);
        let open = self.records.back().filter(|r| r.end == self.end && r.end > nxt && !r.closed);
        let mut room = open.map_or(0, |r| step.goal.saturating_sub(r.end - from));
        if self.reaches == Some(self.end) {
            room = 0;
        }
        if room == 0 {
            let full = self.queued(progress) >= self.size || !self.below_lowat(self.unsent(nxt));
            let stops = self.reaches.map_or(full, |end| self.end >= end);
            self.other_room |= stops != full;
            if stops {
                self.await_room();
                if !step.first {
                    self.more = false;
                    if !self.records.is_empty() {
                        self.mark_push();
                    }
                }
                return (0, !step.first && self.push(step, progress));
            }
            self.records.push_back(Record { end: self.end, push: false, closed: false });
            self.opened = true;
            room = step.goal;
        }
        let most = self.reaches.map_or(u64::MAX, |end| end.saturating_sub(self.end));
        self.other_room |= most < step.bytes.min(room);
        let taken = step.bytes.min(room).min(most);
        self.busy.start(step.now);
        self.end += taken;
        let front = self.records.len() == 1;
        let record = self.records.back_mut().expect("one is open");
        record.end += taken;
        record.push &= !step.first;
        // `forced_push`
        let forced = self.end > self.pushed + step.largest_window / 2;
        let done = taken == step.bytes;
        if forced || done && !step.more {
            self.mark_push();
        }
        if done {
            return (taken, self.push(step, progress));
        }
        if forced {
            return (taken, true);
        }
        self.push_one = front;
        (taken, front)
    }
}
