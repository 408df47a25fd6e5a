//! The send buffer: the limit of data that are written and not acknowledged.
//!
//! There are two models: a stream, for which only bytes count; and Linux's queue of buffers
//! (`Config::skbs`), which determines the data of one transmission, PSH, and the space for writes.
//!
//! Sources: Linux `tcp_sendmsg_locked`, `tcp_sndbuf_expand` (twice the window, up to `tcp_wmem[2]`), `TCP_NOTSENT_LOWAT`;
//! FreeBSD's `sendbuf_max`.

mod write_step;

use crate::config::{Config, Skbs};
use crate::send::ring::Ring;
use std::collections::VecDeque;
use tcpassay_units::{Bytes, Dur, Time};

/// Initial size of an autotuned buffer.
const INITIAL: u64 = 64 << 10;

/// A part of the unsent data: a record (`MSG_EOR`), or one of Linux's buffers. No segment contains data of two parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Record {
    end: u64,
    /// PSH when its end is sent.
    push: bool,
    /// True if no data may be appended.
    closed: bool,
}

/// The progress of the stream: positions sent and acknowledged.
#[derive(Clone, Copy, Debug)]
pub(in crate::send) struct Progress {
    pub una: u64,
    pub nxt: u64,
    /// Records of the scoreboard, each of which is a buffer.
    pub records: usize,
}

/// The inputs of a step of a write.
#[derive(Clone, Copy, Debug)]
pub(in crate::send) struct WriteStep {
    pub now: Time,
    /// Bytes that are left of the write.
    pub bytes: u64,
    /// The first step of its call.
    pub first: bool,
    /// More follows (`MSG_MORE`).
    pub more: bool,
    /// Capacity of one buffer in bytes (`tcp_xmit_size_goal`).
    pub goal: u64,
    /// The largest window that the peer offered.
    pub largest_window: u64,
}

/// The send buffer of a connection.
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
#[derive(Clone, Debug)]
pub(in crate::send) struct SendBuffer {
    /// Position after the last byte written; the FIN's own position once `fin` is set.
    end: u64,
    /// A FIN follows.
    fin: bool,
    /// The application has said that more follows: a segment smaller than the MSS waits (`MSG_MORE`).
    more: bool,
    /// The last write had `MSG_MORE`, so its data are sent without PSH.
    quiet: bool,
    /// The unsent data, as far as they are divided, in order.
    records: Ring<Record>,
    /// Ends of the records of the application that may be outstanding, in order.
    record_ends: VecDeque<u64>,
    /// A write has just filled a buffer and is not complete: only one transmission now (`tcp_push_one`).
    push_one: bool,
    /// The one transmission of the step was sent.
    halt: bool,
    /// Memory of the packets that wait in the queues of the sender's own host (`sk_wmem_alloc`).
    below: u64,
    /// The last write was not pushed, because it may still be extended while packets wait there (`TSQ_THROTTLED`).
    autocorked: bool,
    fixed: Option<u64>,
    size: u64,
    /// The largest congestion window for which the buffer was sized.
    sized_for: u64,
    max: u64,
    notsent_lowat: Option<u64>,
    skbs: Option<Skbs>,
    /// Position up to which all data are marked for PSH (`pushed_seq`).
    pushed: u64,
    /// End of the urgent data.
    urgent: u64,
    /// A writer found no room (`SOCK_NOSPACE`).
    writer_waits: bool,
    /// The position that a write reaches, if it is known: it counts instead of the room.
    reaches: Option<u64>,
    /// The present step of a write has added a buffer.
    opened: bool,
    /// The last write reached another position than there was room for.
    other_room: bool,
    /// The writer was woken while data were sent, and nobody was told yet.
    woken: bool,
    /// True if a segment was sent since a writer found no room, and since the sender last stopped sending.
    sent_since: bool,
    busy: Stopwatch,
    /// Time during which everything was sent and the writer waited for space.
    starved: Stopwatch,
}

/// Accumulated duration of a condition (Linux `TCP_CHRONO_BUSY` and its two limits).
#[derive(Clone, Copy, Debug, Default)]
struct Stopwatch {
    spent: Dur,
    since: Option<Time>,
}

impl Stopwatch {
    #[inline]
    fn start(&mut self, now: Time) {
        self.since.get_or_insert(now);
    }

    fn stop(&mut self, now: Time) {
        if let Some(since) = self.since.take() {
            self.spent += now.since(since);
        }
    }

    fn at(&self, now: Time) -> Dur {
        self.spent + self.since.map_or(Dur::ZERO, |since| now.since(since))
    }
}

