//! The substrate `model`: tables of parameters and metrics, checking and running of cases.

use crate::controllers;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyBytes, PyDict};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tcpassay_case::params::{self, Substrate, Value};
use tcpassay_case::{Case, CaseError as Wrong, read_file};
use tcpassay_measure::metrics::{Metrics, metrics};
use tcpassay_measure::reason::RunEnd;
use tcpassay_measure::{CollectOptions, ColumnData, Recording};
use tcpassay_sim::{Commands, EndReason, SimOptions, run};
use tcpassay_units::{Seed, UnitError};

create_exception!(
    _native,
    CaseError,
    PyException,
    "A case that cannot be run. `args[0]` is a list of (path, other path or None, value or None, reason)."
);

create_exception!(
    _native,
    StackError,
    PyException,
    "A real TCP cannot be used any more. `args` are the outcome of the run and the reason."
);

/// A value of a triple, as in TOML.
#[derive(Clone, FromPyObject)]
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

pub(crate) fn case(substrate: Substrate, triples: BTreeMap<String, Scalar>, base: &Path) -> PyResult<Case> {
    let triples = triples.into_iter().map(|(path, value)| (path, value.into())).collect();
    Case::on(substrate, &triples, &|name| read_file(&base.join(name))).map_err(|errors| {
        let tuple = |e: Wrong| (e.path, e.other, e.value.map(|v| v.to_string()), e.why);
        CaseError::new_err((errors.into_iter().map(tuple).collect::<Vec<_>>(),))
    })
}

/// Checks a case; file names in values are relative to `base`. Nothing of the files is executed. Returns the values that
/// differ from the defaults, as text. With `remote` the case is one for the hosts of a testbed, otherwise for the model.
#[pyfunction]
#[pyo3(signature = (triples, base, remote=false))]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over")]
pub fn check_case(
    triples: BTreeMap<String, Scalar>,
    base: PathBuf,
    remote: bool,
) -> PyResult<BTreeMap<String, String>> {
    let case = case(if remote { Substrate::Remote } else { Substrate::Model }, triples, &base)?;
    for host in &case.hosts {
        if let Some(class) = &host.python
            && let Err(text) = controllers::inspect(class)
        {
            let value = format!("python:{}:{}", class.file, class.class);
            let wrong = ("stack.cc".to_owned(), None::<String>, Some(value), text);
            return Err(CaseError::new_err((vec![wrong],)));
        }
    }
    Ok(case.to_triples().into_iter().map(|(path, value)| (path, value.to_string())).collect())
}

/// The data to collect; see [`CollectOptions`].
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct CollectArguments {
    series: Option<String>,
    warmup: String,
    deliveries: bool,
    events: bool,
    packets: bool,
}

impl CollectArguments {
    fn read(&self) -> PyResult<(CollectOptions, tcpassay_measure::metrics::MetricOptions)> {
        let time = |text: &String| text.parse().map_err(|e: UnitError| PyValueError::new_err(e.to_string()));
        let warmup = time(&self.warmup)?;
        let collect = CollectOptions {
            series: self.series.as_ref().map(time).transpose()?,
            latency: true,
            deliveries: self.deliveries,
            events: self.events,
            packets: self.packets,
            warmup,
            // The model counts packets itself.
            unseen: false,
        };
        Ok((collect, tcpassay_measure::metrics::MetricOptions { warmup }))
    }
}

/// Runs a case, writes its recording to `folder` completely or not at all, and returns a JSON object with `ended`,
/// `events`, `hops`, `trace` and `metrics`.
#[pyfunction]
pub fn run_case(
    py: Python<'_>,
    triples: BTreeMap<String, Scalar>,
    seed: u64,
    base: PathBuf,
    collect: CollectArguments,
    folder: PathBuf,
) -> PyResult<String> {
    let ran = run_held(py, triples, seed, base, collect, None)?;
    ran.write(py, folder, true)?;
    let (events, hops) = (ran.events, ran.hops);
    let summary = serde_json::json!({
        "ended": ran.ended, "events": events, "hops": hops, "trace": ran.trace, "metrics": ran.metrics,
    });
    Ok(summary.to_string())
}

/// A column of a table, as Python lists.
#[derive(FromPyObject)]
pub enum Column {
    Whole(Vec<u64>),
    Real(Vec<Option<f64>>),
    Text(Vec<Option<String>>),
}

