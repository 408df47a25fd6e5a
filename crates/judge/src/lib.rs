//! Oracles that evaluate the event log of a run in one pass, and the behaviours that a run reached.
//!
//! * [`judge`] - applies the [`ORACLES`] to a recording and returns their findings.
//! * [`reached`] - counts the behaviours that a recording shows: event kinds, reasons, states, regimes.
//! * [`capture`] - the event log of a packet capture, for the oracles that need nothing but packets.
//!
//! The pass is a loop over the rows. For each connection end an [`end::End`] is kept: outstanding segments, SACKed ranges, what the
//! receiver holds, windows. Each oracle sees every row as a [`step::Step`]: the row, the end before it and after it. An oracle that
//! compares with settings (the smallest RTO, the controller) reads them from [`facts::Facts`], which are made of the case in the
//! header of the recording. Without facts those rules are not applied.
//!
//! The crate does not depend on the simulator, and it reads no files.

pub mod capture;
mod end;
mod facts;
mod finding;
mod reach;
mod rules;
mod step;

pub use finding::{Found, Level, Oracle};
pub use reach::reached;
pub use rules::{ORACLES, judge};
