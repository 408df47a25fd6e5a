//! Round trips of a flow: a round begins with a data packet, and ends when its ACK reaches the sender.

use serde::Serialize;
use tcpassay_units::{Dur, Time};

/// One round of a flow, as in Figure 4 of "Experiences Evaluating DCTCP".
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Round {
    /// Number of the flow, from 1.
    pub flow: u32,
    /// Number of the round in its flow, from 1.
    pub round: u64,
    /// Time at which the round ended, since the first packet of the connection.
    pub end_ns: u64,
    /// Its duration.
    pub duration_ns: u64,
    /// Payload bytes that were sent in it, with retransmissions.
    pub bytes: u64,
    /// Data packets that were sent in it.
    pub packets: u64,
    /// Retransmissions among them.
    pub retransmissions: u64,
    /// Packets among them that arrived late, in another order than they were sent.
    pub reordered: u64,
    /// Data packets with the mark CE.
    pub ce: u64,
    /// ACKs that arrived in it.
    pub acks: u64,
    /// ACKs with the flag ECE, unless it is a bit of accurate ECN.
    pub ece: u64,
    /// Packets with the mark CE that accurate ECN reported (RFC 9768).
    pub ce_reported: u64,
    /// The receive window kept the sender from sending another segment.
    pub window_limited: bool,
    /// Its first packet, or one before it that was not acknowledged, was sent again: the ACK may answer an earlier copy, or waited for
    /// the retransmission (Karn).
    pub ambiguous: bool,
    /// The connection was silent in it for longer than its round trips explain.
    pub stalled: bool,
    /// The step of the capture's clock, as far as it is known; 0 if it is unknown. A shorter duration is given as 0.
    pub clock_ns: u64,
}

impl Round {
    /// Payload bits per second: the bytes of the round over its duration; `None` for a round without duration.
    pub fn rate_bps(&self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "a rate")]
        let (bits, ns) = ((self.bytes * 8) as f64, self.duration_ns as f64);
        (self.duration_ns > 0).then(|| bits / ns * 1e9)
    }
}

/// Counters of a round that has not ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    /// The round ends with an ACK of this position.
    pub marker: u64,
    pub start: Time,
    /// Its ACK has passed the capture point and reaches the sender at this time.
    pub closes: Option<Time>,
    /// The receive window when the round began.
    pub window: Option<u64>,
    pub seen: Round,
}

impl Open {
    pub fn new(marker: u64, start: Time, window: Option<u64>, ambiguous: bool) -> Open {
        let seen = Round {
            flow: 0,
            round: 0,
            end_ns: 0,
            duration_ns: 0,
            bytes: 0,
            packets: 0,
            retransmissions: 0,
            reordered: 0,
            ce: 0,
            acks: 0,
            ece: 0,
            ce_reported: 0,
            window_limited: false,
            ambiguous,
            stalled: false,
            clock_ns: 0,
        };
        Open { marker, start, closes: None, window, seen }
    }

    /// The round, which ended at `end`.
    pub fn close(&self, flow: u32, round: u64, end: Time, first: Time) -> Round {
        Round {
            flow,
            round,
            end_ns: end.since(first).as_nanos(),
            duration_ns: end.since(self.start).as_nanos(),
            ..self.seen
        }
    }
}

/// The duration of a round, if it is a round-trip time.
pub(crate) fn round_trip(round: &Round) -> Option<Dur> {
    (!round.ambiguous).then_some(Dur::from_nanos(round.duration_ns))
}
