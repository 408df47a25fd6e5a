//! Stored recordings as text.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::{Path, PathBuf};
use tcpassay_measure::{Recording, siftr};

fn read(py: Python<'_>, folder: &Path) -> PyResult<Recording> {
    py.detach(|| Recording::read(folder)).map_err(|e| PyValueError::new_err(e.to_string()))
}

/// The event log of the recording in `folder`, one line per event; `flow` selects the events of one flow by its
/// index.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over")]
pub fn event_text(py: Python<'_>, folder: PathBuf, flow: Option<u32>) -> PyResult<Bound<'_, PyBytes>> {
    let recording = read(py, &folder)?;
    let mut out = Vec::new();
    let wanted = recording.events.iter().filter(|event| flow.is_none() || event.flow == flow);
    for event in wanted {
        out.extend_from_slice(recording.event_line(&event).as_bytes());
        out.push(b'\n');
    }
    Ok(PyBytes::new(py, &out))
}

/// The event log of one host in the format of FreeBSD's siftr; `host` is its index in the recording.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over")]
pub fn siftr_text(py: Python<'_>, folder: PathBuf, host: u32) -> PyResult<Bound<'_, PyBytes>> {
    let recording = read(py, &folder)?;
    let mut out = Vec::new();
    siftr::write(&recording, host, &mut out).expect("memory takes all");
    Ok(PyBytes::new(py, &out))
}
