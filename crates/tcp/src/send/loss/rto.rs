//! F-RTO: detection of spurious retransmission timeouts.
//!
//! Source: RFC 5682, in its form with SACK if SACK is in use; `tcp_process_loss` of Linux.

/// State of the algorithm (RFC 5682 sections 2.1 and 3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::send) enum Frto {
    /// Not in use: conventional recovery.
    #[default]
    Off,
    /// Step 1: the first segment, up to here, was retransmitted.
    Head(u64),
    /// Step 2b: an ACK advanced; new data are sent, and the next ACK decides.
    New,
}

/// The data of an ACK in the Loss state.
#[expect(clippy::struct_excessive_bools, reason = "independent facts about one ACK")]
#[derive(Clone, Copy, Debug)]
pub(in crate::send) struct FrtoAck {
    /// Data that were never retransmitted were delivered.
    pub original: bool,
    pub advanced: bool,
    /// A duplicate ACK.
    pub duplicate: bool,
    /// True if data were newly SACKed.
    pub sacked: bool,
    /// SACK is in use.
    pub sack: bool,
    pub una: u64,
    pub nxt: u64,
    /// The recovery point.
    pub recover: u64,
}

/// The result of an ACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::send) enum Decision {
    /// The timeout was spurious.
    Spurious,
    /// Not decided, or not spurious.
    Continue,
    /// Step 2b: new data are sent, and the recovery point moves to what was sent.
    Advance,
}

impl Frto {
    /// The retransmission timer fired; the first segment ends at `head`. `fresh`: outside any recovery. `again`: it fired
    /// before without progress. RFC 5682 section 2.1 begins from step 1 again if the same segment times out again, and not
    /// during another recovery; with `restarts` any second timeout begins it.
    pub fn on_timeout(self, fresh: bool, again: bool, restarts: bool, head: u64) -> Frto {
        let again = again && (restarts || matches!(self, Frto::Head(_)));
        if fresh || again { Frto::Head(head) } else { Frto::Off }
    }

    /// An ACK in the Loss state. `ignores_early_duplicates`: without SACK a duplicate ACK before the retransmission's ACK
    /// does not end the algorithm.
    pub fn on_ack(&mut self, ack: &FrtoAck, ignores_early_duplicates: bool) -> Decision {
        if *self == Frto::Off {
            return Decision::Continue;
        }
        // Step 3b: data that were never retransmitted arrived.
        if ack.original {
            return Decision::Spurious;
        }
        if ack.nxt > ack.recover {
            // Step 3a: a duplicate after new data; the loss was real.
            if ack.sacked || ack.duplicate {
                *self = Frto::Off;
            }
        } else if ack.advanced && ack.una < ack.recover {
            // Step 2a: a part of the retransmission proves nothing. Otherwise step 2b.
            let whole = !matches!(*self, Frto::Head(end) if ack.una < end);
            *self = if whole { Frto::New } else { Frto::Off };
            return Decision::Advance;
        } else if ack.duplicate && !ack.sack && !ignores_early_duplicates {
            // Step 2a. With SACK step 2 waits for the retransmission's ACK.
            *self = Frto::Off;
        }
        Decision::Continue
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ACK of the first of five segments, which was retransmitted.
    const ACK: FrtoAck = FrtoAck {
        original: false,
        advanced: true,
        duplicate: false,
        sacked: false,
        sack: true,
        una: 1001,
        nxt: 5001,
        recover: 5001,
    };

    #[test]
    fn new_data_are_sent_after_the_retransmission_and_an_original_then_proves_the_timeout_spurious() {
        let mut frto = Frto::Off.on_timeout(true, false, false, 1001);
        assert_eq!(frto, Frto::Head(1001));
        assert_eq!(frto.on_ack(&ACK, false), Decision::Advance);
        assert_eq!(frto, Frto::New);
        let original = FrtoAck { original: true, una: 2001, nxt: 7001, ..ACK };
        assert_eq!(frto.on_ack(&original, false), Decision::Spurious);
    }

    #[test]
    fn a_part_of_the_retransmission_proves_nothing() {
        let mut frto = Frto::Head(1001);
        assert_eq!(frto.on_ack(&FrtoAck { una: 501, ..ACK }, false), Decision::Advance);
        assert_eq!(frto, Frto::Off);
    }

    #[test]
    fn a_duplicate_after_new_data_means_that_the_loss_was_real() {
        let mut frto = Frto::New;
        let ack = FrtoAck { advanced: false, sacked: true, nxt: 7001, ..ACK };
        assert_eq!(frto.on_ack(&ack, false), Decision::Continue);
        assert_eq!(frto, Frto::Off);
    }

    #[test]
    fn an_early_duplicate_without_sack_ends_it_except_in_linux() {
        let ack = FrtoAck { advanced: false, duplicate: true, sack: false, una: 1, ..ACK };
        let mut rfc = Frto::Head(1001);
        rfc.on_ack(&ack, false);
        assert_eq!(rfc, Frto::Off);
        let mut linux = Frto::Head(1001);
        linux.on_ack(&ack, true);
        assert_eq!(linux, Frto::Head(1001));
    }

    #[test]
    fn a_second_timeout_begins_it_again_only_for_the_same_segment_except_in_linux() {
        assert_eq!(Frto::Head(1001).on_timeout(false, true, false, 1001), Frto::Head(1001));
        assert_eq!(Frto::New.on_timeout(false, true, false, 1001), Frto::Off);
        assert_eq!(Frto::Off.on_timeout(false, true, true, 1001), Frto::Head(1001));
    }
}