impl SendBuffer {
    pub fn new(cfg: &Config) -> SendBuffer {
        let fixed = cfg.send_buffer.map(Bytes::get);
        let skbs = cfg.skbs;
        let initial = skbs.map_or(INITIAL, |skbs| skbs.initial.get());
        SendBuffer {
            end: 1,
            fin: false,
            more: false,
            quiet: false,
            records: Ring::new(),
            record_ends: VecDeque::new(),
            push_one: false,
            halt: false,
            below: 0,
            autocorked: false,
            fixed,
            size: fixed.unwrap_or(initial),
            sized_for: 0,
            max: cfg.max_send_buffer.get(),
            notsent_lowat: cfg.notsent_lowat.map(Bytes::get),
            skbs,
            pushed: 1,
            urgent: 0,
            writer_waits: false,
            reaches: None,
            opened: false,
            other_room: false,
            woken: false,
            sent_since: false,
            busy: Stopwatch::default(),
            starved: Stopwatch::default(),
        }
    }

    /// Position after the last byte written.
    #[inline]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The end of the data, the end of those that are marked for PSH, the number of buffers of unsent data, and whether the last one is pushed.
    pub fn written(&self) -> (u64, u64, usize, bool) {
        let last = self.records.back();
        (self.end, self.pushed, self.records.len(), last.is_some_and(|record| record.push))
    }

    /// A FIN follows the data.
    #[inline]
    pub fn has_fin(&self) -> bool {
        self.fin
    }

    /// Closes the stream: a FIN follows the written data.
    pub fn finish(&mut self) {
        self.fin = true;
    }

    /// Bytes written and never sent.
    #[inline]
    pub fn unsent(&self, nxt: u64) -> u64 {
        self.end.saturating_sub(nxt)
    }

    /// Whether new bytes or the FIN wait to be sent.
    #[inline]
    pub fn has_new(&self, nxt: u64) -> bool {
        nxt < self.end + u64::from(self.fin)
    }

    /// Returns true if a full segment up to `end` can be sent without further decisions: it is a whole record or no record ends in
    /// it, and no write is between two steps.
    #[inline]
    pub fn is_simple(&self, end: u64) -> bool {
        self.records.front().is_none_or(|r| r.end == end) && !self.push_one && !self.halt
    }

    /// [`SendBuffer::is_simple`] for a segment behind another one of the same burst. A segment that is no record takes memory when it is
    /// sent, so that each is a burst of its own.
    #[inline]
    pub fn continues(&self, end: u64) -> bool {
        self.is_simple(end) && !(self.records.is_empty() && self.skbs.is_some())
    }

    /// An autotuned buffer holds twice the window, up to its maximum, and never shrinks.
    #[inline]
    pub fn follow_window(&mut self, cwnd: u64) {
        if 2 * cwnd > self.size && self.fixed.is_none() && self.skbs.is_none() {
            self.size = self.size.max((2 * cwnd).min(self.max));
        }
    }

    /// Bytes that [`write`](SendBuffer::write) would accept.
    pub fn writable(&self, una: u64, nxt: u64) -> u64 {
        if self.fin {
            return 0;
        }
        let room = self.size.saturating_sub(self.end - una);
        self.notsent_lowat.map_or(room, |low| room.min(low.saturating_sub(self.unsent(nxt))))
    }

    /// The application writes `n` bytes. Returns how many were taken.
    pub fn write(&mut self, now: Time, n: u64, una: u64, nxt: u64) -> u64 {
        let taken = n.min(self.writable(una, nxt));
        if taken > 0 {
            self.busy.start(now);
        }
        self.end += taken;
        taken
    }

    /// Sets a fixed size.
    pub fn set_size(&mut self, size: u64) {
        self.fixed = Some(size);
        self.size = size;
    }

    pub fn set_notsent_lowat(&mut self, low: Option<Bytes>) {
        self.notsent_lowat = low.map(Bytes::get);
    }

    /// The size of the send buffer at present.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// More follows what is written next (`MSG_MORE`).
    pub fn set_more(&mut self, more: bool) {
        self.more = more;
        self.quiet = more;
    }

    /// The application has said that more follows.
    pub fn has_more(&self) -> bool {
        self.more
    }

    /// Clears `MSG_MORE`: data are no longer held back (`tcp_data_snd_check`).
    #[inline]
    pub fn forget_more(&mut self) {
        self.more = false;
    }

    /// Ends a record: later data are not sent in a segment with earlier data. Data are acknowledged up to `una`.
    pub fn end_record(&mut self, una: u64) {
        if !self.is_record_end(self.end, una) {
            self.record_ends.push_back(self.end);
        }
        match self.records.back_mut() {
            Some(last) if last.end == self.end => last.closed = true,
            _ => self.records.push_back(Record { end: self.end, push: true, closed: true }),
        }
    }

    /// The application ended a record at `end`. Data are acknowledged up to `una`.
    pub fn is_record_end(&mut self, end: u64, una: u64) -> bool {
        while self.record_ends.front().is_some_and(|&known| known <= una) {
            self.record_ends.pop_front();
        }
        self.record_ends.binary_search(&end).is_ok()
    }

