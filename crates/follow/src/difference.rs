//! The first difference between an end and the model, and how it reads.

use crate::candidate::{Candidate, Due};
use crate::end::End;
use crate::kind::{Kind, seconds};
use crate::reason::Reason;
use std::fmt::Write as _;
use tcpassay_units::{Bytes, SeqNum, Time};
use tcpassay_wire::{Ecn, Flags, Segment};

/// The first difference of an end from the model.
#[derive(Clone, PartialEq, Debug)]
pub struct Difference {
    /// The number of rows of the end before it.
    pub row: usize,
    /// When: the time of the log, or of the model's segment that the end did not send.
    pub at: Time,
    /// What differs.
    pub kind: Kind,
    /// What the end did.
    pub sent: String,
    /// What the model would have done.
    pub expected: String,
    /// The model's reason for it.
    pub why: String,
    /// The function of Linux or the section of an RFC that has the rule; empty if it is not known.
    pub source: &'static str,
    /// The cause for lists: the kind, and the model's reason without its numbers.
    pub cause: String,
}

/// The parts of a difference that the follower knows when a candidate ends.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub row: usize,
    pub at: Time,
    pub kind: Kind,
    /// What the end did.
    pub sent: String,
    /// What the model sent instead.
    pub due: Option<Due>,
}

impl Found {
    /// The difference, with the reason of the candidate that ended.
    pub fn explained(self, end: &End, candidate: &Candidate) -> Difference {
        let at = self.due.as_ref().map_or(self.at, |due| due.at);
        let timer = Reason::timer(&self.kind, (self.row, at), candidate, end);
        let inside = || Reason::inside(&self.kind, at, candidate, end);
        let reason = timer.or_else(inside).unwrap_or_else(|| Reason::of(&self.kind, at, candidate));
        let expected = match &self.due {
            Some(due) => format!("at {} {}", seconds(due.at), shown(end.initial(), &due.segment, due.ecn)),
            None if self.kind == Kind::Read => {
                format!("{} bytes are readable", candidate.conn.readable().get())
            }
            None => nothing(candidate),
        };
        let cause = match reason.name.as_str() {
            "" => self.kind.to_string(),
            name => format!("{}: {name}", self.kind),
        };
        Difference {
            row: self.row,
            at: self.at,
            kind: self.kind,
            sent: self.sent,
            expected,
            why: reason.text,
            source: reason.source,
            cause,
        }
    }
}

/// What the model waits for when it sends nothing.
fn nothing(candidate: &Candidate) -> String {
    let gauges = candidate.conn.gauges();
    let mut text = match candidate.next() {
        Time::MAX => "nothing, and no timer runs".to_owned(),
        at => format!("nothing; its next timer fires at {}", seconds(at)),
    };
    let (cwnd, out) = (gauges.cwnd.get(), gauges.unacked.get());
    let _ = write!(text, " (cwnd {cwnd}, outstanding {out}");
    if gauges.ssthresh != Bytes::MAX {
        let _ = write!(text, ", ssthresh {}", gauges.ssthresh.get());
    }
    text.push(')');
    text
}

/// A segment as in tcpdump, with numbers relative to the initial ones of its sender and its receiver.
pub(crate) fn shown((ours, theirs): (SeqNum, SeqNum), s: &Segment, ecn: Ecn) -> String {
    let from = |seq: SeqNum, first: SeqNum| seq.get().wrapping_sub(first.get());
    let begin = from(s.seq, ours);
    let mut text = format!("{} {begin}:{}({})", s.flags, begin.wrapping_add(s.len), s.len);
    if s.flags.has(Flags::ACK) {
        let _ = write!(text, " ack {}", from(s.ack, theirs));
    }
    let _ = write!(text, " win {}", s.window);
    for block in &s.options.sack {
        let _ = write!(text, " sack {}:{}", from(block.start, theirs), from(block.end, theirs));
    }
    if let Some(stamps) = s.options.timestamps {
        let _ = write!(text, " TS val {} ecr {}", stamps.val, stamps.ecr);
    }
    if ecn != Ecn::NotEct {
        let _ = write!(text, " {ecn:?}");
    }
    text
}
