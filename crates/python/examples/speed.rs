//! Measures the speed of the model: data packets per CPU second of the run loop, for the scenarios in which
//! ns-3 and htsim were measured.
//!
//! `speed [SCENARIO ...] [--collect] [--json] [--seconds=X]`; without names all run, with collectors off and then with
//! counters, latency and 1 ms series (`--collect`: only so). CPU time is the process's own (`/proc/self/schedstat`);
//! the peak of memory (`VmHWM`) is of the whole process, so run one scenario alone to know its own. The process has the
//! huge pages that the workers of `tcpassay run` have, unless `GLIBC_TUNABLES` says something else (also when empty).
//!
//! The example is in the crate of the native module because a profile of the module (`make pgo`) only
//! applies to crates that are compiled with the same features.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::process::Command;
use tcpassay_case::{Case, params::Value};
use tcpassay_sim::{CollectOptions, SimOptions, run};
use tcpassay_units::{Dur, Seed};

struct Scenario {
    name: &'static str,
    what: &'static str,
    rows: &'static [Rows],
}

type Rows = &'static [(&'static str, &'static str)];

const DCTCP: Rows = &[
    ("topology", "pair"),
    ("link.rate", "10Gbit"),
    ("link.delay", "50us"),
    ("stack.profile", "linux"),
    ("stack.cc", "dctcp"),
    ("stack.ecn", "dctcp"),
    ("queue.ecn_mark", "data"),
    ("queue.ecn_threshold", "100KB"),
    ("app.duration", "1s"),
];

const PERMUTATION: Rows = &[
    ("topology", "file:permutation"),
    ("link.rate", "10Gbit"),
    ("link.delay", "2500ns"),
    ("stack.profile", "linux"),
    ("stack.cc", "dctcp"),
    ("stack.ecn", "dctcp"),
    ("queue.ecn_mark", "data"),
    ("queue.ecn_threshold", "30KB"),
    ("app.duration", "100ms"),
];

const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "dctcp",
        what: "1 flow, 10 Gbit/s, 100 us, DCTCP, step marking, no TSO",
        rows: &[DCTCP],
    },
    Scenario {
        name: "cubic",
        what: "1 flow, 1 Gbit/s, 10 ms, CUBIC",
        rows: &[&[
            ("topology", "pair"),
            ("link.rate", "1Gbit"),
            ("link.delay", "5ms"),
            ("stack.profile", "linux"),
            ("stack.cc", "cubic"),
            ("app.duration", "10s"),
        ]],
    },
    Scenario {
        name: "hundred",
        what: "100 flows, 10 Gbit/s, 1 ms, CUBIC",
        rows: &[&[
            ("topology", "pair"),
            ("link.rate", "10Gbit"),
            ("link.delay", "500us"),
            ("stack.profile", "linux"),
            ("stack.cc", "cubic"),
            ("app.flows", "100"),
            ("app.duration", "1s"),
        ]],
    },
    Scenario {
        name: "permutation",
        what: "64 hosts, 4 leaves x 16, fat spine, DCTCP, 20 us",
        // Only the NICs of the senders are congested. They mark packets like every queue (as in htsim).
        rows: &[PERMUTATION, &[("nic.ecn_threshold", "30KB")]],
    },
    Scenario {
        name: "unmarked",
        what: "the same, but the hosts' own queues do not mark and grow",
        rows: &[PERMUTATION],
    },
    Scenario {
        name: "incast",
        what: "63 senders to 1, DCTCP, 20 us",
        rows: &[&[
            ("topology", "star:63"),
            ("link.rate", "10Gbit"),
            ("link.delay", "10us"),
            ("stack.profile", "linux"),
            ("stack.cc", "dctcp"),
            ("stack.ecn", "dctcp"),
            ("queue.ecn_mark", "data"),
            ("queue.ecn_threshold", "100KB"),
            ("app.duration", "1s"),
        ]],
    },
];

