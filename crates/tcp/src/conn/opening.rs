//! The state of the handshake.

use super::ecn_negotiation;
use super::fastopen::FastOpenState;
use super::syn_timer::SynTimer;
use crate::config::Config;
use tcpassay_units::Bytes;
use tcpassay_wire::{Flags, Timestamps};

/// State of the handshake.
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
#[derive(Clone, Debug)]
pub(super) struct Opening {
    /// The retransmission of SYN or SYN-ACK.
    pub syn: SynTimer,
    /// A passive open, which a reset brings back to LISTEN (RFC 9293 section 3.10.7.4).
    pub passive: bool,
    /// What the peer's SYN offered, once it arrived.
    pub peer: Option<Offer>,
    /// The ECN flags of our SYN or SYN-ACK.
    pub ecn_flags: Flags,
    /// Accurate ECN: the ACE field of the client's first ACK, which reports the ECN field of the SYN-ACK.
    pub handshake_ace: Option<Flags>,
    /// Accurate ECN: the client may not have agreed, so that nothing is sent ECN-capable (RFC 9768 section 3.1.5).
    pub no_ect: bool,
    /// Accurate ECN: the mark of a SYN-ACK counts.
    pub mark_counts: bool,
    /// Accurate ECN: the client has not agreed, so that its ACE field means nothing (RFC 9768 table 4).
    pub ignores_ace: bool,
    /// The application closed before the handshake finished: a FIN follows.
    pub finish: bool,
    /// Fast Open, if the host uses it.
    pub fast: Option<Box<FastOpenState>>,
    /// The third segment of the handshake waits, because data are about to be written (Linux `sk_write_pending`).
    pub hold_ack: bool,
    /// A challenge ACK is to go out before the handshake is done.
    pub challenge: bool,
    /// Bytes of data of a crossing SYN, which FreeBSD keeps until the handshake is done.
    pub early: u32,
}

/// What a SYN or SYN-ACK offers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    pub mss: u16,
    pub shift: Option<u8>,
    pub sack: bool,
    pub timestamps: Option<Timestamps>,
    pub window: u16,
}

impl Opening {
    pub(super) fn new(cfg: &Config) -> Opening {
        Opening {
            syn: SynTimer::new(cfg.rto.initial),
            passive: false,
            peer: None,
            ecn_flags: ecn_negotiation::offer(cfg.ecn),
            handshake_ace: None,
            no_ect: false,
            mark_counts: true,
            ignores_ace: false,
            finish: false,
            fast: None,
            hold_ack: false,
            challenge: false,
            early: 0,
        }
    }

    /// The MSS that the peer announced.
    pub(super) fn peer_mss(&self) -> Option<Bytes> {
        self.peer.map(|p| Bytes::new(u64::from(p.mss)))
    }

    /// Whether the peer offered a window scale.
    pub(super) fn peer_scales(&self) -> bool {
        self.peer.is_some_and(|p| p.shift.is_some())
    }

    /// The handshake is over.
    pub(super) fn stop(&mut self) {
        self.challenge = false;
        self.syn.stop();
    }
}
