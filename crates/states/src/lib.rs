//! States, timers and decisions of a TCP connection, by their names in the event log.
//!
//! The model TCP uses these types, recordings contain their names, and readers of recordings (also in
//! Python) parse the names again. The log of a kernel uses the same names.

use std::fmt;
use strum::{EnumMessage, EnumString, IntoStaticStr, VariantArray};

/// Declares enums whose variants have names in files.
macro_rules! named {
    ($($(#[$enum:meta])* $name:ident { $($body:tt)* })*) => {$(
        #[derive(
            Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, EnumMessage, EnumString, IntoStaticStr, VariantArray,
        )]
        $(#[$enum])*
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
        /// No loss, reordering or congestion mark is known.
        #[default]
        Open,
        /// Duplicate ACKs or SACK blocks arrived, but no segment is marked lost.
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

    /// What keeps a sender from sending, from first to last. If several hold at once, the last one counts.
    SendLimit {
        /// The application has written nothing that is unsent.
        #[strum(serialize = "application")]
        Application,
        /// A small segment waits, for Nagle's algorithm or because it is corked.
        #[strum(serialize = "nagle")]
        Nagle,
        /// Everything is sent, and a write waits for room in the send buffer.
        #[strum(serialize = "send_buffer")]
        SendBuffer,
        /// The peer's receive window.
        #[strum(serialize = "receive_window")]
        ReceiveWindow,
        /// The congestion window.
        #[strum(serialize = "congestion_window")]
        CongestionWindow,
        /// Pacing.
        #[strum(serialize = "pacing")]
        Pacing,
        /// The queue of the own host (TCP small queues).
        #[strum(serialize = "host_queue")]
        HostQueue,
        /// The repair of losses.
        #[strum(serialize = "recovery")]
        Recovery,
        /// The wait for a retransmission timeout or a tail loss probe that followed.
        #[strum(serialize = "timers")]
        Timers,
    }

    /// Why a receiver sends an ACK at once, delays it, or cancels a delayed ACK.
    AckReason {
        /// The number of full-sized segments that causes an ACK has arrived.
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
        /// The ACK is delayed, because no other reason applies.
        Delay,
    }

    /// The cause of a change of the congestion state of a sender of the model. The trace events of a kernel
    /// do not contain it.
    CongestionCause {
        /// Duplicate ACKs, or SACK blocks.
        #[strum(serialize = "duplicate ACK")]
        DuplicateAck,
        /// Nothing is SACKed any more, and no duplicate ACK is counted.
        #[strum(serialize = "in order")]
        InOrder,
        /// A loss by the duplicate threshold (RFC 5681, RFC 6675).
        #[strum(serialize = "dupthresh")]
        DupThresh,
        /// A loss by time (RFC 8985).
        #[strum(serialize = "rack")]
        Rack,
        /// The retransmission timer fired.
        #[strum(serialize = "rto")]
        Rto,
        /// ECE arrived (RFC 3168), or counters of marks (RFC 9768).
        #[strum(serialize = "ece")]
        Ece,
        /// A loss that the tail loss probe repaired.
        #[strum(serialize = "tlp")]
        Tlp,
        /// The reduction for a loss that the tail loss probe repaired ends at once (Linux, `tcp_process_tlp_ack`).
        #[strum(serialize = "repaired by a probe")]
        RepairedByProbe,
        /// The network interface of the sender dropped a packet.
        #[strum(serialize = "refused by the interface")]
        LocalDrop,
        /// Segments longer than the new path MTU are retransmitted.
        #[strum(serialize = "path")]
        Path,
        /// Data of a SYN that the peer did not accept are sent again.
        #[strum(serialize = "SYN data")]
        SynData,
        /// The ACK covers what was outstanding when fast recovery began.
        #[strum(serialize = "recovery point acknowledged")]
        RecoveryPointAcked,
        /// The ACK covers what was outstanding when the reduction or the timeout began.
        #[strum(serialize = "high_seq acked")]
        HighSeqAcked,
        /// A timestamp proved that nothing had been lost (RFC 3522).
        #[strum(serialize = "undo: eifel")]
        UndoEifel,
        /// DSACKs proved that nothing had been lost (RFC 3708).
        #[strum(serialize = "undo: dsack")]
        UndoDsack,
        /// Every retransmission was acknowledged too early (FreeBSD's RACK stack).
        #[strum(serialize = "undo: rack")]
        UndoRack,
        /// F-RTO proved that nothing had been lost (RFC 5682).
        #[strum(serialize = "undo: f-rto")]
        UndoFrto,
    }

    /// The cause of a change of the congestion window or of ssthresh of a sender of the model.
    #[strum(serialize_all = "snake_case")]
    WindowCause {
        /// The connection was established.
        Established,
        /// Data were sent.
        Sent,
        /// An ACK arrived.
        Ack,
        /// A reduction began.
        Enter,
        /// A reduction ended.
        Leave,
        /// The retransmission timer fired.
        Timeout,
        /// Sending resumed after an idle time.
        Resume,
        /// Proportional rate reduction (RFC 9937).
        Prr,
        /// Inflation or deflation of the window in fast recovery (RFC 6582).
        #[strum(serialize = "newreno")]
        NewReno,
        /// A partial ACK in the recovery of FreeBSD without PRR.
        #[strum(serialize = "partial ACK")]
        PartialAck,
        /// A duplicate ACK in the recovery of FreeBSD without PRR, with less than ssthresh in flight.
        #[strum(serialize = "half window")]
        HalfWindow,
    }

    /// The rule by which a sender of the model marked segments lost.
    #[strum(serialize_all = "lowercase")]
    LossRule {
        /// Duplicate threshold (RFC 5681, RFC 6675).
        DupThresh,
        /// Time (RFC 8985).
        Rack,
        /// Retransmission timeout.
        Rto,
        /// A partial ACK without SACK (RFC 6582).
        NewReno,
        /// The last segment of a recovery (RFC 6675 section 4, rule 4, as FreeBSD does it).
        Rescue,
        /// The segment is longer than the path MTU.
        Path,
        /// The peer did not accept the data of the SYN.
        #[strum(serialize = "SYN data")]
        SynData,
    }

    /// The call of an application on its socket.
    #[strum(serialize_all = "lowercase")]
    AppCall {
        /// The application read data.
        Read,
        /// The application wrote data.
        Write,
        /// The application closed its sending direction (`shutdown`).
        Shutdown,
        /// The application closed the connection.
        Close,
        /// The host stopped, and the connection with it.
        Reboot,
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
        let causes: Vec<_> = WindowCause::VARIANTS.iter().map(|cause| cause.name()).collect();
        assert_eq!(
            causes,
            [
                "established",
                "sent",
                "ack",
                "enter",
                "leave",
                "timeout",
                "resume",
                "prr",
                "newreno",
                "partial ACK",
                "half window",
            ]
        );
        let rules: Vec<_> = LossRule::VARIANTS.iter().map(|rule| rule.name()).collect();
        assert_eq!(rules, ["dupthresh", "rack", "rto", "newreno", "rescue", "path", "SYN data"]);
        let calls: Vec<_> = AppCall::VARIANTS.iter().map(|call| call.name()).collect();
        assert_eq!(calls, ["read", "write", "shutdown", "close", "reboot"]);
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
