//! The second interface for controllers: [`WindowRule`], which contains only arithmetic.

use crate::{Ack, AckCount, Cause, ParamInfo, View};
use std::fmt;
use tcpassay_units::{Bytes, Dur, Rate};

/// The reason why a rule must discard its measurements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResetReason {
    /// The retransmission timer fired.
    Timeout,
    /// The connection resumes after idle.
    Idle,
    /// A recovery ended and was not undone. Measurements during the recovery do not describe the new window.
    Recovered,
}

/// The arithmetic of a window-based controller. [`Windowed`](crate::Windowed) calls it and implements recovery.
///
/// Measurement and decision are separate: `observe` is called for each ACK, also in slow start and recovery. `grow`
/// is called only in congestion avoidance, when the congestion window limited the sender or
/// [`grows_unused`](WindowRule::grows_unused) returns true.
pub trait WindowRule: fmt::Debug + Clone + Send + 'static {
    /// The controller's name.
    const NAME: &'static str;
    /// Its parameters.
    const PARAMS: &'static [ParamInfo];

    /// Whether the ACK with which slow start ends also counts in congestion avoidance: Linux's HyStart lowers ssthresh before the
    /// window grows (`hystart_update`, then `cubictcp_cong_avoid`).
    const LEAVES_BEFORE_GROWTH: bool = false;

    /// Whether [`start`](WindowRule::start) does anything.
    const WANTS_START: bool = false;

    /// The first transmission with nothing in flight, `idle` after the previous transmission.
    fn start(&mut self, _view: &View, _idle: Dur) {}

    /// Whether [`counted`](WindowRule::counted) does anything.
    const WANTS_COUNTS: bool = false;

    /// As [`Controller::counted`](crate::Controller::counted).
    fn counted(&mut self, _count: &AckCount) {}

    /// Processes an ACK, before any decision about it.
    fn observe(&mut self, _view: &View, _ack: &Ack) {}

    /// The window after `acked` more bytes in congestion avoidance. It may be smaller than the current one (Vegas);
    /// ssthresh is then reduced to it, so that slow start does not resume.
    fn grow(&mut self, view: &View, acked: Bytes) -> Bytes;

    /// The window at the end of the recovery, which is also the new ssthresh ([`Windowed`](crate::Windowed) limits
    /// ssthresh to at least two segments, RFC 5681 equation 4). See [`Event::Congestion`](crate::Event) for `flight`.
    fn reduce(&mut self, view: &View, cause: Cause, flight: Bytes) -> Bytes;

    /// Called for each ACK in slow start outside recovery, regardless of what limits the sender. Returns the window
    /// with which slow start ends, which also becomes ssthresh, or `None` to continue slow start.
    fn leave_slow_start(&mut self, _view: &View) -> Option<Bytes> {
        None
    }

    /// Whether the window also follows the rule when the sender does not fill it (Vegas in Linux). Called for each
    /// ACK outside recovery, before `grow` and `leave_slow_start`.
    fn grows_unused(&self) -> bool {
        false
    }

    /// Discards measurements. After a timeout, [`reduce`](WindowRule::reduce) was called before.
    fn reset(&mut self, _view: &View, _why: ResetReason) {}

    /// The reductions since `before`, an earlier state of this rule, were spurious: restores what they changed, but
    /// keeps later measurements.
    fn undo(&mut self, _view: &View, _before: &Self) {}

    /// The pacing rate, for rules that set one.
    fn pacing(&self, _view: &View) -> Option<Rate> {
        None
    }

    /// As [`Controller::internals`](crate::Controller::internals).
    fn internals(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
    /// As [`Controller::alpha`](crate::Controller::alpha).
    fn alpha(&self) -> Option<f64> {
        None
    }
}
