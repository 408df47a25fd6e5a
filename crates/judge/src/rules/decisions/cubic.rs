//! CUBIC of RFC 9438, in bytes.

use super::additive::part;
use super::slow_start::Hystart;
use super::specification::Values;
use super::windows::{Forget, Rule};
use tcpassay_cc::{Ack, Arithmetic, Cause, HystartMode, Limited, View};
use tcpassay_tcp::Config;
use tcpassay_units::{Dur, Time};

/// A congestion avoidance stage.
#[derive(Clone, Copy, Debug)]
struct Stage {
    /// Begin without the time in which the window was not used (section 5.8).
    since: Time,
    k: f64,
    reno: f64,
    /// The part of the window that is not a whole byte.
    fraction: f64,
}

/// CUBIC.
#[derive(Clone, Debug)]
pub(super) struct Cubic {
    c: f64,
    factors: (f64, f64),
    alpha: f64,
    converges: bool,
    freebsd: bool,
    /// FreeBSD: no reduction so far.
    first: bool,
    largest: Option<f64>,
    prior: f64,
    stage: Option<Stage>,
    /// Time of the last ACK, and whether the window was then the limit.
    last: (Time, bool),
    hystart: Option<Hystart>,
}

impl Cubic {
    pub fn new(values: &Values<'_>, stack: &Config) -> Cubic {
        let beta = values.get("beta", 0.7);
        let freebsd = stack.cc_arithmetic == Arithmetic::FreeBsd;
        Cubic {
            c: values.get("c", 0.4),
            factors: (beta, values.get("beta_ecn", 0.7)),
            // Section 4.3.
            alpha: 3.0 * (1.0 - beta) / (1.0 + beta),
            converges: values.get("fast_convergence", 1.0) > 0.0,
            freebsd,
            first: freebsd,
            largest: None,
            prior: 0.0,
            stage: None,
            last: (Time::ZERO, false),
            hystart: matches!(stack.hystart, HystartMode::Linux(_)).then(|| Hystart::new(stack)),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "windows are far below 2^53")]
    fn begin(&mut self, view: &View, cwnd: f64) -> Stage {
        if self.prior == 0.0 {
            self.prior = cwnd;
        }
        let largest = self.largest.unwrap_or(cwnd).max(cwnd);
        self.largest = Some(largest);
        // Equation 2 in bytes.
        let k = ((largest - cwnd) / (self.c * view.mss.get() as f64)).cbrt();
        Stage { since: view.now, k, reno: cwnd, fraction: 0.0 }
    }
}

impl Rule for Cubic {
    fn hears(&mut self, view: &View, ack: &Ack) {
        if let Some(hystart) = &mut self.hystart {
            let fresh = self.stage.is_some_and(|stage| view.now.since(stage.since) < Dur::from_secs(1));
            hystart.on_ack(view, ack, fresh);
        }
        let (at, filled) = self.last;
        let fills = view.limited == Limited::Cwnd;
        if let Some(stage) = self.stage.as_mut().filter(|_| !(filled && fills)) {
            stage.since = (stage.since + view.now.since(at)).min(view.now);
        }
        self.last = (view.now, fills);
    }

    fn leaves(&mut self, view: &View) -> Option<u64> {
        self.hystart.is_some_and(|hystart| hystart.found).then(|| view.control.cwnd.get())
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "windows are far below 2^53 and not negative"
    )]
    fn avoids(&mut self, view: &View, cwnd: u64, acked: u64) -> u64 {
        let window = cwnd as f64;
        let stage = self.stage.unwrap_or_else(|| self.begin(view, window));
        let mss = view.mss.get() as f64;
        let share = (acked as f64 / window).min(1.0);
        // Equation 4; section 4.3: alpha is 1 once the estimate has reached the window before the reduction.
        let alpha = if stage.reno < self.prior { self.alpha } else { 1.0 };
        let reno = stage.reno + alpha * mss * share;
        // Equation 1 for the time of the next round trip, between the window and one and a half of it.
        let window = window + stage.fraction;
        let t = (view.now.since(stage.since) + view.srtt.unwrap_or(Dur::ZERO)).as_secs_f64();
        let largest = self.largest.unwrap_or(window);
        let cubic = self.c * mss * (t - stage.k) * (t - stage.k) * (t - stage.k) + largest;
        let target = cubic.max(window).min(1.5 * window);
        let grown = (window + (target - window) * share).max(reno);
        let whole = grown as u64;
        self.stage = Some(Stage { reno, fraction: grown - whole as f64, ..stage });
        whole
    }

    fn rounds(&mut self, more: i64) {
        if let Some(stage) = &mut self.stage {
            stage.fraction -= if more > 0 { 1.0 } else { -1.0 };
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "windows are far below 2^53")]
    fn reduces(&mut self, view: &View, cause: Cause, cwnd: u64, flight: u64) -> u64 {
        let (beta, least) = match cause {
            Cause::Loss => (self.factors.0, 2),
            Cause::Ecn if self.freebsd => (self.factors.1, 2),
            Cause::Ecn => (self.factors.1, 1),
        };
        let window = cwnd as f64;
        // Section 4.7.
        let converges = self.converges && self.largest.is_some_and(|largest| window < largest);
        self.largest = Some(if converges { window * (1.0 + beta) / 2.0 } else { window });
        self.prior = window;
        self.stage = None;
        let factor = if self.first { 0.5 } else { beta };
        if self.first {
            self.largest = Some(window * beta);
        }
        self.first = false;
        part(flight, factor).max(least * view.mss.get())
    }

    fn forgets(&mut self, view: &View, why: Forget) {
        self.stage = None;
        if why == Forget::Timeout {
            // Section 4.8.
            self.largest = None;
            if let Some(hystart) = &mut self.hystart {
                hystart.reset(view.now);
            }
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "windows are far below 2^53")]
    fn restores(&mut self, cwnd: u64, before: &Cubic) {
        // Section 4.9.2.
        if (cwnd as f64) < self.prior {
            (self.largest, self.prior) = (before.largest, before.prior);
            (self.stage, self.first) = (before.stage, before.first);
        }
    }

    fn variables(&self) -> String {
        let stage = self.stage.map_or_else(String::new, |stage| {
            format!(", K {:.3} s, W_est {:.0} bytes, the epoch began at {}", stage.k, stage.reno, stage.since)
        });
        let largest = self.largest.map_or_else(String::new, |largest| format!(", W_max {largest:.0} bytes"));
        format!("{largest}, cwnd_prior {:.0} bytes{stage}", self.prior)
    }
}
