//! The commands `tcpassay-agent shim` and `tcpassay-agent controllers`, which register congestion controllers in the running kernel.
//!
//! Both register the controllers, run a command (or wait for the end of standard input), print what was done, and unregister them.

use std::fmt::Write as _;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use tcpassay_bpf::objects::Objects;
use tcpassay_bpf::shim::{Shim, ShimCounts, Spec};

const USAGE: &str = "usage: tcpassay-agent shim CC [PARAMETER=VALUE...] [--name NAME] [--ring BYTES] [--spin] [--trace FILE] [-- COMMAND...]\n       \
                     tcpassay-agent controllers OBJECT [-- COMMAND...]";

/// Registers a controller of `cc` while the command runs.
pub fn shim(arguments: &[String]) -> Result<(), String> {
    let (own, command) = split(arguments);
    let (spec, trace) = parse(own)?;
    let shim = Shim::start(&spec).map_err(|e| e.to_string())?;
    eprintln!(
        "`{}` is registered; use it by setsockopt(TCP_CONGESTION) or the route attribute `congctl`",
        shim.name()
    );
    let ran = wait(command);
    let outcome = shim.stop().map_err(|e| e.to_string())?;
    eprintln!("{}", summary(&outcome));
    if let Some(path) = trace {
        std::fs::write(&path, table(&outcome)).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    ran
}

/// Registers the controllers of an object file while the command runs.
pub fn controllers(arguments: &[String]) -> Result<(), String> {
    let (own, command) = split(arguments);
    let [object] = own else { return Err(USAGE.to_owned()) };
    let objects = Objects::load(object, Path::new(object)).map_err(|e| e.to_string())?;
    eprintln!("registered: {}", objects.names().join(", "));
    wait(command)
}

/// The arguments of the agent, and the command after `--`.
fn split(arguments: &[String]) -> (&[String], &[String]) {
    match arguments.iter().position(|argument| argument == "--") {
        Some(at) => (&arguments[..at], &arguments[at + 1..]),
        None => (arguments, &[]),
    }
}

/// The settings of the shim, and the file of `--trace`.
fn parse(arguments: &[String]) -> Result<(Spec, Option<PathBuf>), String> {
    let mut arguments = arguments.iter();
    let mut spec = Spec::new(arguments.next().ok_or(USAGE)?);
    let mut trace = None;
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value\n{USAGE}"));
        match argument.as_str() {
            "--name" => spec.name = Some(value()?.clone()),
            "--trace" => trace = Some(PathBuf::from(value()?)),
            "--spin" => spec.spin = true,
            "--ring" => {
                let text = value()?;
                spec.ring = text.parse().map_err(|e| format!("--ring {text}: {e}"))?;
            }
            _ => {
                let (name, text) =
                    argument.split_once('=').ok_or_else(|| format!("`{argument}`?\n{USAGE}"))?;
                let number = text.parse().map_err(|e| format!("{argument}: {e}"))?;
                spec.params.values.insert(name.to_owned(), number);
            }
        }
    }
    spec.trace = trace.is_some();
    Ok((spec, trace))
}

/// Runs the command. Without a command, waits for the end of standard input.
fn wait(command: &[String]) -> Result<(), String> {
    let Some((program, arguments)) = command.split_first() else {
        return std::io::stdin().lock().read_to_end(&mut Vec::new()).map(drop).map_err(|e| e.to_string());
    };
    let status = Command::new(program).args(arguments).status().map_err(|e| format!("{program}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{program}: {status}")) }
}

fn summary(outcome: &ShimCounts) -> String {
    let micros = |quantile| outcome.latency.value_at_quantile(quantile) / 1000;
    format!(
        "{} connections; {} records, {} lost; {} decisions, {} written, {} followed, {} raised to one segment; \
         decided after {} us (median), {} us (99 %); {:.2} s of CPU",
        outcome.connections,
        outcome.records,
        outcome.lost,
        outcome.decided,
        outcome.written,
        outcome.applied,
        outcome.clamps,
        micros(0.5),
        micros(0.99),
        outcome.cpu,
    )
}

/// The trace as tab-separated lines: an event and the decision that it caused.
fn table(outcome: &ShimCounts) -> String {
    let mut text = "connection\tnumber\tns\tevent\tstate\tcwnd\tssthresh\tflight\tacked_bytes\tdelivered\tlost\tmarked\t\
                    rtt_us\tround\tfollows\tdecided_cwnd\tdecided_ssthresh\n"
        .to_owned();
    for (r, decision) in &outcome.trace {
        let rtt = r.rtt.map_or_else(String::new, |rtt| rtt.to_string());
        let decided = decision.map_or_else(|| "\t".to_owned(), |d| format!("{}\t{}", d.cwnd, d.ssthresh));
        writeln!(
            text,
            "{}\t{}\t{}\t{:?}\t{:?}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{rtt}\t{}\t{}\t{decided}",
            r.connection,
            r.number,
            r.at,
            r.kind,
            r.state,
            r.cwnd,
            r.ssthresh,
            r.flight,
            r.acked,
            r.delivered,
            r.lost,
            r.marked,
            r.round,
            r.answered
        )
        .expect("writing to a string succeeds");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn parameters_and_options_are_read_and_the_command_is_not() {
        let arguments = words("dctcp g=0.125 --name mine --ring 8192 --trace /tmp/t -- iperf3 --spin");
        let (own, command) = split(&arguments);
        let (spec, trace) = parse(own).unwrap();
        assert_eq!(spec.params.values["g"].to_string(), "0.125");
        assert_eq!(
            (spec.kernel_name().as_str(), spec.ring, spec.spin, spec.dctcp_ecn),
            ("mine", 8192, false, true)
        );
        assert_eq!(trace, Some(PathBuf::from("/tmp/t")));
        assert_eq!(command, ["iperf3", "--spin"]);
    }

    #[test]
    fn an_argument_that_is_no_parameter_is_an_error_with_the_usage() {
        let error = parse(&words("reno fast")).unwrap_err();
        assert!(error.starts_with("`fast`?\nusage: "), "{error}");
    }
}
