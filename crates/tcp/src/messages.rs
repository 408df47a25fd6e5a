//! The types that the connection, the sender and the receiver exchange.
//!
//! The connection owns the handshake, the states and the wire; [`send`](crate::send) owns the outgoing stream and
//! [`recv`](crate::recv) the incoming one. All three use 64-bit stream positions: 0 is the SYN, 1 the first byte
//! of data, and the FIN follows the last byte.

use crate::config::EcnMode;
use arrayvec::ArrayVec;
use std::ops::Range;
use tcpassay_units::{Bytes, Dur};

/// A half-open range of stream positions.
pub(crate) type Span = Range<u64>;

/// The result of the handshake for the sender.
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Agreed {
    /// Payload bytes of a full segment: the smaller MSS, less the options of every data segment.
    pub mss: Bytes,
    /// Bytes of the options that every segment has.
    pub options: Bytes,
    /// The largest segment without options that the path carries.
    pub path: Bytes,
    /// The largest segment that the peer accepts and this end sends.
    pub clamp: Bytes,
    /// SACK permitted by both.
    pub sack: bool,
    /// Timestamps on every segment.
    pub timestamps: bool,
    /// The mode of ECN that both agreed on, which need not be the one that was offered.
    pub ecn: EcnMode,
    /// Data may be ECN-capable.
    pub ect: bool,
    /// The peer's first window, in bytes.
    pub window: u64,
    /// Round-trip time of the handshake when it was not retransmitted.
    pub rtt: Option<Dur>,
    /// Bytes of data in our SYN that are acknowledged together with it (RFC 7413).
    pub syn_data: u64,
    /// Bytes of data in our SYN that were not acknowledged together with it, if they count as lost.
    pub syn_data_lost: u64,
    /// The window from which Linux computes the first pacing rate, if that is not the initial window.
    pub rate_window: Option<Bytes>,
    /// The SYN or SYN-ACK was retransmitted: the initial window falls to one segment (RFC 5681 section 3.1).
    pub handshake_lost: bool,
}

/// An acceptable ACK, unwrapped and with its options sorted.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct AckIn {
    /// Position acknowledged; never beyond what was sent.
    pub ack: u64,
    /// The peer's window in bytes, when the segment may update it (SND.WL1/WL2); otherwise the one in force.
    pub window: u64,
    /// SACK blocks above `ack`, in option order, without the DSACK.
    pub sacks: ArrayVec<Span, 4>,
    /// The DSACK block, if there is one (RFC 2883).
    pub dsack: Option<Span>,
    /// The echoed timestamp (TSecr), when timestamps are in force.
    pub ts_ecr: Option<u32>,
    /// Our own timestamp clock at present (TSval of a segment sent now).
    pub ts_now: u32,
    /// ECE is set (classic and DCTCP ECN).
    pub ece: bool,
    /// Bytes newly reported CE by accurate ECN; `None` in the other modes.
    pub accurate_ce: Option<u64>,
    /// The segment carries payload, SYN or FIN: it is not a duplicate ACK (RFC 5681 section 2).
    pub carries_data: bool,
    /// The segment may update the window, whether it does or not: no duplicate ACK for Linux (`FLAG_WIN_UPDATE`).
    pub may_update: bool,
}

/// The result of an ACK for the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct AckOut {
    /// Payload bytes newly acknowledged cumulatively (room in the send buffer).
    pub acked: u64,
    /// Our FIN was acknowledged, now or before.
    pub fin_acked: bool,
}

/// The next segment of the sender.
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Chunk {
    /// Positions of its payload; empty for a lone FIN, and, before the first unacknowledged position, for a window probe.
    pub span: Span,
    /// A FIN follows the payload.
    pub fin: bool,
    /// PSH is set, because the segment empties the send queue.
    pub push: bool,
    /// True if a part of the segment was sent before.
    pub retransmission: bool,
    /// Announce the reduction of the window (CWR; RFC 3168 section 6.1.2).
    pub cwr: bool,
    /// May carry ECT: not on retransmissions or window probes (RFC 3168 section 6.1.5 and 6.1.6), except with DCTCP as Linux.
    pub ect: bool,
}

/// Whole new segments, one behind the other: [`Chunk`]s of one MSS, in their common form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WholeRun {
    /// First position.
    pub start: u64,
    /// Number of segments: 1 to [`WholeRun::MOST`].
    pub count: u32,
    /// Bit i is set if segment i carries PSH.
    pub pushes: u64,
    /// As in [`Chunk`], of the first segment.
    pub cwr: bool,
    /// As in [`Chunk`].
    pub ect: bool,
    /// The congestion window is full behind them, and nothing else ends the transmission.
    pub fills: bool,
}

impl WholeRun {
    /// The largest number of segments.
    pub const MOST: u32 = 64;
}

/// The sender gave up on the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum GaveUp {
    /// Too many retransmissions or probes.
    Retries,
    /// `user_timeout` passed without progress.
    UserTimeout,
}

/// How the window that the next segment announces compares with the one before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WindowMove {
    /// It is as large at least.
    Kept,
    /// It is larger: Linux's limit may have risen, which gives one more quick ACK (`tcp_grow_window`).
    Grew,
    /// It is smaller, because data are unread.
    Shrank,
    /// It is as large, and one quick ACK less is left, because it did not rise before.
    Spent,
    /// The same as [`WindowMove::Shrank`], and less than half of the buffer is free, which ends quick ACKs in Linux (`__tcp_select_window`).
    Tight,
}