/// A Parquet file of named columns of equal length.
#[pyfunction]
pub fn parquet(py: Python<'_>, columns: Vec<(String, Column)>) -> PyResult<Bound<'_, PyBytes>> {
    let values = |column| match column {
        Column::Whole(v) => ColumnData::Whole(v.into_iter().map(Some).collect()),
        Column::Real(v) => ColumnData::Real(v.into_iter().map(|x| x.unwrap_or(f64::NAN)).collect()),
        Column::Text(v) => ColumnData::Maybe(v),
    };
    let columns = columns.into_iter().map(|(name, column)| (name, values(column))).collect();
    let bytes = tcpassay_measure::parquet(columns).map_err(PyValueError::new_err)?;
    Ok(PyBytes::new(py, &bytes))
}

/// XXH3-64 of some bytes as sixteen hexadecimal digits.
#[pyfunction]
pub fn checksum(bytes: &[u8]) -> String {
    tcpassay_measure::checksum(bytes)
}

/// A run with its recording in memory.
#[pyclass(frozen)]
pub struct Ran {
    recording: Recording,
    metrics: Metrics,
    events: u64,
    hops: u64,
    /// The name of a [`RunEnd`].
    #[pyo3(get)]
    ended: &'static str,
    /// Equal for runs that processed the same events.
    #[pyo3(get)]
    trace: String,
}

/// Runs a case and keeps its recording in memory. `commands` are the commands of `exec:` that may be started, each with the files
/// that are used instead of its words.
#[pyfunction]
#[pyo3(signature = (triples, seed, base, collect, commands = None))]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over")]
pub fn run_held(
    py: Python<'_>,
    triples: BTreeMap<String, Scalar>,
    seed: u64,
    base: PathBuf,
    collect: CollectArguments,
    commands: Option<Commands>,
) -> PyResult<Ran> {
    let case = case(Substrate::Model, triples, &base)?;
    let (collect, measured) = collect.read()?;
    let failure = controllers::begin();
    let options = SimOptions {
        collect,
        python: Some(controllers::build),
        stop: Some(&failure.stop),
        commands: commands.as_ref(),
        ..SimOptions::default()
    };
    py.detach(|| {
        let outcome = run(&case, Seed(seed), &options);
        failure.result()?;
        let ended = match outcome.ended {
            EndReason::Duration => RunEnd::Duration.name(),
            EndReason::Finished => RunEnd::Finished.name(),
            EndReason::EventLimit => RunEnd::EventLimit.name(),
            EndReason::StackFailed => {
                let (host, why) = outcome.failure.expect("a run that a stack ended");
                return Err(StackError::new_err((why.kind.outcome(), format!("{host}: {why}"))));
            }
            EndReason::Interrupted => unreachable!("the run has no stop flag"),
        };
        let (events, trace) = outcome.trace;
        let metrics = metrics(&outcome.recording, measured);
        let (hops, recording) = (outcome.hops, outcome.recording);
        Ok(Ran { recording, metrics, events, hops, ended, trace: format!("{trace:016x}") })
    })
}

#[pymethods]
impl Ran {
    /// Number of rows of the event log.
    fn __len__(&self) -> usize {
        self.recording.events.len()
    }

    /// Whether a host had another TCP than the model.
    #[getter]
    fn partly_judged(&self) -> bool {
        let header = &self.recording.header;
        let changes = |path: &str| matches!(path, "link.mtu" | "link.rewrite" | "stack.mtu_probing");
        !header.stacks.is_empty() || header.case.iter().any(|triple| changes(&triple.parameter))
    }

    /// The metrics of the whole run by name; empty when the run has none.
    #[getter]
    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.metrics.values.0.iter().copied().collect::<BTreeMap<_, _>>().into_py_dict(py)
    }

    /// Writes the recording to `folder` completely or not at all; `events` selects whether the event log is written.
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over")]
    fn write(&self, py: Python<'_>, folder: PathBuf, events: bool) -> PyResult<()> {
        py.detach(|| self.recording.write_as(&folder, events))
            .map_err(|why| PyOSError::new_err(why.to_string()))
    }

    /// The text of `recording.json` without the list of other files; nothing is written.
    fn index(&self) -> PyResult<String> {
        self.recording.index().map_err(|why| PyOSError::new_err(why.to_string()))
    }

    /// A checksum of everything except the event log.
    fn digest(&self, py: Python<'_>) -> PyResult<String> {
        let sum = py.detach(|| self.recording.digest()).map_err(|why| PyOSError::new_err(why.to_string()))?;
        Ok(format!("{sum:016x}"))
    }

    /// Times of the rows of the event log in nanoseconds: 64-bit little-endian integers.
    fn times<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let times = self.recording.events.times();
        PyBytes::new_with(py, 8 * times.len(), |out| {
            for (place, time) in out.as_chunks_mut::<8>().0.iter_mut().zip(times) {
                *place = time.as_nanos().to_le_bytes();
            }
            Ok(())
        })
    }

    /// Kinds of the rows of the event log, one byte each: the index in `EventKind::ALL`.
    fn kinds<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let kinds: Vec<u8> = self.recording.events.kinds().map(|(kind, _)| kind as u8).collect();
        PyBytes::new(py, &kinds)
    }

    /// The given rows of the event log: a JSON list of objects with the columns of `events.parquet`.
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over")]
    fn rows(&self, rows: Vec<usize>) -> String {
        rows.iter().map(|row| self.recording.event_row(*row)).collect::<serde_json::Value>().to_string()
    }

    /// Applies the oracles named in `oracles`. Returns the findings, a JSON list.
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over")]
    fn judged(&self, py: Python<'_>, oracles: Vec<String>) -> String {
        py.detach(|| crate::judge::judged(&self.recording, &oracles))
    }

    /// Counts the behaviours that the run reached, a JSON object.
    fn reached(&self, py: Python<'_>) -> String {
        py.detach(|| crate::judge::counts(&self.recording))
    }

    /// `packets.pcapng`; empty when no packets were captured.
    fn capture<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.recording.capture().map_err(PyOSError::new_err)?))
    }
}
