//! What all controllers with a window rule have in common: RFC 5681 section 3.1, RFC 3465, RFC 7661 section 1, RFC 2861, and for Linux
//! `tcp_cong_avoid`, `tcp_slow_start` and `tcp_undo_cwnd_reduction`.

use super::slow_start::{PlusPlus, Speed};
use super::specification::Specification;
use tcpassay_cc::{Ack, Arithmetic, ByteCounting, Cause, Control, Event, HystartMode, Limited, View};
use tcpassay_tcp::Config;
use tcpassay_units::{Bytes, Dur};

/// Why a rule forgets what it measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Forget {
    Timeout,
    Idle,
    Recovery,
}

/// The part of a specification that differs between controllers. Windows are in bytes.
pub(super) trait Rule: Clone {
    /// An ACK arrived, in any phase.
    fn hears(&mut self, _view: &View, _ack: &Ack) {}
    /// The first transmission after `idle` with nothing in flight.
    fn starts(&mut self, _view: &View, _idle: Dur) {}
    /// The window with which slow start ends, if the rule ends it now.
    fn leaves(&mut self, _view: &View) -> Option<u64> {
        None
    }
    /// Whether the rule also applies to a window that is not used.
    fn applies_unused(&self) -> bool {
        false
    }
    /// The window from `cwnd` bytes in congestion avoidance after `acked` bytes.
    fn avoids(&mut self, view: &View, cwnd: u64, acked: u64) -> u64;
    /// The window after a reduction from `cwnd`, with `flight` bytes in flight.
    fn reduces(&mut self, view: &View, cause: Cause, cwnd: u64, flight: u64) -> u64;
    /// A timeout, idle time, or a recovery.
    fn forgets(&mut self, _view: &View, _why: Forget) {}
    /// The reductions since `before` were undone, with `cwnd` bytes at present.
    fn restores(&mut self, _cwnd: u64, _before: &Self) {}
    /// Another window than `cwnd` that the rule permits for the last event, because it decides at random.
    fn varies(&mut self, _view: &View, _cwnd: u64) -> Option<u64> {
        None
    }
    /// The controller's window is `more` bytes larger than this rule's, which is rounding.
    fn rounds(&mut self, _more: i64) {}
    /// Variables for findings.
    fn variables(&self) -> String {
        String::new()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Normal,
    /// A loss or a mark: the window that the recovery leads to, and whether marks caused it.
    Repairing {
        window: u64,
        marks: bool,
    },
    /// After a timeout, until what was outstanding is acknowledged.
    AfterTimeout,
    /// The recovery ended with the present ACK; `counts`: what the ACK delivers counts for growth.
    Ended {
        counts: bool,
    },
}

#[derive(Clone, Debug)]
struct Saved<R> {
    cwnd: u64,
    ssthresh: u64,
    rule: R,
    plus_plus: Option<PlusPlus>,
}

/// The specification of a controller with rule `R`.
#[derive(Clone, Debug)]
pub(super) struct Windows<R> {
    rule: R,
    counting: ByteCounting,
    arithmetic: Arithmetic,
    phase: Phase,
    plus_plus: Option<PlusPlus>,
    saved: Option<Saved<R>>,
    /// The number of the round trip, and the most data in flight in it and in the one before.
    peaks: (u64, u64, u64),
}

impl<R: Rule> Windows<R> {
    pub fn new(rule: R, stack: &Config) -> Windows<R> {
        Windows {
            rule,
            counting: stack.byte_counting,
            arithmetic: stack.cc_arithmetic,
            phase: Phase::Normal,
            plus_plus: (stack.hystart == HystartMode::PlusPlus).then(PlusPlus::default),
            saved: None,
            peaks: (0, 0, 0),
        }
    }

    /// The bytes of an ACK for which the window may grow; `None` if it does not grow whatever the ACK delivers.
    fn counted(&mut self, ack: &Ack) -> Option<u64> {
        let (acked, delivered) = (ack.acked.get(), ack.delivered.get());
        // Linux counts deliveries of an ACK that advances, or of any ACK where the path reorders (`tcp_may_raise_cwnd`).
        let delivery = if acked > 0 || ack.reordered { delivered } else { 0 };
        let all = self.counting == ByteCounting::All;
        let new = if all { delivery } else { acked.min(delivered) };
        match self.phase {
            Phase::Normal if ack.marked > Bytes::ZERO => None,
            Phase::Normal => Some(if all { delivery } else { acked }),
            Phase::AfterTimeout => Some(new),
            Phase::Repairing { .. } => None,
            Phase::Ended { counts } => {
                self.phase = Phase::Normal;
                counts.then_some(new)
            }
        }
    }

