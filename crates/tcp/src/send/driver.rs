//! The controller, held at arm's length: it is told events in their documented order and its answer is clamped.

use crate::log::{Log, LogEvent};
use tcpassay_cc::{Control, Controller, Event, View};
use tcpassay_units::Bytes;

/// The largest window: what window scaling can express (RFC 7323 section 2.3).
const MAX_CWND: Bytes = Bytes::new(1 << 30);

/// Controller and the control in force.
#[derive(Clone, Debug)]
pub(super) struct Driver {
    cc: Box<dyn Controller>,
    /// Whether it wants to hear of every transmission.
    pub wants_sent_events: bool,
    /// In force, clamped.
    pub control: Control,
    /// Answers that had to be clamped.
    pub clamps: u64,
    stage: Stage,
    moved: bool,
}

/// Where the order of events stands (see `tcpassay_cc`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// `Established` has not been told.
    Before,
    /// No ACK is at work: timers fire, segments leave.
    Between,
    /// An ACK is at work and nothing was told.
    Ack,
    /// It told `Congestion` or `RecoveryExit`.
    Moved,
    /// It told `Ack`.
    Told,
}

impl Driver {
    pub fn new(cc: Box<dyn Controller>) -> Driver {
        let control = Control { cwnd: Bytes::ZERO, ssthresh: Bytes::MAX, pacing: None };
        Driver {
            wants_sent_events: cc.wants_sent_events(),
            cc,
            control,
            clamps: 0,
            stage: Stage::Before,
            moved: false,
        }
    }

    /// Another controller decides from now on; what is in force stays.
    pub fn replace(&mut self, cc: Box<dyn Controller>) {
        self.wants_sent_events = cc.wants_sent_events();
        self.cc = cc;
    }

    /// The controller's name.
    pub fn name(&self) -> &'static str {
        self.cc.name()
    }

    /// The controller's inner variables.
    pub fn internals(&self) -> Vec<(&'static str, f64)> {
        self.cc.internals()
    }

    /// As [`Controller::alpha`].
    pub fn alpha(&self) -> Option<f64> {
        self.cc.alpha()
    }

    /// An ACK begins.
    #[inline]
    pub fn begin_ack(&mut self) {
        self.stage = Stage::Ack;
        self.moved = false;
    }

    /// The ACK is dealt with.
    #[inline]
    pub fn end_ack(&mut self) {
        self.stage = Stage::Between;
    }

    /// Whether the last ACK told `Congestion` or `RecoveryExit`.
    pub fn moved(&self) -> bool {
        self.moved
    }

    /// Tells `event`; the answer, clamped, is in force. Panics in debug builds when the order is broken.
    #[inline]
    pub fn tell(&mut self, view: &View, event: &Event, why: &'static str, log: &mut Log) {
        self.check(event);
        let asked = self.cc.on(view, event);
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
                debug_assert!(self.stage == Stage::Before, "Established is told once");
                self.stage = Stage::Between;
            }
            Event::Congestion { .. } | Event::RecoveryExit { .. } => match self.stage {
                Stage::Between => {}
                Stage::Ack => {
                    self.stage = Stage::Moved;
                    self.moved = true;
                }
                stage => {
                    debug_assert!(
                        false,
                        "at most one of Congestion and RecoveryExit for each ACK, before Ack; not when {stage:?}"
                    );
                }
            },
            Event::Ack(_) => {
                debug_assert!(matches!(self.stage, Stage::Ack | Stage::Moved), "one Ack an ACK");
                self.stage = Stage::Told;
            }
            Event::Timeout { .. } | Event::Sent { .. } | Event::Resume { .. } => {
                debug_assert!(self.stage == Stage::Between, "{event:?} while an ACK is at work");
            }
        }
    }
}
