//! The substrate `host`: one case on the kernel of this machine, in real time.
//!
//! Nothing of the machine is changed, so that nothing has to be put back. The agent has a mount namespace of its own, in which
//! it names the network namespaces of the case (`tcpassay-<host>` in `/run/netns`), and starts from a network namespace of its
//! own; links, queues, routes and sysctls are made in there. The kernel takes all of it away when the last process in them ends,
//! and the agent ends with its runner (`PR_SET_PDEATHSIG`), whatever ends that: a `kill -9` of either leaves nothing behind.
//!
//! Two cases at a time would measure each other: a lock lets the second wait.

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

const LOCK: &str = "/run/tcpassay-host.lock";

/// Runs the case on standard input; the answer is a line of standard output.
pub fn main() -> io::Result<()> {
    if sys::end_with_parent()? == 1 {
        return Err(io::Error::other("its runner has ended"));
    }
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    let request: Request = serde_json::from_str(&text)?;
    let answer = if sys::is_root() {
        serve(&request).unwrap_or_else(|e| CaseAnswer::failed(e.to_string()))
    } else {
        CaseAnswer::failed(
            "the substrate `host` needs root: it makes network namespaces; `kernel` and `model` do not",
        )
    };
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, &answer)?;
    writeln!(out)
}

fn serve(request: &Request) -> io::Result<CaseAnswer> {
    let told = |what: &'static str| move |e: io::Error| io::Error::other(format!("{what}: {e}"));
    let lock = fs::File::create(LOCK).map_err(told(LOCK))?;
    while !sys::try_lock(lock.as_fd()).map_err(told(LOCK))? {
        pause(Duration::from_millis(50));
    }
    sys::unshare_mounts().map_err(told("a mount namespace"))?;
    fs::create_dir_all(NETNS_FOLDER).map_err(told(NETNS_FOLDER))?;
    sys::mount("tcpassay", NETNS_FOLDER, "tmpfs", 0).map_err(told(NETNS_FOLDER))?;
    sys::raise_priority().map_err(told("priority"))?;
    let environment = Environment::host().map_err(told("a network namespace"))?;
    Ok(run::run(request, &environment))
}
