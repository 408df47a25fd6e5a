//! Additive increase: one segment per window of acknowledged bytes.

use tcpassay_units::Bytes;

/// Additive increase with byte counting (RFC 5681 section 3.1, RFC 3465 section 2.1): one MSS for each `cwnd` bytes
/// acknowledged.
///
/// Each call adds at most one MSS, so that an ACK for several windows (after a reduction) does not cause a burst.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct AdditiveIncrease {
    credit: Bytes,
}

impl AdditiveIncrease {
    /// The window after `acked` more acknowledged bytes.
    pub fn grow(&mut self, cwnd: Bytes, mss: Bytes, acked: Bytes) -> Bytes {
        self.credit = self.credit.saturating_add(acked);
        if self.credit < cwnd {
            return cwnd;
        }
        self.credit = (self.credit - cwnd).min(cwnd);
        cwnd.saturating_add(mss)
    }

    /// Clears the byte counter (after a reduction).
    pub fn clear(&mut self) {
        self.credit = Bytes::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_segments_acknowledged_one_by_one_raise_ten_segments_by_one_at_the_tenth() {
        let mut increase = AdditiveIncrease::default();
        let mss = Bytes::new(1000);
        let mut cwnd = Bytes::new(10_000);
        for _ in 0..9 {
            cwnd = increase.grow(cwnd, mss, mss);
            assert_eq!(cwnd, Bytes::new(10_000));
        }
        assert_eq!(increase.grow(cwnd, mss, mss), Bytes::new(11_000));
    }

    #[test]
    fn one_ack_for_five_windows_adds_one_segment() {
        let mut increase = AdditiveIncrease::default();
        assert_eq!(increase.grow(Bytes::new(2000), Bytes::new(1000), Bytes::new(10_000)), Bytes::new(3000));
    }
}
