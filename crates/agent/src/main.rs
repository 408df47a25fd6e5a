//! `tcpassay-agent`: runs a case on a real Linux, and leaves the recording that the model would.
//!
//! * As init of a User-Mode Linux in virtual time (substrate `kernel`) it runs the case that lies beside it; see [`guest`].
//! * As `tcpassay-agent host`, started by a runner that is root, it runs the case on standard input on this machine's kernel; see
//!   [`host`].
//! * `tcpassay-agent check [host]` says, for each line of standard input (`{"triples": {..}, "base": ".."}`), what of the case this
//!   substrate cannot do: a line with `errors`, or with `said`, what the case sets beyond the defaults.
//! * `tcpassay-agent limiter apply|show|remove` puts the paper's rate limiter on a device of this machine; see [`limiter`].
//! * `tcpassay-agent bpf [shim]` says whether BPF (the shim) can be used here, and if not, what is missing.
//! * `tcpassay-agent shim CC -- COMMAND`, `tcpassay-agent controllers OBJECT -- COMMAND`: controllers in the running kernel; see [`shim`].
//! * `tcpassay-agent script` runs a packetdrill script on the kernel beneath it, in a new network namespace; see [`script`].
//!
//! The order of a run: the case is read ([`request`]) and refused where it cannot be honoured ([`honour`]); the topology is
//! planned ([`topology`], [`qdisc`]), built and read back ([`setup`]); the path is measured ([`probe`]); then the applications of
//! the workload run on real sockets ([`runtime`], [`calls`], [`pump`], [`run`]), whose windows Linux decides or who [`engines`] registers, while
//! [`relay`] does to packets what no queue discipline does ([`faults`]) and taps ([`tap`], [`flow_tracker`]) and the kernel's own words ([`info`], [`diag`], [`netlink`](tcpassay_linux::netlink), [`nstat`], [`trace`]) fill the recording. Unsafe code is in the crate
//! `linux` alone.

mod collect;
mod environment;
mod guest;
mod host;
mod limiter;
mod netns;
mod probe;
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
        ["check"] => told("check", check(&environment::Environment::guest())),
        ["check", "host"] => {
            told("check", environment::Environment::host().and_then(|environment| check(&environment)))
        }
        ["host"] => told("host", host::main()),
        ["limiter", ref arguments @ ..] => said(limiter::main(arguments)),
        ["bpf"] => said(tcpassay_bpf::available().map_err(|e| e.to_string())),
        ["bpf", "shim"] => said(tcpassay_bpf::shim::available().map_err(|e| e.to_string())),
        ["shim", ..] => said(shim::shim(&arguments[1..])),
        ["controllers", ..] => said(shim::controllers(&arguments[1..])),
        ["script"] | ["script", "virtual"] => said(script::main(arguments.len() == 2)),
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

fn told(command: &str, done: io::Result<()>) -> ExitCode {
    said(done.map_err(|e| format!("tcpassay-agent {command}: {e}")))
}

fn said(done: Result<(), String>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn check(environment: &environment::Environment) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let request: request::Request = serde_json::from_str(&line?)?;
        writeln!(out, "{}", serde_json::to_string(&request.check(environment))?)?;
        out.flush()?;
    }
    Ok(())
}
