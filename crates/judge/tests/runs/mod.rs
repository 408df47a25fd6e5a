//! Runs of the model whose logs the tests judge.

use std::collections::BTreeMap;
use tcpassay_case::Case;
use tcpassay_case::params::Value;
use tcpassay_measure::{CollectOptions, Recording};
use tcpassay_sim::{SimOptions, run};
use tcpassay_units::Seed;

/// Parameters with their values.
pub type Rows = [(&'static str, &'static str)];

/// The case with these settings. Later ones replace earlier ones.
pub fn case(rows: &[&Rows]) -> Case {
    let triples: BTreeMap<String, Value> = rows
        .iter()
        .flat_map(|rows| rows.iter())
        .map(|(path, value)| ((*path).to_owned(), Value::Text((*value).to_owned())))
        .collect();
    Case::from_triples(&triples).unwrap_or_else(|problems| panic!("{rows:?}: {problems:?}"))
}

/// The recording of a run of the case, with its event log.
pub fn recording(case: &Case) -> Recording {
    let collect = CollectOptions { events: true, latency: true, ..CollectOptions::default() };
    run(case, Seed(1), &SimOptions { collect, ..SimOptions::default() }).recording
}
