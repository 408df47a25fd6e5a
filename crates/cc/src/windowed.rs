//! The common part of all window-based controllers around a [`WindowRule`].
//!
//! Sources: slow start and the collapse after a timeout, RFC 5681 section 3.1; byte counting, RFC 3465; restart after
//! idle, RFC 5681 section 4.1 and RFC 2861; no growth of a window that is not used, RFC 7661 section 1 and Linux
//! `tcp_is_cwnd_limited`; undo, Linux `tcp_undo_cwnd_reduction`; HyStart++, RFC 9406 (module `hystart_plus_plus`).
//!
//! Differences:
//!
//! * The ACK that ends the recovery from a loss does not increase the window. It acknowledges all data that the
//!   recovery repaired, and counting this data would contradict the exit rule of RFC 6582, which prevents a burst.
//!   With [`Arithmetic::Linux`] the newly delivered data counts, as in `tcp_cong_control`, because
//!   `tcp_fastretrans_alert` has ended the recovery before.
//! * During the recovery caused by a mark the window is constant, as in Linux (state CWR); RFC 3168 would allow it to
//!   grow.
//! * After a timeout, ACKs that report marks increase the window as others do (Linux, state Loss): a classic receiver
//!   repeats ECE until new data carries CWR.
//! * After a timeout, slow start counts only bytes newly delivered by the current ACK, not those that SACK had
//!   reported before (Linux).
//! * Restart after idle sets ssthresh to at least three quarters of the old window (RFC 2861 section 3), which RFC
//!   5681 does not specify.

use crate::hystart_plus_plus::{Growth, HystartPlusPlus};
use crate::{
    Ack, AckCount, Arithmetic, ByteCounting, Cause, Control, Controller, Event, HystartMode, Limited, Params,
    ResetReason, Transmissions, View, WindowRule,
};
use tcpassay_units::Bytes;

/// A [`Controller`] based on a [`WindowRule`].
#[derive(Clone, Debug)]
pub struct Windowed<R> {
    rule: R,
    byte_counting: ByteCounting,
    phase: Phase,
    before: Option<Before<R>>,
    peak: Peak,
    /// Slow start includes the window equal to ssthresh and may exceed it ([`Arithmetic::FreeBsd`]).
    at_threshold: bool,
    /// [`Arithmetic::Linux`]: the data delivered by the ACK that ends a recovery counts, and a timeout during a
    /// recovery causes no further reduction.
    linux: bool,
    freebsd: bool,
    /// Present only in the first slow start, when enabled.
    hystart: Option<HystartPlusPlus>,
}

/// The phase of recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// No recovery.
    Open,
    /// Between `Congestion` and `RecoveryExit`: the window is constant. At the end of the recovery it is `window`.
    Reduced { cause: Cause, window: Bytes },
    /// The recovery from a loss ended with the ACK of the next event.
    JustLeft,
    /// Between `Timeout` and `RecoveryExit`: slow start increases the window.
    Collapsed,
    /// The recovery from a timeout ended with the ACK of the next event, which counts as the previous ones did.
    Rebuilt,
}

/// The state before the first reduction of the last recovery, for undo.
#[derive(Clone, Debug)]
struct Before<R> {
    cwnd: Bytes,
    ssthresh: Bytes,
    rule: R,
    hystart: Option<HystartPlusPlus>,
}

/// The largest flight size of this round trip and the previous one.
#[derive(Clone, Copy, Default, Debug)]
struct Peak {
    round: u64,
    now: Bytes,
    before: Bytes,
}

impl Peak {
    fn note(&mut self, round: u64, flight: Bytes) {
        if round != self.round {
            self.round = round;
            self.before = self.now;
            self.now = flight;
        } else if flight > self.now {
            self.now = flight;
        }
    }

    fn flight(&self) -> Bytes {
        self.now.max(self.before)
    }
}

