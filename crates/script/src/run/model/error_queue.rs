//! The error queue of a socket: completion of `MSG_ZEROCOPY` writes, and transmit timestamps (`SO_TIMESTAMPING`).
//!
//! Sources: `__msg_zerocopy_callback`, `skb_zerocopy_notify_extend`, `tcp_tx_timestamp`, `__skb_tstamp_tx` and `tcp_ack_tstamp`
//! of Linux. The TUN device of packetdrill copies all data, so every notification has `SO_EE_CODE_ZEROCOPY_COPIED`.

use std::collections::VecDeque;
use tcpassay_units::Time;

/// The event that a timestamp records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TimestampKind {
    Scheduled,
    Sent,
    Acknowledged,
}

/// An entry of the queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum QueueEntry {
    /// The zero-copy writes from the first to the second number are complete.
    ZeroCopyDone(u32, u32),
    /// The timestamp of a byte of the stream. `tail`: the payload of the packet comes with it.
    Timestamp { stage: TimestampKind, at: Time, byte: u64, tail: bool },
}

/// A byte whose timestamps are wanted: the last one of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct WatchedByte {
    /// Offset in the stream, from zero.
    at: u64,
    flags: TimestampingFlags,
    left: bool,
}

/// The flags of `SO_TIMESTAMPING` for transmission.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "flags of the interface")]
pub(super) struct TimestampingFlags {
    scheduled: bool,
    sent: bool,
    acknowledged: bool,
    /// `SOF_TIMESTAMPING_OPT_ID`
    numbered: bool,
    /// `SOF_TIMESTAMPING_OPT_TSONLY`: the timestamp comes without the payload.
    only: bool,
    /// `SOF_TIMESTAMPING_SOFTWARE`
    reported: bool,
}

impl TimestampingFlags {
    /// The flags with these names.
    pub fn of(names: &[&str]) -> TimestampingFlags {
        let has = |name: &str| names.iter().any(|n| n.strip_prefix("SOF_TIMESTAMPING_") == Some(name));
        TimestampingFlags {
            scheduled: has("TX_SCHED"),
            sent: has("TX_SOFTWARE"),
            acknowledged: has("TX_ACK"),
            numbered: has("OPT_ID"),
            only: has("OPT_TSONLY"),
            reported: has("SOFTWARE"),
        }
    }

    fn any(self) -> bool {
        self.scheduled || self.sent || self.acknowledged
    }
}

/// The error queue of a connection, and the writes that will cause entries.
#[derive(Clone, Debug, Default)]
pub(super) struct ErrorQueue {
    pub(super) entries: VecDeque<QueueEntry>,
    /// The number of the next zero-copy write.
    next: u32,
    /// Unacknowledged zero-copy writes: the offset after their last byte, and their number.
    copying: VecDeque<(u64, u32)>,
    watched: Vec<WatchedByte>,
    /// Bytes written.
    written: u64,
    /// Bytes acknowledged when timestamps were enabled. `OPT_ID` numbers count from there.
    base: u64,
    /// The number of wakeups because of the queue.
    pub wakes: u64,
}

impl ErrorQueue {
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns true if a write may still cause an entry.
    pub fn waits(&self) -> bool {
        !self.watched.is_empty() || !self.copying.is_empty()
    }

    /// Timestamps were enabled when `acked` bytes were acknowledged.
    pub fn ask_stamps(&mut self, acked: u64) {
        self.base = acked;
    }

    /// A call has written `n` bytes.
    pub fn wrote(&mut self, n: u64, zero_copy: bool, flags: TimestampingFlags) {
        if n == 0 {
            return;
        }
        self.written += n;
        if zero_copy {
            self.copying.push_back((self.written, self.next));
            self.next += 1;
        }
        if flags.any() {
            self.watched.push(WatchedByte { at: self.written - 1, flags, left: false });
        }
    }

    fn stamp(&mut self, stage: TimestampKind, at: Time, watched: WatchedByte) {
        if !watched.flags.reported {
            return;
        }
        let byte = if watched.flags.numbered { watched.at - self.base.min(watched.at) } else { 0 };
        self.entries.push_back(QueueEntry::Timestamp { stage, at, byte, tail: !watched.flags.only });
        self.wakes += 1;
    }

    /// The bytes `start..end` of the stream were sent.
    pub fn left(&mut self, now: Time, start: u64, end: u64) {
        for i in 0..self.watched.len() {
            let watched = self.watched[i];
            if watched.left || !(start..end).contains(&watched.at) {
                continue;
            }
            self.watched[i].left = true;
            if watched.flags.scheduled {
                self.stamp(TimestampKind::Scheduled, now, watched);
            }
            if watched.flags.sent {
                self.stamp(TimestampKind::Sent, now, watched);
            }
        }
    }

    /// `acked` bytes of the stream are acknowledged.
    pub fn acknowledged(&mut self, now: Time, acked: u64) {
        while let Some(watched) = self.watched.first().copied().filter(|w| w.at < acked) {
            self.watched.remove(0);
            if watched.flags.acknowledged {
                self.stamp(TimestampKind::Acknowledged, now, watched);
            }
        }
        while let Some((_, number)) = self.copying.front().copied().filter(|(end, _)| *end <= acked) {
            self.copying.pop_front();
            match self.entries.back_mut() {
                Some(QueueEntry::ZeroCopyDone(_, last)) if *last + 1 == number => *last = number,
                _ => self.entries.push_back(QueueEntry::ZeroCopyDone(number, number)),
            }
            self.wakes += 1;
        }
    }
}
