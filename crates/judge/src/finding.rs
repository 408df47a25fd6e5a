//! What an oracle says of itself, and what it finds.

use std::collections::BTreeMap;
use tcpassay_measure::EventKind;
use tcpassay_units::Time;

/// An oracle: a rule that a standard or the documented behaviour of a profile gives.
#[derive(Clone, Copy, Debug)]
pub struct Oracle {
    /// Its name in findings and on command lines.
    pub name: &'static str,
    /// What is wrong when it finds something.
    pub title: &'static str,
    /// What it asserts.
    pub asserts: &'static str,
    /// Why that must hold, with the section of the standard.
    pub why: &'static str,
    /// What its findings cite.
    pub evidence: &'static str,
    /// How it can be wrong.
    pub wrong_when: &'static str,
    /// Kinds of events, beside segments, without which it cannot judge.
    pub needs: &'static [EventKind],
}

/// How severe a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// A rule was broken that a TCP must keep.
    Error,
    /// Every rule may have been kept, but throughput or latency was lost.
    Warning,
    /// What random events on the path explain.
    Note,
}

impl Level {
    /// As it stands in `findings.json`.
    pub fn name(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warning => "warning",
            Level::Note => "note",
        }
    }
}

/// All that one oracle found in one flow in one way; the text is of the first occurrence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// Name of the oracle.
    pub oracle: &'static str,
    /// In which way the rule was broken.
    pub title: &'static str,
    /// Place of the flow in the recording: the direction in which the data go.
    pub flow: u32,
    /// Place of the host whose stack broke the rule.
    pub host: u32,
    /// When the first occurrence begins.
    pub start: Time,
    /// When the last occurrence ends.
    pub end: Time,
    /// When the last occurrence begins.
    pub last: Time,
    /// How severe it is.
    pub level: Level,
    /// The first occurrence in words.
    pub text: String,
    /// Rows of the event log that show it.
    pub rows: Vec<usize>,
    /// How often it happened.
    pub count: u64,
}

/// Findings, those of one flow and title as one.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    found: BTreeMap<(&'static str, &'static str, u32), Found>,
}

impl Findings {
    /// Adds an occurrence. The text is written for the first one alone.
    pub fn add(&mut self, one: Occurrence, text: impl FnOnce() -> String) {
        let Occurrence { oracle, title, flow, host, start, end, level, rows } = one;
        self.found
            .entry((oracle, title, flow))
            .and_modify(|known| {
                known.count += 1;
                known.last = start;
                known.end = known.end.max(end);
            })
            .or_insert_with(|| Found {
                oracle,
                title,
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

    /// All, in the order of oracle, title and flow.
    pub fn take(self) -> Vec<Found> {
        self.found.into_values().collect()
    }
}

/// One occurrence.
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
