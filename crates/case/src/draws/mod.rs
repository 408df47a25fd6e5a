//! The random decisions about single packets of a link, for the simulator and for the relay of the agent.
//!
//! Each kind of decision has a random stream of its own. With the same seed two substrates make the same decisions in the order in which
//! packets reach the link.

mod correlated;
mod delay;
mod loss;

pub use correlated::CorrelatedUniform;
pub use delay::{Delays, Distribution};
pub use loss::{LossProcess, Losses};

use crate::params::{JitterSettings, LinkSettings, grammar};
use tcpassay_units::{Seed, Stream};

/// Decides of one packet after another whether something happens to it.
#[derive(Clone, Debug)]
pub struct Chances {
    probability: f64,
    rng: CorrelatedUniform,
}

impl Chances {
    /// Something with a probability from 0 to 1.
    pub fn new(probability: f64, stream: Stream) -> Chances {
        Chances { probability, rng: CorrelatedUniform::new(stream, 0.0) }
    }

    /// Whether it happens to the next packet.
    pub fn hits(&mut self) -> bool {
        self.rng.chance(self.probability)
    }
}

/// The decisions about the packets that pass one direction of a link.
#[derive(Clone, Debug, Default)]
pub struct Draws {
    /// Which packets are lost; a list counts data packets only.
    pub losses: Option<Losses>,
    /// Which of those that remain are damaged.
    pub corrupt: Option<Chances>,
    /// Which of those come twice.
    pub duplicate: Option<Chances>,
    /// How long each takes from the end of the wire to the end of the link, the delay of the link included.
    pub delays: Option<Delays>,
}

impl Draws {
    /// Of the way of the data through the link called `name`.
    pub fn forward(link: &LinkSettings, name: &str, seed: Seed) -> Draws {
        let stream = |what: &str, kind: &str| seed.stream(&format!("{what}.{name}.{kind}"));
        let chances = |p: f64, what: &str| (p > 0.0).then(|| Chances::new(p, stream(what, what)));
        let JitterSettings { size, correlation, distribution } = link.jitter;
        Draws {
            losses: losses(link).map(|model| Losses::new(model, stream("loss", "loss"))),
            corrupt: chances(link.corrupt, "corrupt"),
            duplicate: chances(link.duplicate, "duplicate"),
            delays: (!size.is_zero()).then(|| {
                let stream = stream("jitter", "jitter");
                Delays::new(link.delay, size, correlation, distribution, stream)
            }),
        }
    }

    /// Of the way back, on which pure ACKs alone are lost.
    pub fn backward(link: &LinkSettings, name: &str, seed: Seed) -> Draws {
        let stream = || seed.stream(&format!("loss.{name}.back.loss"));
        Draws { losses: ack_losses(link).map(|model| Losses::new(model, stream())), ..Draws::default() }
    }
}

/// How losses are chosen on the way of the data; `None` when nothing is lost.
pub fn losses(link: &LinkSettings) -> Option<LossProcess> {
    match &link.loss_model {
        grammar::LossModel::Bernoulli if link.loss > 0.0 => {
            Some(LossProcess::Bernoulli { probability: link.loss, correlation: link.loss_correlation })
        }
        grammar::LossModel::Bernoulli => None,
        grammar::LossModel::GilbertElliott { p, r, bad, good } => {
            Some(LossProcess::GilbertElliott { p: *p, r: *r, bad: *bad, good: *good })
        }
        grammar::LossModel::List(packets) => Some(LossProcess::List(packets.clone())),
    }
}

/// How losses of pure ACKs are chosen on the way back; `None` when nothing is lost.
pub fn ack_losses(link: &LinkSettings) -> Option<LossProcess> {
    let model = LossProcess::Bernoulli { probability: link.ack_loss, correlation: 0.0 };
    (link.ack_loss > 0.0).then_some(model)
}
