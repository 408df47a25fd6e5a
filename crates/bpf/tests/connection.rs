//! The events that a controller receives, and the decisions of a connection, by records of the kernel.

mod common;

use common::record;
use std::sync::{Arc, Mutex};
use tcpassay_bpf::{ControlledConnection, Decision, Record, RecordKind};
use tcpassay_cc::{Cause, Control, Controller, Event, Transmissions, View};
use tcpassay_states::CongestionState;
use tcpassay_units::{Bytes, Dur, Rate};

const TICK: Dur = Dur::from_millis(4);

/// A controller that records its events, and answers with a function of the test.
#[derive(Clone, Debug)]
struct RecordingController {
    events: Arc<Mutex<Vec<(View, Event)>>>,
    answer: fn(&View, &Event) -> Control,
    wants_sent: bool,
}

impl Controller for RecordingController {
    fn name(&self) -> &'static str {
        "recording"
    }

    fn on(&mut self, view: &View, event: &Event) -> Control {
        self.events.lock().unwrap().push((*view, *event));
        (self.answer)(view, event)
    }

    fn wants_sent_events(&self) -> Transmissions {
        if self.wants_sent { Transmissions::All } else { Transmissions::None }
    }

    fn boxed_clone(&self) -> Box<dyn Controller> {
        Box::new(RecordingController { events: Arc::default(), ..self.clone() })
    }
}

struct Fixture {
    events: Arc<Mutex<Vec<(View, Event)>>>,
    connection: ControlledConnection,
    number: u64,
}

impl Fixture {
    fn answering(answer: fn(&View, &Event) -> Control) -> Fixture {
        Fixture::of(answer, false)
    }

    fn of(answer: fn(&View, &Event) -> Control, wants_sent: bool) -> Fixture {
        let events: Arc<Mutex<Vec<(View, Event)>>> = Arc::default();
        let connection = ControlledConnection::new(
            Box::new(RecordingController { events: events.clone(), answer, wants_sent }),
            TICK,
        );
        let mut fixture = Fixture { events, connection, number: 0 };
        fixture.on(RecordKind::Established, CongestionState::Open);
        fixture
    }

    fn on(&mut self, kind: RecordKind, state: CongestionState) -> Option<Decision> {
        self.with(kind, state, |_| {})
    }

    fn with(
        &mut self,
        kind: RecordKind,
        state: CongestionState,
        change: fn(&mut Record),
    ) -> Option<Decision> {
        self.number += 1;
        let mut record = record(self.number, kind, state);
        record.at += 5_000_000_000;
        record.round = 3;
        change(&mut record);
        self.connection.on(&record)
    }

    /// The names of the events since the last call, in order.
    fn events(&self) -> Vec<String> {
        let mut events = self.events.lock().unwrap();
        events
            .drain(..)
            .map(|(_, event)| match event {
                Event::Ack(_) => "ack".to_owned(),
                Event::Congestion { cause: Cause::Loss, .. } => "enter by loss".to_owned(),
                Event::Congestion { cause: Cause::Ecn, .. } => "enter by mark".to_owned(),
                Event::RecoveryExit { spurious, .. } => {
                    format!("leave{}", if spurious { ", spurious" } else { "" })
                }
                Event::Timeout { again, .. } => format!("timeout{}", if again { " again" } else { "" }),
                Event::Established => "established".to_owned(),
                Event::Resume { .. } => "resume".to_owned(),
                Event::Sent { bytes, .. } => format!("sent {}", bytes.get()),
            })
            .collect()
    }
}

const ACK: RecordKind = RecordKind::Ack { app_limited: false };
const LOSS: RecordKind = RecordKind::Congestion { marked: false };
const MARK: RecordKind = RecordKind::Congestion { marked: true };
const LEAVE: RecordKind = RecordKind::RecoveryExit { spurious: false };

fn keep(view: &View, _: &Event) -> Control {
    view.control
}

#[test]
fn the_initial_window_is_the_kernels_and_an_infinite_threshold_is_absent() {
    let fixture = Fixture::answering(keep);
    let (view, event) = fixture.events.lock().unwrap()[0];
    assert_eq!(event, Event::Established);
    assert_eq!(view.control, Control { cwnd: Bytes::new(10_000), ssthresh: Bytes::MAX, pacing: None });
    assert_eq!(view.now.as_nanos(), 0);
}

