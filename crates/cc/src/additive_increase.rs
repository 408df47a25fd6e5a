//! Additive increase: one segment per window of acknowledged bytes.

use crate::Arithmetic;
use tcpassay_units::Bytes;

/// Additive increase with byte counting (RFC 5681 section 3.1, RFC 3465 section 2.1): one MSS for each `cwnd` bytes
/// acknowledged.
///
/// Each call adds at most one MSS, so that an ACK for several windows (after a reduction) does not cause a burst.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct AdditiveIncrease {
    credit: Bytes,
    linux: bool,
}

impl AdditiveIncrease {
    /// As in Linux (`tcp_cong_avoid_ai`): an ACK for several windows adds a segment for each of them, and credit for more than a window,
    /// which is of a larger one, adds a single segment before.
    pub fn linux() -> AdditiveIncrease {
        AdditiveIncrease { credit: Bytes::ZERO, linux: true }
    }

    /// The form of `arithmetic`.
    pub(crate) fn of(arithmetic: Arithmetic) -> AdditiveIncrease {
        if arithmetic == Arithmetic::Linux { AdditiveIncrease::linux() } else { AdditiveIncrease::default() }
    }

    /// The window after `acked` more acknowledged bytes.
    pub fn grow(&mut self, cwnd: Bytes, mss: Bytes, acked: Bytes) -> Bytes {
        if self.linux {
            let before = u64::from(self.credit >= cwnd);
            self.credit = if before > 0 { acked } else { self.credit.saturating_add(acked) };
            let windows = self.credit / cwnd.max(Bytes::new(1));
            self.credit -= cwnd.saturating_mul(windows);
            return cwnd.saturating_add(mss.saturating_mul(before + windows));
        }
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
    fn on_linux_each_window_of_an_ack_counts_and_credit_of_a_larger_window_counts_once() {
        let mss = Bytes::new(1000);
        let mut increase = AdditiveIncrease::linux();
        // 9 segments: two windows of 4, and one segment is left.
        assert_eq!(increase.grow(mss * 4, mss, mss * 9), mss * 6);
        assert_eq!(increase.grow(mss * 6, mss, mss * 4), mss * 6);
        assert_eq!(increase.grow(mss * 6, mss, mss), mss * 7);
        // 13 segments of credit were earned under a window of 15; under one of 10 they are one segment more.
        let mut increase = AdditiveIncrease::linux();
        assert_eq!(increase.grow(mss * 15, mss, mss * 13), mss * 15);
        assert_eq!(increase.grow(mss * 10, mss, mss), mss * 11);
        assert_eq!(increase.grow(mss * 11, mss, mss * 9), mss * 11);
    }

    #[test]
    fn one_ack_for_five_windows_adds_one_segment() {
        let mut increase = AdditiveIncrease::default();
        assert_eq!(increase.grow(Bytes::new(2000), Bytes::new(1000), Bytes::new(10_000)), Bytes::new(3000));
    }
}
