//! What became of a script.

use crate::position::Position;
use serde_json::{Value, json};
use tcpassay_units::Dur;

/// The result of a script.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// Everything was as expected.
    Pass,
    /// Everything but time: the largest error is [`Report::drift`].
    Time,
    /// Something was not as expected.
    Fail,
    /// It needs what the model or the runner does not have; never a pass.
    Unsupported,
    /// The text is not a script.
    Syntax,
}

impl Status {
    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Status::Pass => "pass",
            Status::Time => "time",
            Status::Fail => "fail",
            Status::Unsupported => "unsupported",
            Status::Syntax => "syntax",
        }
    }
}

/// What became of a script, and why.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// The result.
    pub status: Status,
    /// Where it was decided; `None` for a pass.
    pub position: Option<Position>,
    /// Why, in a line; empty for a pass.
    pub reason: String,
    /// Lines that explain it: both packets, the state of the connection, the stack's last events.
    pub details: Vec<String>,
    /// The largest error in time beyond what is allowed; zero when there is none.
    pub drift: Dur,
    /// The largest error in time, whether allowed or not.
    pub error: Dur,
    /// Virtual time that the script took.
    pub virtual_time: Dur,
    /// Events of the script that were reached.
    pub events: u64,
    /// What its code printed.
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

    /// As JSON: `status`, `line`, `column`, `reason`, `details`, `drift_usecs`, `error_usecs`, `virtual_time_usecs`, `events`, `printed`.
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
