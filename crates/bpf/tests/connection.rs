//! What a connection tells its controller, by records as the kernel writes them.

use std::sync::{Arc, Mutex};
use tcpassay_bpf::{Connection, Decision, INFINITE, Kind, Limit, Record, State};
use tcpassay_cc::{Cause, Control, Controller, Event, View};
use tcpassay_units::{Bytes, Dur, Rate};

const MSS: u32 = 1000;
const TICK: Dur = Dur::from_millis(4);

/// Writes down what it is told, and asks for what the test wants.
#[derive(Clone, Debug)]
struct Witness {
    told: Arc<Mutex<Vec<(View, Event)>>>,
    asks: fn(&View, &Event) -> Control,
    heeds: bool,
}

impl Controller for Witness {
    fn name(&self) -> &'static str {
        "witness"
    }

    fn on(&mut self, view: &View, event: &Event) -> Control {
        self.told.lock().unwrap().push((*view, *event));
        (self.asks)(view, event)
    }

    fn wants_sent_events(&self) -> bool {
        self.heeds
    }

    fn boxed_clone(&self) -> Box<dyn Controller> {
        Box::new(Witness { told: Arc::default(), ..self.clone() })
    }
}

struct Bench {
    told: Arc<Mutex<Vec<(View, Event)>>>,
    connection: Connection,
    number: u64,
}

impl Bench {
    fn asking(asks: fn(&View, &Event) -> Control) -> Bench {
        Bench::of(asks, false)
    }

    fn of(asks: fn(&View, &Event) -> Control, heeds: bool) -> Bench {
        let told: Arc<Mutex<Vec<(View, Event)>>> = Arc::default();
        let connection = Connection::new(Box::new(Witness { told: told.clone(), asks, heeds }), TICK);
        let mut bench = Bench { told, connection, number: 0 };
        bench.on(Kind::Established, State::Open);
        bench
    }

    fn on(&mut self, kind: Kind, state: State) -> Option<Decision> {
        self.with(kind, state, |_| {})
    }

    fn with(&mut self, kind: Kind, state: State, change: fn(&mut Record)) -> Option<Decision> {
        self.number += 1;
        let mut record = Record {
            at: 5_000_000_000 + self.number * 1_000_000,
            number: self.number,
            answered: 0,
            sent: 0,
            connection: 0,
            kind,
            state,
            limited: Limit::Cwnd,
            mss: MSS,
            cwnd: 10,
            ssthresh: INFINITE,
            flight: 8,
            srtt: 2000,
            min_rtt: None,
            round: 3,
            acked: 0,
            delivered: 0,
            lost: 0,
            marked: 0,
            rtt: None,
            rate: None,
            idle: 0,
            rto: 0,
            initial: 10,
            ports: (1, 2),
        };
        change(&mut record);
        self.connection.on(&record)
    }

    /// The names of the events told, in order, since the last time.
    fn told(&self) -> Vec<String> {
        let mut told = self.told.lock().unwrap();
        told.drain(..)
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
                Event::Sent { bytes } => format!("sent {}", bytes.get()),
            })
            .collect()
    }
}

const ACK: Kind = Kind::Ack { app_limited: false };
const LOSS: Kind = Kind::Congestion { marked: false };
const MARK: Kind = Kind::Congestion { marked: true };
const LEAVE: Kind = Kind::RecoveryExit { spurious: false };

fn keep(view: &View, _: &Event) -> Control {
    view.control
}

#[test]
fn the_first_window_is_the_kernels_and_an_infinite_threshold_is_none() {
    let bench = Bench::asking(keep);
    let (view, event) = bench.told.lock().unwrap()[0];
    assert_eq!(event, Event::Established);
    assert_eq!(view.control, Control { cwnd: Bytes::new(10_000), ssthresh: Bytes::MAX, pacing: None });
    assert_eq!(view.now.as_nanos(), 0);
}

