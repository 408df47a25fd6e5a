//! Memory of a run. The test is alone in its process, because the kernel reports the peak of the whole
//! process.

use std::collections::BTreeMap;
use tcpassay_case::{Case, params::Value};
use tcpassay_sim::{CollectOptions, SimOptions, run};
use tcpassay_units::{Dur, Seed};

/// The peak of resident memory so far, in kilobytes.
fn peak_kb() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux says how much a process uses");
    let line = text.lines().find(|l| l.starts_with("VmHWM")).expect("the peak is told");
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("in kB")
}

/// Runs a dumbbell and returns the number of packets that its flows delivered.
fn dumbbell(rows: &[(&str, &str)], collect: CollectOptions) -> u64 {
    let common = [("topology", "pair"), ("stack.profile", "linux"), ("stack.cc", "cubic")];
    let triples: BTreeMap<String, Value> =
        common.iter().chain(rows).map(|(path, value)| ((*path).to_owned(), Value::from(*value))).collect();
    let case = Case::from_triples(&triples).expect("a good case");
    let outcome = run(&case, Seed(1), &SimOptions { collect, ..SimOptions::default() });
    outcome.recording.flows.iter().map(|f| f.counters.delivered_packets).sum()
}

#[test]
fn memory_does_not_grow_with_simulated_time_and_a_dumbbell_stays_below_50_mb() {
    let slow = |seconds| [("link.rate", "100Mbit"), ("link.delay", "5ms"), ("app.duration", seconds)];
    assert!(dumbbell(&slow("2s"), CollectOptions::default()) > 10_000);
    let short = peak_kb();
    assert!(dumbbell(&slow("20s"), CollectOptions::default()) > 100_000);
    let long = peak_kb();
    // Ten times the packets: one kept 64 bytes of each would take 10 MB more. What is allowed is the allocator's.
    assert!(long < short + 1_000, "{short} kB for 2 s, {long} kB for 20 s");

    let hundred =
        [("link.rate", "10Gbit"), ("link.delay", "500us"), ("app.flows", "100"), ("app.duration", "100ms")];
    let all =
        CollectOptions { series: Some(Dur::from_millis(1)), latency: true, ..CollectOptions::default() };
    assert!(dumbbell(&hundred, all) > 50_000);
    assert!(peak_kb() < 50_000, "{} kB for 100 flows with series", peak_kb());
}
