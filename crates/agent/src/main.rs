//! `tcpassay-agent` runs a case on a real Linux and writes a recording in the same format as the model.
//!
//! * As the init process of a User-Mode Linux in virtual time (substrate `kernel`) it runs the case in the file `case.json`; see [`guest`].
//! * `tcpassay-agent host`, started as root, runs the case on standard input on the kernel of this machine; see [`host`].
//! * `tcpassay-agent remote` serves a controller on another machine over standard input and output; `merge` makes one recording of those of
//!   several machines, and `restore` undoes what a killed agent has left; see [`remote`].
//! * `tcpassay-agent check [host]` checks cases: for each line of standard input (`{"triples": {..}, "base": ".."}`) it prints a line with
//!   `errors` (what the substrate cannot do), or with `said` (the settings that differ from the defaults).
//! * `tcpassay-agent limiter apply|show|remove` manages the paper's rate limiter on a device of this machine; see [`limiter`].
//! * `tcpassay-agent bpf [shim]` succeeds if BPF (the shim) can be used, and otherwise prints what is missing.
//! * `tcpassay-agent shim CC -- COMMAND` and `tcpassay-agent controllers OBJECT -- COMMAND` register controllers in the running kernel while
//!   a command runs; see [`shim`].
//! * `tcpassay-agent script` runs a packetdrill script on the running kernel in a new network namespace; see [`script`].
//!
//! | module | content |
//! | --- | --- |
//! | [`request`] | the input and output of the agent as JSON |
//! | [`environment`] | guest or host, and the features of its kernel |
//! | [`unsupported`] | the settings of a case that the kernel does not support |
//! | [`placement`] | assignment of the hosts of a case to the machines of a testbed |
//! | [`netns`] | the topology: namespaces, qdiscs, offloads, sysctls, impairments |
//! | [`probe`] | measures the path before the traffic |
//! | [`traffic`] | the applications of the workload on real sockets |
//! | [`collect`] | packets, sockets, queues and trace events for the recording |
//! | [`run`] | one run, from the set-up to the recording |
//! | [`remote`] | the part of a run on one machine of a testbed |
//!
//! The agent contains no unsafe code; the crate `linux` makes the system calls.

mod collect;
mod environment;
mod guest;
mod host;
mod limiter;
mod netns;
mod placement;
mod probe;
mod remote;
mod request;
mod run;
mod script;
mod shim;
mod system;
#[cfg(test)]
mod testing;
mod traffic;
mod unsupported;

use std::io::{self, BufRead, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    if std::process::id() == 1 {
        guest::main();
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["check"] => exit_io("check", check(&environment::Environment::guest())),
        ["check", "host"] => {
            exit_io("check", environment::Environment::host().and_then(|environment| check(&environment)))
        }
        ["host"] => exit_io("host", host::main()),
        ["remote", connection] => exit_io("remote", remote::main(connection)),
        ["restore"] => exit(remote::restore()),
        ["merge"] => exit_io("merge", remote::merge()),
        ["limiter", ref arguments @ ..] => exit(limiter::main(arguments)),
        ["bpf"] => exit(tcpassay_bpf::available().map_err(|e| e.to_string())),
        ["bpf", "shim"] => exit(tcpassay_bpf::shim::available().map_err(|e| e.to_string())),
        ["shim", ..] => exit(shim::shim(&arguments[1..])),
        ["controllers", ..] => exit(shim::controllers(&arguments[1..])),
        ["script"] | ["script", "virtual"] => exit(script::main(arguments.len() == 2)),
        ["--version"] => {
            println!("tcpassay-agent {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!(
                "usage: tcpassay-agent check [host] < cases, one JSON object a line; tcpassay-agent host < case; or as init of a guest"
            );
            ExitCode::from(2)
        }
    }
}

/// The exit code of a command; prints its error with the name of the command.
fn exit_io(command: &str, result: io::Result<()>) -> ExitCode {
    exit(result.map_err(|e| format!("tcpassay-agent {command}: {e}")))
}

/// The exit code of a command; prints its error.
fn exit(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Checks the cases on standard input, one in a line.
fn check(environment: &environment::Environment) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let request: request::Request = serde_json::from_str(&line?)?;
        writeln!(out, "{}", serde_json::to_string(&request.check(environment))?)?;
        out.flush()?;
    }
    Ok(())
}