    fn ack(&mut self, view: &View, ack: &Ack) -> (u64, u64) {
        let (cwnd, ssthresh) = (view.control.cwnd.get(), view.control.ssthresh.get());
        self.rule.hears(view, ack);
        let most = (view.flight + ack.delivered + ack.lost).get();
        self.peaks = if ack.round == self.peaks.0 {
            (ack.round, self.peaks.1.max(most), self.peaks.2)
        } else {
            (ack.round, most, self.peaks.1)
        };
        let Some(counted) = self.counted(ack) else { return (cwnd, ssthresh) };
        let filled = view.limited == Limited::Cwnd;
        let free = self.phase == Phase::Normal && self.rule.applies_unused();
        let inclusive = self.arithmetic == Arithmetic::FreeBsd;
        if cwnd < ssthresh || inclusive && cwnd == ssthresh && filled {
            return self.slow_start(view, ack, counted, free);
        }
        if counted == 0 || !(filled || free) {
            return (cwnd, ssthresh);
        }
        self.avoidance(view, cwnd, ssthresh, counted)
    }

    fn slow_start(&mut self, view: &View, ack: &Ack, counted: u64, free: bool) -> (u64, u64) {
        let (cwnd, ssthresh, mss) = (view.control.cwnd.get(), view.control.ssthresh.get(), view.mss.get());
        if self.phase == Phase::Normal
            && cwnd < ssthresh
            && let Some(window) = self.rule.leaves(view)
        {
            let window = window.max(mss);
            return (window, window.min(ssthresh));
        }
        let speed = match &mut self.plus_plus {
            Some(plus_plus) if self.phase == Phase::Normal => plus_plus.on_ack(ack),
            _ => Speed::Full,
        };
        if speed == Speed::Over {
            self.plus_plus = None;
            return (cwnd, cwnd);
        }
        let filled = view.limited == Limited::Cwnd;
        let half_used = cwnd < 2 * self.peaks.1.max(self.peaks.2);
        let inclusive = self.arithmetic == Arithmetic::FreeBsd;
        if !(free || filled || half_used) || inclusive && view.limited == Limited::Rwnd {
            return (cwnd, ssthresh);
        }
        // RFC 3465 sections 2.2 and 2.3: at most L segments for an ACK, one after a timeout.
        let most = match self.counting {
            ByteCounting::All => u64::MAX,
            ByteCounting::Limit(segments) if self.phase != Phase::AfterTimeout => mss * u64::from(segments),
            ByteCounting::PerAck | ByteCounting::Limit(_) => mss,
        };
        let growth = counted.min(most) / if speed == Speed::Quarter { 4 } else { 1 };
        let grown = cwnd + growth;
        if inclusive || grown <= ssthresh {
            return (grown, ssthresh);
        }
        let rest = grown - ssthresh;
        let linux = self.arithmetic == Arithmetic::Linux;
        if filled || linux && rest >= mss {
            self.avoidance(view, ssthresh, ssthresh, rest)
        } else {
            (ssthresh, ssthresh)
        }
    }

    fn avoidance(&mut self, view: &View, cwnd: u64, ssthresh: u64, counted: u64) -> (u64, u64) {
        let mss = view.mss.get();
        let counted = if self.counting == ByteCounting::PerAck { counted.min(mss) } else { counted };
        let window = self.rule.avoids(view, cwnd, counted).max(mss);
        (window, window.min(ssthresh))
    }

    fn save(&mut self, view: &View) {
        self.saved = Some(Saved {
            cwnd: view.control.cwnd.get(),
            ssthresh: view.control.ssthresh.get(),
            rule: self.rule.clone(),
            plus_plus: self.plus_plus.take(),
        });
    }

    fn reduced(&mut self, view: &View, cause: Cause, cwnd: u64, flight: u64) -> u64 {
        let mss = view.mss.get();
        let window = self.rule.reduces(view, cause, cwnd, flight.min(cwnd));
        window.min(cwnd.max(2 * mss)).max(mss)
    }

    fn congestion(&mut self, view: &View, cause: Cause, flight: u64) -> (u64, u64) {
        let (cwnd, ssthresh, mss) = (view.control.cwnd.get(), view.control.ssthresh.get(), view.mss.get());
        if matches!(self.phase, Phase::Repairing { .. } | Phase::AfterTimeout) {
            return (cwnd, ssthresh);
        }
        self.save(view);
        let mut window = self.reduced(view, cause, cwnd, flight);
        let marks = cause == Cause::Ecn;
        if marks {
            window = window.min(cwnd);
        }
        self.phase = Phase::Repairing { window, marks };
        (window, window.max(2 * mss))
    }