#[test]
fn an_acks_packets_become_bytes_and_its_microseconds_times() {
    let mut fixture = Fixture::answering(keep);
    fixture.with(ACK, CongestionState::Open, |r| {
        (r.acked, r.delivered, r.lost, r.marked) = (2500, 3, 1, 2);
        r.rtt = Some(700);
        r.rate = Some((10, 8000));
        r.min_rtt = Some(600);
    });
    let (view, event) = *fixture.events.lock().unwrap().last().unwrap();
    let Event::Ack(ack) = event else { panic!("{event:?}") };
    assert_eq!((ack.acked, ack.delivered), (Bytes::new(2500), Bytes::new(3000)));
    assert_eq!((ack.lost, ack.marked), (Bytes::new(1000), Bytes::new(2000)));
    assert_eq!(ack.rtt, Some(Dur::from_micros(700)));
    assert_eq!(ack.sample.map(|sample| sample.rate()), Some(Rate::from_mbit(10)));
    assert_eq!(view.flight, Bytes::new(8000));
    assert_eq!((view.srtt, view.min_rtt), (Some(Dur::from_millis(2)), Some(Dur::from_micros(600))));
    assert_eq!(view.now.as_nanos(), 1_000_000);
}

#[test]
fn two_acks_before_the_kernel_applies_a_decision_increase_the_window_twice() {
    let mut fixture =
        Fixture::answering(|view, _| Control { cwnd: view.control.cwnd + Bytes::new(1000), ..view.control });
    assert_eq!(fixture.on(ACK, CongestionState::Open).unwrap().cwnd, 12);
    assert_eq!(fixture.on(ACK, CongestionState::Open).unwrap().cwnd, 13);
}

#[test]
fn a_reduction_that_begins_with_the_ack_that_ended_another_is_reported_after_that_ack() {
    let mut fixture = Fixture::answering(keep);
    fixture.on(MARK, CongestionState::Cwr);
    fixture.on(ACK, CongestionState::Cwr);
    fixture.on(LEAVE, CongestionState::Open);
    assert_eq!(fixture.on(MARK, CongestionState::Cwr), None);
    let decision = fixture.on(ACK, CongestionState::Cwr).unwrap();
    assert_eq!(fixture.events(), ["established", "enter by mark", "ack", "leave", "ack", "enter by mark"]);
    assert_eq!(decision.answers, 6);
}

#[test]
fn a_fast_recovery_in_the_state_loss_first_ends_the_recovery_from_the_timeout() {
    let mut fixture = Fixture::answering(keep);
    fixture.on(RecordKind::Timeout { again: false }, CongestionState::Loss);
    fixture.on(RecordKind::Timeout { again: true }, CongestionState::Loss);
    fixture.on(LOSS, CongestionState::Recovery);
    fixture.on(ACK, CongestionState::Recovery);
    let order = ["established", "timeout", "timeout again", "leave", "ack", "enter by loss"];
    assert_eq!(fixture.events(), order);
}

#[test]
fn a_timeout_during_a_recovery_ends_with_one_exit() {
    let mut fixture = Fixture::answering(keep);
    fixture.on(LOSS, CongestionState::Recovery);
    fixture.on(RecordKind::Timeout { again: false }, CongestionState::Loss);
    fixture.on(ACK, CongestionState::Loss);
    fixture.on(LEAVE, CongestionState::Open);
    fixture.on(ACK, CongestionState::Open);
    assert_eq!(fixture.events(), ["established", "enter by loss", "timeout", "ack", "leave", "ack"]);
}

#[test]
fn a_recovery_that_is_spurious_after_its_end_has_a_second_exit() {
    let mut fixture = Fixture::answering(keep);
    fixture.on(LOSS, CongestionState::Recovery);
    fixture.on(LEAVE, CongestionState::Open);
    fixture.on(ACK, CongestionState::Open);
    fixture.on(RecordKind::RecoveryExit { spurious: true }, CongestionState::Disorder);
    assert_eq!(fixture.events(), ["established", "enter by loss", "leave", "ack", "leave, spurious"]);
}

