//! Statistics of a queue: a series of its length and a histogram of waiting times. They create no event and do not
//! influence the run.

use tcpassay_units::{Dur, Time};

/// One interval of the series of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueSample {
    /// Time of the begin of the interval.
    pub start: Time,
    /// The longest queue that an arriving packet found, that packet included, in bytes. Intervals without an arrival
    /// have no sample, and the backlog at the start of the interval is not included.
    pub max_bytes: u64,
    /// The longest queue in packets.
    pub max_packets: u32,
}

/// The series of a queue's length and the histogram of its waiting times.
#[derive(Clone, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct QueueStats {
    /// The current sample, which ends before `edge`; `None` before the first packet.
    now: QueueSample,
    edge: Time,
    /// Number of packets that did not wait.
    unhindered: u64,
    interval: Dur,
    /// Waiting times of packets that leave earlier are not recorded (warm-up).
    warm_at: Time,
    /// The finished samples.
    samples: Vec<QueueSample>,
    sojourn: LogLinearHistogram,
}

impl QueueStats {
    /// Creates statistics with one sample per `interval`. Waiting times are recorded for packets that leave at or
    /// after `warm_at`. Panics when the interval is zero.
    pub fn new(interval: Dur, warm_at: Time) -> QueueStats {
        assert!(!interval.is_zero(), "a series needs an interval");
        QueueStats {
            now: QueueSample { start: Time::ZERO, max_bytes: 0, max_packets: 0 },
            edge: Time::ZERO,
            unhindered: 0,
            interval,
            warm_at,
            samples: Vec::new(),
            sojourn: LogLinearHistogram::default(),
        }
    }

    /// The intervals in which at least one packet arrived, in order of time.
    pub fn samples(&self) -> impl Iterator<Item = QueueSample> {
        let now = (self.edge > Time::ZERO).then_some(self.now);
        self.samples.iter().copied().chain(now)
    }

    /// Distribution of the time that packets waited before their transmission began.
    pub fn sojourn(&self) -> LogLinearHistogram {
        let mut all = self.sojourn.clone();
        all.record_many(Dur::ZERO, self.unhindered);
        all
    }

    #[inline]
    pub(crate) fn queued(&mut self, now: Time, bytes: u64, packets: u32) {
        if now >= self.edge {
            self.begin(now);
        }
        self.now.max_bytes = self.now.max_bytes.max(bytes);
        self.now.max_packets = self.now.max_packets.max(packets);
    }

    #[cold]
    fn begin(&mut self, now: Time) {
        if self.edge > Time::ZERO {
            self.samples.push(self.now);
        }
        let width = self.interval.as_nanos();
        let start = Time::from_nanos(now.as_nanos() / width * width);
        self.edge = start + self.interval;
        self.now = QueueSample { start, max_bytes: 0, max_packets: 0 };
    }

    #[inline]
    pub(crate) fn waited(&mut self, until: Time, d: Dur) {
        if until < self.warm_at {
            return;
        }
        if d.is_zero() {
            self.unhindered += 1;
        } else {
            self.sojourn.record(d);
        }
    }
}

/// A histogram of durations with 1024 buckets per power of two. Its relative error is below 0.1 percent for any
/// duration; its buckets are those of the distributions in recordings.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogLinearHistogram {
    buckets: Vec<u64>,
    max: Dur,
}

impl LogLinearHistogram {
    /// Bits of the number of buckets per power of two.
    const BITS: u32 = 10;
    const BUCKETS: usize = 1 << LogLinearHistogram::BITS;

    /// Counts one value.
    #[inline]
    pub fn record(&mut self, d: Dur) {
        self.record_many(d, 1);
    }

    /// Counts a value `n` times.
    #[inline]
    pub fn record_many(&mut self, d: Dur, n: u64) {
        if n == 0 {
            return;
        }
        let at = LogLinearHistogram::bucket(d.as_nanos());
        self.max = self.max.max(d);
        match self.buckets.get_mut(at) {
            Some(bucket) => *bucket += n,
            None => self.extend(at, n),
        }
    }