#[test]
fn an_acks_packets_become_bytes_and_its_microseconds_times() {
    let mut bench = Bench::asking(keep);
    bench.with(ACK, State::Open, |r| {
        (r.acked, r.delivered, r.lost, r.marked) = (2500, 3, 1, 2);
        r.rtt = Some(700);
        r.rate = Some((10, 8000));
        r.min_rtt = Some(600);
    });
    let (view, event) = *bench.told.lock().unwrap().last().unwrap();
    let Event::Ack(ack) = event else { panic!("{event:?}") };
    assert_eq!((ack.acked, ack.delivered), (Bytes::new(2500), Bytes::new(3000)));
    assert_eq!((ack.lost, ack.marked), (Bytes::new(1000), Bytes::new(2000)));
    assert_eq!(ack.rtt, Some(Dur::from_micros(700)));
    assert_eq!(ack.delivery_rate, Some(Rate::from_mbit(10)));
    assert_eq!(view.flight, Bytes::new(8000));
    assert_eq!((view.srtt, view.min_rtt), (Some(Dur::from_millis(2)), Some(Dur::from_micros(600))));
    assert_eq!(view.now.as_nanos(), 1_000_000);
}

#[test]
fn two_acks_told_before_the_kernel_follows_grow_the_window_twice() {
    let mut bench =
        Bench::asking(|view, _| Control { cwnd: view.control.cwnd + Bytes::new(1000), ..view.control });
    assert_eq!(bench.on(ACK, State::Open).unwrap().cwnd, 12);
    assert_eq!(bench.on(ACK, State::Open).unwrap().cwnd, 13);
}

#[test]
fn a_reduction_that_begins_with_the_ack_that_ended_another_is_told_after_that_ack_and_answered_with_it() {
    let mut bench = Bench::asking(keep);
    bench.on(MARK, State::Cwr);
    bench.on(ACK, State::Cwr);
    bench.on(LEAVE, State::Open);
    assert_eq!(bench.on(MARK, State::Cwr), None);
    let decision = bench.on(ACK, State::Cwr).unwrap();
    assert_eq!(bench.told(), ["established", "enter by mark", "ack", "leave", "ack", "enter by mark"]);
    assert_eq!(decision.answers, 6);
}

#[test]
fn a_recovery_straight_out_of_a_timeouts_ends_that_first() {
    let mut bench = Bench::asking(keep);
    bench.on(Kind::Timeout { again: false }, State::Loss);
    bench.on(Kind::Timeout { again: true }, State::Loss);
    bench.on(LOSS, State::Recovery);
    bench.on(ACK, State::Recovery);
    let order = ["established", "timeout", "timeout again", "leave", "ack", "enter by loss"];
    assert_eq!(bench.told(), order);
}

#[test]
fn a_timeout_in_the_middle_of_a_recovery_is_ended_with_it_by_one_leave() {
    let mut bench = Bench::asking(keep);
    bench.on(LOSS, State::Recovery);
    bench.on(Kind::Timeout { again: false }, State::Loss);
    bench.on(ACK, State::Loss);
    bench.on(LEAVE, State::Open);
    bench.on(ACK, State::Open);
    assert_eq!(bench.told(), ["established", "enter by loss", "timeout", "ack", "leave", "ack"]);
}

#[test]
fn a_recovery_proven_false_when_it_is_over_is_told_as_a_second_leave() {
    let mut bench = Bench::asking(keep);
    bench.on(LOSS, State::Recovery);
    bench.on(LEAVE, State::Open);
    bench.on(ACK, State::Open);
    bench.on(Kind::RecoveryExit { spurious: true }, State::Disorder);
    assert_eq!(bench.told(), ["established", "enter by loss", "leave", "ack", "leave, spurious"]);
}

