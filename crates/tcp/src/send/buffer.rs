//! The send buffer: how far the application may be ahead of the acknowledgements.
//!
//! Two models: a stream, of which only the bytes count; and Linux's queue of buffers (`Config::skbs`), which decides
//! what one transmission may hold, what is pushed, and how much a write may add.
//!
//! Sources: Linux `tcp_sendmsg_locked`, `tcp_sndbuf_expand` (twice the window, up to `tcp_wmem[2]`), `TCP_NOTSENT_LOWAT`;
//! FreeBSD's `sendbuf_max`.

use super::Sender;
use crate::config::{Config, Skbs};
use std::collections::VecDeque;
use std::sync::Arc;
use tcpassay_units::{Bytes, Dur, Time};

/// Room that an autotuned buffer starts with, in segments of the initial window.
const FLOOR: u64 = 64 << 10;

/// A part of what is unsent that shares no transmission with the next: a record (`MSG_EOR`), or one of Linux's buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Record {
    pub end: u64,
    /// PSH when its end is sent.
    pub push: bool,
    /// Nothing may be appended.
    pub closed: bool,
}

/// The stream's end as the application left it.
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    /// Position after the last byte written; the FIN's own position once `fin` is set.
    pub end: u64,
    /// A FIN follows.
    pub fin: bool,
    /// The application has said that more follows: the odd end waits (`MSG_MORE`).
    pub more: bool,
    /// The last write said so: nothing pushes what it wrote.
    pub quiet: bool,
    /// What is unsent, as far as it has inner bounds, in order.
    pub records: VecDeque<Record>,
    /// A write has just filled a buffer and goes on: only one transmission now (`tcp_push_one`).
    pub one: bool,
    /// That one is sent.
    pub halt: bool,
    fixed: Option<u64>,
    size: u64,
    max: u64,
    skbs: Option<Skbs>,
    /// Up to where everything is marked to be pushed (`pushed_seq`).
    pushed: u64,
    /// A writer found no room (`SOCK_NOSPACE`).
    wanted: bool,
    /// Something was sent since, and since sending last came to rest.
    pub went: bool,
}

impl Buffer {
    pub fn new(cfg: &Config) -> Buffer {
        let fixed = cfg.send_buffer.map(Bytes::get);
        let skbs = cfg.skbs;
        let floor = skbs.map_or(FLOOR, |skbs| skbs.initial.get());
        let (size, max) = (fixed.unwrap_or(floor), cfg.max_send_buffer.get());
        Buffer {
            end: 1,
            fin: false,
            more: false,
            quiet: false,
            records: VecDeque::new(),
            one: false,
            halt: false,
            fixed,
            size,
            max,
            skbs,
            pushed: 1,
            wanted: false,
            went: false,
        }
    }

    /// A whole segment that is sent up to `end` is a whole record, or no record ends in it; and no write is between two steps.
    #[inline]
    pub fn is_simple(&self, end: u64) -> bool {
        self.records.front().is_none_or(|r| r.end == end) && !self.one && !self.halt
    }

    /// The window is `cwnd` now: an autotuned buffer holds twice that, within its bound, and never shrinks.
    #[inline]
    pub fn follow(&mut self, cwnd: u64) {
        if 2 * cwnd > self.size && self.fixed.is_none() && self.skbs.is_none() {
            self.size = self.size.max((2 * cwnd).min(self.max));
        }
    }
}

/// Time during which something holds, for instance that something was unsent or unacknowledged (Linux `TCP_CHRONO_BUSY` and the two limits within it).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Busy {
    spent: Dur,
    since: Option<Time>,
}

impl Busy {
    /// Something was written.
    pub fn start(&mut self, now: Time) {
        self.since.get_or_insert(now);
    }

    /// Nothing is left.
    pub fn stop(&mut self, now: Time) {
        if let Some(since) = self.since.take() {
            self.spent += now.since(since);
        }
    }

    /// The sum up to `now`.
    pub fn at(&self, now: Time) -> Dur {
        self.spent + self.since.map_or(Dur::ZERO, |since| now.since(since))
    }
}

impl Sender {
    /// Bytes that [`write`](Sender::write) would accept.
    pub fn writable(&self) -> u64 {
        if self.buf.fin {
            return 0;
        }
        let unsent = self.unsent();
        let room = self.buf.size.saturating_sub(self.buf.end - self.board.una);
        self.cfg.notsent_lowat.map_or(room, |low| room.min(low.get().saturating_sub(unsent)))
    }

    /// The buffer has a fixed size from now on.
    pub fn set_send_buffer(&mut self, size: u64) {
        self.buf.fixed = Some(size);
        self.buf.size = size;
    }

    /// `app.notsent_lowat` from now on.
    pub fn set_notsent_lowat(&mut self, low: Option<Bytes>) {
        Arc::make_mut(&mut self.cfg).notsent_lowat = low;
    }

