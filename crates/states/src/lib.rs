//! States, timers and decisions of a TCP connection, by their names in the event log.
//!
//! The model TCP decides by them, recordings contain their names, and readers of recordings, also in Python, get them back. A connection
//! of a kernel has the same ones.

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
            /// The name in files and messages.
            pub fn name(self) -> &'static str {
                self.into()
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
    #[derive(Default)]
    CongestionState {
        /// Nothing unusual.
        #[default]
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_event_log() {
        let names: Vec<_> = CongestionState::VARIANTS.iter().map(|state| state.name()).collect();
        assert_eq!(names, ["Open", "Disorder", "CWR", "Recovery", "Loss"]);
        assert_eq!(
            (Timer::Rto.name(), Timer::Tlp.name(), Timer::DelayedAck.name()),
            ("Rto", "Tlp", "DelayedAck")
        );
        assert_eq!((TcpState::FinWait1.name(), AckReason::EveryN.name()), ("FinWait1", "EveryN"));
    }

    #[test]
    fn a_name_is_read_back_and_another_text_is_none() {
        for state in CongestionState::VARIANTS {
            assert_eq!(state.to_string().parse(), Ok(*state));
        }
        assert_eq!("FinWait2".parse(), Ok(TcpState::FinWait2));
        assert!("FIN_WAIT2".parse::<TcpState>().is_err() && "Cwr".parse::<CongestionState>().is_err());
    }

    #[test]
    fn states_are_ordered_as_a_connection_passes_them() {
        assert!(TcpState::VARIANTS.is_sorted() && TcpState::SynReceived < TcpState::Established);
    }
}
