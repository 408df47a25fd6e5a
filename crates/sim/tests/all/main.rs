//! Whole runs of the model.

mod determinism;
mod fallback;
mod linux;
mod metrics;
mod parameters;
mod paths;
mod properties;
mod rate_limiter;
mod stacks;
mod topologies;
mod transfer;

use std::collections::BTreeMap;
use tcpassay_case::{Case, params::Value};
use tcpassay_measure::{Flow, Recording};
use tcpassay_sim::{CollectOptions, RunOutcome, SimOptions, run};
use tcpassay_units::{Dur, Seed};

type Rows<'a> = &'a [(&'a str, &'a str)];

fn triples(rows: Rows) -> BTreeMap<String, Value> {
    rows.iter().map(|(path, value)| ((*path).to_owned(), Value::from(*value))).collect()
}

fn case(rows: Rows) -> Case {
    Case::from_triples(&triples(rows)).unwrap_or_else(|errors| panic!("{rows:?}: {errors:?}"))
}

fn go(rows: Rows) -> RunOutcome {
    go_with(rows, CollectOptions { latency: true, ..CollectOptions::default() })
}

fn go_with(rows: Rows, collect: CollectOptions) -> RunOutcome {
    run(&case(rows), Seed(1), &SimOptions { collect, ..SimOptions::default() })
}

/// Flows that carried payload.
fn data(recording: &Recording) -> Vec<&Flow> {
    recording.data_flows().map(|(_, flow)| flow).collect()
}

/// Bits per second that all applications together read over the run.
fn goodput(recording: &Recording) -> f64 {
    let bytes: u64 = data(recording).iter().map(|f| f.counters.read_bytes).sum();
    float(bytes) * 8.0 / recording.header.duration.as_secs_f64()
}

#[expect(clippy::cast_precision_loss, reason = "counts of a test run")]
fn float(n: u64) -> f64 {
    n as f64
}

fn ms(n: u64) -> Dur {
    Dur::from_millis(n)
}
