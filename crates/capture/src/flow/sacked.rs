//! The data above the cumulative ACK that the receiver has reported by SACK (RFC 2018).

/// Ranges that are remembered.
const MOST: usize = 64;

/// Ranges of positions in order, without overlap; touching ranges are one. A receiver repeats only the latest blocks, so that ranges stay
/// until the cumulative ACK passes them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sacked(Vec<(u64, u64)>);

impl Sacked {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The receiver has the positions from `start` to `end`. The highest range is forgotten when there are too many.
    pub fn add(&mut self, start: u64, end: u64) {
        let from = self.0.partition_point(|range| range.1 < start);
        let to = self.0.partition_point(|range| range.0 <= end);
        let touched = &self.0[from..to];
        let start = touched.first().map_or(start, |range| range.0.min(start));
        let end = touched.last().map_or(end, |range| range.1.max(end));
        self.0.splice(from..to, [(start, end)]);
        self.0.truncate(MOST);
    }

    /// Whether the receiver has all positions from `start` to `end`.
    pub fn covers(&self, start: u64, end: u64) -> bool {
        self.0.iter().any(|range| range.0 <= start && end <= range.1)
    }

    /// The lowest position, and the number of all.
    pub fn lowest(&self) -> Option<(u64, u64)> {
        let first = self.0.first()?;
        Some((first.0, self.0.iter().map(|range| range.1 - range.0).sum()))
    }

    /// The cumulative ACK passes: what is below is forgotten.
    pub fn acknowledge(&mut self, ack: u64) {
        self.0.retain_mut(|range| {
            range.0 = range.0.max(ack);
            range.0 < range.1
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touching_and_overlapping_ranges_are_one() {
        let mut sacked = Sacked::default();
        for (start, end) in [(40, 50), (10, 20), (20, 30), (15, 25)] {
            sacked.add(start, end);
        }
        assert_eq!(sacked.0, [(10, 30), (40, 50)]);
        assert!(sacked.covers(12, 30) && !sacked.covers(29, 41));
        sacked.add(30, 40);
        assert_eq!(sacked.lowest(), Some((10, 40)));
        sacked.acknowledge(45);
        assert_eq!(sacked.0, [(45, 50)]);
        sacked.acknowledge(50);
        assert!(sacked.is_empty());
    }

    #[test]
    fn as_many_ranges_are_remembered_as_there_is_space_for() {
        let mut sacked = Sacked::default();
        (0..1000).rev().for_each(|n| sacked.add(10 * n, 10 * n + 5));
        assert_eq!((sacked.0.len(), sacked.0[0], sacked.0[63]), (64, (0, 5), (630, 635)));
    }
}
