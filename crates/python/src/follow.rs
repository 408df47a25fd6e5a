//! The model follows the ends of a recording, or of a capture.

use crate::capture::open;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::net::IpAddr;
use std::path::PathBuf;
use tcpassay_capture::AnalysisOptions;
use tcpassay_follow::capture::{self, CaptureOutcome, Options};
use tcpassay_follow::{Difference, End, Outcome, Tolerance, follow, read};
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
    let first = outcome.first.as_ref().map(difference);
    serde_json::json!({
        "flow": end.flow, "host": end.host, "rows": outcome.rows, "followed": outcome.followed,
        "segments": outcome.segments, "candidates": outcome.candidates, "counted": outcome.counted, "first": first,
    })
}

fn difference(first: &Difference) -> serde_json::Value {
    serde_json::json!({
        "row": first.row, "time_ns": first.at.as_nanos(), "kind": first.kind.to_string(), "sent": first.sent,
        "expected": first.expected, "why": first.why, "source": first.source, "cause": first.cause,
    })
}

/// The names of the profiles of captures.
#[pyfunction]
pub fn capture_profiles() -> Vec<&'static str> {
    capture::PROFILES.to_vec()
}

/// Follows the ends of a capture with each of `profiles`. `limits`: connections in memory, bytes to which a compressed file may expand,
/// packets in memory. `place`: the capture point, whether all points are one, the address of the host of the capture, and the time in
/// nanoseconds within which an end acts at once.
///
/// Returns a JSON object: whether packets were left out, why the capture could not be read to its end, and for each end how far it was
/// followed, by profile. Raises `OSError`, and `ValueError` for a file that is not a capture, for an unknown profile or address.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over")]
pub fn follow_capture(
    py: Python<'_>,
    path: PathBuf,
    profiles: Vec<String>,
    place: (Option<String>, bool, Option<String>, Option<u64>),
    limits: (u32, u64, u64),
) -> PyResult<String> {
    let (interface, merge_interfaces, host, acts_within) = place;
    let (most_connections, most_expanded, most_packets) = limits;
    let wrong = |error: String| PyValueError::new_err(error);
    let host: Option<IpAddr> = match host {
        Some(host) => {
            Some(host.parse().map_err(|_| wrong(format!("`--host {host}`: it is not an IP address")))?)
        }
        None => None,
    };
    let options = Options {
        analysis: AnalysisOptions { interface, merge_interfaces, most_connections },
        most_packets,
        host,
        acts_within: acts_within.map(Dur::from_nanos),
    };
    let mut configs = Vec::new();
    for name in &profiles {
        configs.push((name, capture::profile(name).map_err(|error| wrong(error.to_string()))?));
    }
    let mut reader = open(&path, most_expanded)?;
    let read = py.detach(|| capture::read(&mut reader, &options));
    let mut ends = Vec::new();
    for end in &read.ends {
        let mut by_profile = serde_json::Map::new();
        for (name, config) in &configs {
            let outcome = py.detach(|| capture::follow(end, config));
            let mut told = captured(&outcome);
            told["syn_order"] = config.flavor.layout().is_none_or(|layout| end.has_order(layout)).into();
            by_profile.insert((*name).clone(), told);
            py.check_signals()?;
        }
        let within = end.acts_within.as_nanos();
        let (acks, arrivals) = end.shows();
        ends.push(serde_json::json!({
            "name": end.name(), "acts_within_ns": within, "lacks": end.lacks(), "acks": acks, "arrivals": arrivals,
            "profiles": by_profile,
        }));
    }
    Ok(serde_json::json!({ "cut": read.cut, "error": read.error, "ends": ends }).to_string())
}

fn captured(outcome: &CaptureOutcome) -> serde_json::Value {
    let first = outcome.first.as_ref().map(|(frame, first)| {
        let mut made = difference(first);
        made["frame"] = (*frame).into();
        made
    });
    let stop = outcome.stop.as_ref().map(|stop| serde_json::json!({ "frame": stop.frame, "why": stop.why }));
    serde_json::json!({
        "packets": outcome.packets, "followed": outcome.followed, "acks": outcome.acks, "carriers": outcome.carriers,
        "arrivals": outcome.arrivals, "first": first, "stop": stop, "setting": outcome.setting,
    })
}
