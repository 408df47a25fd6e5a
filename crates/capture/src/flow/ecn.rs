//! Congestion feedback: the echo of RFC 3168 (flag ECE), or the counter and the option of accurate ECN (RFC 9768).

use serde::Serialize;
use strum::{EnumMessage, IntoStaticStr, VariantArray};
use tcpassay_units::SeqNum;
use tcpassay_wire::{Flags, Segment};

/// The meaning of the congestion flags in the ACKs of a connection.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Debug,
    Default,
    Serialize,
    EnumMessage,
    IntoStaticStr,
    VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum EcnFeedback {
    /// The handshake is not in the capture, and no segment shows which one it is.
    #[default]
    Unknown,
    /// ECE echoes marks (RFC 3168, RFC 8257), or there is no ECN.
    Echo,
    /// AE, CWR and ECE are the counter of marked packets (RFC 9768).
    Accurate,
}

/// AE, CWR and ECE as a number: the field ACE of accurate ECN.
pub(crate) fn ace(flags: Flags) -> u8 {
    u8::from(flags.has(Flags::AE)) << 2
        | u8::from(flags.has(Flags::CWR)) << 1
        | u8::from(flags.has(Flags::ECE))
}

/// The kind of feedback of a connection, as far as its packets show it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Negotiation {
    pub feedback: EcnFeedback,
    /// The flags of a SYN; of several the largest.
    asked: Option<u8>,
    /// ECE without CWR and AE in the last ACK of each end.
    echoed: [bool; 2],
}

impl Negotiation {
    /// A SYN, or a SYN-ACK. RFC 9768 table 2: the SYN has all three flags; the SYN-ACK has one of the codes 2, 3, 4 and 6, which no
    /// other SYN-ACK has.
    pub fn syn(&mut self, flags: Flags) {
        let code = ace(flags);
        if !flags.has(Flags::ACK) {
            self.asked = self.asked.max(Some(code));
            if code != 7 && self.asked == Some(code) {
                self.feedback = EcnFeedback::Echo;
            }
        } else if matches!(code, 2 | 3 | 4 | 6) && self.asked.is_none_or(|asked| asked == 7) {
            self.feedback = EcnFeedback::Accurate;
        } else {
            self.feedback = EcnFeedback::Echo;
        }
    }

    /// A segment of end `from` of a connection whose kind of feedback is unknown; true when it shows accurate ECN.
    ///
    /// Only accurate ECN sets AE, has the option, or sets CWR on an ACK without data. ECE that ends without another flag is no counter,
    /// because 2 follows 1.
    #[cold]
    pub fn learn(&mut self, from: usize, segment: &Segment) -> bool {
        let code = ace(segment.flags);
        let bare = segment.len == 0 && !segment.flags.any(Flags::FIN | Flags::RST);
        if code >= 4 || segment.options.accecn().is_some() || (bare && code >= 2) {
            self.feedback = EcnFeedback::Accurate;
            return true;
        }
        if self.echoed[from] && bare && code == 0 {
            self.feedback = EcnFeedback::Echo;
        }
        self.echoed[from] = code == 1;
        false
    }
}

/// The counters of accurate ECN that one end has sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counter {
    last: Option<u8>,
    /// The number that the last ACK with a counter acknowledged.
    acked: SeqNum,
    /// Bytes with the mark CE in the last option (24 bits).
    bytes: Option<u32>,
}

/// Marks that a segment reports: packets by the field ACE, and bytes by the option.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Reported {
    pub packets: u64,
    pub bytes: u64,
}

impl Counter {
    /// The counters of an end whose SYN is in the capture: they begin with 5 packets and 0 bytes (RFC 9768 section 3.2.1).
    pub fn begin(&mut self) {
        (self.last, self.bytes) = (Some(5), Some(0));
    }

    /// The marks that a segment reports in addition to the one before.
    pub fn read(&mut self, segment: &Segment) -> Reported {
        let now = ace(segment.flags);
        let more = self.last.map_or(0, |last| now.wrapping_sub(last) & 7);
        // Without newly acknowledged data a step of 7 is an ACK that was overtaken. A first counter of 0 was cleared on the path
        // (RFC 9768 section 3.2.2.4).
        let overtaken = more == 7 && self.acked == segment.ack;
        let cleared = now == 0 && self.last == Some(5) && self.acked == SeqNum::default();
        let mut reported = Reported::default();
        if !overtaken {
            self.last = Some(now);
            reported.packets = if cleared { 0 } else { u64::from(more) };
        }
        if let Some(option) = segment.options.accecn()
            && option.order().any(|field| field == 1)
        {
            let bytes = option.counts[1];
            let more = self.bytes.map_or(0, |last| bytes.wrapping_sub(last) & 0xff_ffff);
            if more < 1 << 23 {
                self.bytes = Some(bytes);
                reported.bytes = u64::from(more);
            }
        }
        self.acked = segment.ack;
        reported
    }
}
