//! Additive increase: one segment for each window of acknowledged bytes.

use tcpassay_units::Bytes;

/// Counts acknowledged bytes towards the next segment of congestion window (RFC 5681 section 3.1, the byte-counting
/// form of RFC 3465 section 2.1): one MSS for each `cwnd` bytes acknowledged.
///
/// At most one MSS a call, so that one ACK for many windows (after a window was cut) earns no burst.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Additive {
    credit: Bytes,
}

impl Additive {
    /// The window after `acked` more bytes.
    pub fn grow(&mut self, cwnd: Bytes, mss: Bytes, acked: Bytes) -> Bytes {
        self.credit = self.credit.saturating_add(acked);
        if self.credit < cwnd {
            return cwnd;
        }
        self.credit = (self.credit - cwnd).min(cwnd);
        cwnd.saturating_add(mss)
    }

    /// Forgets the bytes counted so far (after a reduction).
    pub fn clear(&mut self) {
        self.credit = Bytes::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_segments_acknowledged_one_by_one_raise_ten_segments_by_one_at_the_tenth() {
        let mut increase = Additive::default();
        let mss = Bytes::new(1000);
        let mut cwnd = Bytes::new(10_000);
        for _ in 0..9 {
            cwnd = increase.grow(cwnd, mss, mss);
            assert_eq!(cwnd, Bytes::new(10_000));
        }
        assert_eq!(increase.grow(cwnd, mss, mss), Bytes::new(11_000));
    }

    #[test]
    fn one_ack_for_five_windows_earns_one_segment() {
        let mut increase = Additive::default();
        assert_eq!(increase.grow(Bytes::new(2000), Bytes::new(1000), Bytes::new(10_000)), Bytes::new(3000));
    }
}
