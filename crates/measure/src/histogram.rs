//! Distributions of times, to three significant digits.
//!
//! The places are those of `HdrHistogram` with three digits and a least value of 1: below 2,048 each value has its own, and
//! above, each power of two is cut into 1,024. Only the powers of two that occurred take memory, and a value takes a dozen
//! instructions: the library of that name, which the tests compare with, takes five times as many and memory from 0 up.

use tcpassay_units::Dur;

/// A distribution of lengths of time. Each value is kept to 0.1 %; mean and maximum are as good as that.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Histogram {
    /// By place, from `first` on; whole [`OCTAVE`]s, the first and the last of which have values.
    counts: Vec<u64>,
    first: usize,
}

/// Places of a power of two. Values below have a place each.
const OCTAVE: usize = 1 << OCTAVE_BITS;
const OCTAVE_BITS: u32 = 10;

/// The place of a value.
#[inline]
fn place(ns: u64) -> usize {
    let shift = u64::BITS - 1 - OCTAVE_BITS - (ns | (1 << OCTAVE_BITS)).leading_zeros();
    let within = usize::try_from(ns >> shift).expect("11 bits");
    ((shift as usize) << OCTAVE_BITS) + within
}

/// The least value of a place, and how many values share it.
fn values(place: usize) -> (u64, u64) {
    let shift = (place >> OCTAVE_BITS).saturating_sub(1);
    let within = place - (shift << OCTAVE_BITS);
    ((within as u64) << shift, 1 << shift)
}

/// The largest value of a place.
fn largest(place: usize) -> u64 {
    let (least, width) = values(place);
    least + (width - 1)
}

impl Histogram {
    /// Counts `d`.
    #[inline]
    pub fn record(&mut self, d: Dur) {
        self.record_many(d, 1);
    }

    /// Counts `d` `n` times.
    #[inline]
    pub fn record_many(&mut self, d: Dur, n: u64) {
        let place = place(d.as_nanos());
        match self.counts.get_mut(place.wrapping_sub(self.first)) {
            Some(count) => *count += n,
            None => self.widen(place, n),
        }
    }

    /// Counts a value `n` times whose power of two did not occur before.
    #[cold]
    fn widen(&mut self, place: usize, n: u64) {
        if n == 0 {
            return;
        }
        let octave = place & !(OCTAVE - 1);
        if self.counts.is_empty() {
            self.first = octave;
        }
        if octave < self.first {
            let more = self.first - octave;
            self.counts.splice(0..0, std::iter::repeat_n(0, more));
            self.first = octave;
        }
        let len = self.counts.len().max(octave + OCTAVE - self.first);
        self.counts.reserve_exact(len - self.counts.len());
        self.counts.resize(len, 0);
        self.counts[place - self.first] += n;
    }

