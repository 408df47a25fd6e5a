//! A run is a function of (case, seed, version), and collectors never influence it.

use crate::{Rows, case, go_with};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::process::Command;
use tcpassay_measure::EventKind;
use tcpassay_sim::{CollectOptions, EndReason, SimOptions, run};
use tcpassay_units::{Dur, Seed};

const BUSY: Rows = &[
    ("topology", "dumbbell:3"),
    ("link.rate", "100Mbit"),
    ("link.delay", "5ms"),
    ("link.loss", "0.5%"),
    ("link.jitter", "1ms"),
    ("link.duplicate", "0.1%"),
    ("link.corrupt", "0.1%"),
    ("queue.kind", "fq_codel"),
    ("queue.ecn", "on"),
    ("stack.profile", "linux"),
    ("stack.cc", "cubic"),
    ("stack.ecn", "classic"),
    ("sender1/stack.cc", "mvegas"),
    ("nic.tso", "on"),
    ("nic.gro", "on"),
    ("nic.rx_usecs", "30us"),
    ("app.workload", "mix"),
    ("app.mix", "bulk + rpc request=10KB flows=2 + rpc-open arrival=poisson:100/s request=exp:20KB"),
    ("app.background", "poisson:10%"),
    ("app.duration", "1s"),
];

const ALL: CollectOptions = CollectOptions {
    series: Some(ms_const(1)),
    latency: true,
    deliveries: true,
    events: true,
    packets: true,
    warmup: Dur::ZERO,
    unseen: false,
};

const fn ms_const(n: u64) -> Dur {
    Dur::from_millis(n)
}

#[test]
fn every_collector_on_or_off_the_run_takes_the_same_steps() {
    let off = go_with(BUSY, CollectOptions::default());
    let on = go_with(BUSY, ALL);
    assert_eq!(off.trace, on.trace);
    assert_eq!(off.recording.flows, on.recording.flows);
    assert!(on.recording.events.len() > 1000 && on.recording.packets.len() > 1000, "they were on");
    assert!(on.recording.series.is_some() && on.recording.deliveries.len() > 1000, "they were on");
    assert!(on.recording.latencies.len() > off.recording.latencies.len(), "they were on");
}

#[test]
fn losses_that_rack_finds_out_of_order_are_logged_as_one_span() {
    let rows: Rows = &[
        ("link.delay", "500us"),
        ("stack.profile", "linux"),
        ("stack.cc", "cubic"),
        ("app.flows", "20"),
        ("app.duration", "100ms"),
    ];
    let events = go_with(rows, ALL).recording.events;
    let lost: Vec<_> = events.iter().filter(|e| e.kind == EventKind::Lost && e.why == "rack").collect();
    assert!(lost.len() > 10, "RACK found losses");
    assert!(lost.iter().all(|e| e.len.is_some_and(|len| len > 0 && len < 4 << 20)));
}

#[test]
fn another_seed_is_another_run_and_the_same_seed_is_the_same() {
    let go = |seed| run(&case(BUSY), Seed(seed), &SimOptions::default()).trace;
    assert_eq!(go(1), go(1));
    assert_ne!(go(1), go(2));
}

/// The program of the two processes: prints the complete recording of a run.
#[test]
#[ignore = "run by two_processes_write_the_same_recording"]
fn child() {
    let outcome = go_with(BUSY, ALL);
    let mut hash = DefaultHasher::new();
    format!("{:?}", outcome.recording).hash(&mut hash);
    println!("recording {:016x} trace {:?}", hash.finish(), outcome.trace);
}

#[test]
fn two_processes_write_the_same_recording() {
    let print = || {
        let me = std::env::current_exe().expect("a test is a program");
        let child =
            Command::new(me).args(["--exact", "determinism::child", "--ignored", "--nocapture"]).output();
        let text = String::from_utf8(child.expect("it starts").stdout).expect("text");
        text.lines().find(|line| line.contains("recording ")).expect("it ran").to_owned()
    };
    assert_eq!(print(), print());
}

#[test]
fn a_stopped_run_has_a_recording_up_to_that_point() {
    let stop = std::sync::atomic::AtomicBool::new(true);
    let case = case(&[("app.duration", "1000s")]);
    let outcome = run(&case, Seed(1), &SimOptions { stop: Some(&stop), ..SimOptions::default() });
    assert_eq!(outcome.ended, EndReason::Interrupted);
    assert!(!outcome.recording.header.complete);
    assert!(outcome.recording.flows[0].counters.delivered_packets > 100);
}

#[test]
fn a_run_with_too_many_events_ends_with_this_reason() {
    let outcome = run(&case(&[]), Seed(1), &SimOptions { max_events: 70_000, ..SimOptions::default() });
    assert_eq!(outcome.ended, EndReason::EventLimit);
    assert!(!outcome.recording.header.complete);
}

#[test]
fn an_additional_link_does_not_change_the_random_numbers_of_another_link() {
    // Losses use random streams by name: the first packets of a link have the same losses whatever other
    // links exist.
    let lost = |topology| {
        let outcome = go_with(
            &[
                ("topology", topology),
                ("access-sender0/link.loss", "10%"),
                ("app.flow_size", "50KB"),
                ("app.duration", "5s"),
            ],
            CollectOptions::default(),
        );
        let e = outcome.recording.environment.into_iter().find(|e| e.property == "loss").expect("asked for");
        e.measured
    };
    assert!(lost("star:1").is_some());
    assert_eq!(lost("star:1"), lost("star:2"));
}
