//! A variable delay as in netem: `delay DELAY JITTER CORRELATION distribution D`.
//!
//! Each packet draws its own delay ([`Delays`]). As in netem, a packet with a shorter delay overtakes others unless
//! the order is kept.

use crate::engine::{Core, ElementContext, PacketId};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use tcpassay_case::draws::{Delays, Distribution};
use tcpassay_units::{Dur, Seed, Time};

/// A variable delay.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct JitterSpec {
    /// The mean of the uniform and normal distributions.
    pub delay: Dur,
    /// The scale of the variation.
    pub jitter: Dur,
    /// Correlation of a packet's delay with that of the previous packet, 0 to 1.
    pub correlation: f64,
    /// The distribution of the variation.
    pub distribution: Distribution,
    /// Packets keep their order: a packet with a shorter delay waits for the previous one.
    pub keep_order: bool,
}

impl JitterSpec {
    pub(super) fn make(self, name: &str, seed: Seed) -> Jitter {
        Jitter {
            draws: Delays::new(
                self.delay,
                self.jitter,
                self.correlation,
                self.distribution,
                seed.stream(&format!("{name}.jitter")),
            ),
            keep_order: self.keep_order,
            flight: BinaryHeap::new(),
            taken: 0,
            last_due: Time::ZERO,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Jitter {
    draws: Delays,
    keep_order: bool,
    /// Ordered by departure time, then by arrival.
    flight: BinaryHeap<Reverse<(Time, u64, PacketId)>>,
    taken: u64,
    last_due: Time,
}

impl Jitter {
    pub fn receive(&mut self, ctx: &mut ElementContext, core: &mut Core, id: PacketId) {
        let mut due = core.now + self.draws.draw();
        if self.keep_order {
            due = due.max(self.last_due);
            self.last_due = due;
        }
        self.taken += 1;
        self.flight.push(Reverse((due, self.taken, id)));
        self.arm(ctx, core);
    }

    pub fn wake(&mut self, ctx: &mut ElementContext, core: &mut Core) {
        while let Some(&Reverse((due, _, id))) = self.flight.peek()
            && due <= core.now
        {
            self.flight.pop();
            ctx.forward(core, id);
        }
        self.arm(ctx, core);
    }

    pub fn held(&self) -> u64 {
        self.flight.len() as u64
    }

    fn arm(&self, ctx: &ElementContext, core: &mut Core) {
        ctx.wake_at(core, self.flight.peek().map(|p| p.0.0));
    }
}

#[cfg(test)]
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
mod tests {
    use super::*;
    use crate::element::test_net::{TestPath, numbered};

    fn delays(spec: JitterSpec) -> Vec<f64> {
        let mut line = TestPath::new(spec);
        let gap = 1_000_000_000;
        for seq in 0..20_000_u32 {
            line.run_until(u64::from(seq) * gap);
            line.send(numbered(seq, 1));
        }
        line.finish();
        line.times().iter().zip(0u64..).map(|(at, n)| (at - n * gap) as f64 / 1e6).collect()
    }

    fn moments(x: &[f64]) -> (f64, f64) {
        let n = x.len() as f64;
        let mean = x.iter().sum::<f64>() / n;
        (mean, (x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt())
    }

    fn spec(distribution: Distribution) -> JitterSpec {
        JitterSpec {
            delay: Dur::from_millis(100),
            jitter: Dur::from_millis(10),
            correlation: 0.0,
            distribution,
            keep_order: false,
        }
    }

    fn extremes(x: &[f64]) -> (f64, f64) {
        x.iter().fold((f64::MAX, 0.0), |(lo, hi), v| (lo.min(*v), v.max(hi)))
    }

    #[test]
    fn uniform_jitter_lies_evenly_about_the_delay() {
        let x = delays(spec(Distribution::Uniform));
        let (mean, sd) = moments(&x);
        let (lo, hi) = extremes(&x);
        assert!((99.8..100.2).contains(&mean) && (5.7..5.85).contains(&sd), "{mean} {sd}");
        assert!((90.0..90.1).contains(&lo) && (109.9..110.0).contains(&hi), "{lo} {hi}");
    }

    #[test]
    fn normal_jitter_has_the_asked_standard_deviation() {
        let (mean, sd) = moments(&delays(spec(Distribution::Normal)));
        assert!((99.8..100.2).contains(&mean) && (9.8..10.2).contains(&sd), "{mean} {sd}");
    }

    #[test]
    fn pareto_jitter_has_a_tail_above_only() {
        let x = delays(spec(Distribution::Pareto));
        let (lo, hi) = extremes(&x);
        assert!((93.3..93.5).contains(&lo) && (hi - 140.0).abs() < 1e-9, "{lo} {hi}");
    }

    #[test]
    fn packets_overtake_when_their_delay_is_shorter_and_not_when_the_order_is_kept() {
        let inversions = |keep_order| {
            let mut line = TestPath::new(JitterSpec { keep_order, ..spec(Distribution::Uniform) });
            for seq in 0..1000 {
                line.run_until(u64::from(seq) * 1_000_000);
                line.send(numbered(seq, 1));
            }
            line.finish();
            assert_eq!(line.arrived.len(), 1000);
            line.seqs().windows(2).filter(|w| w[1] < w[0]).count()
        };
        assert!(inversions(false) > 100);
        assert_eq!(inversions(true), 0);
    }

    #[test]
    fn correlated_delays_follow_each_other() {
        let follow = |correlation| {
            let x = delays(JitterSpec { correlation, ..spec(Distribution::Uniform) });
            let (mean, sd) = moments(&x);
            x.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum::<f64>() / (x.len() as f64 * sd * sd)
        };
        let (none, half) = (follow(0.0), follow(0.5));
        assert!(none.abs() < 0.03 && (0.47..0.53).contains(&half), "{none} {half}");
    }
}
