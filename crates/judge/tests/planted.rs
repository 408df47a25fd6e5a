//! A sample of planted faults that need no separate build: the settings of a host are changed after the case
//! was read, so that its stack deviates from the case. The oracles read the log and the unchanged case in
//! the header. Each test asserts that the oracle finds the fault, and that the same case without the fault
//! has no finding of that kind.

mod runs;

use runs::{Rows, case, recording};
use tcpassay_case::HostSettings;
use tcpassay_cc::{HystartDetect, HystartMode};
use tcpassay_judge::{Level, ORACLES, judge};
use tcpassay_tcp::{LossDetection, Persist};
use tcpassay_units::{Bytes, Dur};

const BASE: &Rows = &[("app.duration", "400ms"), ("link.rate", "20Mbit"), ("link.delay", "2ms")];
const LOSSY: &Rows = &[("link.loss", "2%")];
const REORDERED: &Rows = &[("link.reorder", "1%:3")];

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
fn a_minimum_of_the_rto_that_is_not_kept_is_found() {
    let rows: &Rows = &[("stack.min_rto", "200ms")];
    finds("the RTO ignores the deviation or its minimum", &[rows], |host| {
        host.stack.rto.min = Dur::from_millis(1);
    });
}

#[test]
fn an_rto_that_no_sample_explains_is_found() {
    finds("the RTO is longer than its samples explain", &[], |host| {
        host.stack.rto.slop = Dur::from_secs(3);
    });
}

#[test]
fn duplicates_that_are_not_reported_are_found() {
    let rows: &Rows = &[("link.duplicate", "2%")];
    finds("a duplicate is not reported", &[rows], |host| host.stack.dsack = false);
}

#[test]
fn a_loss_on_the_first_duplicate_is_found() {
    finds("a loss below the duplicate threshold", &[REORDERED], |host| {
        host.stack.loss_detection = LossDetection::DupThresh { threshold: 1, adaptive: false };
    });
}

#[test]
fn a_loss_that_waits_for_forty_duplicates_is_found() {
    finds("no loss detection at the duplicate threshold", &[LOSSY], |host| {
        host.stack.loss_detection = LossDetection::DupThresh { threshold: 40, adaptive: false };
    });
}

#[test]
fn duplicates_that_release_nothing_are_found() {
    let rows: &Rows = &[("stack.limited_transmit", "on")];
    finds("duplicate ACKs without limited transmit", &[LOSSY, rows], |host| {
        host.stack.limited_transmit = false;
    });
}

#[test]
fn small_segments_in_spite_of_nagle_are_found() {
    let rows: &Rows = &[("app.workload", "paced"), ("app.rate", "2Mbit"), ("app.burst", "300B")];
    finds("a small segment that violates Nagle's algorithm", &[rows], |host| host.stack.nodelay = true);
}

#[test]
fn probes_of_a_closed_window_without_back_off_are_found() {
    let rows: &Rows = &[
        ("app.read_rate", "20Kbit"),
        ("app.rcvbuf", "16KB"),
        ("app.duration", "4s"),
        ("stack.min_rto", "200ms"),
    ];
    finds("probes of a closed window without back-off", &[rows], |host| {
        let constant = Dur::from_millis(200);
        host.stack.persist = Some(Persist { min: constant, max: constant });
    });
}

#[test]
fn an_interrupt_that_is_held_back_too_long_is_found() {
    let rows: &Rows = &[("nic.rx_usecs", "50us")];
    finds("a packet waits although it is alone", &[rows], |host| host.nic.rx_delay = Dur::from_millis(20));
}

#[test]
fn a_merge_although_receive_offload_is_off_is_found() {
    let rows: &Rows = &[("nic.rx_usecs", "2ms")];
    finds("a merged segment although receive offload is off", &[rows], |host| host.nic.gro = true);
}

#[test]
fn a_merge_above_its_largest_size_is_found() {
    let rows: &Rows = &[("nic.rx_usecs", "10ms"), ("nic.gro", "on"), ("nic.gro_max", "4KB")];
    finds("a merge above the largest size", &[rows], |host| host.nic.gro_max = Bytes::new(65_536));
}

#[test]
fn an_alpha_that_does_not_follow_the_marks_is_found() {
    let rows: &Rows = &[
        ("app.duration", "4s"),
        ("stack.cc", "dctcp"),
        ("stack.ecn", "dctcp"),
        ("queue.ecn_mark", "data"),
        ("queue.ecn_threshold", "30KB"),
    ];
    finds("a mark does not reduce by half of alpha", &[rows], |host| {
        // Alpha stays near its first value, 1, although few packets are marked.
        host.cc_values.insert("g".to_owned(), 0.001);
    });
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
