//! CUBIC: the window is a cubic function of the time since the last congestion event.
//!
//! Source: RFC 9438: the cubic function and its bounds (section 4.2), the Reno-friendly region (4.3), concave and
//! convex regions (4.4, 4.5), multiplicative decrease (4.6), fast convergence (4.7), timeouts (4.8), spurious events
//! (4.9), the transition to congestion avoidance (4.10) and application-limited flows (5.8).
//!
//! Differences:
//!
//! * Windows are in bytes instead of segments. Each ACK counts for the segments that it acknowledges, as in Linux;
//!   the RFC's increment "for each received new ACK" would make CUBIC slower with delayed ACKs.
//! * The window is the higher of `W_est` and the cubic step on every ACK (section 4.2's summary; Linux uses the
//!   faster of the two). Section 4.3 sets it to `W_est` as soon as `W_cubic(t)` is below that. The two differ within
//!   one round trip of the intersection of the curves; there the form of the RFC makes an ACK for more bytes increase
//!   the window less, and may decrease it.
//! * When congestion avoidance begins above `W_max` (after slow start exceeded it), K is 0 and `W_max` is the current
//!   window, as the RFC requires only for an undefined `W_max` (Linux `bictcp_update`). Equation 2 would require the
//!   root of a negative number.
//! * beta is at least 1/2: below this value `alpha_cubic` exceeds one segment per window, which is faster than Reno.
//! * Time is added to `t` only between two ACKs that both found the sender limited by its window. This excludes the
//!   application-limited periods, as the RFC requires.
//! * With FreeBSD's arithmetic (`cubic_ssthresh_update`) a reduction caused by marks leaves at least two segments,
//!   too, and the first reduction of a connection halves the window, with a `W_max` of beta times the window. This
//!   also applies when the first reduction is a timeout, where FreeBSD uses beta. The rest of FreeBSD's `cc_cubic.c`
//!   implements RFC 8312, which is not implemented here.
//! * After an idle time longer than the RTO, congestion avoidance begins a new stage with the old `W_max`.

use super::linux_hystart::LinuxHystart;
use crate::cbrt::cbrt;
use crate::{
    Ack, Arithmetic, Cause, Limited, LinuxParam, ModuleValue, ParamInfo, ParamValues, Params, ResetReason,
    View, WindowRule,
};
use tcpassay_units::{Bytes, Dur, Time};

/// CUBIC (RFC 9438).
#[derive(Clone, PartialEq, Debug)]
pub struct Cubic {
    c: f64,
    beta: f64,
    beta_ecn: f64,
    /// `alpha_cubic` of section 4.3.
    alpha: f64,
    fast_convergence: bool,
    freebsd: bool,
    /// FreeBSD: no congestion event has occurred (`CUBICFLAG_CONG_EVENT` is not set).
    first: bool,
    /// In bytes; set at the first congestion event or at the start of congestion avoidance.
    w_max: Option<f64>,
    /// `cwnd_prior` in bytes; 0 before ssthresh was first set.
    cwnd_prior: f64,
    stage: Option<Stage>,
    last: Seen,
    /// Linux's HyStart, when enabled.
    train: Option<LinuxHystart>,
}

/// A stage of congestion avoidance.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Stage {
    /// `t_epoch`, increased by the time in which the window was not used.
    epoch: Time,
    /// K in seconds.
    k: f64,
    /// In bytes.
    w_est: f64,
    /// The fraction of a byte of the window's growth.
    fraction: f64,
}

/// The previous ACK.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Seen {
    at: Time,
    limited: Limited,
}

impl Cubic {
    /// Creates the rule from the parameters declared in [`WindowRule::PARAMS`].
    pub fn new(values: &ParamValues, params: &Params) -> Cubic {
        let beta = values.get("beta");
        Cubic {
            c: values.get("c"),
            beta,
            beta_ecn: values.get("beta_ecn"),
            alpha: 3.0 * (1.0 - beta) / (1.0 + beta),
            fast_convergence: values.get("fast_convergence") > 0.0,
            freebsd: params.arithmetic == Arithmetic::FreeBsd,
            first: params.arithmetic == Arithmetic::FreeBsd,
            w_max: None,
            cwnd_prior: 0.0,
            stage: None,
            last: Seen { at: Time::ZERO, limited: Limited::App },
            train: LinuxHystart::enabled(params),
        }
    }

    fn begin_stage(&mut self, view: &View) -> Stage {
        let cwnd = view.control.cwnd.as_f64();
        if self.cwnd_prior <= 0.0 {
            // Section 4.10: the first slow start ended without congestion.
            self.cwnd_prior = cwnd;
        }
        let w_max = self.w_max.map_or(cwnd, |w_max| w_max.max(cwnd));
        self.w_max = Some(w_max);
        // Equation 2, with windows in bytes.
        let k = cbrt((w_max - cwnd) / (self.c * view.mss.as_f64()));
        Stage { epoch: view.now, k, w_est: cwnd, fraction: 0.0 }
    }
}

