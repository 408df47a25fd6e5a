//! Random decisions about single packets of a link, for the simulator and for the relay of the agent.
//!
//! Each kind of decision has its own random stream. With the same seed the n-th packet that reaches the link
//! has the same decisions on both substrates.

mod correlated;
mod delay;
mod loss;

pub use correlated::CorrelatedUniform;
pub use delay::{Delays, Distribution};
pub use loss::{LossProcess, Losses};

use crate::params::{JitterSettings, LinkSettings, grammar};
use tcpassay_units::{Seed, Stream};

/// Independent decisions with a fixed probability about consecutive packets.
#[derive(Clone, Debug)]
pub struct Chances {
    probability: f64,
    rng: CorrelatedUniform,
}

impl Chances {
    /// Creates decisions with a probability from 0 to 1.
    pub fn new(probability: f64, stream: Stream) -> Chances {
        Chances { probability, rng: CorrelatedUniform::new(stream, 0.0) }
    }

    /// The decision about the next packet.
    pub fn hits(&mut self) -> bool {
        self.rng.chance(self.probability)
    }
}

/// The decisions about the packets of one direction of a link.
#[derive(Clone, Debug, Default)]
pub struct Draws {
    /// Decides which packets are lost. A list counts data packets only.
    pub losses: Option<Losses>,
    /// Decides which of the remaining packets are damaged.
    pub corrupt: Option<Chances>,
    /// Decides which of these packets are duplicated.
    pub duplicate: Option<Chances>,
    /// The delay of each packet after its transmission: the delay of the link with its jitter.
    pub delays: Option<Delays>,
}

impl Draws {
    /// The decisions for the forward direction (data) of the link `name`.
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

    /// The decisions for the reverse direction, in which only pure ACKs are lost.
    pub fn backward(link: &LinkSettings, name: &str, seed: Seed) -> Draws {
        let stream = || seed.stream(&format!("loss.{name}.back.loss"));
        Draws { losses: ack_losses(link).map(|model| Losses::new(model, stream())), ..Draws::default() }
    }
}

/// What a middlebox adds to the sequence numbers of a link's forward and backward direction (`link.rewrite`).
pub fn sequence_shifts(name: &str, seed: Seed) -> [u32; 2] {
    let mut stream = seed.stream(&format!("rewrite.{name}"));
    [stream.bits32(), stream.bits32()]
}

/// The loss model of the forward direction; `None` without losses.
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

/// The loss model for pure ACKs in the reverse direction; `None` without losses.
pub fn ack_losses(link: &LinkSettings) -> Option<LossProcess> {
    let model = LossProcess::Bernoulli { probability: link.ack_loss, correlation: 0.0 };
    (link.ack_loss > 0.0).then_some(model)
}
