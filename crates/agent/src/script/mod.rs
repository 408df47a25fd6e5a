//! packetdrill scripts on a real Linux kernel: the runner of `tcpassay_script` with this kernel as its target.
//!
//! Each script runs in its own process and network namespace (`tcpassay-agent script`: a request on standard input, a report on
//! standard output), so that a call that never returns ends with the process. As init of a guest, the agent starts these
//! processes one after the other.
//!
//! | file | content |
//! | --- | --- |
//! | `kernel` | the target: device, clock, packets, sockets |
//! | `worker` | the thread that makes system calls |
//! | `message` | `recvmsg` and the error queue |
//! | `calls`, `names` | system calls of the script as system calls of the kernel |
//! | `info` | `TCP_INFO` by name |
//! | `arguments` | arguments of system calls, jobs for the worker thread |

mod arguments;
mod calls;
mod info;
mod kernel;
mod message;
mod names;
mod worker;

use kernel::Kernel;
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use tcpassay_linux::syscall;
use tcpassay_script::run::{RunOptions, run_on};
use tcpassay_tcp::Profile;
use tcpassay_units::Dur;

/// The maximum address space of the process of a script in bytes. It is about the memory of a guest.
const MAX_MEMORY: u64 = 2 << 30;

/// A script to run.
#[derive(Deserialize, Serialize)]
pub struct ScriptRequest {
    /// The text of the script.
    text: String,
    /// The runner does not compare the window, PSH and the options of a SYN.
    loose: bool,
    /// Options of packetdrill's command line: name without dashes, value.
    options: Vec<(String, String)>,
    /// The time limit in seconds of the clock of the kernel.
    limit_s: u64,
}

/// Runs the script of the request on standard input in a new network namespace, and prints its report.
pub fn main(virtual_time: bool) -> Result<(), String> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(|e| e.to_string())?;
    let request: ScriptRequest = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    syscall::limit_memory(MAX_MEMORY);
    let mut options = RunOptions::new(Profile::Linux);
    options.loose = request.loose;
    options.time_limit = Dur::from_secs(request.limit_s);
    for (name, value) in &request.options {
        options.settings.set(name, value)?;
    }
    tcpassay_linux::sys::unshare_net().map_err(|e| format!("a network namespace: {e}"))?;
    // New threads inherit the priority.
    let urgent = syscall::use_real_time_priority();
    if let (Err(e), false) = (&urgent, virtual_time) {
        return Err(format!("real-time priority: {e}"));
    }
    let mut stack = Kernel::new(virtual_time).map_err(|e| e.to_string())?;
    let report = run_on(&request.text, &options, &mut stack);
    println!("{}", report.to_json());
    // A call that blocks ends with the process.
    std::process::exit(0);
}

/// Runs the scripts one after the other, each in its own process. Returns the reports, or objects with the key `wrong` and an
/// error. `tell` receives each of them when it is complete.
pub fn all(requests: &[ScriptRequest], mut tell: impl FnMut(&serde_json::Value)) -> Vec<serde_json::Value> {
    let mut reports = Vec::new();
    for request in requests {
        let report = one("/proc/self/exe", request).unwrap_or_else(|e| serde_json::json!({ "wrong": e }));
        tell(&report);
        reports.push(report);
    }
    reports
}

/// Runs a script in a process of `agent`. Returns its report.
fn one(agent: &str, request: &ScriptRequest) -> Result<serde_json::Value, String> {
    let wrong = |e: std::io::Error| format!("a process for the script: {e}");
    let mut child = Command::new(agent)
        .args(["script", "virtual"])
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(wrong)?;
    let text = serde_json::to_string(request).expect("texts");
    child.stdin.take().expect("piped").write_all(text.as_bytes()).map_err(wrong)?;
    let output = child.wait_with_output().map_err(wrong)?;
    serde_json::from_slice(&output.stdout)
        .map_err(|e| format!("the process of the script ended with {}: {e}", output.status))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const REQUEST: &str =
        r#"{"text": "0 < . 1:1(0) ack 1 win 9", "loose": true, "options": [["mtu", "9000"]], "limit_s": 60}"#;

    /// The result of a script whose process is this shell script.
    fn ran(name: &str, shell: &str) -> Result<serde_json::Value, String> {
        let file = std::env::temp_dir().join(format!("tcpassay-script-{}-{name}", std::process::id()));
        std::fs::write(&file, format!("#!/bin/sh\n{shell}\n")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        let report = one(file.to_str().unwrap(), &serde_json::from_str(REQUEST).unwrap());
        std::fs::remove_file(&file).unwrap();
        report
    }

    #[test]
    fn the_process_of_a_script_gets_the_request_and_returns_the_report() {
        let report = ran("echo", "cat").unwrap();
        assert_eq!(report, serde_json::from_str::<serde_json::Value>(REQUEST).unwrap());
        assert_eq!(ran("words", "cat >/dev/null; echo \"\\\"$*\\\"\"").unwrap(), "script virtual");
    }

    #[test]
    fn a_process_without_a_report_is_an_error_with_its_status() {
        let error = ran("exit", "cat >/dev/null; exit 3").unwrap_err();
        assert!(error.starts_with("the process of the script ended with exit status: 3: "), "{error}");
        let error = ran("killed", "cat >/dev/null; kill -9 $$").unwrap_err();
        assert!(error.starts_with("the process of the script ended with signal: 9 (SIGKILL): "), "{error}");
    }

    #[test]
    fn a_request_needs_every_field() {
        let error = serde_json::from_str::<ScriptRequest>(r#"{"text": "", "loose": true, "options": []}"#);
        assert!(error.err().unwrap().to_string().starts_with("missing field `limit_s`"));
    }
}
