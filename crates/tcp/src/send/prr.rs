//! Proportional rate reduction (RFC 9937): how much may be sent on each ACK while the window comes down.
//!
//! Pure arithmetic in bytes. Used in fast recovery and, as Linux does, for the reduction after a mark.

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

    /// RFC 9937 section 6.2: the window after an ACK that delivered `delivered` bytes. `safe`: the cumulative point
    /// moved and nothing was newly lost.
    pub fn on_ack(&mut self, delivered: u64, pipe: u64, ssthresh: u64, safe: bool, mss: u64) -> u64 {
        self.delivered += delivered;
        let mut count = if pipe > ssthresh {
            let due =
                (u128::from(self.delivered) * u128::from(ssthresh)).div_ceil(u128::from(self.recover_fs));
            // Rounded up to whole segments, as in the RFC's figures and in Linux, which counts segments.
            u64::try_from(due).unwrap_or(u64::MAX).next_multiple_of(mss).saturating_sub(self.out)
        } else {
            let mut count = self.delivered.saturating_sub(self.out).max(delivered);
            if safe {
                count += mss;
            }
            count.min(ssthresh - pipe)
        };
        // The first retransmission leaves at once.
        if self.out == 0 {
            count = count.max(mss);
        }
        pipe + count
    }
}
