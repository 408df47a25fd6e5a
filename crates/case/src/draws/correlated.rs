//! Correlated random numbers, computed as by netem.

use tcpassay_units::Stream;

/// Correlated uniform random numbers of netem (`get_crandom` in `net/sched/sch_netem.c`): each is the mean
/// of a new random number and the previous result, weighted by the correlation.
///
/// As in netem, a correlation narrows the distribution, because the sum of two uniform numbers is not
/// uniform. A loss of 1 % with a correlation of 25 % therefore loses less than 1 %.
#[derive(Clone, Debug)]
pub struct CorrelatedUniform {
    stream: Stream,
    correlation: f64,
    last: f64,
}

impl CorrelatedUniform {
    /// Creates a generator. Panics if `correlation` is not from 0 to 1.
    pub fn new(stream: Stream, correlation: f64) -> CorrelatedUniform {
        assert!((0.0..=1.0).contains(&correlation), "a correlation of {correlation}");
        CorrelatedUniform { stream, correlation, last: 0.0 }
    }

    /// The next number in `[0, 1)`.
    pub fn draw(&mut self) -> f64 {
        let new = self.stream.unit();
        if self.correlation > 0.0 {
            self.last = new * (1.0 - self.correlation) + self.last * self.correlation;
            self.last
        } else {
            new
        }
    }

    /// True with probability `p` (exactly `p` only without correlation). Uses no random number if `p` is 0.
    pub fn chance(&mut self, p: f64) -> bool {
        p > 0.0 && self.draw() < p
    }
}
