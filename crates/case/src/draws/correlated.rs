//! Random numbers with memory, as netem draws them.

use tcpassay_units::Stream;

/// netem's correlated uniform numbers (`get_crandom` of `net/sched/sch_netem.c`): each is the new draw and the one before
/// it, weighed by the correlation.
///
/// As there, a correlation narrows the distribution (the sum of two uniform numbers is not uniform), so that a loss of
/// 1 % with 25 % correlation loses less than 1 %; this is the behaviour of netem.
#[derive(Clone, Debug)]
pub struct CorrelatedUniform {
    stream: Stream,
    correlation: f64,
    last: f64,
}

impl CorrelatedUniform {
    /// Numbers with a correlation from 0 to 1. Panics outside of this range.
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

    /// True with probability `p` (without correlation). Draws nothing when `p` is 0.
    pub fn chance(&mut self, p: f64) -> bool {
        p > 0.0 && self.draw() < p
    }
}
