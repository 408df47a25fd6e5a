//! The stack's event log: each decision with its reason, like FreeBSD's black box log.
//!
//! The log observes and never decides: with it on or off the stack behaves the same. Positions are 64-bit stream
//! positions (0 is the SYN, 1 the first byte), so that they read well and never wrap.

pub use tcpassay_states::{
    AckReason, CongestionCause, CongestionState, LossRule, TcpState as State, Timer, WindowCause,
};
use tcpassay_units::{Bytes, Dur, Time};
use tcpassay_wire::Flags;

/// One entry.
#[derive(Clone, PartialEq, Debug)]
pub struct LogEntry {
    /// When.
    pub at: Time,
    /// What, and why.
    pub what: LogEvent,
}

/// What happened.
#[derive(Clone, PartialEq, Debug)]
pub enum LogEvent {
    /// A segment arrived and was acceptable enough to be looked at.
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
    /// A segment left.
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
        /// Which.
        timer: Timer,
        /// What happened to it.
        change: TimerChange,
    },
    /// The connection moved between the states of RFC 9293.
    State {
        /// Before.
        from: State,
        /// After.
        to: State,
    },
    /// The sender's congestion state moved.
    Congestion {
        /// Before.
        from: CongestionState,
        /// After.
        to: CongestionState,
        /// What caused it.
        why: CongestionCause,
    },
    /// cwnd or ssthresh changed.
    Window {
        /// Now in force.
        cwnd: Bytes,
        /// Now in force ([`Bytes::MAX`] before the first congestion).
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
        /// Smoothed.
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
        /// What it decided.
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
        /// What it got.
        given: Bytes,
    },
    /// The connection ended without a proper close, and why (`"reset by peer"`, `"user timeout"`, `"retries"`).
    Aborted {
        /// The reason.
        why: &'static str,
    },
}

/// What happened to a timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimerChange {
    /// It will fire at this time.
    Set(Time),
    /// It will not fire.
    Cancelled,
    /// It fired.
    Fired,
}

/// What the receiver does about an acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AckDecision {
    /// Sent at once.
    Now,
    /// Delayed until this time.
    Delayed(Time),
    /// Neither sent nor delayed by a timer: no ACK until another event causes one (the DCTCP bug).
    Forgotten,
}

/// Where a connection's parts write their entries: one branch a call when it is off.
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

    /// Keeps what `event` builds; does not call it when the log is off.
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
