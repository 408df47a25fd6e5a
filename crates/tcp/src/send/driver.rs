//! The interface to the controller: passes events in their documented order and clamps the result.

use crate::log::{Log, LogEvent, WindowCause};
use tcpassay_cc::{AckCount, Control, Controller, Event, Transmissions, View};
use tcpassay_units::Bytes;

/// The largest window that window scaling can express (RFC 7323 section 2.3).
const MAX_CWND: Bytes = Bytes::new(1 << 30);

/// Controller and the control in force.
#[derive(Clone, Debug)]
pub(super) struct Driver {
    cc: Box<dyn Controller>,
    transmissions: Transmissions,
    governs_recovery: bool,
    wants_counts: bool,
    /// The control in force, after clamping.
    control: Control,
    clamps: u64,
    stage: Stage,
    reduced: bool,
}

/// Position in the order of events (see `tcpassay_cc`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Before the event `Established`.
    Unconnected,
    /// Between two ACKs, when timers fire and segments are sent.
    BetweenAcks,
    /// An ACK is being processed, without an event so far.
    Ack,
    /// The ACK caused `Congestion`.
    Begun,
    /// The ACK caused `RecoveryExit`.
    Ended,
    /// The ACK caused `Ack`.
    Notified,
}

impl Driver {
    pub fn new(cc: Box<dyn Controller>) -> Driver {
        let control = Control { cwnd: Bytes::ZERO, ssthresh: Bytes::MAX, pacing: None };
        Driver {
            transmissions: cc.wants_sent_events(),
            governs_recovery: cc.governs_recovery(),
            wants_counts: cc.wants_counts(),
            cc,
            control,
            clamps: 0,
            stage: Stage::Unconnected,
            reduced: false,
        }
    }

    /// Replaces the controller; window and pacing rate stay in force.
    pub fn replace(&mut self, cc: Box<dyn Controller>) {
        self.transmissions = cc.wants_sent_events();
        self.governs_recovery = cc.governs_recovery();
        self.wants_counts = cc.wants_counts();
        self.cc = cc;
    }

    /// The controller's name.
    pub fn name(&self) -> &'static str {
        self.cc.name()
    }

    /// The controller's internal variables.
    pub fn internals(&self) -> Vec<(&'static str, f64)> {
        self.cc.internals()
    }

    /// As [`Controller::alpha`].
    pub fn alpha(&self) -> Option<f64> {
        self.cc.alpha()
    }

    /// The control in force.
    #[inline]
    pub fn control(&self) -> Control {
        self.control
    }

    /// Sets a window and a threshold that the controller did not compute: the initial window, or windows
    /// that are scaled with the segment size.
    pub fn set_control(&mut self, cwnd: Bytes, ssthresh: Bytes) {
        self.control.cwnd = cwnd;
        self.control.ssthresh = ssthresh;
    }

    /// Whether the controller wants an event for every transmission.
    #[inline]
    pub fn wants_sent_events(&self) -> Transmissions {
        self.transmissions
    }

    /// Whether the controller's window applies in every congestion state ([`Controller::governs_recovery`]).
    #[inline]
    pub fn governs_recovery(&self) -> bool {
        self.governs_recovery
    }

    /// Number of results of the controller that were clamped.
    pub fn clamps(&self) -> u64 {
        self.clamps
    }

    /// The processing of an ACK begins.
    #[inline]
    pub fn begin_ack(&mut self) {
        self.stage = Stage::Ack;
        self.reduced = false;
    }

    /// An ACK was counted ([`Controller::counted`]).
    #[inline]
    pub fn counted(&mut self, count: impl FnOnce() -> AckCount) {
        if self.wants_counts {
            self.cc.counted(&count());
        }
    }

    /// The processing of an ACK ends.
    #[inline]
    pub fn end_ack(&mut self) {
        self.stage = Stage::BetweenAcks;
    }

    /// Whether the last ACK caused `Congestion` or `RecoveryExit`.
    pub fn reduced(&self) -> bool {
        self.reduced
    }

    /// Passes `event` to the controller, clamps its result and applies it. Panics in debug builds if the
    /// order of events is violated.
    #[inline]
    pub fn on_event(&mut self, view: &View, event: &Event, why: WindowCause, log: &mut Log) {
        self.check(event);
        let asked = self.cc.on(view, event);
        self.apply(view, asked, why, log);
    }

    /// As [`Driver::on_event`], for a retransmission timeout after which the window is at least `least`.
    pub fn on_timeout(&mut self, view: &View, event: &Event, least: Bytes, log: &mut Log) {
        self.check(event);
        let asked = self.cc.on(view, event);
        self.apply(view, Control { cwnd: asked.cwnd.max(least), ..asked }, WindowCause::Timeout, log);
    }

    #[inline]
    fn apply(&mut self, view: &View, asked: Control, why: WindowCause, log: &mut Log) {
        let cwnd = asked.cwnd.max(view.mss).min(MAX_CWND);
        if cwnd != asked.cwnd {
            self.clamps += 1;
            log.put(view.now, || LogEvent::Clamped { asked: asked.cwnd, given: cwnd });
        }
        let given = Control { cwnd, ..asked };
        if given.cwnd != self.control.cwnd || given.ssthresh != self.control.ssthresh {
            log.put(view.now, || LogEvent::Window {
                cwnd: given.cwnd,
                ssthresh: given.ssthresh,
                flight: view.flight,
                why,
            });
        }
        self.control = given;
    }

    #[inline]
    fn check(&mut self, event: &Event) {
        match event {
            Event::Established => {
                debug_assert!(self.stage == Stage::Unconnected, "Established comes once");
                self.stage = Stage::BetweenAcks;
            }
            Event::Congestion { .. } | Event::RecoveryExit { .. } => {
                let ends = matches!(event, Event::RecoveryExit { .. });
                self.stage = match self.stage {
                    Stage::BetweenAcks => return,
                    // The episode of a timeout ends where a lost retransmission begins the next one.
                    Stage::Ack | Stage::Ended if !ends => Stage::Begun,
                    // A repair by a probe begins and ends with one ACK.
                    Stage::Ack | Stage::Begun if ends => Stage::Ended,
                    stage => {
                        debug_assert!(
                            false,
                            "at most one Congestion and at most one RecoveryExit for each ACK, before Ack; not when {stage:?}"
                        );
                        stage
                    }
                };
                self.reduced = true;
            }
            Event::Ack(_) => {
                debug_assert!(
                    matches!(self.stage, Stage::Ack | Stage::Begun | Stage::Ended),
                    "one Ack for each ACK"
                );
                self.stage = Stage::Notified;
            }
            Event::Timeout { .. } | Event::Sent { .. } | Event::Resume { .. } => {
                debug_assert!(self.stage == Stage::BetweenAcks, "{event:?} while an ACK is being processed");
            }
        }
    }
}
