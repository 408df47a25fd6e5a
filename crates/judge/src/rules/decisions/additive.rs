//! Additive increase, and the controllers whose growth it is: Reno (RFC 5681, RFC 8511) and DCTCP (RFC 8257).

use super::specification::Values;
use super::windows::{Forget, Rule};
use tcpassay_cc::{Ack, Arithmetic, Cause, View};
use tcpassay_tcp::Config;

/// One segment for each window of acknowledged bytes, at most one for an ACK (RFC 5681 section 3.1).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Additive {
    /// Bytes acknowledged since the last increase.
    bytes: u64,
}

impl Additive {
    pub fn grow(&mut self, cwnd: u64, mss: u64, acked: u64) -> u64 {
        let bytes = self.bytes + acked;
        let whole = bytes >= cwnd;
        self.bytes = if whole { (bytes - cwnd).min(cwnd) } else { bytes };
        if whole { cwnd + mss } else { cwnd }
    }

    pub fn clear(&mut self) {
        self.bytes = 0;
    }
}

/// `bytes` times `factor`, to the nearest byte.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "windows are far below 2^53 and not negative"
)]
pub(super) fn part(bytes: u64, factor: f64) -> u64 {
    (bytes as f64 * factor).round() as u64
}

/// Reno.
#[derive(Clone, Debug)]
pub(super) struct Reno {
    factors: (f64, f64),
    whole: bool,
    increase: Additive,
}

impl Reno {
    pub fn new(values: &Values<'_>, stack: &Config) -> Reno {
        Reno {
            factors: (values.get("beta", 0.5), values.get("beta_ecn", 0.5)),
            whole: stack.cc_arithmetic != Arithmetic::Rfc,
            increase: Additive::default(),
        }
    }
}

impl Rule for Reno {
    fn avoids(&mut self, view: &View, cwnd: u64, acked: u64) -> u64 {
        self.increase.grow(cwnd, view.mss.get(), acked)
    }

    fn reduces(&mut self, view: &View, cause: Cause, _: u64, flight: u64) -> u64 {
        self.increase.clear();
        let mss = view.mss.get();
        let (factor, least) = if cause == Cause::Loss { (self.factors.0, 2) } else { (self.factors.1, 1) };
        let window = part(flight, factor).max(least * mss);
        if self.whole { (window - window % mss).max(2 * mss) } else { window }
    }

    fn forgets(&mut self, _: &View, _: Forget) {
        self.increase.clear();
    }

    fn restores(&mut self, _: u64, before: &Reno) {
        self.increase = before.increase;
    }
}

/// DCTCP.
#[derive(Clone, Debug)]
pub(super) struct Dctcp {
    gain: f64,
    alpha: f64,
    /// The number of the round trip, the bytes delivered in it, and those of them that were marked.
    round: (u64, u64, u64),
    whole: bool,
    increase: Additive,
}

impl Dctcp {
    pub fn new(values: &Values<'_>, stack: &Config) -> Dctcp {
        Dctcp {
            gain: values.get("g", 0.0625),
            alpha: values.get("alpha", 1.0),
            round: (0, 0, 0),
            whole: stack.cc_arithmetic == Arithmetic::Linux,
            increase: Additive::default(),
        }
    }
}

impl Rule for Dctcp {
    #[expect(clippy::cast_precision_loss, reason = "windows are far below 2^53")]
    fn hears(&mut self, _: &View, ack: &Ack) {
        let (round, delivered, marked) = self.round;
        let (delivered, marked) = (delivered + ack.delivered.get(), marked + ack.marked.get());
        self.round = (round, delivered, marked);
        if ack.round != round {
            self.round.0 = ack.round;
            if delivered > 0 {
                // RFC 8257 section 3.3, step 5.
                let share = (marked as f64 / delivered as f64).min(1.0);
                self.alpha = (1.0 - self.gain) * self.alpha + self.gain * share;
                self.round = (ack.round, 0, 0);
            }
        }
    }

    fn avoids(&mut self, view: &View, cwnd: u64, acked: u64) -> u64 {
        self.increase.grow(cwnd, view.mss.get(), acked)
    }

    fn reduces(&mut self, view: &View, cause: Cause, cwnd: u64, flight: u64) -> u64 {
        self.increase.clear();
        let mss = view.mss.get();
        let window = match (cause, self.whole) {
            (Cause::Ecn, false) => part(cwnd, 1.0 - self.alpha / 2.0),
            (Cause::Ecn, true) => cwnd - part(cwnd, self.alpha / 2.0) / mss * mss,
            (Cause::Loss, false) => flight / 2,
            (Cause::Loss, true) => flight / 2 / mss * mss,
        };
        window.max(2 * mss)
    }

    fn forgets(&mut self, _: &View, why: Forget) {
        if why != Forget::Recovery {
            self.increase.clear();
        }
    }

    fn restores(&mut self, _: u64, before: &Dctcp) {
        self.increase = before.increase;
    }

    fn variables(&self) -> String {
        format!(", alpha {:.4}", self.alpha)
    }
}
