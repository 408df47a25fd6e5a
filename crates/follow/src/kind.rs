//! The kinds of differences, and of segments in them.

use std::fmt;
use tcpassay_units::{SeqNum, Time};
use tcpassay_wire::{Flags, Segment};

/// What a segment is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Role {
    /// It opens the connection.
    Syn,
    /// It resets the connection.
    Reset,
    /// It has no payload.
    Ack,
    /// New data.
    Data,
    /// Data that were sent before.
    Retransmission,
    /// A FIN without payload.
    Fin,
}

impl Role {
    /// The role of a segment of a sender whose next new octet is `next`.
    pub(crate) fn of(segment: &Segment, next: SeqNum) -> Role {
        let flags = segment.flags;
        if flags.has(Flags::RST) {
            Role::Reset
        } else if flags.has(Flags::SYN) {
            Role::Syn
        } else if segment.len == 0 && flags.has(Flags::FIN) {
            Role::Fin
        } else if segment.len == 0 {
            Role::Ack
        } else if segment.seq.get().wrapping_sub(next.get()) > u32::MAX / 2 {
            Role::Retransmission
        } else {
            Role::Data
        }
    }

    /// The role in messages.
    pub fn name(self) -> &'static str {
        match self {
            Role::Syn => "a SYN",
            Role::Reset => "a reset",
            Role::Ack => "an ACK",
            Role::Data => "new data",
            Role::Retransmission => "a retransmission",
            Role::Fin => "a FIN",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The kind of a difference.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// The end sent a segment; the model would have sent one with other fields.
    Fields(Role, Vec<&'static str>),
    /// The end sent a segment, and the model none.
    OnlySent(Role),
    /// The model would have sent a segment, and the end did not.
    OnlyModel(Role),
    /// The application read a number of bytes that the model could not have given it.
    Read,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Fields(role, fields) => write!(f, "{role} with another {}", fields.join(", ")),
            Kind::OnlySent(role) => write!(f, "{role} that the model would not have sent"),
            Kind::OnlyModel(role) => write!(f, "{role} of the model is missing"),
            Kind::Read => f.write_str("a read of another length"),
        }
    }
}

/// A time in seconds, to the microsecond.
pub(crate) fn seconds(at: Time) -> String {
    let ns = at.as_nanos();
    format!("{}.{:06} s", ns / 1_000_000_000, ns % 1_000_000_000 / 1000)
}
