//! Random and listed losses of packets.

use super::correlated::CorrelatedUniform;
use tcpassay_units::Stream;

/// A model of losses.
#[derive(Clone, PartialEq, Debug)]
pub enum LossProcess {
    /// Each packet is lost with `probability`. `correlation` with the packet before as in netem; 0:
    /// independent losses.
    Bernoulli {
        /// From 0 to 1.
        probability: f64,
        /// From 0 to 1.
        correlation: f64,
    },
    /// Two states, good and bad (Gilbert 1960, Elliott 1963), as in netem's `gemodel`: the state may change
    /// before each packet.
    GilbertElliott {
        /// Probability to go from good to bad.
        p: f64,
        /// Probability to go from bad to good.
        r: f64,
        /// Loss in the bad state (netem's `1-h`).
        bad: f64,
        /// Loss in the good state (netem's `1-k`).
        good: f64,
    },
    /// The packets with these numbers are lost. The packets to which the loss applies are counted from 1.
    /// The list is in ascending order.
    List(Vec<u64>),
}

/// The decisions whether consecutive packets are lost.
#[derive(Clone, Debug)]
pub struct Losses(State);

#[derive(Clone, Debug)]
enum State {
    Bernoulli { p: f64, rng: CorrelatedUniform },
    GilbertElliott { p: f64, r: f64, loss_bad: f64, loss_good: f64, bad: bool, rng: Stream },
    List { list: Vec<u64>, next: usize, seen: u64 },
}

impl Losses {
    /// Creates the decisions of a model from a stream of random numbers. Panics if a list is not in
    /// ascending order.
    pub fn new(model: LossProcess, stream: Stream) -> Losses {
        Losses(match model {
            LossProcess::Bernoulli { probability, correlation } => {
                State::Bernoulli { p: probability, rng: CorrelatedUniform::new(stream, correlation) }
            }
            LossProcess::GilbertElliott { p, r, bad, good } => {
                State::GilbertElliott { p, r, loss_bad: bad, loss_good: good, bad: false, rng: stream }
            }
            LossProcess::List(list) => {
                assert!(list.is_sorted_by(|a, b| a < b), "the list of losses must be in ascending order");
                State::List { list, next: 0, seen: 0 }
            }
        })
    }

    /// Whether the next packet is lost.
    pub fn loses(&mut self) -> bool {
        match &mut self.0 {
            State::Bernoulli { p, rng } => rng.chance(*p),
            State::GilbertElliott { p, r, loss_bad, loss_good, bad, rng } => {
                // netem uses the loss probability of the state before the change.
                let loss = if *bad { *loss_bad } else { *loss_good };
                let change = rng.chance(if *bad { *r } else { *p });
                *bad ^= change;
                rng.chance(loss)
            }
            State::List { list, next, seen } => {
                *seen += 1;
                let hit = list.get(*next) == Some(seen);
                *next += usize::from(hit);
                hit
            }
        }
    }
}
