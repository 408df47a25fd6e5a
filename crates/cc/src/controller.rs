//! Tier 1, and how controllers are made.

use crate::event::{Control, Event, View};
use std::collections::BTreeMap;
use std::fmt;
use tcpassay_units::{Seed, Stream};

/// A congestion controller that sees every event.
///
/// `on` is a pure function of the state, the view and the event: no clock, no environment, randomness only from
/// the stream given in [`Params`]. Cloning gives an independent controller in the same state.
pub trait Controller: fmt::Debug + Send {
    /// The name under which [`build`](crate::build) makes it (`"reno"`).
    fn name(&self) -> &'static str;

    /// Decides. The answer is absolute: it replaces the control in force.
    fn on(&mut self, view: &View, event: &Event) -> Control;

    /// Named inner variables for recordings (`("alpha", 0.06)`), windows in bytes and times in seconds; empty when
    /// there are none.
    fn internals(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }

    /// DCTCP's estimate of the share of marked bytes (RFC 8257 section 3.3), also among [`Controller::internals`]; here
    /// without their vector, because series ask each connection for it in each interval. `None` of other controllers.
    fn alpha(&self) -> Option<f64> {
        None
    }

    /// Whether [`Event::Sent`] can change anything. It comes for every segment: a controller that has no use for it
    /// says so and is not asked.
    fn wants_sent_events(&self) -> bool {
        true
    }

    /// An independent copy in the same state.
    fn boxed_clone(&self) -> Box<dyn Controller>;
}

impl Clone for Box<dyn Controller> {
    fn clone(&self) -> Self {
        self.boxed_clone()
    }
}

/// How slow start counts an ACK (the parameter `stack.abc`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ByteCounting {
    /// One MSS an ACK, as RFC 5681 section 3.1 allows at most without RFC 3465: a delayed ACK counts once.
    PerAck,
    /// Appropriate byte counting with a limit of `n` MSS an ACK (RFC 3465; L = 2).
    Limit(u32),
    /// All bytes acknowledged, without limit (Linux since 3.13; RFC 9406 recommends so with pacing).
    #[default]
    All,
}

/// What ends the first slow start before a loss (the parameter `stack.hystart`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Hystart {
    /// Nothing does.
    #[default]
    Off,
    /// HyStart++ (RFC 9406), for every controller under the skeleton.
    PlusPlus,
    /// HyStart as Linux has it in its CUBIC, and in nothing else.
    Linux(Detect),
}

/// Which detections are on (`hystart_detect`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Detect {
    /// The length of ACK trains.
    pub train: bool,
    /// The rise of the round trip.
    pub delay: bool,
}

impl Detect {
    /// Linux's default.
    pub const ALL: Detect = Detect { train: true, delay: true };
}

/// How a controller computes, where its RFC, Linux and FreeBSD differ (the parameter `stack.cc_arithmetic`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Arithmetic {
    /// As its RFC says, in bytes and nanoseconds.
    #[default]
    Rfc,
    /// As Linux does, in whole segments and milliseconds: CUBIC, DCTCP, Reno and Vegas (microseconds) have such a form.
    Linux,
    /// As FreeBSD 14 does: reductions, by marks, too, leave two segments, Reno's whole ones, and CUBIC's first halves; slow start goes
    /// on at ssthresh, beyond which its last ACK may take the window (`newreno_cong_signal`, `newreno_ack_received`,
    /// `cubic_ssthresh_update`).
    FreeBsd,
}

/// What a controller is made of, besides its name.
#[derive(Clone, Debug)]
pub struct Params {
    /// Parameters of the controller by name (`stack.cc.<name>`), e.g. `beta = 0.7`. Absent ones have defaults.
    pub values: BTreeMap<String, f64>,
    /// Slow start's counting (skeleton).
    pub byte_counting: ByteCounting,
    /// What ends the first slow start before a loss.
    pub hystart: Hystart,
    /// Whose arithmetic.
    pub arithmetic: Arithmetic,
    /// The controller's own rng.
    pub rng: Stream,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            values: BTreeMap::new(),
            byte_counting: ByteCounting::default(),
            hystart: Hystart::Off,
            arithmetic: Arithmetic::Rfc,
            rng: Seed(0).stream("cc"),
        }
    }
}

/// One parameter of one controller, for the parameter table.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ParamInfo {
    /// Name under `stack.cc.`.
    pub name: &'static str,
    /// Value when nothing is said.
    pub default: f64,
    /// Smallest and largest allowed value, inclusive.
    pub range: (f64, f64),
    /// One line.
    pub doc: &'static str,
}
