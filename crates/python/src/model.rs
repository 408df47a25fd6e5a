//! The substrate `model`: its tables, the check of a case, a run.

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyOSError, PyValueError};
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tcpassay_measure::Collect;
use tcpassay_sim::case::{Case, CaseError as Wrong};
use tcpassay_sim::params::{self, Value};
use tcpassay_sim::{Ended, Options, run};
use tcpassay_units::{Seed, UnitError};

create_exception!(
    _native,
    CaseError,
    PyException,
    "A case that cannot be run: `args[0]` is a list of (path, other path or None, value or None, what is wrong)."
);

/// A value of a triple, as TOML has it.
#[derive(FromPyObject)]
pub enum Scalar {
    Bool(bool),
    Int(i64),
    Real(f64),
    Text(String),
}

impl From<Scalar> for Value {
    fn from(scalar: Scalar) -> Value {
        match scalar {
            Scalar::Bool(b) => Value::Bool(b),
            Scalar::Int(n) => Value::Int(n),
            Scalar::Real(x) => Value::Real(x),
            Scalar::Text(t) => Value::Text(t),
        }
    }
}

/// The parameter table, a JSON list.
#[pyfunction]
pub fn params_json() -> String {
    params::to_json()
}

/// The metrics, a JSON list.
#[pyfunction]
pub fn metrics_json() -> String {
    tcpassay_measure::metrics::table_json()
}

fn case(triples: BTreeMap<String, Scalar>, base: &Path) -> PyResult<Case> {
    let triples = triples.into_iter().map(|(path, value)| (path, value.into())).collect();
    Case::with_files(&triples, &|name| std::fs::read_to_string(base.join(name))).map_err(|errors| {
        let tuple = |e: Wrong| (e.path, e.other, e.value.map(|v| v.to_string()), e.why);
        CaseError::new_err((errors.into_iter().map(tuple).collect::<Vec<_>>(),))
    })
}

/// Checks a case; files that values name are relative to `base`. Returns what is not at its default, as text.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over")]
pub fn check_case(triples: BTreeMap<String, Scalar>, base: PathBuf) -> PyResult<BTreeMap<String, String>> {
    let case = case(triples, &base)?;
    Ok(case.to_triples().into_iter().map(|(path, value)| (path, value.to_string())).collect())
}

/// What to collect; see [`Collect`].
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Wanted {
    series: Option<String>,
    warmup: String,
    deliveries: bool,
    events: bool,
    packets: bool,
}

impl Wanted {
    fn read(&self) -> PyResult<(Collect, tcpassay_measure::metrics::Options)> {
        let time = |text: &String| text.parse().map_err(|e: UnitError| PyValueError::new_err(e.to_string()));
        let collect = Collect {
            series: self.series.as_ref().map(time).transpose()?,
            latency: true,
            deliveries: self.deliveries,
            events: self.events,
            packets: self.packets,
        };
        Ok((collect, tcpassay_measure::metrics::Options { warmup: time(&self.warmup)? }))
    }
}

/// Runs a case, writes its recording to `folder` (whole or not at all), and returns a JSON object: `ended` (`duration`,
/// `finished`, `event limit`), `events`, `hops`, `trace` (equal for runs that took the same steps) and `metrics`.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over")]
pub fn run_case(
    py: Python<'_>,
    triples: BTreeMap<String, Scalar>,
    seed: u64,
    base: PathBuf,
    collect: Wanted,
    folder: PathBuf,
) -> PyResult<String> {
    let case = case(triples, &base)?;
    let (collect, measured) = collect.read()?;
    let options = Options { collect, ..Options::default() };
    py.detach(|| {
        let outcome = run(&case, Seed(seed), &options);
        outcome.recording.write(&folder).map_err(|why| PyOSError::new_err(why.to_string()))?;
        let ended = match outcome.ended {
            Ended::Duration => "duration",
            Ended::Finished => "finished",
            Ended::EventLimit => "event limit",
            Ended::Interrupted => unreachable!("nothing asks it to stop"),
        };
        let (events, trace) = outcome.trace;
        Ok(serde_json::json!({
            "ended": ended,
            "events": events,
            "hops": outcome.hops,
            "trace": format!("{trace:016x}"),
            "metrics": tcpassay_measure::metrics::metrics(&outcome.recording, measured),
        })
        .to_string())
    })
}
