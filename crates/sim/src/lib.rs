//! The substrate `model`. One run of a case is a function of (case, seed, version).
//!
//! * [`element`] - the elements between two stacks: links, queues, shapers, impairments, NICs, switches.
//! * [`engine`] - virtual clock, event queue, packets, the graph of elements and its event loop.
//! * [`run()`] - builds the network of a case, adds the hosts, runs it, and returns the recording.
//!
//! # Example
//!
//! ```
//! use std::collections::BTreeMap;
//! use tcpassay_case::{Case, params::Value};
//! use tcpassay_sim::{SimOptions, run};
//! use tcpassay_units::Seed;
//!
//! let triples = [("link.rate", "100Mbit"), ("link.delay", "5ms"), ("app.flow_size", "1MB")];
//! let triples: BTreeMap<_, _> =
//!     triples.into_iter().map(|(path, value)| (path.to_owned(), Value::from(value))).collect();
//! let case = Case::from_triples(&triples).unwrap();
//! let outcome = run(&case, Seed(1), &SimOptions::default());
//! assert_eq!(outcome.recording.completions.len(), 1);
//! assert_eq!(outcome.recording.flows[0].counters.read_bytes, 1_000_000);
//! ```
//!
//! Order of a run: the case is checked; then the elements and the hosts are created, each with a random stream named
//! after it; then events run in the order of (time, insertion) until `app.duration` has passed or no event is left.
//! Collectors are read between events and create no event. The crate uses no clock and no environment: time is
//! virtual and inputs are arguments.

pub mod element;
pub mod engine;
mod host;
mod network;
mod python;
mod run;

pub use python::BuildPython;
pub use run::{EndReason, RunOutcome, SimOptions, run};
pub use tcpassay_measure::CollectOptions;
pub use tcpassay_stack::process::Commands;