    /// Places that have values, in ascending order, and how many.
    fn filled(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        (self.first..).zip(self.counts.iter().copied()).filter(|(_, n)| *n > 0)
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The value that a share `q` (0 to 1) of all values does not exceed; `None` without values.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank among fewer than 2^53 values"
    )]
    pub fn quantile(&self, q: f64) -> Option<Dur> {
        let rank = ((q.clamp(0.0, 1.0) * self.count() as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let (place, _) = self.filled().find(|(_, n)| {
            seen += n;
            seen >= rank
        })?;
        let value = if q > 0.0 { largest(place) } else { values(place).0 };
        Some(Dur::from_nanos(value))
    }

    /// Largest value, rounded up to the histogram's precision; `None` without values.
    pub fn max(&self) -> Option<Dur> {
        let last = self.counts.iter().rposition(|n| *n > 0)?;
        Some(Dur::from_nanos(largest(self.first + last)))
    }

    /// Smallest value, rounded down to the histogram's precision; `None` without values.
    pub fn min(&self) -> Option<Dur> {
        self.filled().next().map(|(place, _)| Dur::from_nanos(values(place).0))
    }

    /// Mean in nanoseconds; `None` without values.
    #[expect(clippy::cast_precision_loss, reason = "means are as good as the places are wide")]
    pub fn mean_ns(&self) -> Option<f64> {
        let all = self.count() as f64;
        let share = |(place, n): (usize, u64)| {
            let (least, width) = values(place);
            (least + width / 2) as f64 * n as f64 / all
        };
        (all > 0.0).then(|| self.filled().map(share).fold(0.0, |sum, share| sum + share))
    }

    /// Adds what `other` counted.
    pub fn add(&mut self, other: &Histogram) {
        for (place, n) in other.filled() {
            self.record_many(Dur::from_nanos(values(place).0), n);
        }
    }

    /// Values in ascending order with how often each was counted.
    pub fn counts(&self) -> impl Iterator<Item = (Dur, u64)> + '_ {
        self.filled().map(|(place, n)| (Dur::from_nanos(largest(place)), n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::Histogram as Hdr;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> Histogram {
        let mut h = Histogram::default();
        for ns in values {
            h.record(Dur::from_nanos(*ns));
        }
        h
    }

    #[test]
    fn an_empty_histogram_has_no_quantile_no_mean_and_no_maximum() {
        let mut empty = Histogram::default();
        empty.record_many(Dur::from_nanos(7), 0);
        assert_eq!((empty.quantile(0.5), empty.max(), empty.mean_ns()), (None, None, None));
        assert_eq!((empty.min(), empty.count(), empty.counts().count()), (None, 0, 0));
        assert_eq!(empty, Histogram::default());
    }

    #[test]
    fn only_powers_of_two_between_the_shortest_and_the_longest_take_memory() {
        let mut h = of(&[1_100_000, 2_200_000]);
        assert_eq!(h.counts.len(), 2 * OCTAVE);
        h.record(Dur::from_nanos(300_000));
        assert_eq!(h.counts.len(), 4 * OCTAVE);
        h.record(Dur::ZERO);
        assert_eq!((h.counts.len(), h.first), (13 * OCTAVE, 0));
        assert_eq!(h.count(), 4);
    }

    #[test]
    fn quantiles_are_those_of_the_values_to_a_thousandth() {
        let h = of(&(1..=1000).map(|us| us * 1000).collect::<Vec<_>>());
        let near =
            |got: Option<Dur>, us: f64| (got.expect("values").as_secs_f64() * 1e6 / us - 1.0).abs() < 1e-3;
        assert!(near(h.quantile(0.5), 500.0));
        assert!(near(h.quantile(0.99), 990.0));
        assert!(near(h.quantile(0.999), 999.0));
        assert!(near(h.max(), 1000.0));
        assert!((h.mean_ns().expect("values") / 500_500.0 - 1.0).abs() < 1e-3);
    }

    /// Lengths of time of every magnitude.
    fn lengths() -> impl Strategy<Value = Vec<u64>> {
        let length = (0u32..64, any::<u64>()).prop_map(|(shift, ns)| ns >> shift);
        prop::collection::vec(prop_oneof![length, 0u64..5_000, 900_000u64..5_000_000], 1..200)
    }

    proptest! {
        #[test]
        fn it_says_what_hdrhistogram_says(values in lengths(), q in 0.0..=1.0) {
            let h = of(&values);
            let mut theirs = Hdr::<u64>::new(3).expect("3 digits are between 0 and 5");
            for ns in &values {
                theirs.record(*ns).expect("it takes any value");
            }
            let nanos = |d: Option<Dur>| d.expect("values").as_nanos();
            prop_assert_eq!(h.count(), theirs.len());
            prop_assert_eq!((nanos(h.min()), nanos(h.max())), (theirs.min(), theirs.max()));
            for q in [0.0, q, 0.5, 1.0] {
                prop_assert_eq!(nanos(h.quantile(q)), theirs.value_at_quantile(q));
            }
            prop_assert_eq!(h.mean_ns(), Some(theirs.mean()));
            let recorded = theirs.iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value()));
            let counts = h.counts().map(|(d, n)| (d.as_nanos(), n));
            prop_assert_eq!(counts.collect::<Vec<_>>(), recorded.collect::<Vec<_>>());
        }

        #[test]
        fn a_sum_is_the_histogram_of_all_values_in_any_order(one in lengths(), other in lengths()) {
            let mut sum = of(&one);
            sum.add(&of(&other));
            let all: Vec<u64> = other.into_iter().chain(one).collect();
            prop_assert_eq!(&sum, &of(&all));
            let mut again = Histogram::default();
            sum.counts().for_each(|(d, n)| again.record_many(d, n));
            prop_assert_eq!(again, sum);
        }
    }
}
