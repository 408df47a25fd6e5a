//! The description of an oracle, and its findings.

use crate::needs::Need;
use std::borrow::Cow;
use std::collections::BTreeMap;
use tcpassay_units::Time;

/// An oracle: a set of rules that follow from a standard or from the documented behaviour of a profile.
#[derive(Clone, Copy, Debug)]
pub struct Oracle {
    /// Name of the oracle in findings and on command lines.
    pub name: &'static str,
    /// Subject of the oracle in a few words, for lists of oracles.
    pub title: &'static str,
    /// The rules that the oracle asserts.
    pub asserts: &'static str,
    /// The reason why the rules must hold, with the sections of the standards.
    pub why: &'static str,
    /// The evidence that its findings contain.
    pub evidence: &'static str,
    /// The circumstances in which findings of the oracle are wrong.
    pub wrong_when: &'static str,
    /// What the oracle requires in addition to segments.
    pub needs: &'static [Need],
}

/// How severe a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// The stack violated a rule that is mandatory for TCP.
    Error,
    /// The stack lost throughput or latency, possibly without the violation of a mandatory rule.
    Warning,
    /// The stack does something else than the profile of the model that follows it. It may be a fault of either, and no rule of an RFC needs
    /// to be violated.
    Difference,
    /// Random events on the path explain the observation.
    Note,
}

impl Level {
    /// The name of the level in `findings.json`.
    pub fn name(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warning => "warning",
            Level::Difference => "difference",
            Level::Note => "note",
        }
    }
}

/// All occurrences of one finding: the same oracle, flow, title and level. The text describes the first occurrence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// Name of the oracle.
    pub oracle: &'static str,
    /// The kind of violation, the same text for all occurrences; empty if the title of the oracle says it.
    pub title: Cow<'static, str>,
    /// Index of the flow in the recording; the flow is the direction of the data.
    pub flow: u32,
    /// Index of the host whose stack violated the rule.
    pub host: u32,
    /// Begin of the first occurrence.
    pub start: Time,
    /// End of the last occurrence.
    pub end: Time,
    /// Begin of the last occurrence.
    pub last: Time,
    /// Severity of the finding.
    pub level: Level,
    /// Description of the first occurrence.
    pub text: String,
    /// Indices of the rows of the event log that are the evidence.
    pub rows: Vec<usize>,
    /// Number of occurrences.
    pub count: u64,
}

/// Findings, merged by oracle, title, flow and level.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    found: BTreeMap<(&'static str, &'static str, u32, Level), Found>,
}

impl Findings {
    /// Adds an occurrence. `text` is called only for the first one of a finding.
    pub fn add(&mut self, one: Occurrence, text: impl FnOnce() -> String) {
        let Occurrence { oracle, title, flow, host, start, end, level, rows } = one;
        self.found
            .entry((oracle, title, flow, level))
            .and_modify(|known| {
                known.count += 1;
                known.last = start;
                known.end = known.end.max(end);
            })
            .or_insert_with(|| Found {
                oracle,
                title: title.into(),
                flow,
                host,
                start,
                end,
                last: start,
                level,
                text: text(),
                rows,
                count: 1,
            });
    }

    /// Returns all findings, ordered by oracle, title, flow and level.
    pub fn take(self) -> Vec<Found> {
        self.found.into_values().collect()
    }
}

/// One occurrence of a finding.
#[derive(Debug)]
pub(crate) struct Occurrence {
    pub oracle: &'static str,
    pub title: &'static str,
    pub flow: u32,
    pub host: u32,
    pub start: Time,
    pub end: Time,
    pub level: Level,
    pub rows: Vec<usize>,
}
