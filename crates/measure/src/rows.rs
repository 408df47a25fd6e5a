//! Values per interval: stored as one row per interval during the run and converted to columns at the end.
//!
//! With a hundred flows, the memory for the current interval is not in the cache when the interval ends. A row of a
//! flow occupies at most one cache line; eleven columns would occupy eleven.

use crate::series::{EntitySeries, SeriesColumn};
use tcpassay_units::{Dur, Time};

pub(crate) const FLOW_SUMS: [&str; 4] = ["wire_bytes", "payload_bytes", "read_bytes", "ce_packets"];
/// The columns of [`FLOW_SUMS`] that count packets.
pub(crate) const OF_PACKETS: [&str; 3] = ["wire_bytes", "payload_bytes", "ce_packets"];
pub(crate) const GAUGES: [&str; 7] =
    ["cwnd_bytes", "ssthresh_bytes", "flight_bytes", "srtt_ns", "rto_ns", "alpha", "pacing_bps"];
/// The columns of a device that are summed in each interval.
pub(crate) const DEVICE_SUMS: [&str; 3] = ["out_bytes", "drops", "marks"];
/// The largest backlog of a device within each interval.
pub(crate) const MAX_BACKLOG: &str = "max_backlog_bytes";

/// The bytes that a device whose rate varies could have sent in each interval; also its counter for the whole run.
pub const CAPACITY: &str = "capacity_bytes";

/// The metrics that `series.parquet` may have: those of flows, then those of devices. A metric without any
/// value has no column.
pub fn series_columns() -> Vec<&'static str> {
    [&FLOW_SUMS[..], &GAUGES, &DEVICE_SUMS, &[MAX_BACKLOG, CAPACITY]].concat()
}

/// Values summed within each interval. Times must be in ascending order.
#[derive(Clone, Debug)]
pub(crate) struct IntervalSums<const N: usize> {
    interval: u64,
    /// End of the current interval; `u64::MAX` when no series are collected, so that the data path needs one
    /// comparison.
    edge: u64,
    first: Option<u64>,
    now: [u64; N],
    rows: Vec<[u64; N]>,
}

impl<const N: usize> IntervalSums<N> {
    pub fn new(interval: Option<Dur>) -> IntervalSums<N> {
        IntervalSums {
            interval: interval.map_or(0, Dur::as_nanos),
            edge: if interval.is_some() { 0 } else { u64::MAX },
            first: None,
            now: [0; N],
            rows: Vec::new(),
        }
    }

    #[inline]
    pub fn at(&mut self, at: Time) -> &mut [u64; N] {
        if at.as_nanos() >= self.edge {
            self.roll(at.as_nanos());
        }
        &mut self.now
    }

    /// Ends the current interval and the empty ones up to `at`.
    fn roll(&mut self, at: u64) {
        if self.first.is_none() {
            let first = at / self.interval;
            self.first = Some(first);
            self.edge = (first + 1) * self.interval;
            return;
        }
        self.rows.push(std::mem::replace(&mut self.now, [0; N]));
        self.edge += self.interval;
        while at >= self.edge {
            self.rows.push([0; N]);
            self.edge += self.interval;
        }
    }

    /// The first interval and the columns, up to the interval before `end`, or the current one when it is not empty.
    fn finish(mut self, end: Time) -> Option<(u64, [Vec<f64>; N])> {
        let first = self.first?;
        let end = end.as_nanos().max(self.edge - self.interval);
        if end >= self.edge {
            self.roll(end);
        }
        if end > self.edge - self.interval || self.now.iter().any(|n| *n > 0) {
            self.rows.push(self.now);
        }
        let column = |place| self.rows.iter().map(|row: &[u64; N]| exact(row[place])).collect();
        Some((first, std::array::from_fn(column)))
    }
}

/// Values sampled at the end of each interval.
#[derive(Clone, Debug, Default)]
pub(crate) struct IntervalGauges {
    /// The interval, and the values in the order of [`GAUGES`]; NaN is absent.
    rows: Vec<(u64, [f64; 7])>,
}

impl IntervalGauges {
    #[inline]
    pub fn put(&mut self, interval: u64, fields: [f64; 7]) {
        self.rows.push((interval, fields));
    }

    /// The columns that have values in the `len` intervals from `first` on.
    fn columns(&self, first: u64, len: usize) -> impl Iterator<Item = SeriesColumn> {
        let mut columns: [Vec<f64>; 7] = std::array::from_fn(|_| vec![f64::NAN; len]);
        let mut any = [false; 7];
        for (interval, fields) in &self.rows {
            let Some(place) = place(*interval, first, len) else { continue };
            for ((column, any), value) in columns.iter_mut().zip(&mut any).zip(fields) {
                if !value.is_nan() {
                    column[place] = *value;
                    *any = true;
                }
            }
        }
        let named = GAUGES.into_iter().zip(columns).zip(any).filter(|(_, any)| *any);
        named.map(|((name, values), _)| SeriesColumn { name: name.to_owned(), values })
    }
}

/// Index of `interval` in the `len` intervals from `first` on.
fn place(interval: u64, first: u64, len: usize) -> Option<usize> {
    let place = usize::try_from(interval.checked_sub(first)?).ok()?;
    (place < len).then_some(place)
}

/// The series of a flow; `None` if the flow carried no data and was not sampled.
pub(crate) fn flow_series(
    name: &str,
    sums: IntervalSums<4>,
    gauges: &IntervalGauges,
    end: Time,
) -> Option<EntitySeries> {
    let (first, sums) = sums.finish(end)?;
    let len = sums[0].len();
    let mut columns = sum_columns(FLOW_SUMS, sums);
    columns.extend(gauges.columns(first, len));
    Some(EntitySeries { entity: name.to_owned(), first, columns })
}

fn sum_columns<const N: usize>(names: [&str; N], sums: [Vec<f64>; N]) -> Vec<SeriesColumn> {
    let columns = names.into_iter().zip(sums);
    columns.map(|(name, values)| SeriesColumn { name: name.to_owned(), values }).collect()
}

#[expect(clippy::cast_precision_loss, reason = "bytes of an interval stay below 2^53")]
pub(crate) fn exact(n: u64) -> f64 {
    n as f64
}
