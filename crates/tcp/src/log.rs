//! The stack's event log: each decision with its reason, like FreeBSD's black box log.
//!
//! The log does not influence the stack. Positions are 64-bit stream positions (0 is the SYN, 1 the first
//! byte), so that they read well and never wrap.

pub use tcpassay_states::{
    AckReason, CongestionCause, CongestionState, LossRule, SendLimit, TcpState as State, Timer, WindowCause,
};
use tcpassay_units::{Bytes, Dur, Time};
use tcpassay_wire::Flags;

/// One entry.
#[derive(Clone, PartialEq, Debug)]
pub struct LogEntry {
    /// Time of the event.
    pub at: Time,
    /// The event with its reason.
    pub what: LogEvent,
}

/// An event of a connection.
#[derive(Clone, PartialEq, Debug)]
pub enum LogEvent {
    /// A segment arrived and passed the first tests, so that its fields are processed.
    SegmentIn {
        /// Position of its first byte in the peer's stream.
        seq: u64,
        /// Position it acknowledges in our stream.
        ack: u64,
        /// Payload bytes.
        len: u32,
        /// Its flags.
        flags: Flags,
        /// Whether it carried CE.
        ce: bool,
        /// The peer's receive window after scaling.
        window: Bytes,
        /// The timestamp of the peer (TSval), where it sends them.
        stamp: Option<u32>,
    },
    /// A segment was sent.
    SegmentOut {
        /// Position of its first byte in our stream.
        seq: u64,
        /// Position it acknowledges in the peer's stream.
        ack: u64,
        /// Payload bytes.
        len: u32,
        /// Its flags.
        flags: Flags,
        /// Whether any of it had been sent before.
        retransmission: bool,
        /// The receive window that it announces, after scaling.
        window: Bytes,
        /// Whether its packets are ECN-capable.
        ect: bool,
        /// The timestamp that it echoes (TSecr), where timestamps are in use.
        echo: Option<u32>,
    },
    /// A SACK block of the segment that was logged before: of the peer's stream when that left, of ours when it arrived.
    Sack {
        /// First position.
        start: u64,
        /// Position after the last.
        end: u64,
    },
    /// A segment was refused, and why (`"paws"`, `"out of window"`, `"bad ack"`).
    Refused {
        /// The rule that refused it.
        why: &'static str,
    },
    /// A timer was set, moved or cancelled, or fired.
    Timer {
        /// The timer.
        timer: Timer,
        /// The change.
        change: TimerChange,
    },
    /// The connection moved between the states of RFC 9293.
    State {
        /// State before the change.
        from: State,
        /// State after the change.
        to: State,
    },
    /// The sender's congestion state moved.
    Congestion {
        /// State before the change.
        from: CongestionState,
        /// State after the change.
        to: CongestionState,
        /// The cause.
        why: CongestionCause,
    },
    /// cwnd or ssthresh changed.
    Window {
        /// Congestion window after the change.
        cwnd: Bytes,
        /// Slow-start threshold after the change ([`Bytes::MAX`] before the first congestion event).
        ssthresh: Bytes,
        /// Bytes in flight (RFC 6675 pipe).
        flight: Bytes,
        /// The event that changed it.
        why: WindowCause,
    },
    /// A round-trip time was measured.
    Rtt {
        /// The sample.
        sample: Dur,
        /// The smoothed round-trip time after the sample.
        srtt: Dur,
        /// The retransmission timeout that follows.
        rto: Dur,
    },
    /// Segments were marked lost.
    Lost {
        /// First position.
        start: u64,
        /// Position after the last.
        end: u64,
        /// By which rule.
        why: LossRule,
    },
    /// A retransmission was shown to have been unnecessary.
    Spurious {
        /// First position.
        start: u64,
        /// Position after the last.
        end: u64,
        /// The proof (`"dsack"`, `"timestamp"`, `"f-rto"`, `"rack"`).
        why: &'static str,
    },
    /// The receiver decided about an acknowledgement.
    Ack {
        /// The decision.
        decision: AckDecision,
        /// Why.
        why: AckReason,
        /// The position that waits to be, or was, acknowledged.
        rcv_nxt: u64,
    },
    /// The controller returned a window outside [1 MSS, maximum].
    Clamped {
        /// The window that it returned.
        asked: Bytes,
        /// The window after clamping.
        given: Bytes,
    },
    /// The connection ended without a proper close, and why (`"reset by peer"`, `"user timeout"`, `"retries"`).
    Aborted {
        /// The reason.
        why: &'static str,
    },
}

/// The change of a timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimerChange {
    /// It will fire at this time.
    Set(Time),
    /// It will not fire.
    Cancelled,
    /// It fired.
    Fired,
}

/// The decision of the receiver about an acknowledgment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AckDecision {
    /// Sent at once.
    Now,
    /// Delayed until this time.
    Delayed(Time),
    /// Neither sent nor delayed by a timer: no ACK until another event causes one (the DCTCP bug).
    Forgotten,
}

/// The log to which the parts of a connection write. While it is off a call costs one branch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    on: bool,
    entries: Vec<LogEntry>,
}

impl Log {
    /// Whether entries are kept.
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// Turns it on or off. Entries already kept stay until drained.
    pub(crate) fn set(&mut self, on: bool) {
        self.on = on;
    }

    /// Adds the entry that `event` returns. `event` is not called while the log is off.
    #[inline]
    pub(crate) fn put(&mut self, at: Time, event: impl FnOnce() -> LogEvent) {
        if self.on {
            self.entries.push(LogEntry { at, what: event() });
        }
    }

    /// Takes every entry out, oldest first; the memory stays.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = LogEntry> + '_ {
        self.entries.drain(..)
    }
}