/// The bytes that Linux counts: all bytes that an ACK delivered if it advanced the cumulative acknowledgement, or if
/// the path is known to reorder (`tcp_may_raise_cwnd`, `tcp_cong_avoid`). Data that SACK had reported before does not
/// count.
fn by_delivery(ack: &Ack) -> Bytes {
    if ack.reordered || !ack.acked.is_zero() { ack.delivered } else { Bytes::ZERO }
}

impl<R: WindowRule> Windowed<R> {
    /// Creates a controller around `rule` with the options of `params`.
    pub fn new(rule: R, params: &Params) -> Windowed<R> {
        Windowed {
            rule,
            byte_counting: params.byte_counting,
            phase: Phase::Open,
            before: None,
            peak: Peak::default(),
            hystart: (params.hystart == HystartMode::PlusPlus).then(HystartPlusPlus::default),
            at_threshold: params.arithmetic == Arithmetic::FreeBsd,
            linux: params.arithmetic == Arithmetic::Linux,
            freebsd: params.arithmetic == Arithmetic::FreeBsd,
        }
    }

    /// The rule.
    pub fn rule(&self) -> &R {
        &self.rule
    }

    fn ack(&mut self, view: &View, ack: &Ack) -> (Bytes, Bytes) {
        let Control { cwnd, ssthresh, .. } = view.control;
        self.rule.observe(view, ack);
        // The flight size increases only by sending, so its value before this ACK is the maximum since the previous
        // one.
        self.peak.note(ack.round, view.flight.saturating_add(ack.delivered).saturating_add(ack.lost));
        let counted = match self.phase {
            // RFC 3168 section 6.1.2: an ACK that reports a mark does not increase the window. A reduction follows.
            Phase::Open if !ack.marked.is_zero() => return (cwnd, ssthresh),
            Phase::Open | Phase::Collapsed if self.byte_counting == ByteCounting::All => by_delivery(ack),
            Phase::Open => ack.acked,
            Phase::Collapsed => ack.acked.min(ack.delivered),
            Phase::Reduced { .. } => return (cwnd, ssthresh),
            Phase::JustLeft | Phase::Rebuilt => {
                let counts = self.linux || self.phase == Phase::Rebuilt;
                self.phase = Phase::Open;
                if !counts {
                    return (cwnd, ssthresh);
                }
                if self.byte_counting == ByteCounting::All {
                    by_delivery(ack)
                } else {
                    ack.acked.min(ack.delivered)
                }
            }
        };
        if cwnd < ssthresh || self.at_threshold && cwnd == ssthresh && view.limited == Limited::Cwnd {
            self.slow_start(view, ack, counted)
        } else if !counted.is_zero() && (view.limited == Limited::Cwnd || self.unused()) {
            self.avoid(view, counted)
        } else {
            (cwnd, ssthresh)
        }
    }

    /// Whether the rule also applies to a window that the sender does not fill. After a timeout, Linux's Vegas uses
    /// Reno (`tcp_vegas_state`).
    fn unused(&self) -> bool {
        self.phase == Phase::Open && self.rule.grows_unused()
    }

