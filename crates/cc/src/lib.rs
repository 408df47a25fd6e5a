//! Congestion control as pure functions: `(state, view, event) -> (state', Control)`.
//!
//! A controller reads a [`View`], receives an [`Event`], and returns a complete, absolute [`Control`]. It has no
//! access to sequence numbers, timers or headers, because this crate depends on `units` alone. The DCTCP bug, where a
//! controller sent ACKs itself and cleared a timer of the receiver, cannot be written with this interface.
//!
//! # Two interfaces
//!
//! * [`Controller`] receives every event (for BBR, a prototype, or a deliberately faulty controller).
//! * [`WindowRule`] contains only arithmetic. [`Windowed`] turns it into a controller and implements slow start, byte
//!   counting, the app-limited rule, the collapse after an RTO, restart after idle, and undo. The rule for Reno then
//!   has fifteen lines.
//!
//! # The order of events (the sender asserts it in debug builds)
//!
//! `Established` is the first event and occurs once. For each arriving ACK the sender updates scoreboard, round-trip
//! time and loss marking; then at most one `Congestion` and at most one `RecoveryExit` occur, and then exactly one
//! `Ack`; both occur for one ACK only where a tail loss probe repaired the loss, and, in the other order, where the loss of a
//! retransmission after a `Timeout` begins the next recovery. Then the sender transmits, with a
//! `Sent` event for each transmission. Between `Congestion` (at most once per
//! window) and `RecoveryExit` the data path decides what to send (PRR, RFC 6675 pipe); the controller receives every
//! `Ack`, but its `cwnd` takes effect at `RecoveryExit`. When one ACK ends a recovery and also contains the reason
//! for the next one, the next `Congestion` follows its `Ack`. A controller that governs recovery receives a second
//! `Congestion`, of `Cause::Loss`, for losses in a window of which it was told of a mark.
//!
//! `Timeout` also begins a recovery, which `RecoveryExit` ends. It may occur during a recovery that `Congestion`
//! began; one `RecoveryExit` then ends both. After a `Timeout` the controller's `cwnd` takes effect immediately, and
//! slow start increases it while the losses are repaired; no `Congestion` occurs before the `RecoveryExit`.
//!
//! A recovery may be proven spurious after it has ended, because a DSACK arrives a round trip late. A second
//! `RecoveryExit` with `spurious` then follows the first one, before the next `Congestion` or `Timeout`. A reduction
//! caused by ECN is never undone: a spurious retransmission does not invalidate the mark.
//!
//! # Example
//!
//! ```
//! use tcpassay_cc::{Control, Controller, Event, Params, View, build};
//! use tcpassay_units::Bytes;
//!
//! let mut reno = build("reno", &Params::default()).unwrap();
//! let control = Control { cwnd: Bytes::new(14_600), ssthresh: Bytes::MAX, pacing: None };
//! let view = View::start(Bytes::new(1460), control);
//! assert_eq!(reno.on(&view, &Event::Established).cwnd, Bytes::new(14_600));
//! ```

mod additive_increase;
mod cbrt;
pub mod conformance;
mod controller;
mod error;
mod event;
mod hystart_plus_plus;
mod param_values;
mod rule;
mod rules;
mod windowed;

pub use additive_increase::AdditiveIncrease;
pub use controller::{
    AckCount, Arithmetic, ByteCounting, Controller, HystartDetect, HystartMode, LinuxParam, ModuleValue,
    ParamInfo, Params, Transmissions,
};
pub use error::BuildError;
pub use event::{Ack, Cause, Control, Event, Limited, RateSample, View};
pub use param_values::ParamValues;
pub use rule::{ResetReason, WindowRule};
pub use rules::{
    Bbr, Bbr3, Cubic, Dctcp, LinuxCubic, ModifiedVegas, NAMES, Reno, Vegas, build, names, params,
    window_based,
};
pub use windowed::Windowed;
