//! Parsing of the reasons of events. [`EventRow::why`] is text, because there are many kinds of reasons.
//! Code that depends on a reason parses it with the functions of this module. The module also declares the
//! reasons for the end of a run.

use crate::EventRow;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use strum::{EnumMessage, EnumString, IntoStaticStr, VariantArray};
pub use tcpassay_states::{
    AckReason, AppCall, CongestionCause, CongestionState, LossRule, SendLimit, TcpState, Timer, WindowCause,
};

/// The reason for the end of a run, on every substrate.
#[derive(
    Default,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Debug,
    EnumMessage,
    EnumString,
    IntoStaticStr,
    VariantArray,
)]
pub enum RunEnd {
    /// The duration of the case had passed.
    #[strum(serialize = "duration")]
    Duration,
    /// All traffic was finished and no event was pending.
    #[strum(serialize = "finished")]
    Finished,
    /// The run reached the limit of the number of events.
    #[strum(serialize = "event limit")]
    EventLimit,
    /// The measured properties of the path were not those of the case, so the applications were not started.
    #[strum(serialize = "path")]
    Path,
    /// The run failed with an error.
    #[default]
    #[strum(serialize = "failed")]
    Failed,
    /// The substrate does not support the case.
    #[strum(serialize = "refused")]
    Refused,
}

impl RunEnd {
    /// The name in files and messages.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl Serialize for RunEnd {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for RunEnd {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<RunEnd, D::Error> {
        let name = String::deserialize(d)?;
        name.parse().map_err(|_| D::Error::custom(format!("a run does not end with `{name}`")))
    }
}

impl fmt::Display for RunEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name of an unknown state.
pub const UNKNOWN: &str = "?";
const ARROW: &str = "->";
const ABORTED: &str = "aborted: ";
const CAUSE: &str = ": ";
const UNDO: &str = "undo";

/// The reason of the event, parsed. The functions return `None` for another kind of event, and for words
/// that only another version or a kernel writes.
impl EventRow {
    /// The timer of a row `timer_set`, `timer_cancel` or `timer_fire`.
    pub fn timer(&self) -> Option<Timer> {
        self.why.parse().ok()
    }

    /// The change of a row `state`.
    pub fn state_change(&self) -> Option<StateChange<'_>> {
        StateChange::read(&self.why)
    }

    /// The change of a row `congestion`.
    pub fn congestion_change(&self) -> Option<CongestionChange<'_>> {
        CongestionChange::read(&self.why)
    }

    /// The cause of a row `window`.
    pub fn window_cause(&self) -> Option<WindowCause> {
        self.why.parse().ok()
    }

    /// The rule of a row `lost`.
    pub fn loss_rule(&self) -> Option<LossRule> {
        self.why.parse().ok()
    }

    /// The call of the application in a row `app`.
    pub fn app_call(&self) -> Option<AppCall> {
        self.why.parse().ok()
    }
}

/// The texts before and after the first arrow. The general search for a text takes ten times as long for a text of this length.
fn change(why: &str) -> Option<(&str, &str)> {
    let place = why.as_bytes().windows(ARROW.len()).position(|two| two == ARROW.as_bytes())?;
    Some((&why[..place], &why[place + ARROW.len()..]))
}

/// The reason of an [`EventKind::State`](crate::EventKind::State).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StateChange<'a> {
    /// The connection moved from one state to another.
    Moved {
        /// Before; `None` if it is not known.
        from: Option<TcpState>,
        /// After; `None` if it is not known.
        to: Option<TcpState>,
    },
    /// The connection ended without a proper close.
    Aborted {
        /// The cause, in words.
        cause: &'a str,
    },
}

impl<'a> StateChange<'a> {
    /// Reads the reason of an event; `None` if it is not of this form. States with other names are not known.
    pub fn read(why: &'a str) -> Option<StateChange<'a>> {
        if let Some(cause) = why.strip_prefix(ABORTED) {
            return Some(StateChange::Aborted { cause });
        }
        let (from, to) = change(why)?;
        Some(StateChange::Moved { from: from.parse().ok(), to: to.parse().ok() })
    }
}

impl fmt::Display for StateChange<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StateChange::Moved { from, to } => {
                let name = |state: &Option<TcpState>| state.map_or(UNKNOWN, TcpState::name);
                write!(f, "{}{ARROW}{}", name(from), name(to))
            }
            StateChange::Aborted { cause } => write!(f, "{ABORTED}{cause}"),
        }
    }
}