    fn slow_start(&mut self, view: &View, ack: &Ack, acked: Bytes) -> (Bytes, Bytes) {
        let Control { cwnd, ssthresh, .. } = view.control;
        let unused = self.unused();
        // At ssthresh slow start ends anyway; to end it at this window again would never let the window grow.
        if self.phase == Phase::Open
            && cwnd < ssthresh
            && let Some(window) = self.rule.leave_slow_start(view)
        {
            let window = window.max(view.mss);
            let ssthresh = ssthresh.min(window);
            if R::LEAVES_BEFORE_GROWTH && !acked.is_zero() && (view.limited == Limited::Cwnd || unused) {
                let left = View { control: Control { cwnd: window, ssthresh, ..view.control }, ..*view };
                return self.avoid(&left, acked);
            }
            return (window, ssthresh);
        }
        let growth = match &mut self.hystart {
            Some(hystart) if self.phase == Phase::Open => hystart.on_ack(ack),
            _ => Growth::Standard,
        };
        if growth == Growth::Leave {
            self.hystart = None;
            return (cwnd, cwnd);
        }
        // An application that fills half of the window may fill all of it before growth becomes effective. Without
        // this rule a sender that is limited from time to time would keep a small window. Linux's sender has such a rule itself, in
        // packets (`tcp_is_cwnd_limited`).
        let half = !self.linux && cwnd < self.peak.flight().saturating_mul(2);
        if !unused && view.limited != Limited::Cwnd && !half {
            return (cwnd, ssthresh);
        }
        // FreeBSD: never beyond the peer's window (`CCF_CWND_LIMITED`).
        if self.at_threshold && view.limited == Limited::Rwnd {
            return (cwnd, ssthresh);
        }
        let limit = match self.byte_counting {
            ByteCounting::PerAck => view.mss,
            // RFC 3465 section 2.3: in the slow start that follows a timeout, L = 1.
            ByteCounting::Limit(_) if self.phase == Phase::Collapsed => view.mss,
            ByteCounting::Limit(n) => view.mss * u64::from(n),
            ByteCounting::All => Bytes::MAX,
        };
        let grown = cwnd.saturating_add(match growth {
            Growth::Conservative => acked.min(limit) / HystartPlusPlus::CSS_GROWTH_DIVISOR,
            _ => acked.min(limit),
        });
        if grown <= ssthresh || self.at_threshold {
            return (grown, ssthresh);
        }
        // Bytes beyond ssthresh count in congestion avoidance. Linux asks before slow start only whether the window was used,
        // and counts whole segments (`tcp_slow_start`).
        let counts = self.linux && grown - ssthresh >= view.mss;
        if view.limited != Limited::Cwnd && !counts {
            return (ssthresh, ssthresh);
        }
        let at_threshold = View { control: Control { cwnd: ssthresh, ..view.control }, ..*view };
        self.avoid(&at_threshold, grown - ssthresh)
    }

    fn avoid(&mut self, view: &View, acked: Bytes) -> (Bytes, Bytes) {
        let counted = if self.byte_counting == ByteCounting::PerAck { acked.min(view.mss) } else { acked };
        let cwnd = self.rule.grow(view, counted).max(view.mss);
        (cwnd, view.control.ssthresh.min(cwnd))
    }

    fn remember(&mut self, view: &View) {
        self.before = Some(Before {
            cwnd: view.control.cwnd,
            ssthresh: view.control.ssthresh,
            rule: self.rule.clone(),
            hystart: self.hystart.take(),
        });
    }

    /// The window after a reduction by the rule. A reduction never increases the window, except to RFC 5681's minimum
    /// of two segments.
    fn reduced(&mut self, view: &View, cause: Cause, flight: Bytes) -> Bytes {
        let cwnd = view.control.cwnd;
        // The flight size includes data reported by SACK, for which additional data was sent beyond the window.
        self.rule.reduce(view, cause, flight.min(cwnd)).min(cwnd.max(view.mss * 2)).max(view.mss)
    }

    fn enter(&mut self, view: &View, cause: Cause, flight: Bytes) -> (Bytes, Bytes) {
        if matches!(self.phase, Phase::Reduced { .. } | Phase::Collapsed) {
            // This window was already reduced.
            return (view.control.cwnd, view.control.ssthresh);
        }
        self.remember(view);
        let mut window = self.reduced(view, cause, flight);
        if cause == Cause::Ecn {
            // The minimum of two segments applies to losses; marks reduce the window down to one (RFC 9438 section
            // 4.6).
            window = window.min(view.control.cwnd);
        }
        self.phase = Phase::Reduced { cause, window };
        (window, window.max(view.mss * 2))
    }

