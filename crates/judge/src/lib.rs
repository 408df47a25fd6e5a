//! Oracles, which evaluate the event log of a run in one pass, and counts of the behaviours that a run
//! reached.
//!
//! * [`judge`] - applies the [`ORACLES`] to a recording and returns their findings.
//! * [`reached`] - counts the behaviours that a recording shows: event kinds, reasons, states, regimes.
//! * [`capture`] - converts a packet capture to an event log, for the oracles that only need segments.
//!
//! The pass is a loop over the rows ([`walk`]). It keeps an [`end::End`] for each connection end: outstanding segments,
//! SACKed ranges, data held by the receiver, windows. Each oracle receives the rows of the kinds that it reads (the table in [`rules`])
//! as a [`step::Step`]: the row, and the state of the end before and after it. An oracle that waits for something sets a deadline, and
//! receives the first row after it, too. An oracle that compares with settings (the
//! smallest RTO, the controller) reads them from [`facts::Facts`], which are computed from the case in the
//! header of the recording. For a recording without a case these rules are not applied.
//!
//! Some oracles need what follows a row or what came long before it: whether data that were sent again had
//! arrived, when the next ACK left. The pass also collects the segments of each end for them
//! ([`history::History`]), and they judge after the last row.
//!
//! The crate does not depend on the simulator, and it reads no files.

mod batches;
pub mod capture;
mod captured;
mod end;
mod facts;
mod finding;
mod history;
mod kinds;
mod needs;
mod own_packets;
mod reach;
mod rfc;
mod role;
mod rules;
mod srtt;
mod step;
mod taken;
mod walk;

pub use finding::{Found, Level, Oracle};
pub use needs::{EndLog, Need};
pub use reach::reached;
pub use rules::{ORACLES, Setting, judge, setting};
