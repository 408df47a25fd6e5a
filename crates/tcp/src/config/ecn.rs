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

/// The packets without new data that are sent ECN-capable if ECN was negotiated.
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

/// The variant of accurate ECN where RFC 9768 permits several (`stack.ecn_form`).
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
    /// The option is sent only if a counter changed (`tcp_ecn_option` = 1).
    pub on_demand: bool,
    /// The option is sent even if the path seems to drop it (`tcp_ecn_option` = 3).
    pub persist: bool,
    /// With `on_demand`: the option is sent at least this number of times per round trip
    /// (`tcp_ecn_option_beacon`); 0: never.
    pub beacon: u32,
    /// ECT is disabled if the network changed the ECN field of a SYN or SYN-ACK (`tcp_ecn_fallback`).
    pub fallback: bool,
}

impl Default for AccurateUse {
    fn default() -> AccurateUse {
        AccurateUse { on_demand: false, persist: false, beacon: 3, fallback: true }
    }
}

/// The action of a DCTCP receiver when the CE mark changes while an ACK is delayed (`stack.dctcp_receiver`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DctcpReceiver {
    /// Linux before 4.17: acknowledge the data before the change; this ACK also clears the delayed ACK of
    /// the segment with the change (the bug of the paper). Whether the segment's own ACK is then forgotten
    /// depends on [`AckCheck`](super::AckCheck).
    ClearTimer,
    /// The paper's fix: the delayed-ACK timer of the new segment is armed again.
    Rearm,
    /// Linux's fix (2018): the new segment is acknowledged at once.
    #[default]
    Immediate,
}
