//! The negotiation of ECN by the flags of SYN and SYN-ACK.
//!
//! Sources: RFC 3168 section 6.1.1; RFC 9768 sections 3.1.1 to 3.1.3, tables 2 and 3.

use crate::config::EcnMode;
use crate::recv::ace_of;
use tcpassay_wire::{Ecn, Flags};

/// The three ECN flags of a SYN that offers accurate ECN (RFC 9768 section 3.1.1).
const ACCURATE: Flags = Flags::from_bits(Flags::AE.bits() | Flags::CWR.bits() | Flags::ECE.bits());
/// The flags of a SYN that offers classic ECN.
const CLASSIC: Flags = Flags::from_bits(Flags::CWR.bits() | Flags::ECE.bits());

/// The flags of a SYN that offers this mode.
pub(super) fn offer(mode: EcnMode) -> Flags {
    match mode {
        EcnMode::Off => Flags::NONE,
        EcnMode::Classic | EcnMode::Dctcp => CLASSIC,
        EcnMode::Accurate => ACCURATE,
    }
}

/// The mode that a server of mode `ours` agrees on when a SYN has these flags.
pub(super) fn accept(ours: EcnMode, syn: Flags) -> EcnMode {
    let bits = ace_of(syn);
    match ours {
        EcnMode::Accurate if bits == 0 => EcnMode::Off,
        EcnMode::Accurate if bits == ace_of(CLASSIC) => EcnMode::Classic,
        mode if mode == EcnMode::Accurate || syn.has(CLASSIC) => mode,
        _ => EcnMode::Off,
    }
}

/// The flags of the SYN-ACK that answers a SYN with the ECN field `ecn`, once `mode` was agreed on.
pub(super) fn answer(mode: EcnMode, ecn: Ecn) -> Flags {
    match mode {
        EcnMode::Off => Flags::NONE,
        EcnMode::Accurate => handshake_ace(ecn),
        EcnMode::Classic | EcnMode::Dctcp => Flags::ECE,
    }
}

/// The mode that a client of mode `ours` has agreed on when the SYN-ACK has these flags. `offered`: the last SYN offered ECN.
/// RFC 9768 section 3.1.2: 000 and the reflection of all three are no ECN; 001 is a classic server. Section 3.1.3: 101 is
/// reserved and treated as accurate ECN, unless `reserved_is_none`. The answer may be to an earlier SYN that offered ECN.
pub(super) fn grant(ours: EcnMode, offered: bool, syn_ack: Flags, reserved_is_none: bool) -> EcnMode {
    let granted = syn_ack.has(Flags::ECE) && !syn_ack.has(Flags::CWR);
    match ours {
        EcnMode::Classic | EcnMode::Dctcp if granted && offered => ours,
        EcnMode::Off | EcnMode::Classic | EcnMode::Dctcp => EcnMode::Off,
        EcnMode::Accurate => match ace_of(syn_ack) {
            0b000 | 0b111 => EcnMode::Off,
            0b101 if reserved_is_none => EcnMode::Off,
            0b001 => EcnMode::Classic,
            _ => EcnMode::Accurate,
        },
    }
}

/// The modes of a client and a server after their handshake.
pub fn agreed(client: EcnMode, server: EcnMode) -> (EcnMode, EcnMode) {
    let accepted = accept(server, offer(client));
    (grant(client, true, answer(accepted, Ecn::NotEct), false), accepted)
}

/// How the ACE field reports the ECN field of a packet of the handshake (RFC 9768 table 2 and 3).
pub(super) fn handshake_ace(field: Ecn) -> Flags {
    match field {
        Ecn::NotEct => Flags::CWR,
        Ecn::Ect1 => Flags::CWR | Flags::ECE,
        Ecn::Ect0 => Flags::AE,
        Ecn::Ce => Flags::AE | Flags::CWR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_of_accurate_ecn_falls_back_to_what_the_client_offers() {
        assert_eq!(accept(EcnMode::Accurate, Flags::SYN | ACCURATE), EcnMode::Accurate);
        assert_eq!(accept(EcnMode::Accurate, Flags::SYN | CLASSIC), EcnMode::Classic);
        assert_eq!(accept(EcnMode::Accurate, Flags::SYN), EcnMode::Off);
        // RFC 9768 section 3.1.3: other combinations are taken for accurate ECN.
        assert_eq!(accept(EcnMode::Accurate, Flags::SYN | Flags::AE), EcnMode::Accurate);
    }

    #[test]
    fn a_classic_server_agrees_with_any_client_that_sets_both_flags() {
        assert_eq!(accept(EcnMode::Classic, Flags::SYN | ACCURATE), EcnMode::Classic);
        assert_eq!(accept(EcnMode::Dctcp, Flags::SYN | CLASSIC), EcnMode::Dctcp);
        assert_eq!(accept(EcnMode::Classic, Flags::SYN | Flags::ECE), EcnMode::Off);
        assert_eq!(accept(EcnMode::Off, Flags::SYN | CLASSIC), EcnMode::Off);
    }

    #[test]
    fn ends_with_different_modes_agree_on_what_both_know() {
        use EcnMode::{Accurate, Classic, Dctcp, Off};
        assert_eq!(agreed(Accurate, Classic), (Classic, Classic));
        assert_eq!(agreed(Classic, Accurate), (Classic, Classic));
        assert_eq!(agreed(Accurate, Accurate), (Accurate, Accurate));
        // The flags of DCTCP are those of classic ECN: neither end knows what the other does.
        assert_eq!(agreed(Dctcp, Classic), (Dctcp, Classic));
        assert_eq!(agreed(Accurate, Dctcp), (Classic, Dctcp));
        for mode in [Off, Classic, Dctcp, Accurate] {
            assert_eq!((agreed(mode, Off), agreed(Off, mode)), ((Off, Off), (Off, Off)), "{mode:?}");
        }
    }

    #[test]
    fn a_classic_client_needs_ece_without_cwr_and_an_offer() {
        let syn_ack = Flags::SYN | Flags::ACK;
        assert_eq!(grant(EcnMode::Classic, true, syn_ack | Flags::ECE, false), EcnMode::Classic);
        assert_eq!(grant(EcnMode::Classic, true, syn_ack | CLASSIC, false), EcnMode::Off);
        assert_eq!(grant(EcnMode::Classic, false, syn_ack | Flags::ECE, false), EcnMode::Off);
    }

    #[test]
    fn a_client_of_accurate_ecn_reads_three_flags() {
        let syn_ack = Flags::SYN | Flags::ACK;
        let mode = |flags, reserved| grant(EcnMode::Accurate, true, syn_ack | flags, reserved);
        assert_eq!(mode(Flags::NONE, false), EcnMode::Off);
        assert_eq!(mode(ACCURATE, false), EcnMode::Off, "a reflection of our flags");
        assert_eq!(mode(Flags::ECE, false), EcnMode::Classic);
        assert_eq!(mode(Flags::CWR, false), EcnMode::Accurate);
        assert_eq!(mode(Flags::AE | Flags::ECE, false), EcnMode::Accurate, "reserved");
        assert_eq!(mode(Flags::AE | Flags::ECE, true), EcnMode::Off, "reserved, in FreeBSD");
    }

    #[test]
    fn a_syn_ack_of_accurate_ecn_reports_the_field_of_the_syn() {
        assert_eq!(answer(EcnMode::Accurate, Ecn::NotEct), Flags::CWR);
        assert_eq!(answer(EcnMode::Accurate, Ecn::Ce), Flags::AE | Flags::CWR);
        assert_eq!(answer(EcnMode::Classic, Ecn::Ce), Flags::ECE);
    }
}
