//! packetdrill scripts on a real Linux: the runner of `tcpassay_script`, with this kernel as the stack.
//!
//! A script runs in a process and a network namespace of its own (`tcpassay-agent script`, a request on standard input, a report
//! on standard output), so that a call that never returns ends with it. As init of a guest the agent starts one such process
//! after the other.
//!
//! | file | what |
//! | --- | --- |
//! | `kernel` | the stack: device, clock, packets, sockets |
//! | `worker` | the thread that makes calls |
//! | `message` | `recvmsg`, and the error queue |
//! | `calls`, `names` | calls of the script as calls of the kernel |
//! | `wire` | packets as the script writes them |
//! | `info` | `TCP_INFO` by name |
//! | `arguments` | arguments of calls, jobs for the thread that makes calls |

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

/// Bytes of address space that a script's process may have: a guest has not much more.
const MAX_MEMORY: u64 = 2 << 30;

/// A script to run.
#[derive(Deserialize, Serialize)]
pub struct Request {
    /// Its text.
    text: String,
    /// Window, PSH and the options of a SYN do not count.
    loose: bool,
    /// Of packetdrill's command line, without dashes.
    options: Vec<(String, String)>,
    /// Seconds after which it is stopped, by the clock of the kernel.
    limit_s: u64,
}

/// Runs the script of the request on standard input in a new network namespace, and prints its report.
pub fn main(virtual_time: bool) -> Result<(), String> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(|e| e.to_string())?;
    let request: Request = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    syscall::limit_memory(MAX_MEMORY);
    let mut options = RunOptions::new(Profile::Linux);
    options.loose = request.loose;
    options.time_limit = Dur::from_secs(request.limit_s);
    for (name, value) in &request.options {
        options.settings.set(name, value)?;
    }
    tcpassay_linux::sys::unshare_net().map_err(|e| format!("a network namespace: {e}"))?;
    // Threads that are started from here on inherit it.
    let urgent = syscall::urgent();
    if let (Err(e), false) = (&urgent, virtual_time) {
        return Err(format!("real-time priority: {e}"));
    }
    let mut stack = Kernel::new(virtual_time).map_err(|e| e.to_string())?;
    let report = run_on(&request.text, &options, &mut stack);
    println!("{}", report.to_json());
    // A call that blocks ends with the process.
    std::process::exit(0);
}

/// Runs every script, one after the other, each in a process of its own; the reports, or what went wrong instead. Each is also
/// told when it is there.
pub fn all(requests: &[Request], mut tell: impl FnMut(&serde_json::Value)) -> Vec<serde_json::Value> {
    let mut reports = Vec::new();
    for request in requests {
        let report = one(request).unwrap_or_else(|e| serde_json::json!({ "wrong": e }));
        tell(&report);
        reports.push(report);
    }
    reports
}

fn one(request: &Request) -> Result<serde_json::Value, String> {
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
