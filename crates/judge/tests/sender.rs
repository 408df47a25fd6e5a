//! A recording in which the controller was told something else than the sender did.

mod runs;

use runs::{Rows, case, recording};
use tcpassay_cc::Event;
use tcpassay_judge::judge;
use tcpassay_measure::Recording;
use tcpassay_units::{Bytes, Dur};

const BASE: &Rows = &[("app.duration", "2s"), ("link.rate", "20Mbit"), ("link.delay", "5ms")];

fn titles(recording: &Recording) -> Vec<&'static str> {
    judge(recording, &["sender"]).iter().map(|found| found.title).collect()
}

/// The findings after the last event for which `change` returns true was changed by it.
fn told(rows: &Rows, change: impl Fn(&mut Event) -> bool) -> Vec<&'static str> {
    let mut recording = recording(&case(&[BASE, rows]));
    assert_eq!(titles(&recording), Vec::<&str>::new());
    assert!(recording.decisions.iter_mut().any(|decision| change(&mut decision.event)), "it does not occur");
    titles(&recording)
}

#[test]
fn a_loss_is_told_with_the_flight_before_it() {
    let found = told(&[("link.loss", "1%")], |event| {
        if let Event::Congestion { flight, .. } = event {
            *flight += Bytes::new(1);
            return true;
        }
        false
    });
    assert_eq!(found, ["the controller is told another flight of a reduction"]);
}

#[test]
fn the_end_of_a_recovery_is_told_with_its_bound() {
    let found = told(&[("link.loss", "1%")], |event| match event {
        Event::RecoveryExit { exit, .. } if *exit != Bytes::MAX => {
            *exit += Bytes::new(1);
            true
        }
        _ => false,
    });
    assert_eq!(found, ["the controller is told another end of a recovery"]);
}

#[test]
fn a_first_timeout_is_not_told_as_a_repeated_one() {
    let found = told(&[("link.loss", "10%"), ("stack.min_rto", "200ms")], |event| {
        if let Event::Timeout { again, .. } = event {
            *again = !*again;
            return true;
        }
        false
    });
    assert_eq!(found, ["the controller is told another timeout"]);
}

#[test]
fn idle_time_is_told_from_the_last_transmission_on() {
    let pauses: &Rows = &[
        ("app.workload", "onoff"),
        ("app.burst", "60KB"),
        ("app.gap", "400ms"),
        ("stack.min_rto", "10ms"),
        ("stack.delayed_ack", "off"),
        ("stack.slow_start_after_idle", "on"),
    ];
    let found = told(pauses, |event| {
        if let Event::Resume { idle, .. } = event {
            *idle += Dur::from_nanos(1);
            return true;
        }
        false
    });
    assert_eq!(found, ["the controller is told another idle time"]);
}
