//! Distributions of durations with three significant digits.

use hdrhistogram::Histogram as Hdr;
use tcpassay_units::Dur;

/// A distribution of durations. Each value, the mean and the maximum have a relative error of at most 0.1 %.
#[derive(Clone, PartialEq, Debug)]
pub struct Histogram(Hdr<u64>);

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram(Hdr::new(3).expect("3 digits are between 0 and 5"))
    }
}

impl Histogram {
    /// Adds `d`.
    pub fn record(&mut self, d: Dur) {
        // The histogram grows as needed; recording could fail only beyond u64.
        self.0.record(d.as_nanos()).expect("a resizable histogram takes any value");
    }

    /// Adds `d` `n` times.
    pub fn record_many(&mut self, d: Dur, n: u64) {
        self.0.record_n(d.as_nanos(), n).expect("a resizable histogram takes any value");
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The smallest value that a share `q` (0 to 1) of the values does not exceed; `None` when empty.
    pub fn quantile(&self, q: f64) -> Option<Dur> {
        (self.count() > 0).then(|| Dur::from_nanos(self.0.value_at_quantile(q)))
    }

    /// The largest value, rounded up to the precision of the histogram; `None` when empty.
    pub fn max(&self) -> Option<Dur> {
        (self.count() > 0).then(|| Dur::from_nanos(self.0.max()))
    }

    /// The smallest value, rounded down to the precision of the histogram; `None` when empty.
    pub fn min(&self) -> Option<Dur> {
        (self.count() > 0).then(|| Dur::from_nanos(self.0.min()))
    }

    /// Mean in nanoseconds; `None` when empty.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.0.mean())
    }

    /// Adds the values of `other`.
    pub fn add(&mut self, other: &Histogram) {
        self.0.add(&other.0).expect("a resizable histogram takes any other");
    }

    /// The values in ascending order with their counts.
    pub fn counts(&self) -> impl Iterator<Item = (Dur, u64)> + '_ {
        // The iteration starts at the smallest value, because the iterator of the library visits all empty buckets
        // below it. A bucket is as wide as the previous one unless a power of two lies between them.
        let (first, last) = (self.0.lowest_equivalent(self.0.min()), self.0.max());
        let bucket = |low| (low, self.0.equivalent_range(low));
        std::iter::successors((self.count() > 0).then(|| bucket(first)), move |(low, width)| {
            let next = low.checked_add(*width)?;
            Some(if next.is_power_of_two() { bucket(next) } else { (next, *width) })
        })
        .take_while(move |(low, _)| *low <= last)
        .map(|(low, width)| (Dur::from_nanos(low + (width - 1)), self.0.count_at(low)))
        .filter(|(_, count)| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_histogram_has_no_quantile_no_mean_and_no_maximum() {
        let empty = Histogram::default();
        assert_eq!((empty.quantile(0.5), empty.max(), empty.mean_ns()), (None, None, None));
    }

    #[test]
    fn counts_are_those_that_the_library_iterates_over() {
        let mut h = Histogram::default();
        for ns in [0, 1, 1, 2047, 2048, 5_000_000, 5_001_000, 5_001_000, 1 << 62] {
            h.record(Dur::from_nanos(ns));
            let theirs =
                h.0.iter_recorded().map(|v| (Dur::from_nanos(v.value_iterated_to()), v.count_at_value()));
            assert_eq!(h.counts().collect::<Vec<_>>(), theirs.collect::<Vec<_>>());
        }
        assert_eq!(h.counts().map(|(_, n)| n).sum::<u64>(), 9);
        assert_eq!(Histogram::default().counts().count(), 0);
    }

    #[test]
    fn quantiles_are_those_of_the_values_to_a_thousandth() {
        let mut h = Histogram::default();
        for n in 1..=1000 {
            h.record(Dur::from_micros(n));
        }
        let near =
            |got: Option<Dur>, us: f64| (got.expect("values").as_secs_f64() * 1e6 / us - 1.0).abs() < 1e-3;
        assert!(near(h.quantile(0.5), 500.0));
        assert!(near(h.quantile(0.99), 990.0));
        assert!(near(h.quantile(0.999), 999.0));
        assert!(near(h.max(), 1000.0));
        assert!((h.mean_ns().expect("values") / 500_500.0 - 1.0).abs() < 1e-3);
    }
}