    /// Whether a waiting writer should be woken: a third of the buffer is free (Linux
    /// `sk_stream_is_writeable`) and some of it may be written.
    #[expect(clippy::inline_always, reason = "once for each packet")]
    #[inline(always)]
    pub fn has_room(&self, progress: &Progress) -> bool {
        let queued = self.queued(progress);
        let free = self.size.saturating_sub(queued);
        if self.skbs.is_some() {
            return free >= queued / 2 && free > 0 && self.below_lowat(2 * self.unsent(progress.nxt));
        }
        free >= queued / 2 && self.writable(progress.una, progress.nxt) > 0
    }

    /// Bytes in the send buffer, with the overhead of its buffers (`sk_wmem_queued`).
    #[expect(clippy::inline_always, reason = "once for each packet")]
    #[inline(always)]
    fn queued(&self, progress: &Progress) -> u64 {
        let bytes = self.end - progress.una;
        let Some(skbs) = self.skbs else { return bytes };
        // Records that are sent are dropped at once, except the end of a record that was added after them.
        let unsent = match self.records.front() {
            Some(r) if r.end <= progress.nxt => self.count_unsent(progress.nxt),
            _ => self.records.len(),
        };
        bytes + skbs.overhead.get() * u64::try_from(progress.records + unsent).expect("memory holds it")
    }

    #[inline(never)]
    fn count_unsent(&self, nxt: u64) -> usize {
        self.records.len() - self.records.partition_point(|r| r.end <= nxt)
    }

    #[inline]
    fn below_lowat(&self, unsent: u64) -> bool {
        self.notsent_lowat.is_none_or(|low| unsent < low)
    }

    /// A writer found no room before, and there is room now. Then it is woken.
    #[inline]
    pub fn wake_writer(&mut self, now: Time, progress: &Progress) -> bool {
        let woken = self.writer_waits && self.has_room(progress);
        if woken {
            self.wake(now);
        }
        woken
    }

    #[inline(never)]
    fn wake(&mut self, now: Time) {
        self.writer_waits = false;
        self.woken = true;
        self.starved.stop(now);
    }

    /// Returns once whether the writer was woken.
    #[inline]
    pub fn take_woken(&mut self) -> bool {
        std::mem::take(&mut self.woken)
    }

    /// Whether the step of a write added a buffer to the queue.
    pub fn take_opened(&mut self) -> bool {
        std::mem::take(&mut self.opened)
    }

    /// A write reaches `position`, whatever room there is; `None`: as far as there is room. Returns whether the write before reached
    /// another position than there was room for.
    pub fn set_reaches(&mut self, position: Option<u64>) -> bool {
        self.reaches = position;
        std::mem::take(&mut self.other_room)
    }

    /// A writer finds no room.
    fn await_room(&mut self) {
        self.writer_waits = true;
        self.sent_since = false;
    }

    /// A writer waits for room.
    pub fn writer_waits(&self) -> bool {
        self.writer_waits
    }

    /// The buffer is a queue of buffers, which grows for a writer that waits.
    pub fn is_queue(&self) -> bool {
        self.skbs.is_some()
    }

    /// A writer waits, and a window of `cwnd` bytes is larger than all for which the buffer was sized.
    #[inline]
    pub fn grows_for(&self, cwnd: u64) -> bool {
        self.writer_waits && cwnd > self.sized_for
    }

    /// `tcp_sndbuf_expand`: room for so many windows of segments, at least of ten segments or the reordering distance.
    pub fn expand(&mut self, mss: u64, cwnd: u64, dup_thresh: u32, windows: u64) {
        // The structures of a buffer of one segment: skb_shared_info and sk_buff.
        const BEHIND: u64 = 320;
        const HEAD: u64 = 256;
        self.sized_for = self.sized_for.max(cwnd);
        if self.size >= self.max {
            return;
        }
        let Some(skbs) = self.skbs.filter(|_| self.fixed.is_none()) else { return };
        let each = (mss + skbs.headers.get() + BEHIND).next_power_of_two() + HEAD;
        let segments = (cwnd / mss.max(1)).max(10).max(u64::from(dup_thresh) + 1);
        self.size = self.size.max((windows * segments * each).min(self.max));
    }

    /// All unsent data are to be pushed (`tcp_mark_push`).
    pub fn mark_push(&mut self) {
        if let Some(last) = self.records.back_mut() {
            last.push = true;
        }
        self.pushed = self.end;
    }

    /// All unsent data are to be pushed, independently of the last write (`tcp_write_wakeup`).
    pub fn push_all(&mut self) {
        self.quiet = false;
        self.mark_push();
    }

