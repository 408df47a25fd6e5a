//! The event log: every stack's reasons, one row each.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use tcpassay_units::{Bytes, Dur, Time};
use tcpassay_wire::Flags;

/// Why something happened (`dupthresh`, `rto`, `ce changed`): a word of the code, or of a file that was read.
pub type Reason = Cow<'static, str>;

/// The retransmission timer in [`EventRow::why`], on every substrate.
pub const RTO: &str = "Rto";

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A segment arrived.
    In,
    /// A segment left.
    Out,
    /// A segment left that had left before.
    Retransmit,
    /// An arriving segment was refused.
    Refused,
    /// A timer was set; `value` is when it fires, `why` which timer.
    TimerSet,
    /// A timer was cancelled.
    TimerCancel,
    /// A timer fired.
    TimerFire,
    /// The connection's state changed; `why` is `from->to`.
    State,
    /// The sender's congestion state changed; `why` is `from->to: cause`.
    Congestion,
    /// cwnd or ssthresh changed.
    Window,
    /// A round-trip time was measured; `value` is the sample.
    Rtt,
    /// Segments were marked lost: `seq` up to `seq + len`.
    Lost,
    /// A retransmission was shown to have been unnecessary.
    Spurious,
    /// The receiver sends an ACK at once.
    AckNow,
    /// The receiver waits with an ACK; `value` is until when.
    AckDelay,
    /// The receiver neither sends nor times an ACK.
    AckForget,
    /// The controller's output was clamped.
    Clamp,
    /// A device dropped a packet.
    Drop,
    /// A device marked a packet.
    Mark,
    /// What an application did.
    App,
}

impl EventKind {
    /// Every kind, in the order of their numbers in files.
    pub const ALL: [EventKind; 20] = [
        EventKind::In,
        EventKind::Out,
        EventKind::Retransmit,
        EventKind::Refused,
        EventKind::TimerSet,
        EventKind::TimerCancel,
        EventKind::TimerFire,
        EventKind::State,
        EventKind::Congestion,
        EventKind::Window,
        EventKind::Rtt,
        EventKind::Lost,
        EventKind::Spurious,
        EventKind::AckNow,
        EventKind::AckDelay,
        EventKind::AckForget,
        EventKind::Clamp,
        EventKind::Drop,
        EventKind::Mark,
        EventKind::App,
    ];

    /// As it stands in `events.parquet`.
    pub fn name(self) -> &'static str {
        match self {
            EventKind::In => "in",
            EventKind::Out => "out",
            EventKind::Retransmit => "retransmit",
            EventKind::Refused => "refused",
            EventKind::TimerSet => "timer_set",
            EventKind::TimerCancel => "timer_cancel",
            EventKind::TimerFire => "timer_fire",
            EventKind::State => "state",
            EventKind::Congestion => "congestion",
            EventKind::Window => "window",
            EventKind::Rtt => "rtt",
            EventKind::Lost => "lost",
            EventKind::Spurious => "spurious",
            EventKind::AckNow => "ack_now",
            EventKind::AckDelay => "ack_delay",
            EventKind::AckForget => "ack_forget",
            EventKind::Clamp => "clamp",
            EventKind::Drop => "drop",
            EventKind::Mark => "mark",
            EventKind::App => "app",
        }
    }
}

/// One row of the event log. What does not belong to an event is absent. Positions are 64-bit stream positions (0 is the
/// SYN), which never wrap.
#[derive(Clone, PartialEq, Debug)]
pub struct EventRow {
    /// When.
    pub at: Time,
    /// At which host, by its place in the recording.
    pub host: u32,
    /// Of which flow: the direction in which this host sends. `None` for what belongs to no connection.
    pub flow: Option<u32>,
    /// What.
    pub kind: EventKind,
    /// Why, or which; empty when there is nothing to say.
    pub why: Reason,
    /// Position of the first byte.
    pub seq: Option<u64>,
    /// Position that is acknowledged.
    pub ack: Option<u64>,
    /// Payload bytes.
    pub len: Option<u32>,
    /// Flags of the segment.
    pub flags: Option<Flags>,
    /// Receive window after scaling.
    pub window: Option<Bytes>,
    /// Congestion window.
    pub cwnd: Option<Bytes>,
    /// Slow-start threshold; absent before the first congestion.
    pub ssthresh: Option<Bytes>,
    /// Bytes in flight.
    pub flight: Option<Bytes>,
    /// Smoothed round-trip time.
    pub srtt: Option<Dur>,
    /// Retransmission timeout.
    pub rto: Option<Dur>,
    /// What the kind says: an instant or a length of time, in nanoseconds.
    pub value: Option<u64>,
    /// Whether the segment carried CE.
    pub ce: bool,
}

impl EventRow {
    /// An event of which only this is known yet.
    pub fn new(at: Time, host: u32, flow: Option<u32>, kind: EventKind) -> EventRow {
        EventRow {
            at,
            host,
            flow,
            kind,
            why: Reason::Borrowed(""),
            seq: None,
            ack: None,
            len: None,
            flags: None,
            window: None,
            cwnd: None,
            ssthresh: None,
            flight: None,
            srtt: None,
            rto: None,
            value: None,
            ce: false,
        }
    }
}