    fn timeout(&mut self, view: &View, flight: Bytes, again: bool) -> (Bytes, Bytes) {
        if again && self.phase == Phase::Collapsed {
            // RFC 5681 section 3.1: ssthresh is constant when the same segment times out again.
            return (view.mss, view.control.ssthresh);
        }
        let ssthresh = if let (Phase::Reduced { cause, .. }, Some(before)) = (self.phase, &self.before) {
            // The losses in the same window are more severe than assumed: the reduction is computed from the original
            // window.
            let control = Control { cwnd: before.cwnd, ..view.control };
            if cause == Cause::Ecn {
                // A spurious timeout does not invalidate the mark.
                self.remember(view);
            }
            if self.linux {
                // Linux reduces once per window (`tcp_enter_loss`).
                view.control.ssthresh
            } else {
                self.reduced(&View { control, ..*view }, Cause::Loss, flight).min(view.control.ssthresh)
            }
        } else {
            self.remember(view);
            self.reduced(view, Cause::Loss, flight)
        };
        self.phase = Phase::Collapsed;
        self.rule.reset(view, ResetReason::Timeout);
        (view.mss, ssthresh.max(view.mss * 2))
    }

    fn leave(&mut self, view: &View, spurious: bool, exit: Bytes) -> (Bytes, Bytes) {
        let Control { cwnd, ssthresh, .. } = view.control;
        let from = std::mem::replace(&mut self.phase, Phase::Open);
        if spurious {
            // This also applies when the recovery has ended before: the proof may arrive a round trip later.
            let Some(before) = self.before.take() else { return (cwnd, ssthresh) };
            self.rule.undo(view, &before.rule);
            self.hystart = before.hystart;
            return (cwnd.max(before.cwnd), ssthresh.max(before.ssthresh));
        }
        self.rule.reset(view, ResetReason::Recovered);
        let (window, by_marks) = match from {
            Phase::Reduced { cause, window } => (window, cause == Cause::Ecn),
            Phase::Collapsed | Phase::Open | Phase::JustLeft | Phase::Rebuilt => (cwnd, false),
        };
        let bound = exit.max(view.mss);
        if from == Phase::Collapsed && bound >= window {
            self.phase = Phase::Rebuilt;
        } else if !by_marks || bound < window {
            self.phase = Phase::JustLeft;
        }
        (window.min(bound), ssthresh)
    }

    fn resume(&mut self, view: &View, restart: Bytes) -> (Bytes, Bytes) {
        let Control { cwnd, ssthresh, .. } = view.control;
        self.rule.reset(view, ResetReason::Idle);
        let window = restart.max(view.mss);
        let kept = if self.linux && matches!(self.phase, Phase::Reduced { .. }) {
            Bytes::ZERO
        } else if self.linux {
            // Linux counts segments, and raises ssthresh also if the window stays (`tcp_cwnd_restart`, `tcp_current_ssthresh`).
            let segments = cwnd / view.mss;
            view.mss * (segments / 2 + segments / 4)
        } else {
            cwnd - cwnd / 4
        };
        // FreeBSD, too, raises ssthresh if the window stays (`newreno_cc_after_idle`).
        let stays = window >= cwnd && !self.linux && !self.freebsd;
        if stays { (cwnd, ssthresh) } else { (window.min(cwnd), ssthresh.max(kept)) }
    }
}

