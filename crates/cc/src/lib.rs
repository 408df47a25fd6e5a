//! Congestion control as pure decisions: `(state, view, event) -> (state', Control)`.
//!
//! A controller reads a [`View`], is told an [`Event`], and answers with a whole, absolute [`Control`]. It cannot
//! see a sequence number, a timer or a header: this crate depends on `units` alone, so the DCTCP bug, where a
//! controller sent ACKs itself and cleared a timer it did not know of, cannot be written here.
//!
//! # Two tiers
//!
//! * [`Controller`] sees every event (BBR, a prototype, a deliberately broken mutant).
//! * [`WindowRule`] is arithmetic only; [`Windowed`] is the shared skeleton around it that owns slow start,
//!   byte counting, the app-limited rule, the collapse after an RTO, restart after idle, and undo. Reno is then
//!   fifteen lines.
//!
//! # The order of events (the sender asserts it in debug builds)
//!
//! `Established` comes first, once. For each arriving ACK the sender updates scoreboard, round-trip time and loss
//! marks; then tells at most one of `Congestion` and `RecoveryExit`; then exactly one `Ack`; then it sends, telling `Sent` for
//! each transmission. Between `Congestion` (at most once a window) and `RecoveryExit` the data path decides what to send (PRR,
//! RFC 6675 pipe); the controller is told every `Ack` but its `cwnd` takes effect at `RecoveryExit`.
//! When one ACK both ends a recovery and shows the reason of the next one, the next `Congestion` follows its `Ack`.
//!
//! `Timeout` opens a recovery too: it is ended by `RecoveryExit`, like `Congestion`. It may come in the middle of a recovery that
//! `Congestion` opened; one `RecoveryExit` then ends both. After a `Timeout` the controller's `cwnd` is in force at once, and
//! slow start rebuilds it while the losses are repaired; no `Congestion` comes before the `RecoveryExit`.
//!
//! The proof that a recovery was false may come when it is over, a DSACK being a round trip late: a second `RecoveryExit`, a
//! spurious one, then follows the first, before the next `Congestion` or `Timeout`. What marks began is never told to be
//! false.
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

mod additive;
mod cbrt;
pub mod conformance;
mod controller;
mod error;
mod event;
mod hystart;
mod registry;
mod rule;
mod rules;
mod values;
mod windowed;

pub use additive::Additive;
pub use controller::{Arithmetic, ByteCounting, Controller, Detect, Hystart, ParamInfo, Params};
pub use error::BuildError;
pub use event::{Ack, Cause, Control, Event, Limited, View};
pub use registry::{build, names, params};
pub use rule::{Reset, WindowRule};
pub use rules::{Cubic, Dctcp, LinuxCubic, ModifiedVegas, Reno, Vegas};
pub use values::Values;
pub use windowed::Windowed;
