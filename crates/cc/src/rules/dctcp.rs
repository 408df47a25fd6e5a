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
//!   `Ack`. With the arithmetic of Linux the estimate is an integer, is updated first, and counts packets over windows of data
//!   (`dctcp_update_alpha`).
//! * The share is that of delivered bytes, including SACK (Linux), instead of cumulatively acknowledged bytes.
//! * The window stays constant for one round trip after a reduction (Linux, state CWR; see
//!   [`Windowed`](crate::Windowed)).
//! * A reduction leaves at least two segments (Linux `dctcp_ssthresh`); the RFC defines no minimum.

use crate::{
    Ack, AckCount, AdditiveIncrease, Arithmetic, Cause, LinuxParam, ModuleValue, ParamInfo, ParamValues,
    Params, ResetReason, View, WindowRule,
};
use tcpassay_units::Bytes;

/// 1 in the units of Linux (`DCTCP_MAX_ALPHA`).
const MAX_ALPHA: f64 = 1024.0;

/// An estimate in the units of Linux.
fn units(alpha: f64) -> u64 {
    Bytes::from_f64(alpha * MAX_ALPHA).get()
}

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
    /// Linux: the estimate in integers, once ACKs are counted.
    window: Option<AlphaWindow>,
}

/// The window of data over which Linux counts marks (`struct dctcp`).
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct AlphaWindow {
    /// It ends when everything before this position is acknowledged (`next_seq`).
    end: u64,
    /// Packets delivered since it began, and those of ACKs with ECE (`old_delivered`, `old_delivered_ce`).
    delivered: u64,
    marked: u64,
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
            increase: AdditiveIncrease::of(params.arithmetic),
            whole: params.arithmetic == Arithmetic::Linux,
            window: None,
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

    const WANTS_COUNTS: bool = true;

    /// `dctcp_update_alpha`: the first ACK ends a window at once, and the packets of the ACK that ends a window belong to it.
    fn counted(&mut self, count: &AckCount) {
        if !self.whole {
            return;
        }
        let window = self.window.get_or_insert_default();
        window.delivered += count.packets;
        window.marked += if count.marked { count.packets } else { 0 };
        if count.acked < window.end {
            return;
        }
        // `dctcp_shift_g`
        let shift = (0..10).find(|shift| self.g * f64::from(1_u32 << shift) >= 1.0).unwrap_or(10);
        let mut alpha = units(self.alpha);
        let part = alpha >> shift;
        alpha -= if part > 0 { part } else { alpha };
        if window.marked > 0 {
            let share = (window.marked << (10 - shift)) / window.delivered.max(1);
            alpha = (alpha + share).min(units(1.0));
        }
        self.alpha = Bytes::new(alpha).as_f64() / MAX_ALPHA;
        *window = AlphaWindow { end: count.sent, ..AlphaWindow::default() };
    }

    fn observe(&mut self, _view: &View, ack: &Ack) {
        if self.window.is_some() {
            return;
        }
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
                // `dctcp_ssthresh`
                let packets = cwnd.get() / mss.get();
                cwnd - mss * ((packets * units(self.alpha)) >> 11)
            }
            Cause::Ecn => Bytes::from_f64(cwnd.as_f64() * (1.0 - self.alpha / 2.0)),
            Cause::Loss if self.whole => mss * (flight.get() / 2 / mss.get()),
            Cause::Loss => flight / 2,
        };
        window.max(mss * 2)
    }

    fn reset(&mut self, _view: &View, why: ResetReason) {
        if why == ResetReason::Timeout || why == ResetReason::Idle && !self.whole {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Control, Params};

    #[test]
    fn linux_computes_the_estimate_in_integers_before_it_reduces_and_with_the_ack_that_ends_the_window() {
        let params = Params { arithmetic: Arithmetic::Linux, ..Params::default() };
        let values = ParamValues::resolve("dctcp", Dctcp::PARAMS, &params).unwrap();
        let mss = Bytes::new(1000);
        let view = View::start(mss, Control { cwnd: mss * 13, ssthresh: Bytes::MAX, pacing: None });
        let alpha = |rule: &Dctcp| units(rule.alpha);
        let count = |acked, sent, packets, marked| AckCount { acked, sent, packets, marked };
        let mut rule = Dctcp::new(&values, &params);
        // The first ACK ends a window at once. It is marked: 1024 - 1024/16 + (1 * 64) / 1.
        rule.counted(&count(1001, 10_001, 1, true));
        assert_eq!(alpha(&rule), 1024);
        // It is not: 1024 - 1024/16.
        let mut rule = Dctcp::new(&values, &params);
        rule.counted(&count(1001, 10_001, 1, false));
        assert_eq!(alpha(&rule), 960);
        rule.counted(&count(9001, 20_001, 8, false));
        assert_eq!(alpha(&rule), 960);
        // 960 - 960/16.
        rule.counted(&count(10_001, 20_001, 1, false));
        assert_eq!(alpha(&rule), 900);
        // Four of ten: 900 - 56 + (4 * 64) / 10.
        rule.counted(&count(16_001, 20_001, 6, false));
        rule.counted(&count(20_001, 30_001, 4, true));
        assert_eq!(alpha(&rule), 869);
        // 13 - (13 * 869 >> 11).
        assert_eq!(rule.reduce(&view, Cause::Ecn, mss * 13), mss * 8);
        // Below one sixteenth of a unit the whole rest goes.
        rule.alpha = 8.0 / 1024.0;
        rule.counted(&count(30_001, 40_001, 10, false));
        assert_eq!(alpha(&rule), 0);
    }
}
