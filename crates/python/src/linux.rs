//! The changes that a case makes in Linux.

use crate::model::{Scalar, case};
use pyo3::exceptions::PyValueError;
use pyo3::{PyResult, pyfunction};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use tcpassay_case::Change;
use tcpassay_case::params::Substrate;

/// The changes of a kernel that the `stack` parameters of a host require, as JSON: a list of `kind`
/// (`sysctl`, `route`, `module`), `name`, `value` and `path`, the parameter. The first is the congestion
/// controller. A change that a script cannot make by a command has the kind `other`. `host` counts from 0.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over")]
pub fn linux_changes(triples: BTreeMap<String, Scalar>, base: PathBuf, host: usize) -> PyResult<String> {
    // A case with settings that only kernels have is one of a kernel.
    let case = match case(Substrate::Model, triples.clone(), &base) {
        Ok(case) => case,
        Err(of_model) => case(Substrate::Kernel, triples, &base).map_err(|_| of_model)?,
    };
    if host >= case.hosts.len() {
        return Err(PyValueError::new_err(format!("host {host}: the case has {}", case.hosts.len())));
    }
    let controller = json!({
        "kind": "sysctl", "name": "tcp_congestion_control", "value": case.hosts[host].cc.to_string(), "path": "stack.cc"
    });
    let changes = case.changes(host);
    let stack = changes.into_iter().filter(|asked| asked.parameter.path.starts_with("stack."));
    let all: Vec<Value> = std::iter::once(controller)
        .chain(stack.map(|asked| {
            let (kind, name, value) = match asked.change {
                Change::Sysctl(name, value) => ("sysctl", name, value),
                Change::Route(name, value) => ("route", name, value),
                Change::Module { file, value, .. } => ("module", file, value),
                _ => ("other", "", String::new()),
            };
            json!({ "kind": kind, "name": name, "value": value, "path": asked.parameter.path })
        }))
        .collect();
    Ok(Value::from(all).to_string())
}
