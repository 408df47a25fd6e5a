//! Proportional rate reduction (RFC 9937): how much may be sent on each ACK while the window comes down.
//!
//! Pure arithmetic in bytes. Used in fast recovery and, as Linux does, for the reduction after a mark. The other bound is
//! that of Linux 4.3 to 5.x (`tcp_cwnd_reduction`).

use crate::config::PrrBound;

/// What one ACK says.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about one ACK")]
pub(super) struct Step {
    /// Bytes delivered.
    pub delivered: u64,
    /// The cumulative point moved.
    pub advanced: bool,
    /// A retransmission was acknowledged.
    pub repaired: bool,
    /// Something was newly lost.
    pub lost: bool,
    /// The flight must be repaired: one segment leaves at once.
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
pub(super) struct Prr {
    /// `RecoverFS`: flight when the reduction began.
    recover_fs: u64,
    /// Bytes delivered since.
    delivered: u64,
    /// Bytes sent since.
    pub out: u64,
}

impl Prr {
    /// RFC 9937 section 6.1. `flight` excludes what was SACKed before the ACK that begins the reduction, and includes
    /// what that ACK delivers.
    pub fn begin(flight: u64, mss: u64) -> Prr {
        Prr { recover_fs: flight.max(mss), delivered: 0, out: 0 }
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
            // Whole segments here, too, or what a short one delivers would let nothing go.
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
