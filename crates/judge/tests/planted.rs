//! A sample of planted faults that need no separate build: the settings of a host are changed after the case
//! was read, so that its stack deviates from the case. The oracles read the log and the unchanged case in
//! the header. Each test asserts that the oracle finds the fault, and that the same case without the fault
//! has no finding of that kind. `make quality` tests faults in the code (tests/quality/model).

mod runs;

use runs::{Rows, case, recording};
use tcpassay_case::HostSettings;
use tcpassay_cc::{Ack, Event, HystartDetect, HystartMode};
use tcpassay_judge::{Level, ORACLES, judge};
use tcpassay_measure::Decision;
use tcpassay_tcp::{LossDetection, Persist};
use tcpassay_units::{Bytes, Dur, Rate};

const BASE: &Rows = &[("app.duration", "400ms"), ("link.rate", "20Mbit"), ("link.delay", "2ms")];
const LOSSY: &Rows = &[("link.loss", "2%")];
const REORDERED: &Rows = &[("link.reorder", "1%:3")];

/// Returns the titles of errors and warnings in a run of `rows` in which `fault` changed the settings of
/// both hosts.
fn titles(rows: &[&Rows], fault: impl Fn(&mut HostSettings)) -> Vec<&'static str> {
    let mut case = case(&[&[BASE], rows].concat());
    case.hosts.iter_mut().for_each(fault);
    let names: Vec<&str> = ORACLES.iter().map(|oracle| oracle.name).collect();
    let found = judge(&recording(&case), &names);
    found.iter().filter(|one| one.level != Level::Note).map(|one| one.title).collect()
}

/// Asserts that the run with the fault has a finding with this title, and the run without it has none.
#[track_caller]
fn finds(title: &str, rows: &[&Rows], fault: impl Fn(&mut HostSettings)) {
    let clean = titles(rows, |_| {});
    assert!(!clean.contains(&title), "without the fault: {clean:?}");
    let planted = titles(rows, fault);
    assert!(planted.contains(&title), "with the fault: {planted:?}");
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

/// The titles of the errors in a run whose controllers were told, or answered, something else than the log says.
fn retold(rows: &Rows, change: impl Fn(&mut Decision, &mut Ack)) -> Vec<&'static str> {
    let mut recording = recording(&case(&[BASE, rows]));
    let acks = recording.decisions.iter_mut().filter(|one| matches!(one.event, Event::Ack(_)));
    let decision = acks.into_iter().nth(100).expect("a hundred ACKs");
    let Event::Ack(mut ack) = decision.event else { unreachable!("only ACKs are left") };
    change(decision, &mut ack);
    decision.event = Event::Ack(ack);
    let found = judge(&recording, &["congestion-control", "controller-input"]);
    found.iter().map(|one| one.title).collect()
}

#[test]
fn a_decision_that_differs_from_the_specification_is_found_with_every_controller() {
    for cc in ["reno", "cubic", "vegas", "mvegas", "bbr", "bbr3"] {
        for profile in ["rfc", "linux", "freebsd"] {
            let rows: &Rows = &[("stack.cc", cc), ("stack.profile", profile)];
            assert_eq!(retold(rows, |_, _| {}), [""; 0], "{cc} {profile}");
            let found = retold(rows, |decision, _| decision.asked.cwnd += Bytes::new(2));
            assert_eq!(found, ["an ACK gives another window than specified"], "{cc} {profile}");
        }
    }
}

#[test]
fn a_pacing_rate_that_differs_from_the_specification_is_found() {
    let found = retold(&[("stack.cc", "bbr")], |decision, _| {
        let rate = decision.asked.pacing.expect("BBR paces").bits_per_sec();
        decision.asked.pacing = Some(Rate::from_bits_per_sec(rate + 8));
    });
    assert_eq!(found, ["a pacing rate other than specified"]);
}

#[test]
fn what_the_controller_is_told_is_compared_with_the_segments() {
    let more = Bytes::new(2);
    let told = |change: fn(&mut Decision, &mut Ack, Bytes)| {
        let found = retold(&[("stack.cc", "bbr3")], |decision, ack| change(decision, ack, more));
        let input = found.iter().find(|title| {
            title.starts_with("the controller is told") || title.contains("transmission is paced")
        });
        *input.unwrap_or_else(|| panic!("{found:?}"))
    };
    let data = "the controller is told of other data than acknowledged";
    assert_eq!(told(|_, ack, more| ack.acked += more), data);
    assert_eq!(told(|_, ack, more| ack.delivered += more), data);
    assert_eq!(told(|one, _, more| one.view.flight += more), "the controller is told another flight");
    assert_eq!(told(|_, ack, _| ack.rtt = None), "the controller is told another round-trip time");
    assert_eq!(told(|_, ack, _| ack.sample = None), "the controller is told another delivery rate");
    assert_eq!(told(|one, _, _| one.view.srtt = None), "the controller is told another SRTT");
    let earlier = |one: &mut Decision, _: &mut Ack, _| {
        one.view.next_send = one.view.next_send.saturating_sub(Dur::from_micros(3));
    };
    assert_eq!(told(earlier), "the next transmission is paced with another rate");
    assert!(!retold(&[], |_, ack| ack.round += 1).is_empty());
    let marked: &Rows = &[
        ("stack.ecn", "classic"),
        ("queue.ecn_mark", "data"),
        ("queue.ecn_threshold", "15KB"),
        ("stack.profile", "rfc"),
    ];
    let found = retold(marked, |_, ack| ack.marked += more);
    assert!(found.contains(&"the controller is told of other marks"), "{found:?}");
}
