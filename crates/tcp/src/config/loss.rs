//! Switches of loss detection, recovery and the retransmission timeout.

use tcpassay_units::Dur;

/// Loss detection (`stack.loss_detection`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossDetection {
    /// Duplicate ACKs, or SACKed segments above the missing one (RFC 5681, RFC 6675).
    DupThresh {
        /// 3 by RFC 5681.
        threshold: u32,
        /// Reordering raises the threshold, up to 300 (Linux `tcp_reordering`).
        adaptive: bool,
    },
    /// RFC 8985, reorder window min RTT / 4, growing with DSACKs when `dsack_adaptation`.
    Rack {
        /// Widen the reorder window by a quarter min RTT per round with a DSACK, for 16 recoveries (section 6.2.4).
        dsack_adaptation: bool,
    },
}

/// The algorithm of loss recovery (`stack.recovery`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recovery {
    /// RFC 6582: window inflation and partial ACKs. Used, too, whenever SACK was not negotiated.
    NewReno,
    /// RFC 6675: pipe and scoreboard.
    Sack,
    /// RFC 9937: proportional rate reduction (with or without SACK).
    Prr,
    /// FreeBSD before 13, and after it with `do_prr` off: the window begins at one segment and grows by one
    /// with each duplicate ACK while less than ssthresh is in flight (`tcp_do_segment`,
    /// `tcp_sack_partialack`). Data in flight are the data sent above the highest SACKed position and the
    /// retransmitted data; with `pipe` all data not SACKed and the retransmitted data (`rfc6675_pipe`).
    FreeBsd {
        /// The flight is counted as in `rfc6675_pipe`.
        pipe: bool,
    },
}

/// The limit of the rate at which PRR restores a flight below ssthresh (`stack.prr_bound`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PrrBound {
    /// RFC 9937: the amount that was delivered and not yet replaced, and one further segment on an ACK that advances and shows no
    /// further loss.
    #[default]
    SafeAck,
    /// Linux 4.3 to 5.x: what the ACK delivered; the bound of RFC 9937 only on an ACK of a retransmission. After a mark
    /// nothing is retransmitted, so that the flight does not grow again before the reduction ends.
    Repair,
}

/// cwnd on leaving recovery (`stack.recovery_exit`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RecoveryExitRule {
    /// ssthresh, however small the flight.
    Ssthresh,
    /// FreeBSD before 2019 (RFC 3782's "less careful" variant): min(ssthresh, flight + MSS), down to 1 MSS.
    Rfc3782LessCareful,
    /// RFC 6582 section 3.2 step 3 option 1: min(ssthresh, max(flight, MSS) + MSS).
    #[default]
    Rfc6582,
}

/// The methods that detect a spurious recovery and undo it (`stack.undo`, a set).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "a set")]
pub struct Undo {
    /// By timestamps: the first ACK after the retransmission echoes the original (RFC 3522, RFC 4015).
    pub eifel: bool,
    /// By timestamps, after timeouts only (BSD's bad retransmit recovery).
    pub eifel_timeout: bool,
    /// By DSACK: every retransmission was reported as a duplicate (RFC 3708).
    pub dsack: bool,
    /// FreeBSD RACK: every retransmission was acknowledged within half an srtt of being sent; cwnd and ssthresh
    /// are restored and slow start resumes.
    pub rack_restore: bool,
}

/// The congestion states in which the tail loss probe timer may be set (`stack.tlp`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Tlp {
    /// Never.
    #[default]
    Off,
    /// Only in the Open state: Linux 3.10 to 4.14. A sender that has just seen ECE has no probe.
    OpenOnly,
    /// In Open and CWR (Linux 4.15 and later; RFC 8985 section 7).
    On,
}

/// Lower and upper bound and start value of the retransmission timeout (RFC 6298).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RtoBounds {
    /// `stack.initial_rto`: before any measurement (1 s).
    pub initial: Dur,
    /// `stack.min_rto` (RFC: 1 s; Linux: 200 ms; FreeBSD: 30 ms, and the slop).
    pub min: Dur,
    /// `stack.rto_slop`: added to the timeout after the minimum was applied, for the peer's delayed ACK (FreeBSD
    /// `rexmit_slop`, 200 ms).
    pub slop: Dur,
    /// `stack.max_rto` (at least 60 s).
    pub max: Dur,
    /// How the minimum is applied: RFC 6298 rounds srtt + 4 rttvar up to it; Linux applies it to the variance
    /// (rto = srtt + max(4 rttvar, min)), so that its RTO is never less than srtt + 200 ms.
    pub min_on_variance: bool,
}
