//! Proportional rate reduction (RFC 9937): how much may be sent on each ACK while the window decreases.
//!
//! Pure arithmetic in bytes. Used in fast recovery and, as Linux does, for the reduction after a mark. The other bound is
//! that of Linux 4.3 to 5.x (`tcp_cwnd_reduction`).

use crate::config::PrrBound;

/// The data of one ACK.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about one ACK")]
pub(in crate::send) struct Step {
    /// Bytes delivered.
    pub delivered: u64,
    /// The cumulative point moved.
    pub advanced: bool,
    /// A retransmission was acknowledged.
    pub repaired: bool,
    /// True if a segment was newly marked lost.
    pub lost: bool,
    /// The reduction is a fast recovery, whose first retransmission is always allowed.
    pub recovery: bool,
}

impl Step {
    /// `bytes` of originals arrived in order, after a mark.
    pub fn delivered(bytes: u64) -> Step {
        Step { delivered: bytes, advanced: true, repaired: false, lost: false, recovery: false }
    }
}

/// The state of one reduction.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::send) struct Prr {
    /// `RecoverFS`: flight when the reduction began.
    recover_fs: u64,
    /// Bytes delivered since.
    delivered: u64,
    /// Bytes sent since.
    out: u64,
}

impl Prr {
    /// RFC 9937 section 6.1. `flight` excludes what was SACKed before the ACK that begins the reduction, and includes
    /// what that ACK delivers.
    pub fn begin(flight: u64, mss: u64) -> Prr {
        Prr { recover_fs: flight.max(mss), delivered: 0, out: 0 }
    }

    /// `bytes` were sent.
    #[inline]
    pub fn on_sent(&mut self, bytes: u64) {
        self.out += bytes;
    }

    /// True if a segment was sent since the reduction began.
    #[inline]
    pub fn has_sent(&self) -> bool {
        self.out > 0
    }

    /// RFC 9937 section 6.2: the window after an ACK.
    pub fn on_ack(&mut self, step: &Step, pipe: u64, ssthresh: u64, bound: PrrBound, mss: u64) -> u64 {
        let delivered = step.delivered;
        self.delivered += delivered;
        let mut count = if pipe > ssthresh {
            let due =
                (u128::from(self.delivered) * u128::from(ssthresh)).div_ceil(u128::from(self.recover_fs));
            // Rounded up to whole segments, as in the RFC's figures and in Linux, which counts segments.
            u64::try_from(due).unwrap_or(u64::MAX).next_multiple_of(mss).saturating_sub(self.out)
        } else {
            // The amount is rounded up here, too; otherwise the delivery of a short segment would allow no segment.
            let owed = self.delivered.saturating_sub(self.out).max(delivered).next_multiple_of(mss);
            let count = match bound {
                PrrBound::SafeAck if step.advanced && !step.lost => owed + mss,
                PrrBound::SafeAck => owed,
                PrrBound::Repair if step.repaired && !step.lost => owed + mss,
                PrrBound::Repair => delivered.next_multiple_of(mss),
            };
            count.min(ssthresh - pipe)
        };
        // The first retransmission leaves at once; so does, by the RFC, the first segment after a mark.
        if self.out == 0 && (step.recovery || bound == PrrBound::SafeAck) {
            count = count.max(mss);
        }
        (pipe + count).max(mss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    fn delivered(bytes: u64) -> Step {
        Step { delivered: bytes, advanced: false, repaired: false, lost: false, recovery: true }
    }

    #[test]
    fn above_ssthresh_the_window_falls_in_proportion_to_what_is_delivered() {
        let mut prr = Prr::begin(20_000, MSS);
        // The first retransmission leaves at once.
        assert_eq!(prr.on_ack(&delivered(1000), 19_000, 10_000, PrrBound::SafeAck, MSS), 20_000);
        prr.on_sent(1000);
        // Two delivered, one sent: half of what is delivered may be sent.
        assert_eq!(prr.on_ack(&delivered(1000), 19_000, 10_000, PrrBound::SafeAck, MSS), 19_000);
        assert_eq!(prr.on_ack(&delivered(1000), 18_000, 10_000, PrrBound::SafeAck, MSS), 19_000);
    }

    #[test]
    fn below_ssthresh_what_recovery_owes_is_sent_and_a_segment_more_on_progress_without_loss() {
        let step = |advanced, lost| Step { advanced, lost, ..delivered(1000) };
        let window = |step: Step| {
            let mut prr = Prr::begin(20_000, MSS);
            prr.on_sent(1000);
            prr.on_ack(&step, 5000, 10_000, PrrBound::SafeAck, MSS)
        };
        assert_eq!(window(step(false, false)), 6000);
        assert_eq!(window(step(true, false)), 7000);
        assert_eq!(window(step(true, true)), 6000);
    }

    #[test]
    fn linux_before_6_adds_the_segment_on_the_ack_of_a_retransmission_only() {
        let window = |repaired| {
            let mut prr = Prr::begin(20_000, MSS);
            prr.on_sent(1000);
            let step = Step { advanced: true, repaired, ..delivered(1000) };
            prr.on_ack(&step, 5000, 10_000, PrrBound::Repair, MSS)
        };
        assert_eq!((window(false), window(true)), (6000, 7000));
    }

    #[test]
    fn the_window_never_exceeds_ssthresh() {
        let mut prr = Prr::begin(20_000, MSS);
        prr.on_sent(1000);
        assert_eq!(prr.on_ack(&delivered(9000), 9000, 10_000, PrrBound::SafeAck, MSS), 10_000);
    }
}