    /// More follows what is written next (`MSG_MORE`).
    pub fn set_more(&mut self, more: bool) {
        self.buf.more = more;
        self.buf.quiet = more;
    }

    /// What was written so far is a record: it shares no segment with what follows.
    pub fn end_record(&mut self) {
        match self.buf.records.back_mut() {
            Some(last) if last.end == self.buf.end => last.closed = true,
            _ => self.buf.records.push_back(Record { end: self.buf.end, push: true, closed: true }),
        }
    }

    /// Whether it pays to wake a writer: a third of the buffer is free (Linux `sk_stream_is_writeable`) and some of it may
    /// be written.
    pub fn has_room(&self) -> bool {
        let queued = self.queued();
        if self.buf.skbs.is_some() {
            let free = self.buf.size.saturating_sub(queued);
            return free >= queued / 2 && free > 0 && self.below_lowat(2 * self.unsent());
        }
        self.buf.size.saturating_sub(queued) >= queued / 2 && self.writable() > 0
    }

    /// What the send buffer holds, as it counts (`sk_wmem_queued`).
    fn queued(&self) -> u64 {
        let bytes = self.buf.end - self.board.una;
        let Some(skbs) = self.buf.skbs else { return bytes };
        let records = &self.buf.records;
        // Those that are sent are dropped at once, but for the end of a record that was put after them.
        let unsent = match records.front() {
            Some(r) if r.end <= self.board.nxt => {
                records.len() - records.partition_point(|r| r.end <= self.board.nxt)
            }
            _ => records.len(),
        };
        bytes + skbs.overhead.get() * u64::try_from(self.board.len() + unsent).expect("memory holds it")
    }

    fn below_lowat(&self, unsent: u64) -> bool {
        self.cfg.notsent_lowat.is_none_or(|low| unsent < low.get())
    }

    /// The size of the send buffer at present.
    pub fn buffer_size(&self) -> u64 {
        self.buf.size
    }

    /// A writer waits for room, after an ACK: where the window is not full the buffer grows (`tcp_new_space`). Says whether it
    /// may write now.
    pub fn check_space(&mut self) -> bool {
        if self.buf.skbs.is_some() && self.pipe() < self.cwnd {
            self.expand();
        }
        self.has_room()
    }

    /// After an ACK and what it let go: for a writer that found no room the buffer grows where the window is not full, until there
    /// is room (`tcp_check_space`). Says whether the writer is woken.
    pub fn on_ack_space(&mut self, now: Time) -> bool {
        let woken = self.buf.wanted && self.check_space();
        if woken {
            self.buf.wanted = false;
            self.starved.stop(now);
        }
        woken
    }

    /// Everything that fitted into the buffer is sent, the last of it since more waited to be written (`tcp_cwnd_validate`).
    pub(super) fn is_starved(&self) -> bool {
        self.buf.wanted && self.buf.went && self.unsent() == 0 && self.board.outstanding() > 0
    }

    /// `tcp_sndbuf_expand`.
    pub(super) fn expand(&mut self) {
        // The structures of a buffer of one segment: skb_shared_info and sk_buff.
        const BEHIND: u64 = 320;
        const HEAD: u64 = 256;
        if self.buf.size >= self.buf.max {
            return;
        }
        let Some(skbs) = self.buf.skbs.filter(|_| self.buf.fixed.is_none()) else { return };
        let each = (self.mss + skbs.headers.get() + BEHIND).next_power_of_two() + HEAD;
        let segments = (self.cwnd / self.mss.max(1)).max(10).max(u64::from(self.reordering.threshold) + 1);
        let wanted = 2 * segments * each;
        self.buf.size = self.buf.size.max(wanted.min(self.buf.max));
    }

    /// How much one buffer holds (`tcp_xmit_size_goal`): a super-segment, and no more than half the largest window.
    fn size_goal(&self) -> u64 {
        let half = if self.max_wnd > 536 { self.max_wnd / 2 } else { self.max_wnd };
        let most = self.cfg.tso.map_or(self.mss, Bytes::get);
        let most = if half > 0 { most.min(half) } else { most };
        (most - most % self.mss).max(self.mss)
    }

    /// What is unsent so far is to be pushed (`tcp_mark_push`).
    pub(super) fn mark_push(&mut self) {
        if let Some(last) = self.buf.records.back_mut() {
            last.push = true;
        }
        self.buf.pushed = self.buf.end;
    }

    /// One step of a write of which `n` bytes are left: up to the end of a buffer. Gives how many were taken, zero when there is
    /// no room, and whether something may be sent before the next step. Before the handshake is done, and where the queue
    /// is a stream, everything is one step.
    pub fn write_step(&mut self, now: Time, n: u64, first: bool, more: bool) -> (u64, bool) {
        self.buf.more = more;
        self.buf.quiet = more;
        if self.buf.skbs.is_none() || !self.up || self.buf.fin {
            return (self.write(now, n), true);
        }
        let goal = self.size_goal();
        self.record_end();
        let (taken, sends) = self.fill_one(now, n, goal, first, more);
        if first || sends || taken == 0 {
            return (taken, sends);
        }
        (taken + self.fill_whole(n - taken, goal), false)
    }

