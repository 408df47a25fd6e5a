//! The reasons of events as data. [`Event::why`](crate::EventRow::why) is text, because reasons are of many kinds; what other code decides by
//! is written and read here and nowhere else. Why a run ended stands here, too.

use serde::{Serialize, Serializer};
use std::fmt;
use strum::{EnumMessage, EnumString, IntoStaticStr, VariantArray};

/// Declares enums whose variants have names in files.
macro_rules! named {
    ($($(#[$enum:meta])* $name:ident { $($body:tt)* })*) => {$(
        $(#[$enum])*
        #[derive(
            Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, EnumMessage, EnumString, IntoStaticStr, VariantArray,
        )]
        pub enum $name { $($body)* }

        impl $name {
            /// As it stands in files and messages.
            pub fn name(self) -> &'static str {
                self.into()
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(self.name())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    )*};
}

named! {
    /// The states of RFC 9293 section 3.3.2.
    TcpState {
        /// A state that is not known.
        #[strum(serialize = "?")]
        Unknown,
        /// No connection.
        Closed,
        /// Waiting for a SYN.
        Listen,
        /// SYN sent.
        SynSent,
        /// SYN received, SYN-ACK sent.
        SynReceived,
        /// Open in both directions.
        Established,
        /// This end closed first; its FIN is sent.
        FinWait1,
        /// The FIN of this end is acknowledged.
        FinWait2,
        /// The peer closed first.
        CloseWait,
        /// Both ends closed at once; the FIN of this end is sent.
        Closing,
        /// The peer closed first, then this end.
        LastAck,
        /// Waiting until old segments have left the network.
        TimeWait,
    }

    /// The sender's congestion state (Linux: `enum tcp_ca_state`).
    CongestionState {
        /// A state that is not known.
        #[strum(serialize = "?")]
        Unknown,
        /// Nothing unusual.
        Open,
        /// Duplicate ACKs or SACK blocks, not yet taken for loss.
        Disorder,
        /// The window is being reduced because of ECN or local congestion.
        #[strum(serialize = "CWR")]
        Cwr,
        /// Fast recovery.
        Recovery,
        /// Recovery after a retransmission timeout.
        Loss,
    }

    /// The timers of a connection.
    Timer {
        /// Retransmission.
        Rto,
        /// Tail loss probe.
        Tlp,
        /// RACK reordering.
        RackReorder,
        /// Zero-window probe.
        Persist,
        /// Delayed acknowledgement.
        DelayedAck,
        /// Keepalive.
        Keepalive,
        /// TIME-WAIT, or FIN-WAIT-2 of an orphan.
        TimeWait,
        /// Release of the next paced segment.
        Pacing,
        /// Retransmission of SYN or SYN-ACK.
        Handshake,
        /// End of corking.
        Cork,
    }

    /// Why a receiver sends an ACK at once, delays it or forgets it.
    AckReason {
        /// Enough full-sized segments wait.
        EveryN,
        /// Quick ACK mode.
        Quick,
        /// A segment out of order, or one that fills a gap.
        OutOfOrder,
        /// The CE mark of the segment differs from that of the one before (DCTCP).
        CeChange,
        /// The delayed-ACK timer fired.
        Timer,
        /// The receive window opened.
        WindowUpdate,
        /// Data that are sent carry the acknowledgement.
        Piggyback,
        /// A FIN arrived.
        Fin,
        /// A segment that must be answered although it is not acceptable.
        Answer,
        /// Nothing demands an ACK at once.
        Delay,
    }

    /// Why a run ended, on every substrate.
    #[derive(Default)]
    RunEnd {
        /// The duration that the case asks for was over.
        #[strum(serialize = "duration")]
        Duration,
        /// Nothing was left to do.
        #[strum(serialize = "finished")]
        Finished,
        /// As many events as a run may have were used up.
        #[strum(serialize = "event limit")]
        EventLimit,
        /// The path was not what the case asks for, so that nothing was sent over it.
        #[strum(serialize = "path")]
        Path,
        /// The run broke off with an error of its own.
        #[default]
        #[strum(serialize = "failed")]
        Failed,
        /// The case asks for what this substrate cannot do.
        #[strum(serialize = "refused")]
        Refused,
    }
}

const ARROW: &str = "->";
const ABORTED: &str = "aborted: ";
const CAUSE: &str = ": ";
const UNDO: &str = "undo";

/// Why [`EventKind::State`](crate::EventKind::State) happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StateChange<'a> {
    /// The connection moved from one state to another.
    Moved {
        /// Before.
        from: TcpState,
        /// After.
        to: TcpState,
    },
    /// The connection ended without a proper close.
    Aborted {
        /// The cause, in words.
        cause: &'a str,
    },
}

