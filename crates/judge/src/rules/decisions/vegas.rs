//! Vegas (Brakmo and Peterson, 1995) and modified Vegas, which judge once per round trip how many packets are queued.

use super::additive::Additive;
use super::specification::Values;
use super::windows::{Forget, Rule};
use tcpassay_cc::{Ack, Cause, View};
use tcpassay_units::Dur;

/// Samples of a round trip without which its last ACK is processed as by Reno.
const SAMPLES: u32 = 3;

/// What the end of a round trip permits.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Verdict {
    None,
    Reno,
    /// The least round-trip time of the round, and `baseRTT`.
    Measured(Dur, Dur),
}

/// Vegas.
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
#[derive(Clone, Debug)]
pub(super) struct Vegas {
    alpha: f64,
    beta: f64,
    /// `None` for modified Vegas, which leaves slow start with the first measurement.
    gamma: Option<f64>,
    linux: bool,
    base: Option<Dur>,
    least: Option<Dur>,
    samples: u32,
    round: u64,
    /// The round began in its middle.
    partial: bool,
    drained: bool,
    verdict: Verdict,
    increase: Additive,
    /// Modified Vegas: the window may have grown by a segment at random.
    may_grow: bool,
}

impl Vegas {
    pub fn new(values: &Values<'_>, linux: bool) -> Vegas {
        Vegas {
            alpha: values.get("alpha", 2.0),
            beta: values.get("beta", 4.0),
            gamma: Some(values.get("gamma", 1.0)),
            linux,
            base: None,
            least: None,
            samples: 0,
            round: 0,
            partial: false,
            drained: false,
            verdict: Verdict::None,
            increase: Additive::default(),
            may_grow: false,
        }
    }

    pub fn modified(values: &Values<'_>) -> Vegas {
        let (alpha, beta) = (values.get("alpha", 1.0), values.get("beta", 6.0));
        Vegas { alpha, beta, gamma: None, ..Vegas::new(values, false) }
    }

    fn clear(&mut self) {
        (self.least, self.samples, self.partial) = (None, 0, false);
    }
}

/// `number * over / under`, without overflow.
fn scaled(number: u64, over: Dur, under: Dur) -> u64 {
    let wide = u128::from(number) * u128::from(over.as_nanos()) / u128::from(under.as_nanos());
    u64::try_from(wide).unwrap_or(u64::MAX)
}

impl Rule for Vegas {
    fn hears(&mut self, view: &View, ack: &Ack) {
        if self.linux {
            if self.drained {
                self.base = None;
                self.clear();
            }
            self.drained = view.flight.is_zero();
        }
        if let Some(rtt) = ack.rtt {
            let rtt = if self.linux {
                Dur::from_micros(rtt.as_nanos() / 1000 + 1)
            } else {
                rtt.max(Dur::from_nanos(1))
            };
            let lower = |known: Option<Dur>| Some(known.map_or(rtt, |known| known.min(rtt)));
            (self.base, self.least) = (lower(self.base), lower(self.least));
            self.samples += 1;
        }
        self.verdict = Verdict::None;
        if ack.round != self.round {
            self.round = ack.round;
            self.verdict = match (self.least, self.base) {
                _ if self.partial => Verdict::None,
                (Some(least), Some(base)) if self.samples >= SAMPLES => Verdict::Measured(least, base),
                _ => Verdict::Reno,
            };
            self.clear();
        }
    }

    fn leaves(&mut self, view: &View) -> Option<u64> {
        let Verdict::Measured(rtt, base) = std::mem::replace(&mut self.verdict, Verdict::None) else {
            return None;
        };
        let (cwnd, mss) = (view.control.cwnd.get(), view.mss.get());
        let queued = scaled(cwnd / mss, rtt.saturating_sub(base), base);
        let ends = self.gamma.is_none_or(|gamma| above(queued, gamma));
        ends.then(|| (mss * (scaled(cwnd / mss, base, rtt) + 1)).min(cwnd).max(2 * mss))
    }

    fn applies_unused(&self) -> bool {
        self.linux && self.verdict != Verdict::Reno
    }

    fn avoids(&mut self, view: &View, cwnd: u64, acked: u64) -> u64 {
        let mss = view.mss.get();
        match std::mem::replace(&mut self.verdict, Verdict::None) {
            Verdict::None => cwnd,
            Verdict::Reno => self.increase.grow(cwnd, mss, acked),
            Verdict::Measured(rtt, base) => {
                let queued = scaled(cwnd / mss, rtt.saturating_sub(base), base);
                if above(queued, self.beta) {
                    (cwnd.saturating_sub(mss)).max(2 * mss)
                } else if below(queued, self.alpha) {
                    cwnd + mss
                } else {
                    self.may_grow = self.gamma.is_none() && queued <= 6;
                    cwnd
                }
            }
        }
    }

    fn varies(&mut self, view: &View, cwnd: u64) -> Option<u64> {
        std::mem::take(&mut self.may_grow).then(|| cwnd + view.mss.get())
    }

    fn reduces(&mut self, view: &View, _: Cause, _: u64, flight: u64) -> u64 {
        self.increase.clear();
        let mss = view.mss.get();
        if self.linux { mss * (flight / mss / 2).max(2) } else { (flight / 2).max(2 * mss) }
    }

    fn forgets(&mut self, _: &View, why: Forget) {
        self.clear();
        (self.verdict, self.partial) = (Verdict::None, true);
        if why == Forget::Idle {
            self.base = None;
        }
        if why != Forget::Recovery {
            self.increase.clear();
        }
    }

    fn restores(&mut self, _: u64, before: &Vegas) {
        self.clear();
        (self.verdict, self.partial) = (Verdict::None, true);
        self.increase = before.increase;
    }

    fn variables(&self) -> String {
        let shown = |rtt: Option<Dur>| rtt.map_or_else(|| "unknown".to_owned(), |rtt| rtt.to_string());
        format!(", baseRTT {}, {} samples in the round", shown(self.base), self.samples)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a queue is far below 2^53 packets")]
fn above(queued: u64, bound: f64) -> bool {
    queued as f64 > bound
}

#[expect(clippy::cast_precision_loss, reason = "a queue is far below 2^53 packets")]
fn below(queued: u64, bound: f64) -> bool {
    (queued as f64) < bound
}
