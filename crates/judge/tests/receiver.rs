//! The oracle `receiver` finds a row of a run's log that was changed, and nothing in the log as it is.

mod runs;

use runs::{Rows, case, recording};
use tcpassay_judge::judge;
use tcpassay_measure::{EventKind, EventLog, EventRow};
use tcpassay_units::{Bytes, Time};
use tcpassay_wire::Flags;

/// A run with losses, in which ACKs are delayed and sent at once.
const BASE: &Rows = &[
    ("app.duration", "600ms"),
    ("link.rate", "20Mbit"),
    ("link.delay", "2ms"),
    ("link.loss", "1%"),
    ("app.workload", "rpc"),
    ("app.response", "10KB"),
];

/// The titles of what the oracle finds after `change` of the rows.
fn titles(rows: &Rows, change: impl Fn(&mut Vec<EventRow>)) -> Vec<String> {
    let mut recording = recording(&case(&[BASE, rows]));
    let mut events: Vec<EventRow> = recording.events.iter().collect();
    change(&mut events);
    recording.events = events.into_iter().collect::<EventLog>();
    judge(&recording, &["receiver"]).iter().map(|one| one.title.to_string()).collect()
}

/// The place of the third row of this kind with this reason, so that the connection is open.
fn third(events: &[EventRow], kind: EventKind, why: &str) -> usize {
    let mut places =
        (0..events.len()).filter(|place| events[*place].kind == kind && events[*place].why == why);
    places.nth(2).unwrap_or_else(|| panic!("{kind:?} {why}"))
}

fn pure_ack(events: &[EventRow]) -> usize {
    let pure = |event: &EventRow| {
        event.kind == EventKind::Out && event.len == Some(0) && event.flags == Some(Flags::ACK)
    };
    (0..events.len()).filter(|place| pure(&events[*place])).nth(4).expect("pure ACKs")
}

#[test]
fn the_log_of_the_model_has_no_finding_with_any_profile() {
    for profile in ["rfc", "linux", "linux-4.6", "freebsd"] {
        assert_eq!(titles(&[("stack.profile", profile)], |_| {}), [""; 0], "{profile}");
    }
}

#[test]
fn a_first_window_that_is_not_that_of_the_buffer_is_found() {
    let found = titles(&[], |events| {
        let syn = events.iter_mut().find(|event| event.kind == EventKind::Out).expect("a SYN");
        syn.window = syn.window.map(|window| window - Bytes::new(1));
    });
    assert_eq!(found, ["a first window that is not that of the buffer"]);
}

#[test]
fn a_window_that_is_not_that_of_the_buffer_is_found_with_and_without_an_account_of_memory() {
    for profile in ["rfc", "linux"] {
        let found = titles(&[("stack.profile", profile)], |events| {
            let place = pure_ack(events);
            events[place].window = events[place].window.map(|window| window / 2);
        });
        assert!(
            found.contains(&"a window that is not that of the buffer".to_owned()),
            "{profile}: {found:?}"
        );
    }
}

#[test]
fn an_ack_field_that_is_not_the_next_position_is_found() {
    let found = titles(&[], |events| {
        let place = pure_ack(events);
        events[place].ack = events[place].ack.map(|ack| ack - 1);
    });
    assert_eq!(found, ["an ACK field that is not the next position"]);
}

#[test]
fn a_delay_for_another_time_is_found() {
    for profile in ["rfc", "linux"] {
        let found = titles(&[("stack.profile", profile)], |events| {
            let place = third(events, EventKind::AckDelay, "Delay");
            events[place].value = events[place].value.map(|until| until + 1_000_000);
        });
        assert!(found.contains(&"an ACK is delayed until another time".to_owned()), "{profile}: {found:?}");
    }
}

#[test]
fn an_ack_at_once_that_is_not_due_is_found() {
    let found = titles(&[], |events| {
        let place = third(events, EventKind::AckDelay, "Delay");
        (events[place].kind, events[place].why, events[place].value) =
            (EventKind::AckNow, "EveryN".into(), None);
    });
    assert!(found.contains(&"an ACK at once that is not due".to_owned()), "{found:?}");
}

#[test]
fn a_delay_of_an_ack_that_is_due_at_once_is_found() {
    let found = titles(&[], |events| {
        let place = third(events, EventKind::AckNow, "EveryN");
        (events[place].kind, events[place].why) = (EventKind::AckDelay, "Delay".into());
        events[place].value = Some(events[place].at.as_nanos() + 200_000_000);
    });
    assert!(found.contains(&"an ACK that is due at once is delayed".to_owned()), "{found:?}");
}

#[test]
fn a_decision_that_is_missing_is_found() {
    let found = titles(&[], |events| {
        let place = third(events, EventKind::AckNow, "EveryN");
        events.remove(place);
    });
    assert!(found.contains(&"a decision about an ACK is missing".to_owned()), "{found:?}");
}

#[test]
fn a_timer_that_does_not_fire_and_one_that_fires_early_are_found() {
    // A client waits for longer than the delay of its ACKs before the next request.
    let rows = [("app.think", "500ms"), ("app.duration", "2s"), ("link.loss", "0")];
    let fired = |event: &EventRow| event.kind == EventKind::TimerFire && event.why == "DelayedAck";
    let found = titles(&rows, |events| {
        let at = events.iter().find(|event| fired(event)).expect("a timer fires").at;
        events.retain(|event| event.at != at);
    });
    assert!(found.contains(&"the timer of an ACK does not fire when it is due".to_owned()), "{found:?}");
    let found = titles(&rows, |events| {
        let place = events.iter().position(fired).expect("a timer fires");
        events[place].at = Time::from_nanos(events[place].at.as_nanos() - 1_000_000);
    });
    assert!(found.contains(&"the timer of an ACK fires when it is not due".to_owned()), "{found:?}");
}
