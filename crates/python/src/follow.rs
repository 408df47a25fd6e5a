//! The model follows the ends of a recording.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;
use tcpassay_follow::{End, Outcome, Tolerance, follow, read};
use tcpassay_measure::Recording;
use tcpassay_units::Dur;

/// Follows each end of the recording in `folder`; files that its case names are in `base`. `time_ns` is the tolerance of times, and the fields
/// of `counted` are counted where they differ. Returns how far each end was followed, a JSON object.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over")]
pub fn follow_folder(
    py: Python<'_>,
    folder: PathBuf,
    base: PathBuf,
    time_ns: u64,
    counted: Vec<String>,
) -> PyResult<String> {
    let tolerance = Tolerance { time: Dur::from_nanos(time_ns), counted };
    py.detach(|| Recording::read(&folder).map(|recording| followed(&recording, &base, &tolerance)))
        .map_err(|e| PyValueError::new_err(e.to_string()))
}

fn followed(recording: &Recording, base: &std::path::Path, tolerance: &Tolerance) -> String {
    let file = |name: &str| tcpassay_case::read_file(&base.join(name));
    let not = |flow: Option<u32>, why: &str| serde_json::json!({ "flow": flow, "why": why });
    let (ends, unfollowed) = match read(recording, &file) {
        Ok((ends, unfollowed)) => (ends, unfollowed),
        Err(whole) => (Vec::new(), vec![whole]),
    };
    let ends: Vec<_> = ends.iter().map(|end| told(end, &follow(end, tolerance))).collect();
    let unfollowed: Vec<_> = unfollowed.iter().map(|one| not(one.flow, &one.why)).collect();
    serde_json::json!({ "ends": ends, "unfollowed": unfollowed }).to_string()
}

fn told(end: &End, outcome: &Outcome) -> serde_json::Value {
    let first = outcome.first.as_ref().map(|first| {
        serde_json::json!({
            "row": first.row, "time_ns": first.at.as_nanos(), "kind": first.kind.to_string(), "sent": first.sent,
            "expected": first.expected, "why": first.why, "source": first.source, "cause": first.cause,
        })
    });
    serde_json::json!({
        "flow": end.flow, "host": end.host, "rows": outcome.rows, "followed": outcome.followed,
        "segments": outcome.segments, "candidates": outcome.candidates, "counted": outcome.counted, "first": first,
    })
}
