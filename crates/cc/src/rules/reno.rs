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
    /// Linux: only a reduction clears what counts for the next segment; idle time, the end of a recovery and an undo do not change it
    /// (`snd_cwnd_cnt`).
    linux: bool,
}

impl Reno {
    /// Creates the rule from the parameters declared in [`WindowRule::PARAMS`].
    pub fn new(values: &ParamValues, params: &Params) -> Reno {
        Reno {
            beta: values.get("beta"),
            beta_ecn: values.get("beta_ecn"),
            increase: AdditiveIncrease::of(params.arithmetic),
            whole: params.arithmetic != Arithmetic::Rfc,
            linux: params.arithmetic == Arithmetic::Linux,
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

    fn reset(&mut self, _view: &View, why: ResetReason) {
        if !self.linux || why == ResetReason::Timeout {
            self.increase.clear();
        }
    }

    fn undo(&mut self, _view: &View, before: &Reno) {
        if !self.linux {
            self.increase = before.increase;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Control;

    #[test]
    fn on_linux_only_a_reduction_clears_what_counts_for_the_next_segment() {
        // `tcp_cwnd_restart` and `tcp_undo_cwnd_reduction` leave snd_cwnd_cnt alone; `tcp_enter_loss` clears it.
        let mss = Bytes::new(1000);
        let view = View::start(mss, Control { cwnd: mss * 10, ssthresh: mss * 10, pacing: None });
        let grown = |arithmetic, why| {
            let params = Params { arithmetic, ..Params::default() };
            let values = ParamValues::resolve("reno", Reno::PARAMS, &params).unwrap();
            let mut rule = Reno::new(&values, &params);
            assert_eq!(rule.grow(&view, mss * 6), mss * 10);
            rule.reset(&view, why);
            rule.grow(&view, mss * 4)
        };
        assert_eq!(grown(Arithmetic::Linux, ResetReason::Idle), mss * 11);
        assert_eq!(grown(Arithmetic::Linux, ResetReason::Recovered), mss * 11);
        assert_eq!(grown(Arithmetic::Linux, ResetReason::Timeout), mss * 10);
        assert_eq!(grown(Arithmetic::Rfc, ResetReason::Idle), mss * 10);
    }
}
