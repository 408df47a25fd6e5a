//! Modified Vegas: Vegas that leaves slow start at its first measurement and draws at random between its bounds.
//!
//! Source: the TCP Congestion Project Report on modified Vegas (a module for Linux 3.13); all that it does not change is
//! [`Vegas`](super::Vegas), with what is said there about the paper and Linux.
//!
//! What the report changes:
//!
//! * Slow start ends with the first round that has enough samples, whatever they say, and the window is set to
//!   the predicted one: what the path holds without a queue, and one packet.
//! * alpha is 1 and beta 6 instead of 2 and 4, and between them the window may still grow: with `n` packets queued,
//!   by one with probability `2^(6-n) / 64`: 1/2, 1/4, 1/8, 1/16, 1/32, 1/64 for 1 to 6.
//!
//! How this differs from the report:
//!
//! * The draw is uniform: a number from 0 to 63 of the controller's own stream. The report multiplies the round-trip
//!   time, an address and a sequence number, takes the remainder by 63 (so 63 never comes), and for the signed
//!   product gets negative numbers, with which the window always grows. The table of odds is what the text says it wants.
//! * The report's module compared without regard to whether the application fills the window (as `vegas`).

use super::queue::{Change, Rounds, above, below};
use crate::{Ack, Cause, ParamInfo, Params, Reset, Values, View, WindowRule};
use tcpassay_units::{Bytes, Stream};

/// Modified Vegas.
#[derive(Clone, Debug)]
pub struct ModifiedVegas {
    alpha: f64,
    beta: f64,
    rounds: Rounds,
    rng: Stream,
}

/// The odds are so many to one in [`SIDES`] with no packet queued, and half with each.
const ODDS_LOG2: u64 = 6;
const SIDES: u64 = 1 << ODDS_LOG2;

impl ModifiedVegas {
    /// With the parameters that [`WindowRule::PARAMS`] declares.
    pub fn new(values: &Values, params: &Params) -> ModifiedVegas {
        ModifiedVegas {
            alpha: values.get("alpha"),
            beta: values.get("beta"),
            rounds: Rounds::default(),
            rng: params.rng.clone(),
        }
    }
}

/// Whether the window grows with `queued` packets, between alpha and beta.
fn roll(rng: &mut Stream, queued: u64) -> bool {
    queued <= ODDS_LOG2 && rng.below(SIDES) < SIDES >> queued
}

impl WindowRule for ModifiedVegas {
    const NAME: &'static str = "mvegas";
    const PARAMS: &'static [ParamInfo] = &[
        ParamInfo {
            name: "alpha",
            default: 1.0,
            range: (1.0, 6.0),
            doc: "fewer queued packets than this: the window grows by one a round trip",
        },
        ParamInfo {
            name: "beta",
            default: 6.0,
            range: (1.0, 6.0),
            doc: "more queued packets than this: the window shrinks by one a round trip",
        },
    ];

    fn observe(&mut self, view: &View, ack: &Ack) {
        self.rounds.observe(view, ack);
    }

    fn grow(&mut self, view: &View, acked: Bytes) -> Bytes {
        let (alpha, beta, rng) = (self.alpha, self.beta, &mut self.rng);
        self.rounds.grow(view, acked, |round| match round.queued() {
            queued if above(queued, beta) => Change::Down,
            queued if below(queued, alpha) || roll(rng, queued) => Change::Up,
            _ => Change::Stay,
        })
    }

    fn reduce(&mut self, view: &View, _cause: Cause, flight: Bytes) -> Bytes {
        self.rounds.reduce(view, flight)
    }

    fn leave_slow_start(&mut self, view: &View) -> Option<Bytes> {
        self.rounds.leave_slow_start(view, |_| true)
    }

    fn reset(&mut self, _view: &View, why: Reset) {
        self.rounds.reset(why);
    }

    fn undo(&mut self, _view: &View, before: &ModifiedVegas) {
        self.rounds.undo(&before.rounds);
    }

    fn internals(&self) -> Vec<(&'static str, f64)> {
        self.rounds.internals()
    }
}
