//! packetdrill scripts.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::process::Command;
use tcpassay_script::run::{Model, RunOptions, StackTarget, run_on};

use crate::stack;

/// Runs the script `text` on the model; `options` are the command-line options of packetdrill without dashes. Returns
/// a JSON object, see `tcpassay_script::report::Report::to_json`.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over")]
pub fn run_script(
    py: Python<'_>,
    text: String,
    profile: &str,
    loose: bool,
    options: Vec<[String; 2]>,
) -> PyResult<String> {
    let made = run_options(profile, loose, &options)?;
    let mut model = Model::new(made.profile).with_shell_executor(execute);
    py.detach(|| Ok(run_on(&text, &made, &mut model).to_json().to_string()))
}

/// The maximum number of timers and events of a script on another TCP: some ask to be called each millisecond, and a call
/// may take half a millisecond.
const STACK_STEPS: u64 = 50_000;

/// Runs the script `text` on another TCP: the process of `command`, or smoltcp without one. Otherwise as [`run_script`].
#[pyfunction]
#[pyo3(signature = (text, command, loose, options))]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over")]
pub fn run_script_on_stack(
    py: Python<'_>,
    text: String,
    command: Option<String>,
    loose: bool,
    options: Vec<[String; 2]>,
) -> PyResult<String> {
    let made = RunOptions { step_limit: STACK_STEPS, ..run_options("linux", loose, &options)? };
    py.detach(|| {
        let mut target = StackTarget::new(command, stack::begin);
        Ok(run_on(&text, &made, &mut target).to_json().to_string())
    })
}

fn run_options(profile: &str, loose: bool, options: &[[String; 2]]) -> PyResult<RunOptions> {
    let made = RunOptions::by_name(profile).ok_or_else(|| {
        let names = RunOptions::names().join(", ");
        PyValueError::new_err(format!("`{profile}` is not a profile; allowed are {names}"))
    })?;
    let mut made = RunOptions { loose, ..made };
    for [name, value] in options {
        made.settings.set(name, value).map_err(PyValueError::new_err)?;
    }
    Ok(made)
}

/// Executes a shell command of a script, which the user has allowed.
fn execute(line: &str) -> Result<(), String> {
    match Command::new("sh").arg("-c").arg(line).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{line}: {status}")),
        Err(error) => Err(format!("{line}: {error}")),
    }
}