impl<'a> StateChange<'a> {
    /// Reads the reason of an event; `None` if it is not of this form. States with other names are `Unknown`.
    pub fn read(why: &'a str) -> Option<StateChange<'a>> {
        if let Some(cause) = why.strip_prefix(ABORTED) {
            return Some(StateChange::Aborted { cause });
        }
        let (from, to) = why.split_once(ARROW)?;
        let state = |name: &str| name.parse().unwrap_or(TcpState::Unknown);
        Some(StateChange::Moved { from: state(from), to: state(to) })
    }
}

impl fmt::Display for StateChange<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StateChange::Moved { from, to } => write!(f, "{from}{ARROW}{to}"),
            StateChange::Aborted { cause } => write!(f, "{ABORTED}{cause}"),
        }
    }
}

/// Why [`EventKind::Congestion`](crate::EventKind::Congestion) happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CongestionChange<'a> {
    /// Before.
    pub from: CongestionState,
    /// After.
    pub to: CongestionState,
    /// What caused it, in words.
    pub cause: &'a str,
}

impl<'a> CongestionChange<'a> {
    /// The cause where a kernel left fast recovery and no segment showed the window after it.
    pub const WINDOW_UNKNOWN: &'static str = "window unknown";

    /// Reads the reason of an event; `None` if it is not of this form. States with other names are `Unknown`.
    pub fn read(why: &'a str) -> Option<CongestionChange<'a>> {
        let (from, rest) = why.split_once(ARROW)?;
        let (to, cause) = rest.split_once(CAUSE).unwrap_or((rest, ""));
        let state = |name: &str| name.parse().unwrap_or(CongestionState::Unknown);
        Some(CongestionChange { from: state(from), to: state(to), cause })
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
        write!(f, "{}{ARROW}{}{CAUSE}{}", self.from, self.to, self.cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_state_is_read_as_it_was_written() {
        let text = "SynReceived->Established";
        let read = StateChange::read(text).expect("a change");
        assert_eq!(read, StateChange::Moved { from: TcpState::SynReceived, to: TcpState::Established });
        assert_eq!(read.to_string(), text);
        let aborted = StateChange::read("aborted: reset by peer").expect("an end");
        assert_eq!(aborted, StateChange::Aborted { cause: "reset by peer" });
        assert_eq!(aborted.to_string(), "aborted: reset by peer");
        assert_eq!(StateChange::read("Established"), None);
        let unknown = StateChange::Moved { from: TcpState::Unknown, to: TcpState::Closed };
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
            assert_eq!(read, CongestionChange { from, to, cause }, "{text}");
            assert_eq!((read.is_undo(), read.window_known()), (undo, known), "{text}");
            assert_eq!(read.to_string(), text);
        }
        assert_eq!(CongestionChange::read("Open"), None);
    }

    #[test]
    fn names_of_the_log_are_those_of_the_kernel_and_of_the_model() {
        let names: Vec<_> = CongestionState::VARIANTS.iter().map(|state| state.name()).collect();
        assert_eq!(names, ["?", "Open", "Disorder", "CWR", "Recovery", "Loss"]);
        assert_eq!(
            (Timer::Rto.name(), Timer::Tlp.name(), Timer::DelayedAck.name()),
            ("Rto", "Tlp", "DelayedAck")
        );
        assert_eq!((TcpState::FinWait1.name(), AckReason::EveryN.name()), ("FinWait1", "EveryN"));
    }
}
