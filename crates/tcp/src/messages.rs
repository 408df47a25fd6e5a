//! What passes between the connection and its two halves.
//!
//! The connection owns the handshake, the states and the wire; [`send`](crate::send) owns the outgoing stream and
//! [`recv`](crate::recv) the incoming one. All three use 64-bit stream positions: 0 is the SYN, 1 the first byte
//! of data, and the FIN stands after the last byte.

use crate::config::EcnMode;
use arrayvec::ArrayVec;
use std::ops::Range;
use tcpassay_units::{Bytes, Dur};

/// A half-open range of stream positions.
pub(crate) type Span = Range<u64>;

/// What the handshake agreed on, as the sender needs it.
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Agreed {
    /// Payload bytes of a full segment: the smaller MSS, less the options of every data segment.
    pub mss: Bytes,
    /// What the options of every segment take.
    pub options: Bytes,
    /// The largest segment without options that the path carries.
    pub path: Bytes,
    /// The largest that the peer takes, and we send.
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
    /// Bytes that went with our SYN and are acknowledged with it (RFC 7413).
    pub syn_data: u64,
    /// Bytes that went with our SYN and were not acknowledged with it, if they count as lost.
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

/// What an ACK achieved.
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
    /// PSH: it empties the send queue.
    pub push: bool,
    /// Any of it was sent before.
    pub retransmission: bool,
    /// Announce the reduction of the window (CWR; RFC 3168 section 6.1.2).
    pub cwr: bool,
    /// May carry ECT: not on retransmissions or window probes (RFC 3168 section 6.1.5 and 6.1.6), except with DCTCP as Linux.
    pub ect: bool,
}

/// A whole new segment: a [`Chunk`] of one MSS, in its common form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whole {
    /// First position.
    pub start: u64,
    /// As in [`Chunk`].
    pub push: bool,
    /// As in [`Chunk`].
    pub cwr: bool,
    /// As in [`Chunk`].
    pub ect: bool,
}

/// The sender gave up on the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum GaveUp {
    /// Too many retransmissions or probes.
    Retries,
    /// `user_timeout` passed without progress.
    UserTimeout,
}