    /// Fills whole buffers that let nothing go, as long as there is room and more than they hold is left of `n`: nothing can
    /// happen between them. Gives how many bytes that were.
    fn fill_whole(&mut self, n: u64, goal: u64) -> u64 {
        let Some(skbs) = self.buf.skbs else { return 0 };
        let room = self.buf.size.saturating_sub(self.queued());
        let mut buffers = room.div_ceil(goal + skbs.overhead.get()).min(n.saturating_sub(1) / goal);
        if let Some(low) = self.cfg.notsent_lowat {
            buffers = buffers.min(low.get().saturating_sub(self.unsent()).div_ceil(goal));
        }
        let unpushed = (self.buf.pushed + self.max_wnd / 2).saturating_sub(self.buf.end);
        buffers = buffers.min(unpushed / goal);
        for _ in 0..buffers {
            self.buf.end += goal;
            self.buf.records.push_back(Record { end: self.buf.end, push: false, closed: false });
        }
        buffers * goal
    }

    /// Another buffer may be appended to the queue.
    fn has_place(&self) -> bool {
        self.queued() < self.buf.size && self.below_lowat(self.unsent())
    }

    /// One step of a write: as much as the last buffer takes, or a new one, of `goal` bytes.
    fn fill_one(&mut self, now: Time, n: u64, goal: u64, first: bool, more: bool) -> (u64, bool) {
        let from = self.buf.records.iter().rev().nth(1).map_or(0, |r| r.end).max(self.board.nxt);
        let open =
            self.buf.records.back().filter(|r| r.end == self.buf.end && r.end > self.board.nxt && !r.closed);
        let mut room = open.map_or(0, |r| goal.saturating_sub(r.end - from));
        if room == 0 {
            if !self.has_place() {
                self.buf.wanted = true;
                self.buf.went = false;
                if !first {
                    self.buf.more = false;
                    self.mark_push();
                }
                return (0, !first);
            }
            self.buf.records.push_back(Record { end: self.buf.end, push: false, closed: false });
            room = goal;
        }
        let taken = n.min(room);
        self.busy.start(now);
        self.buf.end += taken;
        let (front, record) =
            (self.buf.records.len() == 1, self.buf.records.back_mut().expect("one is open"));
        record.end += taken;
        record.push &= !first;
        // `forced_push`
        let forced = self.buf.end > self.buf.pushed + self.max_wnd / 2;
        let done = taken == n;
        if forced || done && !more {
            self.mark_push();
        }
        if done || forced {
            return (taken, true);
        }
        self.buf.one = front;
        (taken, front)
    }

    /// The queue is made of buffers.
    pub fn writes_in_steps(&self) -> bool {
        self.buf.skbs.is_some()
    }

    /// Whether everything that was written is acknowledged.
    pub fn is_flushed(&self) -> bool {
        self.board.una >= self.buf.end
    }

    /// Another controller decides from now on (`TCP_CONGESTION`).
    pub fn set_controller(&mut self, cc: Box<dyn tcpassay_cc::Controller>) {
        self.cc.replace(cc);
        self.plain &= !self.cc.wants_sent_events;
    }

    /// What was written so far is urgent (`MSG_OOB`): every segment that begins before its end says so.
    pub fn mark_urgent(&mut self) {
        self.urgent = self.buf.end;
        self.plain = false;
    }

    /// From `start` to the end of what is urgent, if that is beyond it.
    pub fn urgent_from(&self, start: u64) -> Option<u64> {
        self.urgent.checked_sub(start).filter(|&n| n > 0)
    }

    /// The round-trip time that was measured since this was last asked.
    pub fn take_rtt(&mut self) -> Option<Dur> {
        self.rtt.fresh.take()
    }

    /// The application writes `n` bytes; gives how many were taken.
    pub fn write(&mut self, now: Time, n: u64) -> u64 {
        let taken = n.min(self.writable());
        if taken > 0 {
            self.busy.start(now);
        }
        self.buf.end += taken;
        taken
    }

    /// No more writes: a FIN follows what was written.
    pub fn finish(&mut self) {
        self.buf.fin = true;
    }

    /// Bytes written and never sent.
    pub fn unsent(&self) -> u64 {
        self.buf.end.saturating_sub(self.board.nxt)
    }

    /// Something has never been sent: bytes or the FIN.
    pub(super) fn has_new(&self) -> bool {
        self.board.nxt < self.buf.end + u64::from(self.buf.fin)
    }
}
