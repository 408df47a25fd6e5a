//! The skeleton around a [`WindowRule`]: all that window-based controllers have in common.
//!
//! Sources: slow start and the collapse after a timeout, RFC 5681 section 3.1; byte counting, RFC 3465; restart
//! after idle, RFC 5681 section 4.1 and RFC 2861; no growth of a window that is not used, RFC 7661 section 1 and
//! Linux `tcp_is_cwnd_limited`; undo, Linux `tcp_undo_cwnd_reduction`; HyStart++, RFC 9406 (in `hystart`).
//!
//! How it differs:
//!
//! * The ACK that ends the recovery of a loss earns no growth. It acknowledges at once what recovery repaired, and
//!   counting that would undo the exit rule of RFC 6582, whose point is not to send a burst.
//! * During the recovery that a mark opens the window rests too, as in Linux (state CWR), where RFC 3168 would
//!   already let it grow.
//! * After a timeout slow start counts only bytes delivered by the ACK at hand, not those that SACK had reported
//!   before (Linux).
//! * Restart after idle keeps three quarters of the old window in ssthresh (RFC 2861 section 3), which RFC 5681
//!   leaves open.

use crate::{Ack, ByteCounting, Cause, Control, Controller, Event, Limited, Params, Reset, View, WindowRule};
use tcpassay_units::Bytes;

/// A [`WindowRule`] made into a whole [`Controller`].
#[derive(Clone, Debug)]
pub struct Windowed<R> {
    rule: R,
    byte_counting: ByteCounting,
    phase: Phase,
    before: Option<Before<R>>,
    peak: Peak,
}

/// Where recovery stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// No recovery.
    Open,
    /// Between `Enter` and `Leave`: the window rests.
    Reduced(Cause),
    /// The recovery of a loss ended with the ACK that is told next.
    JustLeft,
    /// Between `Timeout` and `Leave`: slow start rebuilds the window.
    Collapsed,
}

/// The state before the first reduction of a recovery, for undo.
#[derive(Clone, Debug)]
struct Before<R> {
    cwnd: Bytes,
    ssthresh: Bytes,
    rule: R,
}

/// The largest flight of this round trip and the one before.
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

impl<R: WindowRule> Windowed<R> {
    /// The skeleton around `rule`, with the byte counting and slow-start options of `params`.
    pub fn new(rule: R, params: &Params) -> Windowed<R> {
        Windowed {
            rule,
            byte_counting: params.byte_counting,
            phase: Phase::Open,
            before: None,
            peak: Peak::default(),
        }
    }

    /// The rule inside.
    pub fn rule(&self) -> &R {
        &self.rule
    }

    fn ack(&mut self, view: &View, ack: &Ack) -> (Bytes, Bytes) {
        let Control { cwnd, ssthresh, .. } = view.control;
        self.rule.observe(view, ack);
        // Flight rises by sending alone, so what it was before this ACK is its highest since the last one.
        self.peak.note(ack.round, view.flight.saturating_add(ack.delivered).saturating_add(ack.lost));
        let counted = match self.phase {
            Phase::Open => ack.acked,
            Phase::Collapsed => ack.acked.min(ack.delivered),
            Phase::Reduced(_) => return (cwnd, ssthresh),
            Phase::JustLeft => {
                self.phase = Phase::Open;
                return (cwnd, ssthresh);
            }
        };
        if cwnd < ssthresh {
            self.slow_start(view, counted)
        } else if view.limited == Limited::Cwnd && !counted.is_zero() {
            self.avoid(view, counted)
        } else {
            (cwnd, ssthresh)
        }
    }

