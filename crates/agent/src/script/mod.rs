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
//! | `wire` | encoding of the packets of the script |
//! | `info` | `TCP_INFO` by name |
//! | `arguments` | arguments of system calls, jobs for the worker thread |

mod arguments;
mod calls;
mod info;
mod kernel;
mod message;
mod names;
mod wire;
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
        let report = one(request).unwrap_or_else(|e| serde_json::json!({ "wrong": e }));
        tell(&report);
        reports.push(report);
    }
    reports
}

fn one(request: &ScriptRequest) -> Result<serde_json::Value, String> {
    let wrong = |e: std::io::Error| format!("a process for the script: {e}");
    let mut child = Command::new("/proc/self/exe")
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
        .map_err(|e| format!("the script's process ended {}: {e}", output.status))
}
