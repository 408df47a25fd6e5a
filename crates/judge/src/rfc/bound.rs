//! A rule as data, and what the rules have in common.

use crate::finding::{Level, Occurrence, Oracle};
use crate::kinds::{Kinds, Sorts};
use crate::needs::Need;
pub(super) use crate::step::PerEnd;
use crate::step::{Context, Rule, Step};
use tcpassay_measure::EventKind;
use tcpassay_units::{Dur, Time};

/// How strongly an RFC demands a rule (RFC 2119).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Strength {
    /// MUST, or what follows from the definition of the protocol.
    Must,
    /// SHOULD: there may be reasons for another behaviour.
    Should,
}

/// A rule as data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub name: &'static str,
    pub title: &'static str,
    /// The section of the RFC, and MUST or SHOULD.
    pub section: &'static str,
    pub strength: Strength,
    pub statement: &'static str,
    /// When a finding is wrong, and what is not judged.
    pub exceptions: &'static str,
    pub needs: &'static [Need],
    /// The segments that it looks at.
    pub looks: Sorts,
    /// The rule, for a number of flows.
    pub new: fn(usize) -> Box<dyn Rule>,
}

impl Bound {
    pub const fn oracle(&self) -> Oracle {
        Oracle {
            name: self.name,
            title: self.title,
            asserts: self.statement,
            why: self.section,
            evidence: "the segment that violates the rule, and the segments that it contradicts.",
            wrong_when: self.exceptions,
            needs: self.needs,
        }
    }

    /// The rows that it reads: segments, and the events that it needs with what changes the congestion state.
    pub fn reads(&self) -> Kinds {
        let events = self.needs.iter().filter_map(|need| match need {
            Need::Event(kind) => Some(Kinds::of(&[*kind, EventKind::Congestion, EventKind::TimerFire])),
            _ => None,
        });
        events.fold(Kinds::SEGMENTS, Kinds::or)
    }

    fn level(&self) -> Level {
        match self.strength {
            Strength::Must => Level::Error,
            Strength::Should => Level::Warning,
        }
    }

    /// A violation at this row that concerns the data that this end sends.
    pub fn of_sender(&self, context: &Context<'_>, step: &Step<'_>) -> Occurrence {
        Occurrence { level: self.level(), ..step.of_sender(context, self.name, "") }
    }

    /// A violation at this row that concerns the data that this end receives.
    pub fn of_receiver(&self, context: &Context<'_>, step: &Step<'_>) -> Occurrence {
        Occurrence { level: self.level(), ..step.of_receiver(context, self.name, "") }
    }
}

/// Whether the first SACK block reports a duplicate: at or below the ACK, or inside of the second block (RFC 2883 section 4).
pub(super) fn is_dsack(step: &Step<'_>) -> bool {
    let ack = step.event.ack.unwrap_or(0);
    let within =
        |first: &(u64, u64)| step.sacks.get(1).is_some_and(|two| two.0 <= first.0 && first.1 <= two.1);
    step.sacks.first().is_some_and(|first| first.1 <= ack || within(first))
}

/// Whether the end that sends `flow` in a run is another TCP than the model.
pub(super) fn of_another_tcp(context: &Context<'_>, flow: usize) -> bool {
    let host = context.recording.flows[flow].from;
    context.recording.header.stacks.iter().any(|stack| stack.host == host)
}

/// A point in time for a text.
pub(super) fn time(at: Time) -> String {
    crate::history::at(at)
}

/// A duration for a text.
pub(super) fn took(time: Dur) -> String {
    crate::history::ms(time.as_nanos())
}

/// The time after which an end must have processed what reached the place of the log, and after which what it sent before has left.
pub(super) fn settled(context: &Context<'_>, flow: usize) -> Dur {
    /// Applied where the response time is not known.
    const UNKNOWN: Dur = Dur::from_millis(100);
    let answers = context.captured.map(|captured| captured.ends[flow].answers_in.unwrap_or(UNKNOWN));
    answers.unwrap_or(Dur::ZERO).saturating_mul(2).max(Dur::from_millis(10))
}
