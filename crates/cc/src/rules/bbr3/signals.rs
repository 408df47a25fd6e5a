//! The measurements of one or several round trips.

/// A rate sample.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Sample {
    /// Delivery rate in bytes per second.
    pub rate: f64,
    /// Bytes delivered since the packet of the sample was sent.
    pub delivered: u64,
    /// Bytes delivered before it was sent.
    pub prior: u64,
    /// Bytes lost since it was sent.
    pub lost: u64,
    /// Bytes in flight when it was sent, with it.
    pub flight: u64,
    /// True if the application limited the rate.
    pub app_limited: bool,
    /// Bytes newly reported as marked.
    pub marked: u64,
}

/// A number of bytes as a real number.
#[expect(clippy::cast_precision_loss, reason = "exact below 2^53")]
pub(super) fn real(bytes: u64) -> f64 {
    bytes as f64
}

/// A number of bytes times a factor, rounded down.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "float casts saturate, and neither factor is negative"
)]
pub(super) fn share(bytes: f64, factor: f64) -> u64 {
    (bytes * factor) as u64
}

/// The largest delivery rate of two cycles of `ProbeBW` (`MaxBwFilterLen`).
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct MaxBandwidth {
    before: f64,
    now: f64,
}

impl MaxBandwidth {
    pub fn get(&self) -> f64 {
        self.before.max(self.now)
    }

    pub fn update(&mut self, rate: f64) {
        self.now = self.now.max(rate);
    }

    /// Ends a cycle. A cycle without a sample does not count.
    pub fn advance(&mut self) {
        if self.now > 0.0 {
            self.before = self.now;
            self.now = 0.0;
        }
    }
}

/// The largest delivery rate and the largest delivered volume of the current round trip.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Latest {
    pub bandwidth: f64,
    pub inflight: u64,
}

impl Latest {
    pub fn of(sample: &Sample) -> Latest {
        Latest { bandwidth: sample.rate, inflight: sample.delivered }
    }

    pub fn update(&mut self, sample: &Sample) {
        self.bandwidth = self.bandwidth.max(sample.rate);
        self.inflight = self.inflight.max(sample.delivered);
    }
}

/// Whether the delivery rate still grows by a quarter in a round trip (`CheckFullBWReached`).
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Growth {
    rate: f64,
    rounds: u32,
}

impl Growth {
    /// Begins a new measurement with `rate`.
    pub fn from(rate: f64) -> Growth {
        Growth { rate, rounds: 0 }
    }

    /// Three round trips without that growth have passed.
    pub fn is_over(&self) -> bool {
        self.rounds >= 3
    }

    /// Processes the end of a round trip with a sample. Returns [`Growth::is_over`].
    pub fn on_round(&mut self, rate: f64) -> bool {
        if !self.is_over() {
            if rate >= self.rate * 1.25 {
                *self = Growth::from(rate);
            } else {
                self.rounds += 1;
            }
        }
        self.is_over()
    }
}

/// The largest value of the last round trips.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct RoundMax {
    /// Halves of the window: the round in which each began, and the largest value in it.
    halves: [(u64, u64); 2],
}

impl RoundMax {
    pub fn get(&self) -> u64 {
        self.halves[0].1.max(self.halves[1].1)
    }

    /// A value of round trip `round`, for a window of `rounds`: the older half is forgotten when the newer one is half a window old.
    pub fn update(&mut self, round: u64, rounds: u64, value: u64) {
        let length = (rounds / 2).max(1);
        if round >= self.halves[1].0 + length {
            self.halves = [self.halves[1], (round, 0)];
            if round >= self.halves[0].0 + 2 * length.max(rounds - length) {
                self.halves[0] = (round, 0);
            }
        }
        self.halves[1].1 = self.halves[1].1.max(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_rate_of_two_cycles_counts() {
        let mut max = MaxBandwidth::default();
        max.update(10.0);
        max.advance();
        max.update(8.0);
        assert_eq!(max.get().to_bits(), 10.0f64.to_bits());
        max.advance();
        assert_eq!(max.get().to_bits(), 8.0f64.to_bits());
        max.advance();
        assert_eq!(max.get().to_bits(), 8.0f64.to_bits(), "a cycle without a sample");
    }

    #[test]
    fn three_round_trips_without_a_quarter_more_are_the_end_of_growth() {
        let mut growth = Growth::default();
        let over: Vec<bool> =
            [10.0, 12.4, 12.5, 13.0, 14.0, 15.0, 99.0].map(|rate| growth.on_round(rate)).into();
        assert_eq!(over, [false, false, false, false, false, true, true]);
    }
}
