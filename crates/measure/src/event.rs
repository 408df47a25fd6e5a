//! The event log: one row per event of a stack, with its reason.

use std::borrow::Cow;
use strum::{EnumMessage, EnumString, IntoStaticStr, VariantArray};
use tcpassay_units::{Bytes, Dur, Time};
use tcpassay_wire::Flags;

/// The reason of an event (`dupthresh`, `rto`, `ce changed`): a constant of the code, or text from a file.
pub type Reason = Cow<'static, str>;

/// Value of [`EventRow::why`] for a segment that is sent with ECT in its IP header.
pub const ECT: &str = "ECT";

/// The kind of an event.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Debug,
    EnumMessage,
    EnumString,
    IntoStaticStr,
    VariantArray,
)]
#[strum(serialize_all = "snake_case")]
pub enum EventKind {
    /// A segment arrived; `value` is its timestamp (TSval).
    In,
    /// A segment was sent; `window` is the window that it announces, `value` its timestamp echo (TSecr),
    /// `why` is [`ECT`] if it is ECN-capable.
    Out,
    /// A segment was retransmitted. The fields are those of `Out`.
    Retransmit,
    /// An arriving segment was rejected.
    Refused,
    /// A timer was set; `value` is the time at which it fires, `why` is the timer.
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
    /// The receiver sends an ACK immediately.
    AckNow,
    /// The receiver delays an ACK; `value` is the time until which it waits.
    AckDelay,
    /// The receiver neither sends an ACK nor sets a timer for it.
    AckForget,
    /// The controller requested a window outside of the bounds: `asked` is the request, `cwnd` the window
    /// after clamping.
    Clamp,
    /// A device dropped a packet.
    Drop,
    /// A device marked a packet.
    Mark,
    /// A call of an application (`why`). `value` is the number of bytes that a read or a write took; `asked` is what a write
    /// asked for, in its first row, if that row took less.
    App,
    /// A SACK block (`seq` to `seq + len`) of the last segment above this row; a segment with several blocks
    /// is followed by several rows.
    Sack,
    /// A stack whose NIC merges packets on receipt (GRO) processed `len` bytes as one segment. Only of kernels, whose segments of kind
    /// `In` are the packets before they are merged.
    Merged,
    /// A real stack sent or delivered something that was not written: `why` is the kind of the error (a wrong checksum, other
    /// bytes in a segment that it sent or in data that it delivered), `seq` and `len` its place in the stream.
    Damaged,
}

impl EventKind {
    /// Every kind, in the order of their numbers in files.
    pub const ALL: &[EventKind] = EventKind::VARIANTS;

    /// The name in `events.parquet`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// One row of the event log. Fields that do not apply to an event are absent. Positions are 64-bit stream positions
/// (0 is the SYN), which never wrap.
#[derive(Clone, PartialEq, Debug)]
pub struct EventRow {
    /// Time of the event.
    pub at: Time,
    /// Index of the host in the recording.
    pub host: u32,
    /// The flow: the direction in which this host sends. `None` when the event belongs to no connection.
    pub flow: Option<u32>,
    /// The kind of the event.
    pub kind: EventKind,
    /// The reason, or the object of the event; empty when there is none.
    pub why: Reason,
    /// Position of the first byte; of a call on a kernel, how many packets of its host the recording had before.
    pub seq: Option<u64>,
    /// Acknowledged position.
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
    /// The value of this kind of event: a time or a duration in nanoseconds.
    pub value: Option<u64>,
    /// The congestion window that a controller requested, if it was clamped; of a write, the bytes that it asked for.
    pub asked: Option<Bytes>,
    /// Whether the segment carried CE.
    pub ce: bool,
}

impl EventRow {
    /// An event without further fields.
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
            asked: None,
            ce: false,
        }
    }
}
