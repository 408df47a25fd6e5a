//! Random delays with the distributions of netem.
//!
//! The distributions are computed with the formulas by which the tables of netem were generated (iproute2
//! `netem/*.c`), with the same limit of four standard deviations. One difference: `paretonormal` mixes the
//! two quantiles, a quarter normal and three quarters Pareto, where the table mixes densities.

use super::correlated::CorrelatedUniform;
use tcpassay_units::{Dur, Stream};

/// The distribution of the jitter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Distribution {
    /// Uniform between `delay - jitter` and `delay + jitter`.
    #[default]
    Uniform,
    /// Normal with standard deviation `jitter`.
    Normal,
    /// Pareto of shape 3, shifted to a mean of zero: the smallest value is two thirds of `jitter` below the
    /// mean; a long tail above.
    Pareto,
    /// A quarter normal, three quarters Pareto.
    ParetoNormal,
}

/// A generator of the delays of consecutive packets.
#[derive(Clone, Debug)]
pub struct Delays {
    delay: Dur,
    jitter: Dur,
    distribution: Distribution,
    rng: CorrelatedUniform,
}

impl Delays {
    /// Creates a generator of delays around `delay` with variation `jitter`. `correlation` (0 to 1) is that
    /// of consecutive delays. Panics if it is out of range.
    pub fn new(
        delay: Dur,
        jitter: Dur,
        correlation: f64,
        distribution: Distribution,
        stream: Stream,
    ) -> Delays {
        Delays { delay, jitter, distribution, rng: CorrelatedUniform::new(stream, correlation) }
    }

    /// The delay of the next packet. Uses no random number without jitter.
    pub fn draw(&mut self) -> Dur {
        if self.jitter.is_zero() {
            return self.delay;
        }
        let deviation = quantile(self.distribution, self.rng.draw());
        Dur::from_secs_f64(self.delay.as_secs_f64() + self.jitter.as_secs_f64() * deviation)
    }
}

/// The `u`-quantile of the deviation from the mean, in units of the jitter.
fn quantile(distribution: Distribution, u: f64) -> f64 {
    match distribution {
        Distribution::Uniform => 2.0 * u - 1.0,
        Distribution::Normal => normal(u),
        Distribution::Pareto => pareto(u),
        Distribution::ParetoNormal => 0.25 * normal(u) + 0.75 * pareto(u),
    }
}

/// (1 - u) to the power -1/3 has mean 3/2 and standard deviation about 0.87; netem's table scales it by 4/3.
fn pareto(u: f64) -> f64 {
    let x = libm::pow(1.0 - u, -1.0 / 3.0);
    ((x - 1.5) * 4.0 / 3.0).min(4.0)
}

/// The normal quantile by the rational approximation of Abramowitz and Stegun 26.2.23 (error below 4.5e-4,
/// less than a step of netem's table), limited to four standard deviations.
fn normal(u: f64) -> f64 {
    let tail = u.min(1.0 - u).max(1e-9);
    let t = libm::sqrt(-2.0 * libm::log(tail));
    let top = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let bottom = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    let z = (t - top / bottom).min(4.0);
    if u < 0.5 { -z } else { z }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_normal_quantile_has_the_values_of_tables() {
        for (u, z) in [(0.5, 0.0), (0.841_344_7, 1.0), (0.022_750_1, -2.0), (0.998_650_1, 3.0), (0.0, -4.0)] {
            assert!((normal(u) - z).abs() < 1e-3, "{u} {}", normal(u));
        }
    }
}
