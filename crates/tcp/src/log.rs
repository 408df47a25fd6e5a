//! The stack's event log: each decision with its reason, like FreeBSD's black box log.
//!
//! The log observes and never decides: with it on or off the stack behaves the same. Positions are 64-bit stream
//! positions (0 is the SYN, 1 the first byte), so that they read well and never wrap.

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
        /// What caused it (`"dupthresh"`, `"rack"`, `"rto"`, `"ece"`, `"high_seq acked"`, `"undo: eifel"`).
        why: &'static str,
    },
    /// cwnd or ssthresh changed.
    Window {
        /// Now in force.
        cwnd: Bytes,
        /// Now in force ([`Bytes::MAX`] before the first congestion).
        ssthresh: Bytes,
        /// Bytes in flight (RFC 6675 pipe).
        flight: Bytes,
        /// The event that changed it (`"ack"`, `"enter"`, `"leave"`, `"timeout"`, `"prr"`, `"resume"`).
        why: &'static str,
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
        /// By which rule (`"dupthresh"`, `"rack"`, `"rto"`, `"newreno"`).
        why: &'static str,
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

/// A timer of the stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timer {
    /// Retransmission.
    Rto,
    /// Tail loss probe.
    Tlp,
    /// RACK reordering.
    RackReorder,
    /// Zero-window probe.
    Persist,
    /// Delayed acknowledgement.
    DelayedAck,
    /// Keepalive.
    Keepalive,
    /// TIME-WAIT, or FIN-WAIT-2 of an orphan.
    TimeWait,
    /// Release of the next paced segment.
    Pacing,
    /// SYN or SYN-ACK retransmission.
    Handshake,
    /// End of corking.
    Cork,
}

impl Timer {
    /// Its name in the event log.
    pub fn name(self) -> &'static str {
        match self {
            Timer::Rto => "Rto",
            Timer::Tlp => "Tlp",
            Timer::RackReorder => "RackReorder",
            Timer::Persist => "Persist",
            Timer::DelayedAck => "DelayedAck",
            Timer::Keepalive => "Keepalive",
            Timer::TimeWait => "TimeWait",
            Timer::Pacing => "Pacing",
            Timer::Handshake => "Handshake",
            Timer::Cork => "Cork",
        }
    }
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

/// The states of RFC 9293 section 3.3.2.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum State {
    /// No connection.
    Closed,
    /// Waiting for a SYN.
    Listen,
    /// SYN sent.
    SynSent,
    /// SYN received, SYN-ACK sent.
    SynReceived,
    /// Open both ways.
    Established,
    /// We closed first; our FIN is out.
    FinWait1,
    /// Our FIN is acknowledged.
    FinWait2,
    /// The peer closed first.
    CloseWait,
    /// Both closed at once; our FIN is out.
    Closing,
    /// The peer closed first, then we did.
    LastAck,
    /// Waiting for old segments to die.
    TimeWait,
}

/// The sender's congestion state, in Linux's words.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum CongestionState {
    /// Nothing unusual.
    #[default]
    Open,
    /// Duplicate ACKs or SACKs, not yet a loss.
    Disorder,
    /// Window reduction after a mark.
    Cwr,
    /// Fast recovery.
    Recovery,
    /// After a retransmission timeout.
    Loss,
}

impl CongestionState {
    /// Its name in the event log: Linux's (`enum tcp_ca_state` in include/uapi/linux/tcp.h without its prefix).
    pub fn name(self) -> &'static str {
        match self {
            CongestionState::Open => "Open",
            CongestionState::Disorder => "Disorder",
            CongestionState::Cwr => "CWR",
            CongestionState::Recovery => "Recovery",
            CongestionState::Loss => "Loss",
        }
    }
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

/// Why the receiver decided so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AckReason {
    /// Enough full-sized segments wait.
    EveryN,
    /// Quick-ack mode: start of the connection, after idle, or the socket option.
    Quick,
    /// Out of order, filling a gap, or a duplicate (RFC 5681 section 4.2).
    OutOfOrder,
    /// The CE mark changed (RFC 8257 section 3.2).
    CeChange,
    /// The delayed-ACK timer fired.
    Timer,
    /// The application read and the window opened by enough.
    WindowUpdate,
    /// Data or a FIN carries it.
    Piggyback,
    /// A FIN arrived.
    Fin,
    /// A window or keepalive probe, or an unacceptable segment, is answered.
    Answer,
    /// First of the segments that may wait.
    Delay,
}

impl AckReason {
    /// Its name in the event log.
    pub fn name(self) -> &'static str {
        match self {
            AckReason::EveryN => "EveryN",
            AckReason::Quick => "Quick",
            AckReason::OutOfOrder => "OutOfOrder",
            AckReason::CeChange => "CeChange",
            AckReason::Timer => "Timer",
            AckReason::WindowUpdate => "WindowUpdate",
            AckReason::Piggyback => "Piggyback",
            AckReason::Fin => "Fin",
            AckReason::Answer => "Answer",
            AckReason::Delay => "Delay",
        }
    }
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
