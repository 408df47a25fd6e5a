//! DCTCP: the reduction depends on the share of marked bytes.
//!
//! Source: RFC 8257 section 3.3 (estimate and reduction), 3.5 (loss), 4.2 (gain of the estimate).
//!
//! Differences:
//!
//! * Marks are counted over the round trips of the sender (`Ack::round`) instead of `DCTCP.WindowEnd`; the two differ
//!   by at most one ACK, but the ACK of a needless retransmission ends a round trip of the sender at once. The ACK that
//!   ends a round trip belongs to it, as in the RFC.
//! * When a mark that begins a reduction arrives with the ACK that ends a round trip, the reduction uses the estimate
//!   before that ACK, unless the ACK also ended the previous reduction: a controller receives `Congestion` before
//!   `Ack`. Linux updates the estimate first; the estimates of consecutive round trips differ by at most `g`.
//! * The share is that of delivered bytes, including SACK (Linux), instead of cumulatively acknowledged bytes.
//! * The window stays constant for one round trip after a reduction (Linux, state CWR; see
//!   [`Windowed`](crate::Windowed)).
//! * A reduction leaves at least two segments (Linux `dctcp_ssthresh`); the RFC defines no minimum.

use crate::{
    Ack, AdditiveIncrease, Arithmetic, Cause, LinuxParam, ModuleValue, ParamInfo, ParamValues, Params,
    ResetReason, View, WindowRule,
};
use tcpassay_units::Bytes;

/// DCTCP (RFC 8257).
#[derive(Clone, PartialEq, Debug)]
pub struct Dctcp {
    g: f64,
    /// `DCTCP.Alpha`, the estimate of the share of marked bytes, 0 to 1.
    alpha: f64,
    round: u64,
    /// `DCTCP.BytesAcked`.
    delivered: Bytes,
    /// `DCTCP.BytesMarked`.
    marked: Bytes,
    increase: AdditiveIncrease,
    /// Linux: the reduction is rounded down to whole segments (`dctcp_ssthresh`).
    whole: bool,
}

impl Dctcp {
    /// Creates the rule from the parameters declared in [`WindowRule::PARAMS`].
    pub fn new(values: &ParamValues, params: &Params) -> Dctcp {
        Dctcp {
            g: values.get("g"),
            alpha: values.get("alpha"),
            round: 0,
            delivered: Bytes::ZERO,
            marked: Bytes::ZERO,
            increase: AdditiveIncrease::default(),
            whole: params.arithmetic == Arithmetic::Linux,
        }
    }
}

impl WindowRule for Dctcp {
    const NAME: &'static str = "dctcp";
    const PARAMS: &'static [ParamInfo] = &[
        ParamInfo {
            name: "g",
            default: 0.0625,
            range: (0.001, 1.0),
            doc: "gain of the estimator of the marked share (RFC 8257 section 4.2)",
            linux: LinuxParam::Module {
                file: "tcp_dctcp/parameters/dctcp_shift_g",
                form: ModuleValue::Shift,
            },
        },
        ParamInfo {
            name: "alpha",
            default: 1.0,
            range: (0.0, 1.0),
            doc: "estimate of the marked share at the start (RFC 8257 section 3.3)",
            linux: LinuxParam::Module {
                file: "tcp_dctcp/parameters/dctcp_alpha_on_init",
                form: ModuleValue::Per1024,
            },
        },
    ];

    fn observe(&mut self, _view: &View, ack: &Ack) {
        self.delivered += ack.delivered;
        self.marked += ack.marked;
        if ack.round != self.round {
            self.round = ack.round;
            if !self.delivered.is_zero() {
                let share = self.marked.as_f64() / self.delivered.as_f64();
                self.alpha = (1.0 - self.g) * self.alpha + self.g * share.min(1.0);
                self.delivered = Bytes::ZERO;
                self.marked = Bytes::ZERO;
            }
        }
    }

    fn grow(&mut self, view: &View, acked: Bytes) -> Bytes {
        self.increase.grow(view.control.cwnd, view.mss, acked)
    }

    fn reduce(&mut self, view: &View, cause: Cause, flight: Bytes) -> Bytes {
        self.increase.clear();
        let (cwnd, mss) = (view.control.cwnd, view.mss);
        let window = match cause {
            Cause::Ecn if self.whole => {
                let off = Bytes::from_f64(cwnd.as_f64() * self.alpha / 2.0);
                cwnd - mss * (off.get() / mss.get())
            }
            Cause::Ecn => Bytes::from_f64(cwnd.as_f64() * (1.0 - self.alpha / 2.0)),
            Cause::Loss if self.whole => mss * (flight.get() / 2 / mss.get()),
            Cause::Loss => flight / 2,
        };
        window.max(mss * 2)
    }

    fn reset(&mut self, _view: &View, why: ResetReason) {
        if why != ResetReason::Recovered {
            self.increase.clear();
        }
    }

    fn undo(&mut self, _view: &View, before: &Dctcp) {
        self.increase = before.increase;
    }

    fn internals(&self) -> Vec<(&'static str, f64)> {
        vec![("alpha", self.alpha)]
    }

    fn alpha(&self) -> Option<f64> {
        Some(self.alpha)
    }
}
