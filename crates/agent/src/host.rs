//! The substrate `host`: a case on the kernel of this machine, in real time.
//!
//! The agent does not change the machine. It moves to a new mount namespace, in which the network namespaces of the case have names
//! (`tcpassay-<host>` in `/run/netns`), and creates links, queues, routes and sysctls in new network namespaces only. The
//! kernel removes all of them when the last process in them ends. The agent ends with its runner (`PR_SET_PDEATHSIG`), so that a
//! `kill -9` of the runner or of the agent leaves nothing behind.
//!
//! Concurrent cases would disturb each other; a lock delays the second.

use crate::collect::machine_load::pause;
use crate::environment::Environment;
use crate::netns::topology::NETNS_FOLDER;
use crate::request::{CaseAnswer, Request};
use crate::run;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;
use tcpassay_linux::sys;

/// One run at a time uses this machine.
pub const LOCK: &str = "/run/tcpassay-host.lock";

/// Runs the case on standard input, and prints the answer on one line.
pub fn main() -> io::Result<()> {
    if sys::end_with_parent()? == 1 {
        return Err(io::Error::other("the runner has ended"));
    }
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    let request: Request = serde_json::from_str(&text)?;
    let answer = if sys::is_root() {
        serve(&request).unwrap_or_else(|e| CaseAnswer::failed(e.to_string()))
    } else {
        CaseAnswer::failed(
            "the substrate `host` needs root to create network namespaces; `kernel` and `model` do not need root",
        )
    };
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, &answer)?;
    writeln!(out)
}

fn serve(request: &Request) -> io::Result<CaseAnswer> {
    let context = |what: &'static str| move |e: io::Error| io::Error::other(format!("{what}: {e}"));
    let lock = fs::File::create(LOCK).map_err(context(LOCK))?;
    while !sys::try_lock(lock.as_fd()).map_err(context(LOCK))? {
        pause(Duration::from_millis(50));
    }
    sys::unshare_mounts().map_err(context("a mount namespace"))?;
    fs::create_dir_all(NETNS_FOLDER).map_err(context(NETNS_FOLDER))?;
    sys::mount("tcpassay", NETNS_FOLDER, "tmpfs", 0).map_err(context(NETNS_FOLDER))?;
    sys::raise_priority().map_err(context("priority"))?;
    let environment = Environment::host().map_err(context("a network namespace"))?;
    Ok(run::run(request, &environment))
}
