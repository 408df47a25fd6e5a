//! The counters of a device at the end of each interval, as columns of the series.

use crate::rows::{DEVICE_SUMS, MAX_BACKLOG, exact};
use crate::series::{EntitySeries, SeriesColumn};

/// Samples the counters of a device. Its series begins with interval 0.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DeviceSampler {
    /// The counters at the last sample.
    last: [u64; DEVICE_SUMS.len()],
    /// The sums of each interval.
    sums: [Vec<f64>; DEVICE_SUMS.len()],
    /// The backlog at the last sample.
    backlog: u64,
    /// The largest backlog of each interval.
    peaks: Vec<u64>,
}

impl DeviceSampler {
    /// Ends an interval. The counters since the start of the run: bytes that left, dropped packets, marked packets. `backlog` in bytes is that
    /// at the end of the interval, which is the first one of the next interval.
    pub fn sample(&mut self, counters: [u64; 3], backlog: u64) {
        for ((column, now), last) in self.sums.iter_mut().zip(counters).zip(self.last) {
            column.push(exact(now - last));
        }
        self.peaks.push(self.backlog);
        (self.last, self.backlog) = (counters, backlog);
    }

    /// A backlog in bytes was seen within an interval. Intervals that did not end are ignored.
    pub fn seen(&mut self, interval: usize, backlog: u64) {
        if let Some(peak) = self.peaks.get_mut(interval) {
            *peak = backlog.max(*peak);
        }
    }

    /// The number of intervals that ended.
    pub fn len(&self) -> usize {
        self.peaks.len()
    }

    /// Whether no interval ended.
    pub fn is_empty(&self) -> bool {
        self.peaks.is_empty()
    }

    /// The columns, under the name of the device.
    pub fn into_series(self, device: &str) -> EntitySeries {
        let peaks = self.peaks.into_iter().map(exact).collect();
        let columns = DEVICE_SUMS.into_iter().zip(self.sums).chain([(MAX_BACKLOG, peaks)]);
        EntitySeries {
            entity: device.to_owned(),
            first: 0,
            columns: columns.map(|(name, values)| SeriesColumn { name: name.to_owned(), values }).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_differences_of_counters_and_the_largest_backlog_of_its_interval() {
        let mut sampler = DeviceSampler::default();
        sampler.sample([3000, 1, 0], 4500);
        sampler.sample([9000, 1, 2], 1500);
        sampler.sample([9000, 1, 2], 0);
        sampler.seen(0, 6000);
        sampler.seen(1, 3000);
        sampler.seen(3, 9000);
        assert_eq!((sampler.len(), sampler.is_empty()), (3, false));
        let series = sampler.into_series("queue");
        assert_eq!((series.entity.as_str(), series.first), ("queue", 0));
        assert_eq!(series.column("out_bytes"), Some(&[3000.0, 6000.0, 0.0][..]));
        assert_eq!(series.column("drops"), Some(&[1.0, 0.0, 0.0][..]));
        assert_eq!(series.column("marks"), Some(&[0.0, 2.0, 0.0][..]));
        assert_eq!(series.column("max_backlog_bytes"), Some(&[6000.0, 4500.0, 1500.0][..]));
    }
}
