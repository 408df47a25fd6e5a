//! Reno's arithmetic: additive increase, multiplicative decrease.
//!
//! Source: RFC 5681 section 3.1 (slow start is in the skeleton), with the byte counting of RFC 3465 section 2.1; the
//! smaller decrease after a mark is RFC 8511 (ABE), off by default. Fast retransmit and recovery (section 3.2) are the
//! data path's.
//!
//! Differences:
//!
//! * The decrease factor is a parameter; RFC 5681 has 1/2.
//! * Congestion avoidance adds one MSS at each `cwnd` bytes acknowledged (the RFC's recommended way), rather than
//!   `SMSS * SMSS / cwnd` with every ACK (its equation 3).
//! * Marks reduce the window down to one segment, as RFC 3168 section 6.1.2 has it; with Linux's and FreeBSD's arithmetic to two,
//!   and to whole ones.
//! * The window after a reduction is taken from the flight size as equation 4 says; Linux takes it from cwnd.

use crate::{Additive, Arithmetic, Cause, ParamInfo, Params, Reset, Values, View, WindowRule};
use tcpassay_units::Bytes;

/// Reno (RFC 5681).
#[derive(Clone, PartialEq, Debug)]
pub struct Reno {
    beta: f64,
    beta_ecn: f64,
    increase: Additive,
    /// Linux and FreeBSD: in whole segments, and two of them at least (`tcp_reno_ssthresh`, `newreno_cong_signal`).
    whole: bool,
}

impl Reno {
    /// With the parameters that [`WindowRule::PARAMS`] declares.
    pub fn new(values: &Values, params: &Params) -> Reno {
        Reno {
            beta: values.get("beta"),
            beta_ecn: values.get("beta_ecn"),
            increase: Additive::default(),
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
        },
        ParamInfo {
            name: "beta_ecn",
            default: 0.5,
            range: (0.1, 0.95),
            doc: "factor on the flight after a congestion mark (RFC 8511: 0.8)",
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
            // RFC 3168 section 6.1.2: marks reduce the window down to one segment.
            Cause::Ecn => Bytes::from_f64(flight.as_f64() * self.beta_ecn).max(view.mss),
        };
        if self.whole { (view.mss * (window.get() / view.mss.get())).max(view.mss * 2) } else { window }
    }

    fn reset(&mut self, _view: &View, _why: Reset) {
        self.increase.clear();
    }

    fn undo(&mut self, _view: &View, before: &Reno) {
        self.increase = before.increase;
    }
}
