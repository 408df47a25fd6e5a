//! Init of the guest: what has to be there before a case can run, and the end of the machine after it.
//!
//! The kernel's command line is part of its randomness, so that it is the same for every case: the program is started as
//! `/proc/self/cwd/init`, a link in the runner's scratch folder, and finds its case there (`case.json`; or `scripts.json`, packetdrill scripts). It leaves
//! `answer.json` and switches the machine off; the runner takes a guest that does neither for one that died.

use crate::environment::Environment;
use crate::request::{CaseAnswer, Request};
use crate::{run, script};
use std::fs;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;
use tcpassay_linux::sys;

/// Files that may be open: `fs.nr_open` as the kernel has it (`fs/file.c`).
const FILES: u64 = 1024 * 1024;

/// Runs the case that lies beside the guest; does not return.
pub fn main() -> ! {
    // Before proc is mounted over it, /proc is the host's, and says where the runner started the guest.
    let scratch = fs::read_link("/proc/self/cwd");
    if let Ok(scratch) = &scratch {
        let text = if scratch.join("scripts.json").exists() {
            serde_json::to_string(&scripts(scratch)).expect("an answer has no other keys than texts")
        } else {
            let answer = std::panic::catch_unwind(|| serve(scratch))
                .unwrap_or_else(|_| CaseAnswer::failed("the agent panicked; its words are on the console"));
            serde_json::to_string(&answer).expect("an answer has no other keys than texts")
        };
        if let Err(e) = fs::write(scratch.join("answer.json"), text) {
            eprintln!("answer.json: {e}");
        }
    } else {
        eprintln!("/proc/self/cwd: {scratch:?}");
    }
    eprintln!("the machine is not switched off: {}", sys::power_off());
    std::process::exit(1);
}

/// Runs the packetdrill scripts of `scripts.json`: a list of reports, or what went wrong.
fn scripts(scratch: &Path) -> Result<Vec<serde_json::Value>, String> {
    let text = fs::read_to_string(scratch.join("scripts.json")).map_err(|e| e.to_string())?;
    let requests: Vec<script::Request> = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    mounts()?;
    // One line a script, so that the runner knows which one ended the guest, if one does.
    let mut told = fs::File::create(scratch.join("reports.jsonl")).map_err(|e| e.to_string())?;
    Ok(script::all(&requests, |report| {
        let _ = writeln!(told, "{report}");
    }))
}

fn serve(scratch: &Path) -> CaseAnswer {
    let request = fs::read_to_string(scratch.join("case.json"))
        .map_err(|e| e.to_string())
        .and_then(|text| serde_json::from_str::<Request>(&text).map_err(|e| e.to_string()));
    let request = match request {
        Ok(request) => request,
        Err(e) => return CaseAnswer::failed(format!("case.json: {e}")),
    };
    // Each end of a connection is a file, and some have a second one; the kernel starts its init with room for 1024.
    if let Err(why) = mounts().and_then(|()| sys::allow_files(FILES).map_err(|e| format!("open files: {e}")))
    {
        return CaseAnswer::failed(why);
    }
    run::run(&request, &Environment::guest())
}

fn mounts() -> Result<(), String> {
    let wrong = |what: &str| {
        let what = what.to_owned();
        move |e: std::io::Error| format!("{what}: {e}")
    };
    // No process may wait for entropy. What is credited is no secret: all chance comes from the seed, which the kernel has
    // mixed in already.
    let random = fs::File::options().write(true).open("/dev/urandom").map_err(wrong("/dev/urandom"))?;
    sys::mount("proc", "/proc", "proc", 0).map_err(wrong("/proc"))?;
    sys::mount("sysfs", "/sys", "sysfs", 0).map_err(wrong("/sys"))?;
    sys::mount("tmpfs", "/run", "tmpfs", 0).map_err(wrong("/run"))?;
    sys::credit_randomness(random.as_fd(), [1; 64]).map_err(wrong("the random number generator"))?;
    sys::mount("tracefs", "/sys/kernel/tracing", "tracefs", 0).map_err(wrong("/sys/kernel/tracing"))
}
