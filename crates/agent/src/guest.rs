//! The init process of a guest: prepares the system, runs a case or scripts, and powers the guest off.
//!
//! The kernel derives random numbers from its command line, so that the command line is the same for every case: it starts
//! `/proc/self/cwd/init`, a link in the runner's scratch folder. The agent reads `case.json` there (or `scripts.json` with
//! packetdrill scripts) and writes `answer.json`. If there is no answer, the runner reports that the guest died.

use crate::environment::Environment;
use crate::request::{CaseAnswer, Request};
use crate::{run, script};
use std::fs;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;
use tcpassay_linux::sys;

/// The limit of open files: the default of `fs.nr_open` (`fs/file.c`).
const MAX_FILES: u64 = 1024 * 1024;

/// Runs the case or the scripts in the scratch folder. Does not return.
pub fn main() -> ! {
    // Kernels before 5.14 cannot do it, and map each part when it is used.
    let _ = sys::map_program();
    // /proc is still the one of the host, and has the folder in which the runner started the guest.
    let scratch = fs::read_link("/proc/self/cwd");
    if let Ok(scratch) = &scratch {
        let text = if scratch.join("scripts.json").exists() {
            serde_json::to_string(&scripts(scratch)).expect("all keys are texts")
        } else {
            let answer = std::panic::catch_unwind(|| serve(scratch))
                .unwrap_or_else(|_| CaseAnswer::failed("the agent panicked; the message is on the console"));
            serde_json::to_string(&answer).expect("all keys are texts")
        };
        if let Err(e) = fs::write(scratch.join("answer.json"), text) {
            eprintln!("answer.json: {e}");
        }
    } else {
        eprintln!("/proc/self/cwd: {scratch:?}");
    }
    eprintln!("the guest cannot be powered off: {}", sys::power_off());
    std::process::exit(1);
}

/// Runs the packetdrill scripts of `scripts.json`. Returns their reports, or an error.
fn scripts(scratch: &Path) -> Result<Vec<serde_json::Value>, String> {
    let text = fs::read_to_string(scratch.join("scripts.json")).map_err(|e| e.to_string())?;
    let requests: Vec<script::ScriptRequest> = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    mounts()?;
    // One line for each script: if the guest dies, the runner knows which script was running.
    let mut reports = fs::File::create(scratch.join("reports.jsonl")).map_err(|e| e.to_string())?;
    Ok(script::all(&requests, |report| {
        let _ = writeln!(reports, "{report}");
    }))
}

/// Runs the case of `case.json`.
fn serve(scratch: &Path) -> CaseAnswer {
    let request = fs::read_to_string(scratch.join("case.json"))
        .map_err(|e| e.to_string())
        .and_then(|text| serde_json::from_str::<Request>(&text).map_err(|e| e.to_string()));
    let request = match request {
        Ok(request) => request,
        Err(e) => return CaseAnswer::failed(format!("case.json: {e}")),
    };
    // Each end of a connection is an open file, and some have a second one. The limit of an init process is 1024.
    if let Err(why) =
        mounts().and_then(|()| sys::allow_files(MAX_FILES).map_err(|e| format!("open files: {e}")))
    {
        return CaseAnswer::failed(why);
    }
    run::run(&request, &Environment::guest())
}

/// Mounts the file systems that a run needs.
fn mounts() -> Result<(), String> {
    let wrong = |what: &str| {
        let what = what.to_owned();
        move |e: std::io::Error| format!("{what}: {e}")
    };
    // No process may wait for entropy. The credited bytes need not be secret: the kernel already uses the seed of the run.
    let random = fs::File::options().write(true).open("/dev/urandom").map_err(wrong("/dev/urandom"))?;
    sys::mount("proc", "/proc", "proc", 0).map_err(wrong("/proc"))?;
    sys::mount("sysfs", "/sys", "sysfs", 0).map_err(wrong("/sys"))?;
    sys::mount("tmpfs", "/run", "tmpfs", 0).map_err(wrong("/run"))?;
    sys::credit_randomness(random.as_fd(), [1; 64]).map_err(wrong("the random number generator"))?;
    sys::mount("tracefs", "/sys/kernel/tracing", "tracefs", 0).map_err(wrong("/sys/kernel/tracing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A scratch folder with one file.
    fn scratch(name: &str, text: &str) -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("tcpassay-guest-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(name), text).unwrap();
        folder
    }

    #[test]
    fn a_request_that_cannot_be_read_is_answered_with_the_file_and_the_reason() {
        let folder = scratch("case.json", r#"{"triples": 7}"#);
        let answer = serde_json::to_value(serve(&folder)).unwrap();
        fs::remove_file(folder.join("case.json")).unwrap();
        let absent = serde_json::to_value(serve(&folder)).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        for (answer, reason) in [(answer, "case.json: invalid type"), (absent, "case.json: No such file")] {
            let text = answer.to_string();
            assert!(text.contains(reason), "{text}");
        }
    }

    #[test]
    fn scripts_that_cannot_be_read_are_an_error_before_anything_is_mounted() {
        let folder = scratch("scripts.json", r#"[{"text": "", "loose": false}]"#);
        let error = scripts(&folder).unwrap_err();
        fs::remove_dir_all(&folder).unwrap();
        assert!(error.contains("missing field `options`"), "{error}");
    }
}