    fn slow_start(&mut self, view: &View, acked: Bytes) -> (Bytes, Bytes) {
        let Control { cwnd, ssthresh, .. } = view.control;
        if self.phase == Phase::Open
            && let Some(window) = self.rule.leave_slow_start(view)
        {
            let window = window.max(view.mss);
            return (window, ssthresh.min(window));
        }
        // An application that fills half the window could fill all of it before its growth is noticed: without this,
        // a sender that is limited now and then would never leave a small window.
        if view.limited != Limited::Cwnd && cwnd >= self.peak.flight().saturating_mul(2) {
            return (cwnd, ssthresh);
        }
        let limit = match self.byte_counting {
            ByteCounting::PerAck => view.mss,
            // RFC 3465 section 2.3: in the slow start that follows a timeout, L = 1.
            ByteCounting::Limit(_) if self.phase == Phase::Collapsed => view.mss,
            ByteCounting::Limit(n) => view.mss * u64::from(n),
            ByteCounting::All => Bytes::MAX,
        };
        let grown = cwnd.saturating_add(acked.min(limit));
        if grown <= ssthresh {
            return (grown, ssthresh);
        }
        // What goes beyond ssthresh counts in congestion avoidance.
        if view.limited != Limited::Cwnd {
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
        });
    }

    /// ssthresh after a reduction: what the rule says, but a reduction never raises the window (RFC 5681's floor of
    /// two segments apart).
    fn reduced(&mut self, view: &View, cause: Cause, flight: Bytes) -> Bytes {
        self.rule.reduce(view, cause, flight).min(view.control.cwnd.max(view.mss * 2)).max(view.mss)
    }

    fn enter(&mut self, view: &View, cause: Cause, flight: Bytes) -> (Bytes, Bytes) {
        if matches!(self.phase, Phase::Reduced(_) | Phase::Collapsed) {
            // Reduced for this window already. The sender does not tell it twice; a mark in a loss is one event.
            return (view.control.cwnd, view.control.ssthresh);
        }
        self.remember(view);
        self.phase = Phase::Reduced(cause);
        let ssthresh = self.reduced(view, cause, flight);
        (ssthresh.min(view.control.cwnd), ssthresh)
    }

    fn timeout(&mut self, view: &View, flight: Bytes, again: bool) -> (Bytes, Bytes) {
        if again && self.phase == Phase::Collapsed {
            // RFC 5681 section 3.1: held constant when the same segment times out again.
            return (view.mss, view.control.ssthresh);
        }
        let in_recovery = matches!(self.phase, Phase::Reduced(_));
        if !in_recovery {
            self.remember(view);
        }
        self.phase = Phase::Collapsed;
        let mut ssthresh = self.reduced(view, Cause::Loss, flight);
        if in_recovery {
            ssthresh = ssthresh.min(view.control.ssthresh);
        }
        self.rule.reset(view, Reset::Timeout);
        (view.mss, ssthresh)
    }

    fn leave(&mut self, view: &View, spurious: bool, exit: Bytes) -> (Bytes, Bytes) {
        let Control { cwnd, ssthresh, .. } = view.control;
        let before = self.before.take();
        let from = self.phase;
        self.phase = Phase::Open;
        if spurious {
            let Some(before) = before else { return (cwnd, ssthresh) };
            self.rule.undo(&before.rule);
            return (cwnd.max(before.cwnd), ssthresh.max(before.ssthresh));
        }
        let bound = exit.max(view.mss);
        match from {
            Phase::Reduced(Cause::Ecn) => (ssthresh.min(bound), ssthresh),
            Phase::Reduced(Cause::Loss) => {
                self.phase = Phase::JustLeft;
                (ssthresh.min(bound), ssthresh)
            }
            Phase::Collapsed => {
                self.phase = Phase::JustLeft;
                (cwnd.min(bound), ssthresh)
            }
            Phase::Open | Phase::JustLeft => (cwnd, ssthresh),
        }
    }

    fn resume(&mut self, view: &View, restart: Bytes) -> (Bytes, Bytes) {
        let Control { cwnd, ssthresh, .. } = view.control;
        self.rule.reset(view, Reset::Idle);
        let window = restart.max(view.mss);
        if window >= cwnd { (cwnd, ssthresh) } else { (window, ssthresh.max(cwnd - cwnd / 4)) }
    }
}

impl<R: WindowRule> Controller for Windowed<R> {
    fn name(&self) -> &'static str {
        R::NAME
    }

    fn on(&mut self, view: &View, event: &Event) -> Control {
        let (cwnd, ssthresh) = match *event {
            Event::Ack(ref ack) => self.ack(view, ack),
            Event::Sent { .. } | Event::Established => (view.control.cwnd, view.control.ssthresh),
            Event::Enter { cause, flight } => self.enter(view, cause, flight),
            Event::Leave { spurious, exit } => self.leave(view, spurious, exit),
            Event::Timeout { flight, again } => self.timeout(view, flight, again),
            Event::Resume { restart, .. } => self.resume(view, restart),
        };
        let control = Control { cwnd, ssthresh, pacing: None };
        Control { pacing: self.rule.pacing(&View { control, ..*view }), ..control }
    }

    fn internals(&self) -> Vec<(&'static str, f64)> {
        self.rule.internals()
    }

    fn boxed_clone(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}
