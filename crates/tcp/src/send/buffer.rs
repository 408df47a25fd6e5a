//! The send buffer: how far the application may be ahead of the acknowledgements.
//!
//! Sources: Linux `tcp_sndbuf_expand` (twice the window, up to `tcp_wmem[2]`), `TCP_NOTSENT_LOWAT`; FreeBSD's
//! `sendbuf_max`.

use super::Sender;
use crate::config::Config;
use std::collections::VecDeque;
use tcpassay_units::{Bytes, Dur, Time};

/// Room that an autotuned buffer starts with, in segments of the initial window.
const FLOOR: u64 = 64 << 10;

/// The stream's end as the application left it.
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
    /// Ends of writes that nothing may be appended to (`MSG_EOR`), in order.
    pub records: VecDeque<u64>,
    fixed: Option<u64>,
    size: u64,
    max: u64,
}

impl Buffer {
    pub fn new(cfg: &Config) -> Buffer {
        let fixed = cfg.send_buffer.map(Bytes::get);
        let (size, max) = (fixed.unwrap_or(FLOOR), cfg.max_send_buffer.get());
        let records = VecDeque::new();
        Buffer { end: 1, fin: false, more: false, quiet: false, records, fixed, size, max }
    }

    /// The window is `cwnd` now: an autotuned buffer holds twice that, within its bound, and never shrinks.
    #[inline]
    pub fn follow(&mut self, cwnd: u64) {
        if 2 * cwnd > self.size && self.fixed.is_none() {
            self.size = self.size.max((2 * cwnd).min(self.max));
        }
    }
}

/// Time during which something was unsent or unacknowledged (Linux `TCP_CHRONO_BUSY` and the two limits within it).
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
        self.cfg.notsent_lowat = low;
    }

    /// More follows what is written next (`MSG_MORE`).
    pub fn set_more(&mut self, more: bool) {
        self.buf.more = more;
        self.buf.quiet = more;
    }

    /// What was written so far is a record: it shares no segment with what follows.
    pub fn end_record(&mut self) {
        self.buf.records.push_back(self.buf.end);
    }

    /// Whether it pays to wake a writer: a third of the buffer is free (Linux `sk_stream_is_writeable`) and some of it may
    /// be written.
    pub fn has_room(&self) -> bool {
        let queued = self.buf.end - self.board.una;
        self.buf.size.saturating_sub(queued) >= queued / 2 && self.writable() > 0
    }

    /// Whether everything that was written is acknowledged.
    pub fn is_flushed(&self) -> bool {
        self.board.una >= self.buf.end
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
