//! Tier 2: arithmetic only.

use crate::{Ack, Cause, ParamInfo, View};
use std::fmt;
use tcpassay_units::{Bytes, Rate};

/// Why the skeleton tells a rule to forget.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reset {
    /// The retransmission timer fired.
    Timeout,
    /// The connection resumes after idle.
    Idle,
    /// A recovery is over and was not undone: what was measured in it does not speak of the new window.
    Recovered,
}

/// The arithmetic of a window-based controller. [`Windowed`](crate::Windowed) calls it; it never sees recovery.
///
/// Measure on every ACK, decide only when growth is allowed: `observe` runs on each ACK, in slow start and
/// recovery too; `grow` only in congestion avoidance, when the congestion window was what limited the sender or
/// [`grows_unused`](WindowRule::grows_unused) says that it does not matter.
pub trait WindowRule: fmt::Debug + Clone + Send + 'static {
    /// The controller's name.
    const NAME: &'static str;
    /// Its parameters.
    const PARAMS: &'static [ParamInfo];

    /// Every ACK, before any decision on it.
    fn observe(&mut self, _view: &View, _ack: &Ack) {}

    /// The window after `acked` more bytes in congestion avoidance. It may be smaller than the present one (Vegas);
    /// the skeleton then lowers ssthresh with it, so that slow start does not resume.
    fn grow(&mut self, view: &View, acked: Bytes) -> Bytes;

    /// The window that recovery ends with, and so the new ssthresh (which the skeleton keeps at two segments or
    /// more, RFC 5681 equation 4). `flight` as in [`Event::Congestion`](crate::Event).
    fn reduce(&mut self, view: &View, cause: Cause, flight: Bytes) -> Bytes;

    /// Asked on each ACK in slow start, outside recovery and whatever limits the sender: a window to leave slow
    /// start with now, or `None` to stay in it. It becomes ssthresh, too.
    fn leave_slow_start(&mut self, _view: &View) -> Option<Bytes> {
        None
    }

    /// Asked on each ACK outside recovery, before the two above: the window follows the rule also where the sender does not fill it
    /// (Vegas in Linux).
    fn grows_unused(&self) -> bool {
        false
    }

    /// Forget as `why` says. After a timeout, [`reduce`](WindowRule::reduce) has been asked before.
    fn reset(&mut self, _view: &View, _why: Reset) {}

    /// The reductions since `before`, this rule's state at that time, were false: take back what they changed, but
    /// keep what was measured meanwhile.
    fn undo(&mut self, _view: &View, _before: &Self) {}

    /// A pacing rate, for rules that set one.
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
