//! Bounds of the smoothed round-trip time of a sender whose log has no samples (RFC 6298 section 2).

use tcpassay_units::Dur;

/// The least and the largest value that SRTT may have; unknown before the first sample.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SmoothedRtt {
    bounds: Option<(Dur, Dur)>,
}

impl SmoothedRtt {
    /// The bounds; `None` before the first sample.
    pub fn bounds(&self) -> Option<(Dur, Dur)> {
        self.bounds
    }

    /// A sample that the sender took, which is between `least` and `most`.
    pub fn sample(&mut self, least: Dur, most: Dur) {
        self.bounds = Some(match self.bounds {
            Some((low, high)) => ((low * 7 + least) / 8, (high * 7 + most) / 8),
            None => (least, most),
        });
    }

    /// A sample of at most `most` that the sender may have taken or not, as of retransmitted data.
    pub fn doubtful(&mut self, most: Dur) {
        self.bounds = Some(match self.bounds {
            Some((low, high)) => (low * 7 / 8, high.max((high * 7 + most) / 8)),
            None => (Dur::ZERO, most),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(value: u64) -> Dur {
        Dur::from_millis(value)
    }

    #[test]
    fn the_first_sample_is_srtt_and_each_further_one_counts_an_eighth() {
        let mut srtt = SmoothedRtt::default();
        assert_eq!(srtt.bounds(), None);
        srtt.sample(ms(80), ms(80));
        srtt.sample(ms(160), ms(240));
        assert_eq!(srtt.bounds(), Some((ms(90), ms(100))));
    }

    #[test]
    fn a_doubtful_sample_only_widens_the_bounds() {
        let mut srtt = SmoothedRtt::default();
        srtt.sample(ms(80), ms(80));
        srtt.doubtful(ms(160));
        assert_eq!(srtt.bounds(), Some((ms(70), ms(90))));
        srtt.doubtful(ms(10));
        assert_eq!(srtt.bounds(), Some((Dur::from_micros(61_250), ms(90))));
    }
}