    #[cold]
    fn extend(&mut self, at: usize, n: u64) {
        // All of a power of two: a queue that grows would extend it again with each packet.
        self.buckets.resize((at / LogLinearHistogram::BUCKETS + 1) * LogLinearHistogram::BUCKETS, 0);
        self.buckets[at] = n;
    }

    /// The values in ascending order with their counts. Each value is the upper end of its bucket, limited to the
    /// largest recorded value.
    pub fn counts(&self) -> impl Iterator<Item = (Dur, u64)> + '_ {
        let filled = self.buckets.iter().enumerate().filter(|(_, n)| **n > 0);
        filled.map(|(at, n)| (Dur::from_nanos(LogLinearHistogram::upper(at)).min(self.max), *n))
    }

    /// Number of recorded values.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The largest value, exact.
    pub fn max(&self) -> Dur {
        self.max
    }

    /// The smallest value that at least a share `q` (0 to 1) of the values does not exceed. The result is the upper
    /// end of the bucket, limited to the largest recorded value; it is zero when the histogram is empty.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank among fewer than 2^53 values"
    )]
    pub fn quantile(&self, q: f64) -> Dur {
        let rank = ((q.clamp(0.0, 1.0) * self.count() as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (at, n) in self.buckets.iter().enumerate() {
            seen += n;
            if seen >= rank {
                return Dur::from_nanos(LogLinearHistogram::upper(at)).min(self.max);
            }
        }
        Dur::ZERO
    }

    /// Values below 1024 have their own buckets. Larger values are assigned by their eleven most significant bits.
    fn bucket(ns: u64) -> usize {
        let least = 1 << LogLinearHistogram::BITS;
        let shift = u64::BITS - 1 - LogLinearHistogram::BITS - (ns | least).leading_zeros();
        let top = usize::try_from(ns >> shift).expect("eleven bits");
        shift as usize * LogLinearHistogram::BUCKETS + top
    }

    fn upper(bucket: usize) -> u64 {
        if bucket < LogLinearHistogram::BUCKETS {
            return bucket as u64;
        }
        let shift = bucket / LogLinearHistogram::BUCKETS - 1;
        let top = (bucket - shift * LogLinearHistogram::BUCKETS) as u64;
        ((top << shift) - 1).wrapping_add(1 << shift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantiles_of_1_to_1000_microseconds_are_known_to_a_thousandth() {
        let mut h = LogLinearHistogram::default();
        for us in 1..=1000 {
            h.record(Dur::from_micros(us));
        }
        // 500,000 ns are in the bucket of 256 ns that ends before 500,224; 990,000 in that of 512 ns before 990,208.
        assert_eq!(h.quantile(0.5), Dur::from_nanos(500_223));
        assert_eq!(h.quantile(0.99), Dur::from_nanos(990_207));
        assert_eq!(h.quantile(1.0), Dur::from_micros(1000));
        assert_eq!((h.max(), h.count()), (Dur::from_micros(1000), 1000));
    }

    #[test]
    fn a_series_keeps_the_longest_queue_of_each_interval() {
        let mut s = QueueStats::new(Dur::from_nanos(100), Time::ZERO);
        for (at, bytes) in [(5, 10), (99, 30), (50, 20), (250, 5)] {
            s.queued(Time::from_nanos(at), bytes, 1);
        }
        let got: Vec<(u64, u64)> = s.samples().map(|s| (s.start.as_nanos(), s.max_bytes)).collect();
        assert_eq!(got, [(0, 30), (200, 5)]);
    }

    proptest! {
        #[test]
        fn a_bucket_holds_its_values_and_is_at_most_a_thousandth_wide(ns: u64) {
            let upper = LogLinearHistogram::upper(LogLinearHistogram::bucket(ns));
            prop_assert!(upper >= ns);
            prop_assert!(upper - ns <= ns / 1024);
        }
    }
}
