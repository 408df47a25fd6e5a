//! The substrate `model`: one run of a case is a function of (case, seed, version).
//!
//! * [`element`] - what a packet meets between two stacks: links, queues, shapers, faults, NICs, switches.
//! * [`engine`] - virtual clock, event queue, packets, the graph of elements and its run loop.
//! * [`run()`] - builds the graph of a case, puts hosts on it, runs it, and gives the recording.
//!
//! # Example
//!
//! ```
//! use std::collections::BTreeMap;
//! use tcpassay_case::{Case, params::Value};
//! use tcpassay_sim::{Options, run};
//! use tcpassay_units::Seed;
//!
//! let triples = [("link.rate", "100Mbit"), ("link.delay", "5ms"), ("app.flow_size", "1MB")];
//! let triples: BTreeMap<_, _> =
//!     triples.into_iter().map(|(path, value)| (path.to_owned(), Value::from(value))).collect();
//! let case = Case::from_triples(&triples).unwrap();
//! let outcome = run(&case, Seed(1), &Options::default());
//! assert_eq!(outcome.recording.completions.len(), 1);
//! assert_eq!(outcome.recording.flows[0].counters.read_bytes, 1_000_000);
//! ```
//!
//! The order of a run: the case is checked; elements, then hosts are made, each with a random stream named after it; events run in
//! the order of (time, insertion) until `app.duration` is over or nothing is left to do. Collectors are read between
//! events and never make one. No clock, no environment: time is virtual and inputs are arguments.

mod build;
pub mod element;
pub mod engine;
mod host;
mod run;

pub use run::{EndReason, RunOptions, RunOutcome, run};
pub use tcpassay_measure::CollectOptions;
