//! Oracles of the data plane: over a run in memory, or over a recording in a folder.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;
use tcpassay_judge::{Found, Need, ORACLES, judge, reached, setting};
use tcpassay_measure::Recording;

/// The descriptions of the oracles, a JSON list.
#[pyfunction]
pub fn oracles_json() -> String {
    let one = |oracle: &tcpassay_judge::Oracle, setting: &str| {
        let event = |need: &Need| match need {
            Need::Event(kind) => Some(kind.name()),
            _ => None,
        };
        let needs: Vec<&str> = oracle.needs.iter().filter_map(event).collect();
        let rest = oracle.needs.iter().filter(|need| event(need).is_none());
        let packets = oracle.needs.contains(&Need::Headers) || setting == tcpassay_follow::FOLLOWED;
        let completeness: Vec<String> = rest.map(|need| need.text()).collect();
        serde_json::json!({
            "name": oracle.name, "title": oracle.title, "asserts": oracle.asserts, "why": oracle.why,
            "evidence": oracle.evidence, "wrong_when": oracle.wrong_when, "needs": needs,
            "setting": setting, "completeness": completeness, "packets": packets,
        })
    };
    let of_log = ORACLES.iter().map(|oracle| one(oracle, setting(oracle.name).name()));
    let all = of_log.chain([one(&tcpassay_follow::ORACLE, tcpassay_follow::FOLLOWED)]);
    all.collect::<serde_json::Value>().to_string()
}

/// Why the model follows no end of the run on a kernel in `folder`, whose header is the JSON `header`; `None` if it follows some. Raises
/// `ValueError` for another JSON.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over")]
pub fn follow_lacks(folder: PathBuf, header: &str) -> PyResult<Option<String>> {
    let header = serde_json::from_str(header).map_err(|e| PyValueError::new_err(e.to_string()))?;
    Ok(tcpassay_follow::lacks(&header, &|name| tcpassay_case::read_file(&folder.join(name))))
}

/// Applies the oracles named in `oracles` to the recording in `folder`. Returns the findings, a JSON list.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over")]
pub fn judge_folder(py: Python<'_>, folder: PathBuf, oracles: Vec<String>) -> PyResult<String> {
    let judged = |recording: &Recording| {
        let mut found = found(recording, &oracles);
        if oracles.iter().any(|oracle| oracle == tcpassay_follow::ORACLE.name) {
            let file = |name: &str| tcpassay_case::read_file(&folder.join(name));
            found.extend(tcpassay_follow::differences(recording, &file));
        }
        json_list(&found)
    };
    py.detach(|| Recording::read(&folder).map(|recording| judged(&recording)))
        .map_err(|e| PyValueError::new_err(e.to_string()))
}

/// Counts the behaviours that the recording in `folder` reached, a JSON object.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over")]
pub fn reached_in_folder(py: Python<'_>, folder: PathBuf) -> PyResult<String> {
    py.detach(|| Recording::read(&folder).map(|recording| counts(&recording)))
        .map_err(|e| PyValueError::new_err(e.to_string()))
}

/// The findings of a recording as JSON.
pub(crate) fn judged(recording: &Recording, oracles: &[String]) -> String {
    json_list(&found(recording, oracles))
}

fn found(recording: &Recording, oracles: &[String]) -> Vec<Found> {
    let wanted: Vec<&str> = oracles.iter().map(String::as_str).collect();
    judge(recording, &wanted)
}

fn json_list(found: &[Found]) -> String {
    found.iter().map(json).collect::<serde_json::Value>().to_string()
}

/// The behaviours that a recording reached as JSON.
pub(crate) fn counts(recording: &Recording) -> String {
    serde_json::json!(reached(recording)).to_string()
}

fn json(found: &Found) -> serde_json::Value {
    serde_json::json!({
        "oracle": found.oracle, "title": found.title, "flow": found.flow, "host": found.host,
        "start_ns": found.start.as_nanos(), "end_ns": found.end.as_nanos(), "last_ns": found.last.as_nanos(),
        "severity": found.level.name(), "text": found.text, "rows": found.rows, "count": found.count,
    })
}
