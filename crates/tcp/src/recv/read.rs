//! Reads of the application, the window updates that they cause, and how far urgent data are read.

use super::Receiver;
use crate::log::AckReason;
use tcpassay_units::Time;

impl Receiver {
    /// Bytes that can be read.
    #[inline]
    pub(crate) fn readable(&self) -> u64 {
        self.stream_end() - self.read
    }

    /// In-order bytes end here (the FIN is not one).
    #[inline]
    pub(super) fn stream_end(&self) -> u64 {
        self.nxt - u64::from(self.finished())
    }

    /// The application reads up to `n` bytes.
    #[inline]
    pub(crate) fn read(&mut self, now: Time, n: u64) -> u64 {
        let readable = self.readable();
        let n = n.min(readable);
        if n == 0 {
            return 0;
        }
        self.read += n;
        match self.memory.as_deref_mut() {
            Some(memory) => memory.read(now, self.read, self.nxt, self.window.rtt()),
            None => self.window.consumed(now, self.read),
        }
        self.acks.read(self.nxt - self.acked.min(self.nxt), n == readable);
        if !self.finished() && self.is_worth_an_ack() {
            self.acks.demand(AckReason::WindowUpdate);
        }
        n
    }

    /// Whether the window has opened enough for an ACK. Linux: it is at least twice the window in force. BSD: it opens by half the
    /// buffer; or by two segments, and either by a quarter of the buffer or from at most an eighth of it.
    #[inline]
    fn is_worth_an_ack(&self) -> bool {
        if let Some(memory) = self.memory.as_deref() {
            return memory.has_doubled(self.at());
        }
        if self.window.is_observed() {
            return false;
        }
        self.opens(self.window.offered_edge(self.read, self.nxt))
    }

    /// Whether an edge at `free` is worth an ACK.
    pub(super) fn opens(&self, free: u64) -> bool {
        let current = self.edge.saturating_sub(self.nxt);
        let buf = self.window.size();
        if self.rules.updates_doubled_window && 2 * current > buf {
            return false;
        }
        if !self.window.worthwhile(free, self.edge) {
            return false;
        }
        if self.rules.updates_doubled_window {
            return free - self.nxt >= 2 * current;
        }
        let gain = free - self.edge;
        2 * gain >= buf || (gain >= 2 * self.acks.rcv_mss() && (gain >= buf / 4 || current <= buf / 8))
    }

    /// Urgent data up to `end` were announced.
    pub(crate) fn urgent(&mut self, end: u64) {
        self.urgent = self.urgent.max(end);
    }

    /// Unread bytes before the last urgent one, unless that is read; and whether it has arrived.
    pub(crate) fn urgent_ahead(&self) -> Option<(u64, bool)> {
        let ahead = self.urgent.checked_sub(self.read + 1)?;
        Some((ahead, self.nxt >= self.urgent))
    }

    /// Urgent data have not arrived or have not been read.
    pub(crate) fn is_urgent(&self) -> bool {
        self.urgent > self.read
    }
}