/// The reason of an [`EventKind::Congestion`](crate::EventKind::Congestion).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CongestionChange<'a> {
    /// Before; `None` if it is not known.
    pub from: Option<CongestionState>,
    /// After; `None` if it is not known.
    pub to: Option<CongestionState>,
    /// The text of the cause.
    pub cause: &'a str,
}

impl<'a> CongestionChange<'a> {
    /// The cause if a kernel left fast recovery and the log does not contain the window after it.
    pub const WINDOW_UNKNOWN: &'static str = "window unknown";

    /// Reads the reason of an event; `None` if it is not of this form. States with other names are not known.
    pub fn read(why: &'a str) -> Option<CongestionChange<'a>> {
        let (from, rest) = change(why)?;
        let (to, cause) = rest.split_once(CAUSE).unwrap_or((rest, ""));
        Some(CongestionChange { from: from.parse().ok(), to: to.parse().ok(), cause })
    }

    /// The cause, if it is one that the model writes.
    pub fn known_cause(&self) -> Option<CongestionCause> {
        self.cause.parse().ok()
    }

    /// Whether the change undid a reduction of the window that had been unnecessary.
    pub fn is_undo(&self) -> bool {
        self.cause.starts_with(UNDO)
    }

    /// Whether the window after the change is known.
    pub fn window_known(&self) -> bool {
        self.cause != CongestionChange::WINDOW_UNKNOWN
    }
}

impl fmt::Display for CongestionChange<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |state: Option<CongestionState>| state.map_or(UNKNOWN, CongestionState::name);
        write!(f, "{}{ARROW}{}{CAUSE}{}", name(self.from), name(self.to), self.cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_state_is_read_as_it_was_written() {
        let text = "SynReceived->Established";
        let read = StateChange::read(text).expect("a change");
        assert_eq!(
            read,
            StateChange::Moved { from: Some(TcpState::SynReceived), to: Some(TcpState::Established) }
        );
        assert_eq!(read.to_string(), text);
        let aborted = StateChange::read("aborted: reset by peer").expect("an end");
        assert_eq!(aborted, StateChange::Aborted { cause: "reset by peer" });
        assert_eq!(aborted.to_string(), "aborted: reset by peer");
        assert_eq!(StateChange::read("Established"), None);
        let unknown = StateChange::Moved { from: None, to: Some(TcpState::Closed) };
        assert_eq!(StateChange::read("Elsewhere->Closed"), Some(unknown));
        assert_eq!(unknown.to_string(), "?->Closed");
    }

    #[test]
    fn a_change_of_the_congestion_state_is_read_as_it_was_written() {
        for (text, from, to, cause, undo, known) in [
            ("Open->CWR: ece", CongestionState::Open, CongestionState::Cwr, "ece", false, true),
            (
                "Loss->Open: undo: f-rto",
                CongestionState::Loss,
                CongestionState::Open,
                "undo: f-rto",
                true,
                true,
            ),
            (
                "Recovery->Open: window unknown",
                CongestionState::Recovery,
                CongestionState::Open,
                "window unknown",
                false,
                false,
            ),
        ] {
            let read = CongestionChange::read(text).expect("a change");
            assert_eq!(read, CongestionChange { from: Some(from), to: Some(to), cause }, "{text}");
            assert_eq!((read.is_undo(), read.window_known()), (undo, known), "{text}");
            assert_eq!(read.to_string(), text);
        }
        let ece = CongestionChange::read("Open->CWR: ece").expect("a change");
        assert_eq!(ece.known_cause(), Some(CongestionCause::Ece));
        assert_eq!(CongestionChange::read("Open->CWR: kernel").expect("a change").known_cause(), None);
        assert_eq!(CongestionChange::read("Open"), None);
        let unknown = CongestionChange { from: None, to: Some(CongestionState::Loss), cause: "rto" };
        assert_eq!(CongestionChange::read("Elsewhere->Loss: rto"), Some(unknown));
        assert_eq!(unknown.to_string(), "?->Loss: rto");
    }
}
