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
    /// In force, clamped.
    pub control: Control,
    /// Answers that had to be clamped.
    pub clamps: u64,
    order: Order,
}

/// What was told since the last ACK arrived (see the order of events in `tcpassay_cc`).
#[derive(Clone, Copy, Debug, Default)]
struct Order {
    established: bool,
    in_ack: bool,
    moved: bool,
    told: bool,
}

impl Driver {
    pub fn new(cc: Box<dyn Controller>) -> Driver {
        let control = Control { cwnd: Bytes::ZERO, ssthresh: Bytes::MAX, pacing: None };
        Driver { cc, control, clamps: 0, order: Order::default() }
    }

    /// The controller's name.
    pub fn name(&self) -> &'static str {
        self.cc.name()
    }

    /// The controller's inner variables.
    pub fn internals(&self) -> Vec<(&'static str, f64)> {
        self.cc.internals()
    }

    /// An ACK begins.
    pub fn begin_ack(&mut self) {
        self.order =
            Order { in_ack: true, ..Order { established: self.order.established, ..Order::default() } };
    }

    /// The ACK is dealt with.
    pub fn end_ack(&mut self) {
        self.order.in_ack = false;
    }

    /// Whether this ACK has told `Enter` or `Leave` already.
    pub fn moved(&self) -> bool {
        self.order.in_ack && self.order.moved
    }

    /// Whether the last ACK told `Enter` or `Leave`.
    pub fn moved_last(&self) -> bool {
        self.order.moved
    }

    /// Tells `event`; the answer, clamped, is in force. Panics in debug builds when the order is broken.
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

    fn check(&mut self, event: &Event) {
        let o = &mut self.order;
        match event {
            Event::Established => {
                debug_assert!(!o.established, "Established is told once");
                o.established = true;
            }
            Event::Enter { .. } | Event::Leave { .. } => {
                debug_assert!(!o.in_ack || !o.told, "Enter and Leave come before Ack");
                debug_assert!(!o.in_ack || !o.moved, "one of Enter and Leave an ACK");
                o.moved = true;
            }
            Event::Ack(_) => {
                debug_assert!(o.in_ack && !o.told, "one Ack an ACK");
                o.told = true;
            }
            Event::Timeout { .. } => debug_assert!(!o.in_ack, "a timeout is not an ACK"),
            Event::Sent { .. } | Event::Resume { .. } => debug_assert!(!o.in_ack, "sending follows the Ack"),
        }
        debug_assert!(self.order.established, "Established comes first");
    }
}