impl<R: WindowRule> Controller for Windowed<R> {
    fn name(&self) -> &'static str {
        R::NAME
    }

    fn on(&mut self, view: &View, event: &Event) -> Control {
        let (cwnd, ssthresh) = match *event {
            Event::Ack(ref ack) => self.ack(view, ack),
            Event::Sent { idle, .. } => {
                if let Some(idle) = idle {
                    self.rule.start(view, idle);
                }
                (view.control.cwnd, view.control.ssthresh)
            }
            Event::Established => (view.control.cwnd, view.control.ssthresh),
            Event::Congestion { cause, flight } => self.enter(view, cause, flight),
            Event::RecoveryExit { spurious, exit } => self.leave(view, spurious, exit),
            Event::Timeout { flight, again } => self.timeout(view, flight, again),
            Event::Resume { restart, .. } => self.resume(view, restart),
        };
        let control = Control { cwnd, ssthresh, pacing: None };
        Control { pacing: self.rule.pacing(&View { control, ..*view }), ..control }
    }

    fn counted(&mut self, count: &AckCount) {
        self.rule.counted(count);
    }

    fn wants_counts(&self) -> bool {
        R::WANTS_COUNTS
    }

    fn internals(&self) -> Vec<(&'static str, f64)> {
        self.rule.internals()
    }

    fn alpha(&self) -> Option<f64> {
        self.rule.alpha()
    }

    fn wants_sent_events(&self) -> Transmissions {
        if R::WANTS_START { Transmissions::IntoEmptyPath } else { Transmissions::None }
    }

    fn boxed_clone(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ParamInfo;
    use tcpassay_units::Dur;

    /// A rule whose slow start has to end at each window, and that grows by one byte in congestion avoidance.
    #[derive(Clone, Debug)]
    struct Leaves;

    impl WindowRule for Leaves {
        const NAME: &'static str = "leaves";
        const PARAMS: &'static [ParamInfo] = &[];

        fn grow(&mut self, view: &View, _acked: Bytes) -> Bytes {
            view.control.cwnd + Bytes::new(1)
        }

        fn reduce(&mut self, view: &View, _cause: Cause, _flight: Bytes) -> Bytes {
            view.mss
        }

        fn leave_slow_start(&mut self, view: &View) -> Option<Bytes> {
            Some(view.control.cwnd)
        }
    }

    #[test]
    fn a_window_at_the_threshold_grows_although_slow_start_has_to_end() {
        let mss = Bytes::new(1000);
        let ack = Ack {
            acked: mss,
            delivered: mss,
            lost: Bytes::ZERO,
            marked: Bytes::ZERO,
            rtt: None,
            sample: None,
            app_limited: false,
            round: 0,
            reordered: false,
        };
        for (arithmetic, grown) in [(Arithmetic::Rfc, 10_001), (Arithmetic::FreeBsd, 11_000)] {
            let mut cc = Windowed::new(Leaves, &Params { arithmetic, ..Params::default() });
            let first = Control { cwnd: mss * 10, ssthresh: Bytes::MAX, pacing: None };
            let view = View { flight: mss * 10, limited: Limited::Cwnd, ..View::start(mss, first) };
            let left = cc.on(&view, &Event::Ack(ack));
            assert_eq!((left.cwnd, left.ssthresh), (mss * 10, mss * 10), "slow start ends");
            let next = cc.on(&View { control: left, ..view }, &Event::Ack(ack));
            assert_eq!(next.cwnd, Bytes::new(grown), "{arithmetic:?}");
        }
    }

    #[test]
    fn ssthresh_after_idle_time_is_three_quarters_of_the_window_on_linux_in_whole_segments() {
        // `tcp_current_ssthresh`: 15 / 2 + 15 / 4 segments, also if the window is no larger than the restart window, as on FreeBSD
        // (`newreno_cc_after_idle`).
        let mss = Bytes::new(1000);
        for (arithmetic, cwnd, restart, after) in [
            (Arithmetic::Linux, 15_000, 10, (10_000, 10_000)),
            (Arithmetic::Rfc, 15_000, 10, (10_000, 11_250)),
            (Arithmetic::Linux, 9_000, 9, (9_000, 6_000)),
            (Arithmetic::Rfc, 9_000, 9, (9_000, 4_000)),
            (Arithmetic::FreeBsd, 15_000, 10, (10_000, 11_250)),
            (Arithmetic::FreeBsd, 9_000, 10, (9_000, 6_750)),
            (Arithmetic::FreeBsd, 4_000, 10, (4_000, 4_000)),
        ] {
            let mut cc = Windowed::new(Leaves, &Params { arithmetic, ..Params::default() });
            let before = Control { cwnd: Bytes::new(cwnd), ssthresh: mss * 4, pacing: None };
            let (idle, rto) = (Dur::from_secs(1), Dur::from_millis(900));
            let event = Event::Resume { idle, rto, restart: mss * restart };
            let got = cc.on(&View::start(mss, before), &event);
            assert_eq!((got.cwnd.get(), got.ssthresh.get()), after, "{arithmetic:?}");
        }
    }
}
