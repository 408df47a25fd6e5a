//! Captures: rounds as text or JSON, the summary, and what the oracles find.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::fs::File;
use std::path::{Path, PathBuf};
use tcpassay_capture::siftr::{holds_siftr, read_limited};
use tcpassay_capture::{Analysis, AnalysisOptions, Interface, Reader, Steps};
use tcpassay_judge::capture::Capture;
use tcpassay_units::Time;

/// Number of packets that are read between two checks for an interrupt.
const STEP: u64 = 100_000;
/// The size of a file from which on a thread of its own analyses it: a smaller one takes a few hundredths of a second.
const LARGE: u64 = 16 << 20;

pub(crate) fn open(path: &Path, most_expanded: u64) -> PyResult<Reader<File>> {
    Reader::limited(File::open(path)?, most_expanded)
        .map_err(|error| PyValueError::new_err(error.to_string()))
}

/// The analysis of a capture, step by step.
#[pyclass]
pub struct CaptureAnalysis {
    steps: Steps<File>,
}

#[pymethods]
impl CaptureAnalysis {
    /// Opens a capture: at most `most_connections` are in memory with their state, and a compressed file may expand to `most_expanded`
    /// bytes. Raises `OSError` or, for a file that is not a capture, `ValueError`.
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over")]
    fn new(
        path: PathBuf,
        interface: Option<String>,
        merge_interfaces: bool,
        most_connections: u32,
        most_expanded: u64,
    ) -> PyResult<CaptureAnalysis> {
        let options = AnalysisOptions { interface, merge_interfaces, most_connections };
        let is_large = path.metadata()?.len() >= LARGE;
        Ok(CaptureAnalysis { steps: Steps::new(open(&path, most_expanded)?, options, is_large) })
    }

    /// Reads the next packets. Returns the rounds that ended since the last call (only those of `flow` if it
    /// is given), one line each, as text or with `json` as JSON. `None` at the end of the capture.
    fn rounds<'py>(
        &mut self,
        py: Python<'py>,
        flow: Option<u32>,
        json: bool,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let text = py.detach(|| {
            let mut text = String::new();
            for round in self.steps.rounds()? {
                if flow.is_none_or(|wanted| wanted == round.flow) {
                    text += &if json { serde_json::json!(round).to_string() } else { round.line() };
                    text.push('\n');
                }
            }
            Some(text)
        });
        py.check_signals()?;
        Ok(text.map(|text| PyBytes::new(py, text.as_bytes())))
    }

    /// The summary without flows, a JSON object. Raises `ValueError` before the end of the capture.
    fn summary(&self) -> PyResult<String> {
        let (analysis, interfaces) = self.analysis()?;
        Ok(serde_json::json!(analysis.summary_without_flows(interfaces)).to_string())
    }

    /// The summaries of the flows after the first `after`, at most `most`: a JSON list, without flows that are no longer in memory. Raises
    /// `ValueError` before the end of the capture.
    fn flows(&self, after: usize, most: usize) -> PyResult<String> {
        let (analysis, interfaces) = self.analysis()?;
        Ok(serde_json::json!(analysis.flow_summaries(interfaces, after, most)).to_string())
    }
}

impl CaptureAnalysis {
    fn analysis(&self) -> PyResult<(&Analysis, &[Interface])> {
        self.steps
            .analysis()
            .ok_or_else(|| PyValueError::new_err("rounds() has not reached the end of the capture"))
    }
}

/// The summary of a log of siftr with at most `connections`, which expands to at most `expanded` bytes, a JSON object; `None` for
/// another file. Raises `OSError`.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over")]
pub fn siftr_summary(
    py: Python<'_>,
    path: PathBuf,
    connections: usize,
    expanded: u64,
) -> PyResult<Option<String>> {
    // A file that cannot be decompressed is not a log of siftr. Reading it as a capture reports the reason.
    if !holds_siftr(File::open(&path)?).unwrap_or(false) {
        return Ok(None);
    }
    let log = py.detach(|| File::open(&path).and_then(|file| read_limited(file, connections, expanded)))?;
    Ok(Some(serde_json::json!(log).to_string()))
}

/// Applies the oracles named in `oracles` to a capture, each to the ends of connections of which the capture shows what it needs.
/// `limits`: connections in memory, bytes to which a compressed file may expand, packets in the log.
///
/// Returns a JSON object: the number of connections that have a log and of those that have none, whether the log has less packets than the
/// capture, the notes of the analysis, the findings with their frames, and the oracles that did not judge ends, with the reason. Times count
/// from the first packet. Raises `OSError` or, for a file that is not a capture, `ValueError`.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over")]
pub fn capture_judged(
    py: Python<'_>,
    path: PathBuf,
    interface: Option<String>,
    merge_interfaces: bool,
    oracles: Vec<String>,
    limits: (u32, u64, u64),
) -> PyResult<String> {
    let (most_connections, most_expanded, most_packets) = limits;
    let options = AnalysisOptions { interface, merge_interfaces, most_connections };
    let mut known = Analysis::new(options.clone());
    let mut reader = open(&path, most_expanded)?;
    while py.detach(|| known.read(&mut reader, STEP)) {
        known.take_rounds();
        py.check_signals()?;
    }
    let notes = known.summary_without_flows(reader.interfaces()).notes;
    let stalled = known.has_stalls();
    let mut reader = open(&path, most_expanded)?;
    let start = reader.next_packet().ok().flatten().and_then(|packet| packet.at_ns).map(Time::from_nanos);
    let mut reader = open(&path, most_expanded)?;
    let version = env!("CARGO_PKG_VERSION");
    let wanted: Vec<&str> = oracles.iter().map(String::as_str).collect();
    let mut signals = Ok(());
    #[expect(clippy::redundant_closure_for_method_calls, reason = "the method is not one for every lifetime")]
    let mut go_on = || {
        signals = Python::attach(|py| py.check_signals());
        signals.is_ok()
    };
    let capture =
        py.detach(|| Capture::read(&known, &options, &mut reader, start, version, most_packets, &mut go_on));
    signals?;
    let found = py.detach(|| capture.judge(&wanted));
    let recording = &capture.recording;
    let findings = found.iter().map(|one| {
        serde_json::json!({
            "oracle": one.oracle, "title": one.title, "flow": recording.flows[one.flow as usize].name,
            "host": recording.hosts[one.host as usize], "start_ns": one.start.as_nanos(),
            "end_ns": one.end.as_nanos(), "last_ns": one.last.as_nanos(), "severity": one.level.name(),
            "text": one.text, "frames": capture.frames(&one.rows), "count": one.count,
        })
    });
    let unjudged = capture
        .unjudged(&wanted)
        .into_iter()
        .map(|one| serde_json::json!({ "why": one.why, "oracles": one.oracles, "flows": one.flows }));
    Ok(serde_json::json!({
        "connections": capture.connections(), "unlogged": capture.unlogged, "cut": capture.cut, "notes": notes,
        "stalled": stalled, "findings": findings.collect::<serde_json::Value>(),
        "unjudged": unjudged.collect::<serde_json::Value>(),
    })
    .to_string())
}
