//! Controllers that govern recovery ([`Controller::governs_recovery`]), and the samples that they receive.

use super::*;
use crate::config::{EcnMode, Recovery};
use std::sync::{Arc, Mutex};
use tcpassay_cc::{Cause, RateSample};

/// A controller that returns a constant window and records the events.
#[derive(Clone, Debug)]
struct Constant {
    segments: u64,
    events: Arc<Mutex<Vec<Event>>>,
}

impl Controller for Constant {
    fn name(&self) -> &'static str {
        "constant"
    }

    fn on(&mut self, view: &View, event: &Event) -> Control {
        self.events.lock().unwrap().push(*event);
        Control { cwnd: view.mss * self.segments, ..view.control }
    }

    fn governs_recovery(&self) -> bool {
        true
    }

    fn boxed_clone(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

fn rig(segments: u64) -> (Rig, Arc<Mutex<Vec<Event>>>) {
    let events: Arc<Mutex<Vec<Event>>> = Arc::default();
    let cc = Constant { segments, events: Arc::clone(&events) };
    (Rig::boxed(&rfc(), &agreed(), Box::new(cc)), events)
}

fn samples(events: &Mutex<Vec<Event>>) -> Vec<RateSample> {
    let events = events.lock().unwrap();
    events.iter().filter_map(|event| if let Event::Ack(ack) = event { ack.sample } else { None }).collect()
}

#[test]
fn the_window_of_a_governing_controller_applies_in_recovery() {
    let (mut r, _) = rig(20);
    assert_eq!(r.write(40).len(), 20);
    r.advance(ms(100));
    // Three segments are reported and one is lost: sixteen are in flight.
    assert_eq!(r.sack(0, &[1..4]), [0, 20, 21, 22]);
    assert!(r.s.in_recovery_state());
    assert_eq!(r.cwnd(), 20_000);
    assert_eq!(r.sack(0, &[1..6]), [23, 24]);
    assert_eq!(r.cwnd(), 20_000);
}

#[test]
fn without_sack_each_duplicate_frees_a_segment_of_the_window_of_a_governing_controller() {
    for recovery in [Recovery::NewReno, Recovery::Sack, Recovery::FreeBsd { pipe: true }] {
        let cc = Constant { segments: 20, events: Arc::default() };
        let cfg = Config { recovery, ..rfc() };
        let mut r = Rig::boxed(&cfg, &Agreed { sack: false, ..agreed() }, Box::new(cc));
        assert_eq!(r.write(20).len(), 20);
        r.advance(ms(100));
        assert_eq!([r.ack(0), r.ack(0)], [[], []]);
        // No new data wait. The window is full except for what the duplicates and the loss have freed.
        assert_eq!(r.ack(0), [0], "{recovery:?}");
        assert!(r.s.in_recovery_state());
        assert_eq!(r.cwnd(), 20_000);
    }
}

#[test]
fn a_governing_controller_receives_losses_after_a_mark_of_the_same_window() {
    let events: Arc<Mutex<Vec<Event>>> = Arc::default();
    let cc = Constant { segments: 20, events: Arc::clone(&events) };
    let cfg = Config { ecn: EcnMode::Classic, ..rfc() };
    let mut r = Rig::boxed(&cfg, &Agreed { ecn: cfg.ecn, ..agreed() }, Box::new(cc));
    r.write(40);
    r.advance(ms(100));
    let mut ack = r.ack_in(seg(1));
    ack.ece = true;
    r.deliver(&ack);
    r.drain();
    let causes = || -> Vec<Cause> {
        let events = events.lock().unwrap();
        let cause =
            |event: &Event| if let Event::Congestion { cause, .. } = event { Some(*cause) } else { None };
        events.iter().filter_map(cause).collect()
    };
    assert_eq!(causes(), [Cause::Ecn]);
    r.sack(1, &[2..5]);
    assert!(r.s.in_recovery_state());
    assert_eq!(causes(), [Cause::Ecn, Cause::Loss]);
    assert_eq!(r.cwnd(), 20_000);
}

#[test]
fn a_governing_controller_receives_no_restart_after_idle() {
    let (mut r, events) = rig(20);
    r.write(2);
    r.advance(ms(100));
    r.ack(2);
    r.advance(ms(60_000));
    assert_eq!(r.write(30).len(), 20);
    assert!(!events.lock().unwrap().iter().any(|event| matches!(event, Event::Resume { .. })));
}

#[test]
fn a_rate_sample_has_the_data_delivered_since_its_segment_was_sent() {
    let (mut r, events) = rig(20);
    r.write(4);
    let sent_at = r.now;
    r.advance(ms(100));
    r.ack(2);
    r.advance(ms(50));
    r.ack(4);
    let first = RateSample { delivered: Bytes::new(2000), interval: ms(100), sent_at };
    let second = RateSample { delivered: Bytes::new(4000), interval: ms(150), sent_at };
    assert_eq!(samples(&events), [first, second]);
}

#[test]
fn segments_sent_after_the_application_left_the_window_unused_are_app_limited() {
    let (mut r, events) = rig(20);
    r.write(2);
    r.advance(ms(100));
    r.ack(2);
    r.write(1);
    let sent: Vec<bool> = events
        .lock()
        .unwrap()
        .iter()
        .filter_map(
            |event| if let Event::Sent { app_limited, .. } = event { Some(*app_limited) } else { None },
        )
        .collect();
    assert_eq!(sent, [false, false, true]);
}

#[test]
fn a_transmission_with_nothing_in_flight_has_the_time_since_the_previous_one() {
    // `tcp_event_data_sent`, CA_EVENT_TX_START.
    let (mut r, events) = rig(20);
    r.write(2);
    r.advance(ms(100));
    r.write(1);
    r.ack(3);
    r.advance(ms(5000));
    r.write(2);
    let idle: Vec<Option<Dur>> = events
        .lock()
        .unwrap()
        .iter()
        .filter_map(|event| if let Event::Sent { idle, .. } = event { Some(*idle) } else { None })
        .collect();
    assert_eq!(idle[1..], [None, None, Some(ms(5000)), None]);
    assert!(idle[0].is_some());
}
