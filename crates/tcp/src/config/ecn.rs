//! Switches of explicit congestion notification.

/// Explicit congestion notification (`stack.ecn`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EcnMode {
    /// Neither offered nor accepted.
    #[default]
    Off,
    /// RFC 3168: one reduction a window, ECE latched until CWR.
    Classic,
    /// RFC 8257: the receiver echoes CE per packet with the two-state machine.
    Dctcp,
    /// RFC 9768: counters in ACE (negotiated with AE, CWR, ECE on the SYN).
    Accurate,
}

/// Which packets without new data are ECN-capable where ECN is agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ControlEcn {
    /// None (RFC 3168).
    #[default]
    Off,
    /// The SYN-ACK (RFC 5562, ECN+).
    SynAck,
    /// All: SYNs, pure ACKs, retransmissions, probes, FINs and resets (draft-ietf-tcpm-generalized-ecn, ECN++).
    All,
}

/// Which choices of RFC 9768 accurate ECN makes (`stack.ecn_form`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EcnForm {
    /// The recommendations of the RFC: the option if a counter changed, ACKs that are not ECN-capable.
    #[default]
    Rfc,
    /// Linux: the option on every segment, beginning with the counter of ECT(1), and every packet ECN-capable.
    Linux,
}

impl EcnForm {
    /// Whether this is the form of Linux.
    pub fn is_linux(self) -> bool {
        self == EcnForm::Linux
    }
}

/// How Linux uses the option of accurate ECN. Scripts set these sysctls; no parameter of a case does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AccurateUse {
    /// Only if a counter changed (`tcp_ecn_option` = 1).
    pub on_demand: bool,
    /// Also if the path seems to drop it (`tcp_ecn_option` = 3).
    pub persist: bool,
    /// On demand: at least this many times in a round trip (`tcp_ecn_option_beacon`); 0 for never.
    pub beacon: u32,
    /// Nothing is sent ECN-capable when the field of a SYN or SYN-ACK was changed on its way (`tcp_ecn_fallback`).
    pub fallback: bool,
}

impl Default for AccurateUse {
    fn default() -> AccurateUse {
        AccurateUse { on_demand: false, persist: false, beacon: 3, fallback: true }
    }
}

/// What DCTCP's receiver does when the CE mark changes while an ACK is delayed (`stack.dctcp_receiver`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DctcpReceiver {
    /// Linux before 4.17: acknowledge what came before the change and, by sending that ACK, clear the delayed ACK
    /// of the segment that changed it. The bug of the paper. Whether the segment's own ACK is then forgotten depends
    /// on [`AckCheck`](super::AckCheck).
    ClearTimer,
    /// The paper's fix: the delayed-ACK timer of the new segment is armed again.
    Rearm,
    /// Linux's fix (2018): the new segment is acknowledged at once.
    #[default]
    Immediate,
}
