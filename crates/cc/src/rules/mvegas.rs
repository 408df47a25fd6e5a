//! Modified Vegas: Vegas that leaves slow start at its first measurement and increases the window at random between
//! its bounds.
//!
//! Source: the TCP Congestion Project Report on modified Vegas (a module for Linux 3.13). All parts that it does not
//! change are those of [`Vegas`](super::Vegas), with the differences listed there.
//!
//! Changes of the report:
//!
//! * Slow start ends with the first round that has enough samples, regardless of their values. The window is set to
//!   the predicted one: the window that fills the path without a queue, plus one packet.
//! * alpha is 1 and beta 6 instead of 2 and 4. Between them the window increases at random: with `n` packets queued,
//!   by one packet with probability `2^(6-n) / 64`, that is 1/2, 1/4, 1/8, 1/16, 1/32, 1/64 for 1 to 6.
//!
//! Differences from the report:
//!
//! * The random number is uniform from 0 to 63 and comes from the controller's own stream. The report multiplies the
//!   round-trip time, an address and a sequence number and takes the remainder by 63. The value 63 then never occurs,
//!   and the signed product may be negative, in which case the window always grows. The table of probabilities in the
//!   text of the report is implemented here.
//!
//! With [`Arithmetic::Linux`] all that Linux does differently (see `vegas`) is as in `tcp_mvegas.c`, the module of this
//! project for kernels.

use super::vegas_rounds::{VegasRounds, WindowChange, above, below};
use crate::{
    Ack, AckCount, Arithmetic, Cause, LinuxParam, ModuleValue, ParamInfo, ParamValues, Params, ResetReason,
    View, WindowRule,
};
use tcpassay_units::{Bytes, Stream};

/// Modified Vegas.
#[derive(Clone, Debug)]
pub struct ModifiedVegas {
    alpha: f64,
    beta: f64,
    rounds: VegasRounds,
    rng: Stream,
    linux: bool,
}

/// With no packet queued the probability is this number over [`SIDES`]; each queued packet halves it.
const ODDS_LOG2: u64 = 6;
const SIDES: u64 = 1 << ODDS_LOG2;

impl ModifiedVegas {
    /// Creates the rule from the parameters declared in [`WindowRule::PARAMS`].
    pub fn new(values: &ParamValues, params: &Params) -> ModifiedVegas {
        let linux = params.arithmetic == Arithmetic::Linux;
        ModifiedVegas {
            alpha: values.get("alpha"),
            beta: values.get("beta"),
            rounds: if linux { VegasRounds::linux() } else { VegasRounds::default() },
            rng: params.rng.clone(),
            linux,
        }
    }
}

/// Draws whether the window grows with `queued` packets between alpha and beta.
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
            linux: LinuxParam::Module { file: "tcp_mvegas/parameters/alpha", form: ModuleValue::Packets },
        },
        ParamInfo {
            name: "beta",
            default: 6.0,
            range: (1.0, 6.0),
            doc: "more queued packets than this: the window shrinks by one a round trip",
            linux: LinuxParam::Module { file: "tcp_mvegas/parameters/beta", form: ModuleValue::Packets },
        },
    ];

    const WANTS_COUNTS: bool = true;

    fn counted(&mut self, count: &AckCount) {
        self.rounds.counted(count);
    }

    fn observe(&mut self, view: &View, ack: &Ack) {
        self.rounds.observe(view, ack);
    }

    fn grow(&mut self, view: &View, acked: Bytes) -> Bytes {
        let (alpha, beta, rng) = (self.alpha, self.beta, &mut self.rng);
        self.rounds.grow(view, acked, |round| match round.queued() {
            queued if above(queued, beta) => WindowChange::Down,
            queued if below(queued, alpha) || roll(rng, queued) => WindowChange::Up,
            _ => WindowChange::Stay,
        })
    }

    fn reduce(&mut self, view: &View, _cause: Cause, flight: Bytes) -> Bytes {
        if self.linux { self.rounds.reduce_linux(view, flight) } else { self.rounds.reduce(view, flight) }
    }

    fn grows_unused(&self) -> bool {
        self.linux && !self.rounds.unsure()
    }

    fn leave_slow_start(&mut self, view: &View) -> Option<Bytes> {
        self.rounds.leave_slow_start(view, |_| true)
    }

    fn reset(&mut self, _view: &View, why: ResetReason) {
        self.rounds.reset(why);
    }

    fn undo(&mut self, _view: &View, before: &ModifiedVegas) {
        self.rounds.undo(&before.rounds);
    }

    fn internals(&self) -> Vec<(&'static str, f64)> {
        self.rounds.internals()
    }
}