impl WindowRule for Cubic {
    const NAME: &'static str = "cubic";
    const PARAMS: &'static [ParamInfo] = &[
        ParamInfo {
            name: "c",
            default: 0.4,
            range: (0.01, 10.0),
            doc: "aggressiveness, segments per cubic second (RFC 9438 section 4.1.1)",
            linux: LinuxParam::Constant("Linux fixes C when it starts (bic_scale)"),
        },
        ParamInfo {
            name: "beta",
            default: 0.7,
            range: (0.5, 0.95),
            doc: "factor on the flight after a loss (RFC 9438 section 4.6)",
            // Linux computes the slope of the Reno-friendly region from beta when it starts (`cubictcp_register`).
            linux: LinuxParam::Module { file: "tcp_cubic/parameters/beta", form: ModuleValue::Per1024 },
        },
        ParamInfo {
            name: "beta_ecn",
            default: 0.7,
            range: (0.5, 0.95),
            doc: "factor on the flight after a congestion mark (RFC 8511: 0.85)",
            linux: LinuxParam::Absent,
        },
        ParamInfo {
            name: "fast_convergence",
            default: 1.0,
            range: (0.0, 1.0),
            doc: "0 off, otherwise on (RFC 9438 section 4.7)",
            linux: LinuxParam::Module {
                file: "tcp_cubic/parameters/fast_convergence",
                form: ModuleValue::Switch,
            },
        },
    ];

    fn leave_slow_start(&mut self, view: &View) -> Option<Bytes> {
        self.train.as_ref().filter(|train| train.ends()).map(|_| view.control.cwnd)
    }

    fn observe(&mut self, view: &View, ack: &Ack) {
        if let Some(train) = &mut self.train {
            let fresh = self.stage.is_some_and(|s| view.now.since(s.epoch) < Dur::from_secs(1));
            train.on_ack(view, ack, fresh);
        }
        let used = view.limited == Limited::Cwnd && self.last.limited == Limited::Cwnd;
        if !used && let Some(stage) = &mut self.stage {
            stage.epoch = stage.epoch.saturating_add(view.now.since(self.last.at)).min(view.now);
        }
        self.last = Seen { at: view.now, limited: view.limited };
    }

    fn grow(&mut self, view: &View, acked: Bytes) -> Bytes {
        let mut stage = match self.stage {
            Some(stage) => stage,
            None => self.begin_stage(view),
        };
        let mss = view.mss.as_f64();
        // An ACK increases the window by at most the growth that a whole window of segments earns.
        let share = (acked.as_f64() / view.control.cwnd.as_f64()).min(1.0);
        let cwnd = view.control.cwnd.as_f64() + stage.fraction;
        let w_max = self.w_max.unwrap_or(cwnd);
        // Equation 4.
        let alpha = if stage.w_est >= self.cwnd_prior { 1.0 } else { self.alpha };
        stage.w_est += alpha * mss * share;
        // Equation 1 at t + RTT.
        let t = view.now.since(stage.epoch).saturating_add(view.srtt.unwrap_or(Dur::ZERO));
        let x = t.as_secs_f64() - stage.k;
        let target = (self.c * mss * x * x * x + w_max).clamp(cwnd, 1.5 * cwnd);
        let towards = cwnd + (target - cwnd) * share;
        // Section 4.2: "the higher of the two".
        let window = towards.max(stage.w_est);
        let whole = floor(window);
        stage.fraction = window - whole.as_f64();
        self.stage = Some(stage);
        whole
    }

    fn reduce(&mut self, view: &View, cause: Cause, flight: Bytes) -> Bytes {
        let (beta, floor) = match cause {
            Cause::Loss => (self.beta, view.mss * 2),
            // Section 4.6: a reduction caused by marks leaves at least one segment.
            Cause::Ecn => (self.beta_ecn, view.mss * if self.freebsd { 2 } else { 1 }),
        };
        let cwnd = view.control.cwnd.as_f64();
        self.w_max = Some(match self.w_max {
            Some(w_max) if self.fast_convergence && cwnd < w_max => cwnd * (1.0 + beta) / 2.0,
            _ => cwnd,
        });
        self.cwnd_prior = cwnd;
        self.stage = None;
        if std::mem::take(&mut self.first) {
            self.w_max = Some(cwnd * beta);
            return Bytes::from_f64(flight.as_f64() / 2.0).max(floor);
        }
        Bytes::from_f64(flight.as_f64() * beta).max(floor)
    }

    fn reset(&mut self, view: &View, why: ResetReason) {
        match why {
            ResetReason::Timeout => {
                // Section 4.8: the next stage begins with K = 0 and `W_max` its first window.
                self.w_max = None;
                self.stage = None;
                if let Some(train) = &mut self.train {
                    train.reset(view.now);
                }
            }
            // A restart or the exit rule may have changed the window.
            ResetReason::Idle | ResetReason::Recovered => self.stage = None,
        }
    }

    fn undo(&mut self, view: &View, before: &Cubic) {
        // Section 4.9.2: the window is not restored when it has already grown beyond its previous value.
        if view.control.cwnd.as_f64() < self.cwnd_prior {
            self.w_max = before.w_max;
            self.cwnd_prior = before.cwnd_prior;
            self.stage = before.stage;
            self.first = before.first;
        }
    }

    fn internals(&self) -> Vec<(&'static str, f64)> {
        let mut values = vec![("w_max", self.w_max.unwrap_or(0.0)), ("cwnd_prior", self.cwnd_prior)];
        if let Some(stage) = &self.stage {
            values.extend([("k", stage.k), ("w_est", stage.w_est)]);
        }
        values
    }
}

/// Rounds down to whole bytes; the caller keeps the fraction.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
fn floor(x: f64) -> Bytes {
    Bytes::new(x as u64)
}