    /// The memory of the packets that wait in the queues of the own host.
    pub fn below(&self) -> u64 {
        self.below
    }

    /// Sets the memory of the packets that wait in the queues of the own host.
    pub fn set_below(&mut self, memory: u64) {
        self.below = memory;
    }

    /// Returns true once if a write waits for a packet to leave the own host.
    pub fn take_autocorked(&mut self) -> bool {
        std::mem::take(&mut self.autocorked)
    }

    /// Marks the data written so far as urgent (`MSG_OOB`).
    pub fn mark_urgent(&mut self) {
        self.urgent = self.end;
    }

    /// Position after the last urgent byte.
    #[inline]
    pub fn urgent_end(&self) -> u64 {
        self.urgent
    }

    /// The end of the record that is sent next. Records that are sent are dropped.
    pub fn record_end(&mut self, nxt: u64) -> Option<u64> {
        while self.records.front().is_some_and(|r| r.end <= nxt) {
            self.records.pop_front();
        }
        self.records.front().map(|r| r.end)
    }

    /// The first buffer of unsent data ends at `end`, and the rest of it is a buffer of its own (`tso_fragment`).
    pub fn split(&mut self, end: u64) {
        if let Some(front) = self.records.front_mut()
            && front.end > end
        {
            let rest = *front;
            *front = Record { end, push: false, closed: false };
            self.records.insert(1, rest);
        }
    }

    /// The first buffer of unsent data, which begins at `nxt`, is filled from the second one up to `most` bytes (`tcp_grow_skb`). What is left
    /// of that one stays a buffer of its own.
    pub fn fill_front(&mut self, nxt: u64, most: u64) {
        self.record_end(nxt);
        let Some(&second) = self.records.get(1) else { return };
        let Some(front) = self.records.front_mut().filter(|front| !front.closed) else { return };
        let end = second.end.min(nxt + most);
        if end <= front.end {
            return;
        }
        front.end = end;
        if end == second.end {
            front.push |= second.push;
            front.closed = second.closed;
            self.records.remove(1);
        }
    }

    /// Whether no data can be appended to the next transmission.
    pub fn is_closed(&self) -> bool {
        self.fin || self.records.front().is_some_and(|r| r.closed)
    }

    /// Whether what ends at `end` is pushed because a write ended there.
    pub fn pushes(&self, end: u64) -> bool {
        match self.records.front() {
            Some(record) if record.end == end => record.push,
            _ => end == self.end && !self.quiet,
        }
    }

    /// A whole segment up to `end`, for which [`SendBuffer::is_simple`] holds, is sent. Returns whether it is pushed.
    #[inline]
    pub fn take_simple(&mut self, end: u64) -> bool {
        self.sent_since = true;
        match self.records.pop_front() {
            Some(record) => record.push,
            None => end == self.end && !self.quiet,
        }
    }

    /// Records a transmission.
    #[inline]
    pub fn on_sent(&mut self) {
        self.sent_since = true;
    }

    /// The sender has sent everything that it may send.
    #[inline]
    pub fn on_rest(&mut self) {
        self.sent_since = false;
    }

    /// Whether only one transmission may leave now.
    #[inline]
    pub fn pushes_one(&self) -> bool {
        self.push_one
    }

    /// The one transmission of a step was sent; nothing more leaves before the next step.
    #[inline]
    pub fn take_halt(&mut self) -> bool {
        std::mem::take(&mut self.halt)
    }

    /// A transmission left: the last one of its step if only one may leave.
    #[inline]
    pub fn after_transmission(&mut self) {
        self.halt = std::mem::take(&mut self.push_one);
    }

    /// Ends the restriction to one transmission, because no segment could be sent.
    #[inline]
    pub fn end_push_one(&mut self) {
        self.push_one = false;
    }

    /// The timer of the pacer will send all data, independently of the write that they belong to.
    pub fn release(&mut self) {
        self.push_one = false;
        self.halt = false;
    }

    /// Everything that fitted into the buffer is sent, the last of it since a writer found no room (`tcp_cwnd_validate`).
    pub fn check_starved(&mut self, now: Time, una: u64, nxt: u64) {
        if self.writer_waits && self.sent_since && self.unsent(nxt) == 0 && nxt > una {
            self.starved.start(now);
        }
    }

    /// Records that all data sent are acknowledged.
    #[inline]
    pub fn on_all_acked(&mut self, now: Time, nxt: u64) {
        if self.unsent(nxt) == 0 {
            self.busy.stop(now);
            self.starved.stop(now);
        }
    }

    /// Time during which data were unsent or unacknowledged; then the part of it during which the buffer was
    /// too small.
    pub fn times(&self, now: Time) -> (Dur, Dur) {
        (self.busy.at(now), self.starved.at(now))
    }
}

#[cfg(test)]
mod tests;
