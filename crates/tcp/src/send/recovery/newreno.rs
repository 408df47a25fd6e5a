//! The window of NewReno: inflation by duplicate ACKs, deflation by partial ACKs.
//!
//! Sources: RFC 5681 section 3.2, RFC 6582 section 3.2.

/// State of one recovery.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::send) struct NewReno {
    /// Duplicate ACKs when the recovery began: only later ones inflate the window.
    entry_duplicates: u32,
    partial_acks: u32,
}

/// An ACK in recovery.
#[derive(Clone, Copy, Debug)]
pub(in crate::send) struct RecoveryAck {
    /// The cumulative point moved.
    pub advanced: bool,
    /// Bytes newly acknowledged cumulatively.
    pub acked: u64,
    /// A duplicate ACK.
    pub duplicate: bool,
    /// Duplicate ACKs in a row.
    pub duplicates: u32,
}

impl NewReno {
    /// A recovery begins with this number of duplicate ACKs.
    pub fn begin(duplicates: u32) -> NewReno {
        NewReno { entry_duplicates: duplicates, partial_acks: 0 }
    }

    /// The window that a recovery begins with: `ssthresh`, inflated by the segments that have left the network (RFC 5681 section 3.2 step 3).
    pub fn first_window(self, ssthresh: u64, mss: u64) -> u64 {
        ssthresh + u64::from(self.entry_duplicates.max(1)) * mss
    }

    /// A partial ACK arrived.
    pub fn on_partial_ack(&mut self) {
        self.partial_acks += 1;
    }

    /// After an ACK that advances every duplicate counts.
    pub fn count_all_duplicates(&mut self) {
        self.entry_duplicates = 0;
    }

    /// Whether a duplicate ACK arrived after the recovery began, or after the last partial ACK.
    pub fn is_later_duplicate(self, duplicates: u32) -> bool {
        duplicates > self.entry_duplicates
    }

    /// RFC 6582 section 3.2 steps 2 and 3: the window after an ACK, if it changes.
    pub fn on_ack(&mut self, ack: &RecoveryAck, cwnd: u64, mss: u64) -> Option<u64> {
        if ack.advanced {
            // RFC 5681 section 3.2 step 4.
            self.count_all_duplicates();
            let back = if ack.acked >= mss { mss } else { 0 };
            Some((cwnd.saturating_sub(ack.acked) + back).max(mss))
        } else {
            (ack.duplicate && self.is_later_duplicate(ack.duplicates)).then_some(cwnd + mss)
        }
    }

    /// RFC 6582 section 4, the impatient variant: only the first partial ACK restarts the retransmission timer.
    pub fn restarts_timer(self) -> bool {
        self.partial_acks <= 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUPLICATE: RecoveryAck = RecoveryAck { advanced: false, acked: 0, duplicate: true, duplicates: 4 };

    #[test]
    fn each_duplicate_after_those_that_began_the_recovery_inflates_the_window_by_a_segment() {
        let mut reno = NewReno::begin(3);
        assert_eq!(reno.first_window(5000, 1000), 8000);
        assert_eq!(reno.on_ack(&RecoveryAck { duplicates: 3, ..DUPLICATE }, 8000, 1000), None);
        assert_eq!(reno.on_ack(&DUPLICATE, 8000, 1000), Some(9000));
        assert_eq!(reno.on_ack(&RecoveryAck { duplicate: false, ..DUPLICATE }, 9000, 1000), None);
    }

    #[test]
    fn a_partial_ack_deflates_by_what_it_acknowledges_and_adds_a_segment_back() {
        let mut reno = NewReno::begin(3);
        let ack = RecoveryAck { advanced: true, acked: 3000, duplicate: false, duplicates: 0 };
        assert_eq!(reno.on_ack(&ack, 9000, 1000), Some(7000));
        assert_eq!(reno.on_ack(&RecoveryAck { acked: 999, ..ack }, 9000, 1000), Some(8001));
        assert_eq!(reno.on_ack(&RecoveryAck { acked: 20_000, ..ack }, 9000, 1000), Some(1000));
        assert_eq!(reno.on_ack(&RecoveryAck { duplicates: 1, ..DUPLICATE }, 1000, 1000), Some(2000));
    }

    #[test]
    fn only_the_first_partial_ack_restarts_the_timer() {
        let mut reno = NewReno::begin(3);
        reno.on_partial_ack();
        assert!(reno.restarts_timer());
        reno.on_partial_ack();
        assert!(!reno.restarts_timer());
    }
}