/// Every host sends to the one a rack further; the spine has room for all.
fn permutation() -> String {
    use std::fmt::Write;
    let hosts: Vec<String> = (0..64).map(|i| format!("\"h{i}\"")).collect();
    let mut text = format!(
        "hosts = [{}]\nswitches = [\"l0\", \"l1\", \"l2\", \"l3\", \"spine\"]\nlinks = [\n",
        hosts.join(", ")
    );
    for i in 0..64 {
        writeln!(text, "{{ from = \"h{i}\", to = \"l{}\" }},", i / 16).expect("memory");
    }
    for leaf in 0..4 {
        writeln!(text, "{{ from = \"l{leaf}\", to = \"spine\", rate = \"160Gbit\" }},").expect("memory");
    }
    text += "]\nflows = [\n";
    for i in 0..64 {
        writeln!(text, "{{ from = \"h{i}\", to = \"h{}\" }},", (i + 16) % 64).expect("memory");
    }
    text + "]\n"
}

/// Nanoseconds that this process has been on a CPU.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("Linux says how long a process ran");
    text.split_whitespace()
        .next()
        .and_then(|n| n.parse().ok())
        .expect("its first number is the time on a CPU")
}

/// Peak of resident memory in megabytes.
fn peak_mb() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux says how much a process uses");
    let line = text.lines().find(|l| l.starts_with("VmHWM")).expect("the peak is told");
    let kb: f64 = line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("in kB");
    kb / 1000.0
}

/// Becomes this program with huge pages, as `tcpassay.run.worker` says it: glibc's allocator is told when a process begins.
fn take_huge_pages() {
    const VARIABLE: &str = "GLIBC_TUNABLES";
    if std::env::var_os(VARIABLE).is_none() {
        let program = std::env::current_exe().expect("Linux says what runs");
        let arguments = std::env::args_os().skip(1);
        let failed = Command::new(program).args(arguments).env(VARIABLE, "glibc.malloc.hugetlb=1").exec();
        panic!("this program cannot be started again: {failed}");
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures for reading")]
fn main() {
    take_huge_pages();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let names: Vec<&String> = arguments.iter().filter(|a| !a.starts_with("--")).collect();
    let json = arguments.iter().any(|a| a == "--json");
    let only_collect = arguments.iter().any(|a| a == "--collect");
    let only_off = arguments.iter().any(|a| a == "--off");
    let seconds = arguments.iter().find_map(|a| a.strip_prefix("--seconds="));
    let modes: &[bool] = match (only_collect, only_off) {
        (true, _) => &[true],
        (_, true) => &[false],
        _ => &[false, true],
    };
    if !json {
        println!(
            "{:60} {:>9} {:>12} {:>12} {:>9} {:>8}",
            "scenario", "collect", "data pkt", "pkt/CPU s", "ns/hop", "MB"
        );
    }
    for scenario in SCENARIOS.iter().filter(|s| names.is_empty() || names.iter().any(|n| *n == s.name)) {
        let mut triples: BTreeMap<String, Value> = scenario
            .rows
            .concat()
            .iter()
            .map(|(path, value)| ((*path).to_owned(), Value::from(*value)))
            .collect();
        if let Some(s) = seconds {
            triples.insert("app.duration".to_owned(), Value::from(s));
        }
        let case = Case::with_files(&triples, &|_| Ok(permutation())).unwrap_or_else(|e| panic!("{e:?}"));
        for &all in modes {
            let collect = if all {
                CollectOptions {
                    series: Some(Dur::from_millis(1)),
                    latency: true,
                    ..CollectOptions::default()
                }
            } else {
                CollectOptions::default()
            };
            let begin = cpu_ns();
            let outcome = run(&case, Seed(1), &SimOptions { collect, ..SimOptions::default() });
            let spent = (cpu_ns() - begin) as f64 / 1e9;
            let packets: u64 = outcome.recording.flows.iter().map(|f| f.counters.delivered_packets).sum();
            let rate = packets as f64 / spent;
            let hop = spent * 1e9 / outcome.hops as f64;
            if json {
                println!(
                    "{{\"scenario\": \"{}\", \"collect\": {all}, \"packets\": {packets}, \"hops\": {}, \"cpu_s\": {spent:.4}, \"packets_per_cpu_s\": {rate:.0}, \"peak_mb\": {:.1}}}",
                    scenario.name,
                    outcome.hops,
                    peak_mb()
                );
            } else {
                let mode = if all { "series" } else { "off" };
                println!(
                    "{:60} {mode:>9} {packets:>12} {rate:>12.0} {hop:>9.1} {:>8.1}",
                    scenario.what,
                    peak_mb()
                );
            }
        }
    }
}
