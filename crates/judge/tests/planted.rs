//! A sample of planted faults that need no separate build: the settings of a host are changed after the case
//! was read, so that its stack deviates from the case. The oracles read the log and the unchanged case in
//! the header. Each test asserts that the oracle finds the fault, and that the same case without the fault
//! has no finding of that kind.

mod runs;

use runs::{Rows, case, recording};
use tcpassay_case::HostSettings;
use tcpassay_cc::{HystartDetect, HystartMode};
use tcpassay_judge::{Level, ORACLES, judge};

const BASE: &Rows = &[("app.duration", "400ms"), ("link.rate", "20Mbit"), ("link.delay", "2ms")];

/// Returns the titles of errors and warnings in a run of `rows` in which `fault` changed the settings of
/// both hosts.
fn titles(rows: &[&Rows], fault: impl Fn(&mut HostSettings)) -> Vec<String> {
    let mut case = case(&[&[BASE], rows].concat());
    case.hosts.iter_mut().for_each(fault);
    let names: Vec<&str> = ORACLES.iter().map(|oracle| oracle.name).collect();
    let found = judge(&recording(&case), &names);
    found.iter().filter(|one| one.level != Level::Note).map(|one| one.title.to_string()).collect()
}

/// Asserts that the run with the fault has a finding with this title, and the run without it has none.
#[track_caller]
fn finds(title: &str, rows: &[&Rows], fault: impl Fn(&mut HostSettings)) {
    let clean = titles(rows, |_| {});
    assert!(!clean.iter().any(|found| found == title), "without the fault: {clean:?}");
    let planted = titles(rows, fault);
    assert!(planted.iter().any(|found| found == title), "with the fault: {planted:?}");
}

#[test]
fn an_initial_window_of_forty_segments_is_found() {
    finds("the first flight is above the initial window", &[], |host| host.stack.initial_window = 40);
}

#[test]
fn an_ack_for_every_eighth_segment_is_found() {
    finds("too many full segments are unacknowledged", &[], |host| host.stack.delayed_ack.every = 8);
}

#[test]
fn a_slow_start_that_ignores_hystart_is_found() {
    let rows: &Rows = &[
        ("stack.profile", "linux"),
        ("stack.cc", "cubic"),
        ("link.rate", "100Mbit"),
        ("link.delay", "10ms"),
        ("queue.limit", "1MB"),
    ];
    finds("slow start outlasts HyStart's condition", &[rows], |host| host.stack.hystart = HystartMode::Off);
}

#[test]
fn a_slow_start_that_ends_without_hystarts_condition_is_found() {
    // The case has detection by trains of ACKs only, the stack also detects longer round-trip times. ACKs come more than 2 ms apart.
    let rows: &Rows = &[
        ("stack.profile", "linux"),
        ("stack.cc", "cubic"),
        ("stack.hystart", "linux-train"),
        ("link.rate", "5Mbit"),
        ("link.delay", "20ms"),
        ("queue.limit", "1MB"),
        ("app.duration", "1s"),
    ];
    let both = HystartMode::Linux(HystartDetect::ALL);
    finds("slow start ends before HyStart's condition", &[rows], |host| host.stack.hystart = both);
}