#[test]
fn a_beginning_that_the_ring_had_no_room_for_is_counted_and_told_when_its_state_is_seen() {
    let mut bench = Bench::asking(keep);
    bench.number += 1;
    bench.on(ACK, State::Recovery);
    assert_eq!(bench.told(), ["established", "enter by loss", "ack"]);
    bench.number += 2;
    bench.on(ACK, State::Open);
    assert_eq!(bench.told(), ["leave", "ack"]);
    bench.number += 1;
    bench.on(ACK, State::Loss);
    assert_eq!(bench.told(), ["timeout", "ack"]);
    assert_eq!(bench.connection.lost(), 4);
}

#[test]
fn the_flight_of_a_reduction_is_the_window_as_in_linux() {
    let mut bench = Bench::asking(keep);
    bench.on(LOSS, State::Recovery);
    let (_, event) = *bench.told.lock().unwrap().last().unwrap();
    assert_eq!(event, Event::Congestion { cause: Cause::Loss, flight: Bytes::new(10_000) });
}

#[test]
fn while_a_reduction_is_under_way_the_threshold_is_its_target() {
    let mut bench = Bench::asking(|view, event| match event {
        Event::Congestion { .. } => {
            Control { cwnd: Bytes::new(1500), ssthresh: Bytes::new(2000), pacing: None }
        }
        _ => view.control,
    });
    let decision = bench.on(MARK, State::Cwr).unwrap();
    assert_eq!((decision.cwnd, decision.ssthresh), (1, 1));
    assert_eq!(bench.on(LEAVE, State::Open).unwrap().ssthresh, 2);
}

#[test]
fn a_window_below_one_segment_is_raised_to_one_and_counted() {
    let mut bench = Bench::asking(|view, _| Control { cwnd: Bytes::new(10), ..view.control });
    assert_eq!(bench.on(ACK, State::Open).unwrap().cwnd, 1);
    assert_eq!(bench.connection.clamps(), 2);
}

#[test]
fn idle_times_come_in_ticks_and_the_restart_window_is_not_above_the_present_one() {
    let mut bench = Bench::asking(|view, _| Control { cwnd: Bytes::new(4000), ..view.control });
    bench.with(Kind::Resume, State::Open, |r| (r.idle, r.rto) = (100, 50));
    let (_, event) = *bench.told.lock().unwrap().last().unwrap();
    let (idle, rto) = (Dur::from_millis(400), Dur::from_millis(200));
    assert_eq!(event, Event::Resume { idle, rto, restart: Bytes::new(4000) });
}

#[test]
fn what_was_sent_since_the_record_before_is_told_to_a_controller_that_heeds_it() {
    let mut bench = Bench::of(keep, true);
    bench.with(ACK, State::Open, |r| r.sent = 14_000);
    bench.with(ACK, State::Open, |r| r.sent = 14_000);
    bench.with(ACK, State::Open, |r| r.sent = 15_000);
    assert_eq!(bench.told(), ["established", "sent 14000", "ack", "ack", "sent 1000", "ack"]);
}

#[test]
fn a_pacing_rate_goes_down_in_bytes_a_second() {
    let mut bench = Bench::asking(|view, _| Control { pacing: Some(Rate::from_mbit(80)), ..view.control });
    assert_eq!(bench.on(ACK, State::Open).unwrap().pacing, Some(10_000_000));
}

#[test]
fn the_reserve_is_what_a_copy_of_the_controller_would_reduce_to_and_the_controller_is_told_nothing() {
    let bench = Bench::asking(|view, event| match event {
        Event::Congestion { cause: Cause::Loss, flight } => Control { cwnd: *flight / 2, ..view.control },
        Event::Congestion { cause: Cause::Ecn, flight } => {
            Control { cwnd: *flight - *flight / 4, ..view.control }
        }
        _ => view.control,
    });
    let reserve = bench.connection.reserve();
    assert_eq!((reserve.on_loss, reserve.on_mark), (5, 7));
    assert_eq!(bench.told(), ["established"]);
}

#[test]
fn bytes_that_are_no_record_are_refused() {
    assert_eq!(Record::read(&[0; 127]), None);
    assert_eq!(Record::read(&[0; 128]), None);
}
