//! Which packets are lost: independently or correlated, in bursts, or exactly those that one names.

use super::correlated::CorrelatedUniform;
use tcpassay_units::Stream;

/// How losses are chosen.
#[derive(Clone, PartialEq, Debug)]
pub enum LossProcess {
    /// Each packet with `probability`; `correlation` with the one before, as netem (0: independent).
    Bernoulli {
        /// From 0 to 1.
        probability: f64,
        /// From 0 to 1.
        correlation: f64,
    },
    /// Two states, good and bad (Gilbert 1960, Elliott 1963), as netem's `gemodel`: the state may change before each packet.
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
    /// Exactly these, counted from 1 over the packets that the loss applies to, in ascending order.
    List(Vec<u64>),
}

/// Decides of one packet after another whether it is lost.
#[derive(Clone, Debug)]
pub struct Losses(State);

#[derive(Clone, Debug)]
enum State {
    Bernoulli { p: f64, rng: CorrelatedUniform },
    GilbertElliott { p: f64, r: f64, loss_bad: f64, loss_good: f64, bad: bool, rng: Stream },
    List { list: Vec<u64>, next: usize, seen: u64 },
}

impl Losses {
    /// The decisions by a model, from a stream of random numbers. Panics when a list is not in ascending order.
    pub fn new(model: LossProcess, stream: Stream) -> Losses {
        Losses(match model {
            LossProcess::Bernoulli { probability, correlation } => {
                State::Bernoulli { p: probability, rng: CorrelatedUniform::new(stream, correlation) }
            }
            LossProcess::GilbertElliott { p, r, bad, good } => {
                State::GilbertElliott { p, r, loss_bad: bad, loss_good: good, bad: false, rng: stream }
            }
            LossProcess::List(list) => {
                assert!(list.is_sorted_by(|a, b| a < b), "a list of losses out of order");
                State::List { list, next: 0, seen: 0 }
            }
        })
    }

    /// Whether the next packet is lost.
    pub fn loses(&mut self) -> bool {
        match &mut self.0 {
            State::Bernoulli { p, rng } => rng.chance(*p),
            State::GilbertElliott { p, r, loss_bad, loss_good, bad, rng } => {
                // netem looks at the loss of the state before the change.
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
