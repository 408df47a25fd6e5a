//! Results of scripts.

use crate::position::Position;
use serde_json::{Value, json};
use tcpassay_units::Dur;

/// The result of a script.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// All events were as expected.
    Pass,
    /// All events were as expected except for their times. [`Report::drift`] is the largest error.
    Time,
    /// An event was not as expected.
    Fail,
    /// The script needs something that the target or the runner does not support.
    Unsupported,
    /// The script has a syntax error.
    Syntax,
    /// The target could not be used any more: its process ended or broke the rules of its interface.
    Crashed,
}

impl Status {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Status::Pass => "pass",
            Status::Time => "time",
            Status::Fail => "fail",
            Status::Unsupported => "unsupported",
            Status::Syntax => "syntax",
            Status::Crashed => "crashed",
        }
    }
}

/// The result of a script with its reason.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// Whether the script passed.
    pub status: Status,
    /// The position of the event that decided the result; `None` for a pass.
    pub position: Option<Position>,
    /// The reason in one line; empty for a pass.
    pub reason: String,
    /// Lines that explain the reason: both packets, the state of the connection, the last events of the stack.
    pub details: Vec<String>,
    /// The largest error in time beyond the tolerance; zero if there is none.
    pub drift: Dur,
    /// The largest error in time, also within the tolerance.
    pub error: Dur,
    /// The virtual time at the end of the script.
    pub virtual_time: Dur,
    /// The number of events that were reached.
    pub events: u64,
    /// The lines that code blocks printed.
    pub printed: Vec<String>,
}

impl Report {
    pub(crate) fn passed() -> Report {
        Report {
            status: Status::Pass,
            position: None,
            reason: String::new(),
            details: Vec::new(),
            drift: Dur::ZERO,
            error: Dur::ZERO,
            virtual_time: Dur::ZERO,
            events: 0,
            printed: Vec::new(),
        }
    }

    pub(crate) fn stopped(status: Status, position: Position, reason: String) -> Report {
        Report { status, position: Some(position), reason, ..Report::passed() }
    }

    /// The report as JSON with the keys `status`, `line`, `column`, `reason`, `details`, `drift_usecs`, `error_usecs`,
    /// `virtual_time_usecs`, `events` and `printed`.
    pub fn to_json(&self) -> Value {
        json!({
            "status": self.status.name(),
            "line": self.position.map(|p| p.line),
            "column": self.position.map(|p| p.column),
            "reason": self.reason,
            "details": self.details,
            "drift_usecs": self.drift.as_nanos().div_ceil(1000),
            "error_usecs": self.error.as_nanos().div_ceil(1000),
            "virtual_time_usecs": self.virtual_time.as_micros(),
            "events": self.events,
            "printed": self.printed,
        })
    }
}