#[test]
fn a_lost_begin_of_a_reduction_is_counted_and_reported_when_a_later_record_shows_its_state() {
    let mut fixture = Fixture::answering(keep);
    fixture.number += 1;
    fixture.on(ACK, CongestionState::Recovery);
    assert_eq!(fixture.events(), ["established", "enter by loss", "ack"]);
    fixture.number += 2;
    fixture.on(ACK, CongestionState::Open);
    assert_eq!(fixture.events(), ["leave", "ack"]);
    fixture.number += 1;
    fixture.on(ACK, CongestionState::Loss);
    assert_eq!(fixture.events(), ["timeout", "ack"]);
    assert_eq!(fixture.connection.lost(), 4);
}

#[test]
fn the_flight_of_a_reduction_is_the_window_as_in_linux() {
    let mut fixture = Fixture::answering(keep);
    fixture.on(LOSS, CongestionState::Recovery);
    let (_, event) = *fixture.events.lock().unwrap().last().unwrap();
    assert_eq!(event, Event::Congestion { cause: Cause::Loss, flight: Bytes::new(10_000) });
}

#[test]
fn during_a_reduction_the_threshold_is_its_target() {
    let mut fixture = Fixture::answering(|view, event| match event {
        Event::Congestion { .. } => {
            Control { cwnd: Bytes::new(1500), ssthresh: Bytes::new(2000), pacing: None }
        }
        _ => view.control,
    });
    let decision = fixture.on(MARK, CongestionState::Cwr).unwrap();
    assert_eq!((decision.cwnd, decision.ssthresh), (1, 1));
    assert_eq!(fixture.on(LEAVE, CongestionState::Open).unwrap().ssthresh, 2);
}

#[test]
fn a_window_below_one_segment_is_raised_to_one_and_counted() {
    let mut fixture = Fixture::answering(|view, _| Control { cwnd: Bytes::new(10), ..view.control });
    assert_eq!(fixture.on(ACK, CongestionState::Open).unwrap().cwnd, 1);
    assert_eq!(fixture.connection.clamps(), 2);
}

#[test]
fn idle_times_are_in_ticks_and_the_restart_window_is_at_most_the_present_one() {
    let mut fixture = Fixture::answering(|view, _| Control { cwnd: Bytes::new(4000), ..view.control });
    fixture.with(RecordKind::Resume, CongestionState::Open, |r| (r.idle, r.rto) = (100, 50));
    let (_, event) = *fixture.events.lock().unwrap().last().unwrap();
    let (idle, rto) = (Dur::from_millis(400), Dur::from_millis(200));
    assert_eq!(event, Event::Resume { idle, rto, restart: Bytes::new(4000) });
}

#[test]
fn bytes_sent_since_the_previous_record_are_reported_to_a_controller_that_wants_them() {
    let mut fixture = Fixture::of(keep, true);
    fixture.with(ACK, CongestionState::Open, |r| r.sent = 14_000);
    fixture.with(ACK, CongestionState::Open, |r| r.sent = 14_000);
    fixture.with(ACK, CongestionState::Open, |r| r.sent = 15_000);
    assert_eq!(fixture.events(), ["established", "sent 14000", "ack", "ack", "sent 1000", "ack"]);
}

#[test]
fn a_pacing_rate_is_in_bytes_per_second() {
    let mut fixture =
        Fixture::answering(|view, _| Control { pacing: Some(Rate::from_mbit(80)), ..view.control });
    assert_eq!(fixture.on(ACK, CongestionState::Open).unwrap().pacing, Some(10_000_000));
}

#[test]
fn the_reserve_is_the_reduction_of_a_copy_of_the_controller_which_receives_no_event() {
    let fixture = Fixture::answering(|view, event| match event {
        Event::Congestion { cause: Cause::Loss, flight } => Control { cwnd: *flight / 2, ..view.control },
        Event::Congestion { cause: Cause::Ecn, flight } => {
            Control { cwnd: *flight - *flight / 4, ..view.control }
        }
        _ => view.control,
    });
    let reserve = fixture.connection.reserve();
    assert_eq!((reserve.on_loss, reserve.on_mark), (5, 7));
    assert_eq!(fixture.events(), ["established"]);
}

#[test]
fn bytes_that_are_no_record_are_rejected() {
    assert_eq!(Record::read(&[0; 127]), None);
    assert_eq!(Record::read(&[0; 128]), None);
}
