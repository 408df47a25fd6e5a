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
    let answer = answer(&text, sys::is_root(), serve)?;
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, &answer)?;
    writeln!(out)
}

/// The answer to the text of a request; `serve` runs the case.
///
/// # Errors
/// A text that is not a request. An error of `serve` is an answer.
fn answer(
    text: &str,
    is_root: bool,
    serve: impl FnOnce(&Request) -> io::Result<CaseAnswer>,
) -> io::Result<CaseAnswer> {
    let request: Request = serde_json::from_str(text)?;
    if !is_root {
        return Ok(CaseAnswer::failed(
            "the substrate `host` needs root to create network namespaces; `kernel` and `model` do not need root",
        ));
    }
    Ok(serve(&request).unwrap_or_else(|e| CaseAnswer::failed(e.to_string())))
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

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: &str = r#"{"triples": {"app.duration": "2s"}, "seed": 3, "base": "/"}"#;

    fn failure(message: &str) -> serde_json::Value {
        serde_json::to_value(CaseAnswer::failed(message)).unwrap()
    }

    #[test]
    fn a_text_that_is_not_a_request_is_an_error_with_its_position() {
        let error =
            answer(r#"{"triples": {}, "seeds": 3}"#, true, |_| panic!("no case to run")).err().unwrap();
        assert!(error.to_string().starts_with("unknown field `seeds`"), "{error}");
        assert!(error.to_string().ends_with("at line 1 column 23"), "{error}");
    }

    #[test]
    fn without_root_no_case_is_run_and_the_other_substrates_are_named() {
        let said = answer(REQUEST, false, |_| panic!("no case to run")).unwrap();
        let message = "the substrate `host` needs root to create network namespaces; `kernel` and `model` do not need root";
        assert_eq!(serde_json::to_value(said).unwrap(), failure(message));
    }

    #[test]
    fn an_error_of_the_run_is_an_answer() {
        let said = answer(REQUEST, true, |request| {
            assert_eq!((request.seed, request.triples["app.duration"].to_string().as_str()), (3, "2s"));
            Err(io::Error::other("a mount namespace: Operation not permitted"))
        });
        assert_eq!(
            serde_json::to_value(said.unwrap()).unwrap(),
            failure("a mount namespace: Operation not permitted")
        );
    }
}
