//! Reno: additive increase, multiplicative decrease.
//!
//! Source: RFC 5681 section 3.1 with the byte counting of RFC 3465 section 2.1. The smaller decrease after a mark is
//! RFC 8511 (ABE), disabled by default. [`Windowed`](crate::Windowed) implements slow start; the data path implements
//! fast retransmit and recovery (section 3.2).
//!
//! Differences:
//!
//! * The decrease factor is a parameter; RFC 5681 uses 1/2.
//! * Congestion avoidance adds one MSS per `cwnd` bytes acknowledged, which the RFC recommends, instead of `SMSS *
//!   SMSS / cwnd` per ACK (its equation 3).
//! * A reduction caused by marks leaves at least one segment, as in RFC 3168 section 6.1.2. With the arithmetic of
//!   Linux and FreeBSD it leaves at least two and whole segments.
//! * The window after a reduction is computed from the flight size as in equation 4; Linux computes it from cwnd.

use crate::{
    AdditiveIncrease, Arithmetic, Cause, LinuxParam, ParamInfo, ParamValues, Params, ResetReason, View,
    WindowRule,
};
use tcpassay_units::Bytes;

/// Reno (RFC 5681).
#[derive(Clone, PartialEq, Debug)]
pub struct Reno {
    beta: f64,
    beta_ecn: f64,
    increase: AdditiveIncrease,
    /// Linux and FreeBSD: whole segments, at least two (`tcp_reno_ssthresh`, `newreno_cong_signal`).
    whole: bool,
}

impl Reno {
    /// Creates the rule from the parameters declared in [`WindowRule::PARAMS`].
    pub fn new(values: &ParamValues, params: &Params) -> Reno {
        Reno {
            beta: values.get("beta"),
            beta_ecn: values.get("beta_ecn"),
            increase: AdditiveIncrease::default(),
            whole: params.arithmetic != Arithmetic::Rfc,
        }
    }
}

impl WindowRule for Reno {
    const NAME: &'static str = "reno";
    const PARAMS: &'static [ParamInfo] = &[
        ParamInfo {
            name: "beta",
            default: 0.5,
            range: (0.1, 0.95),
            doc: "factor on the flight after a loss",
            linux: LinuxParam::Absent,
        },
        ParamInfo {
            name: "beta_ecn",
            default: 0.5,
            range: (0.1, 0.95),
            doc: "factor on the flight after a congestion mark (RFC 8511: 0.8)",
            linux: LinuxParam::Absent,
        },
    ];

    fn grow(&mut self, view: &View, acked: Bytes) -> Bytes {
        self.increase.grow(view.control.cwnd, view.mss, acked)
    }

    fn reduce(&mut self, view: &View, cause: Cause, flight: Bytes) -> Bytes {
        self.increase.clear();
        let window = match cause {
            // RFC 5681 equation 4.
            Cause::Loss => Bytes::from_f64(flight.as_f64() * self.beta).max(view.mss * 2),
            // RFC 3168 section 6.1.2: a reduction caused by marks leaves at least one segment.
            Cause::Ecn => Bytes::from_f64(flight.as_f64() * self.beta_ecn).max(view.mss),
        };
        if self.whole { (view.mss * (window.get() / view.mss.get())).max(view.mss * 2) } else { window }
    }

    fn reset(&mut self, _view: &View, _why: ResetReason) {
        self.increase.clear();
    }

    fn undo(&mut self, _view: &View, before: &Reno) {
        self.increase = before.increase;
    }
}
