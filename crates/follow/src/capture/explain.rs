//! How the first difference of an end reads.

use super::hypothesis::{Due, Hypothesis};
use super::packet::CapturedPacket;
use super::sender::Fault;
use crate::candidate::Candidate;
use crate::difference::{Difference, shown};
use crate::kind::{Kind, Role, seconds};
use crate::reason::Reason;
use tcpassay_units::{SeqNum, Time};
use tcpassay_wire::{Ecn, Segment};

/// A contradiction.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub row: usize,
    pub at: Time,
    pub kind: Kind,
    pub sent: String,
    pub due: Option<Due>,
}

/// The end that differs.
#[derive(Clone, Copy)]
pub(super) struct Told<'a> {
    pub packets: &'a [CapturedPacket],
    /// Initial sequence numbers of the end and its peer.
    pub initial: (SeqNum, SeqNum),
    /// The profile is one of Linux, whose functions a reason names.
    pub is_linux: bool,
}

impl Told<'_> {
    /// A difference of the sender.
    pub fn forbidden(&self, row: usize, fault: Fault) -> Difference {
        let packet = &self.packets[row];
        let (role, expected, why, name, source) = match fault {
            Fault::InitialWindow { most } => (
                Role::Data,
                format!("at most {most} bytes before the first ACK of data"),
                "the initial window is full",
                "initial window",
                "tcp_init_cwnd, RFC 6928",
            ),
            Fault::Early(from) => (
                Role::Retransmission,
                format!("no retransmission before {}", seconds(from)),
                "no duplicate ACK and no SACK block shows a loss, and no timer has fired",
                "early",
                "tcp_rearm_rto, tcp_schedule_loss_probe, RFC 6298, RFC 8985 section 7.2",
            ),
        };
        let kind = Kind::OnlySent(role);
        Difference {
            row,
            at: packet.at,
            cause: format!("{kind}: {name}"),
            kind,
            sent: shown(self.initial, &packet.segment, packet.ecn),
            expected,
            why: why.to_owned(),
            source: if self.is_linux { source } else { only_rfc(source) },
        }
    }

    /// The frame of a difference, and how it reads.
    pub fn explained(&self, found: Found, one: Hypothesis) -> (u64, Difference) {
        let packets = self.packets;
        let missing = matches!(found.kind, Kind::OnlyModel(_));
        let place =
            if missing { packets.partition_point(|p| p.at <= found.at).saturating_sub(1) } else { found.row };
        let at = found.due.map_or(found.at, |due| due.at);
        // Windows are those of the end.
        let window = packets[..found.row].iter().rev().find(|p| p.sent).map_or(0, |p| p.segment.window);
        let next = one.next();
        let mut candidate = Candidate::new(one.conn, one.now, true);
        candidate.log = one.log;
        let reason = Reason::of(&found.kind, at, &candidate);
        let expected = match (found.due, next) {
            (Some(due), _) => {
                let segment = Segment { window, ..due.segment };
                format!("at {} {}", seconds(due.at), shown(self.initial, &segment, Ecn::NotEct))
            }
            (None, Time::MAX) => "nothing, and no timer of an ACK runs".to_owned(),
            (None, timer) => format!("nothing; its next timer fires at {}", seconds(timer)),
        };
        let cause = match reason.name.as_str() {
            "" => found.kind.to_string(),
            name => format!("{}: {name}", found.kind),
        };
        let difference = Difference {
            row: found.row,
            at: found.at,
            kind: found.kind,
            sent: found.sent,
            expected,
            why: reason.text,
            source: if self.is_linux { reason.source } else { only_rfc(reason.source) },
            cause,
        };
        (packets[place.min(packets.len() - 1)].frame, difference)
    }
}

/// The part of a source that is a section of an RFC: functions are those of Linux.
fn only_rfc(source: &'static str) -> &'static str {
    source.find("RFC").map_or("", |place| &source[place..])
}
