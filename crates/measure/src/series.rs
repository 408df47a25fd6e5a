//! Time series with a fixed interval.

use tcpassay_units::{Dur, Time};

/// Time series of several entities over the same intervals. Value `i` of an entity covers `[interval * (first + i),
/// interval * (first + i + 1))`.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// Length of each interval.
    pub interval: Dur,
    /// The flows in order, then the devices.
    pub entities: Vec<EntitySeries>,
}

/// The series of one entity.
#[derive(Clone, Debug)]
pub struct EntitySeries {
    /// `flow.3`, `queue.bottleneck`.
    pub entity: String,
    /// Index of the interval of the first value; an entity that begins late has no values before it.
    pub first: u64,
    /// Columns with different names and the same length.
    pub columns: Vec<SeriesColumn>,
}

/// One metric of one entity.
#[derive(Clone, Debug)]
pub struct SeriesColumn {
    /// Name with its unit: `wire_bytes`, `cwnd_bytes`, `srtt_ns`.
    pub name: String,
    /// One value per interval; NaN where nothing was measured.
    pub values: Vec<f64>,
}

impl Series {
    /// The series of `entity`.
    pub fn entity(&self, entity: &str) -> Option<&EntitySeries> {
        self.entities.iter().find(|e| e.entity == entity)
    }
}

impl EntitySeries {
    /// The values of `name`.
    pub fn column(&self, name: &str) -> Option<&[f64]> {
        self.columns.iter().find(|c| c.name == name).map(|c| &c.values[..])
    }

    /// Number of intervals.
    pub fn len(&self) -> usize {
        self.columns.first().map_or(0, |c| c.values.len())
    }

    /// Whether there is no interval.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Start of interval `i` of this entity.
    pub fn time(&self, interval: Dur, i: usize) -> Time {
        Time::ZERO + interval * (self.first + i as u64)
    }
}

/// Two columns are equal when the same values are absent and the other values are equal.
impl PartialEq for SeriesColumn {
    fn eq(&self, other: &SeriesColumn) -> bool {
        self.name == other.name
            && self.values.len() == other.values.len()
            && self
                .values
                .iter()
                .zip(&other.values)
                .all(|(a, b)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()))
    }
}

/// Two series are equal when their first intervals and columns are equal.
impl PartialEq for EntitySeries {
    fn eq(&self, other: &EntitySeries) -> bool {
        self.entity == other.entity && self.first == other.first && self.columns == other.columns
    }
}