    fn timeout(&mut self, view: &View, flight: u64, again: bool) -> (u64, u64) {
        let (cwnd, ssthresh, mss) = (view.control.cwnd.get(), view.control.ssthresh.get(), view.mss.get());
        let threshold = match (self.phase, &self.saved) {
            // RFC 5681 section 3.1: ssthresh stays when the same segment times out again.
            (Phase::AfterTimeout, _) if again => return (mss, ssthresh),
            (Phase::Repairing { marks, .. }, Some(saved)) => {
                let reference = saved.cwnd;
                if marks {
                    self.save(view);
                }
                if self.arithmetic == Arithmetic::Linux {
                    ssthresh
                } else {
                    self.reduced(view, Cause::Loss, reference, flight).min(ssthresh)
                }
            }
            _ => {
                self.save(view);
                self.reduced(view, Cause::Loss, cwnd, flight)
            }
        };
        self.phase = Phase::AfterTimeout;
        self.rule.forgets(view, Forget::Timeout);
        (mss, threshold.max(2 * mss))
    }

    fn exit(&mut self, view: &View, spurious: bool, bound: u64) -> (u64, u64) {
        let (cwnd, ssthresh, mss) = (view.control.cwnd.get(), view.control.ssthresh.get(), view.mss.get());
        let phase = std::mem::replace(&mut self.phase, Phase::Normal);
        if spurious {
            let Some(saved) = self.saved.take() else { return (cwnd, ssthresh) };
            self.rule.restores(cwnd, &saved.rule);
            self.plus_plus = saved.plus_plus;
            return (cwnd.max(saved.cwnd), ssthresh.max(saved.ssthresh));
        }
        self.rule.forgets(view, Forget::Recovery);
        let bound = bound.max(mss);
        let (window, marks) = match phase {
            Phase::Repairing { window, marks } => (window, marks),
            _ => (cwnd, false),
        };
        let limited = bound < window;
        if phase == Phase::AfterTimeout && !limited {
            self.phase = Phase::Ended { counts: true };
        } else if limited || !marks {
            self.phase = Phase::Ended { counts: self.arithmetic == Arithmetic::Linux };
        }
        (window.min(bound), ssthresh)
    }

    fn resume(&mut self, view: &View, restart: u64) -> (u64, u64) {
        let (cwnd, ssthresh) = (view.control.cwnd.get(), view.control.ssthresh.get());
        self.rule.forgets(view, Forget::Idle);
        let window = restart.max(view.mss.get());
        // RFC 2861 section 3: ssthresh keeps three quarters of the window.
        if window < cwnd { (window, ssthresh.max(cwnd - cwnd / 4)) } else { (cwnd, ssthresh) }
    }
}

/// Bytes by which a window of floating-point arithmetic may differ.
const ROUNDING: u64 = 1;

impl<R: Rule> Specification for Windows<R> {
    fn on(&mut self, view: &View, event: &Event, asked: &Control) -> Option<Control> {
        let same = (view.control.cwnd.get(), view.control.ssthresh.get());
        let (cwnd, ssthresh) = match *event {
            Event::Established => same,
            Event::Sent { idle, .. } => {
                if let Some(idle) = idle {
                    self.rule.starts(view, idle);
                }
                same
            }
            Event::Ack(ref ack) => self.ack(view, ack),
            Event::Congestion { cause, flight } => self.congestion(view, cause, flight.get()),
            Event::Timeout { flight, again } => self.timeout(view, flight.get(), again),
            Event::RecoveryExit { spurious, exit } => self.exit(view, spurious, exit.get()),
            Event::Resume { restart, .. } => self.resume(view, restart.get()),
        };
        let cwnd = self.rule.varies(view, cwnd).filter(|other| *other == asked.cwnd.get()).unwrap_or(cwnd);
        let near = |one: u64, other: u64| one.abs_diff(other) <= ROUNDING;
        if near(cwnd, asked.cwnd.get()) && near(ssthresh, asked.ssthresh.get()) && asked.pacing.is_none() {
            if cwnd != asked.cwnd.get() {
                self.rule.rounds(if asked.cwnd.get() > cwnd { 1 } else { -1 });
                if let Phase::Repairing { window, .. } = &mut self.phase {
                    *window = asked.cwnd.get();
                }
            }
            return None;
        }
        Some(Control { cwnd: Bytes::new(cwnd), ssthresh: Bytes::new(ssthresh), pacing: None })
    }

    fn variables(&self) -> String {
        format!(" (phase {:?}{})", self.phase, self.rule.variables())
    }
}
