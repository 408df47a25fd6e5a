//! The oracle `follow`, on a recording of the model that is read as that of a kernel.

use std::collections::BTreeMap;
use tcpassay_case::Case;
use tcpassay_case::params::{Substrate, Value};
use tcpassay_follow::{differences, lacks};
use tcpassay_judge::Level;
use tcpassay_measure::reason::AppCall;
use tcpassay_measure::{CollectOptions, EventLog, EventRow, PacketRecord, Recording};
use tcpassay_sim::{SimOptions, run};
use tcpassay_units::{Dur, Seed};

fn none(name: &str) -> std::io::Result<String> {
    Err(std::io::Error::other(name.to_owned()))
}

/// A transfer in the answer to one request, recorded by the model and labelled as that of Linux 6.1.
fn recorded(more: &[(&str, &str)]) -> Recording {
    let settings = [
        ("stack.profile", "linux"),
        ("stack.cc", "reno"),
        ("link.rate", "10Mbit"),
        ("link.delay", "5ms"),
        ("app.flow_size", "30KB"),
        ("app.duration", "300ms"),
    ];
    let settings = settings.iter().chain(more);
    let triples: BTreeMap<String, Value> =
        settings.map(|(path, value)| ((*path).to_owned(), Value::Text((*value).to_owned()))).collect();
    let case = Case::on(Substrate::Model, &triples, &none).expect("a valid case");
    let collect = CollectOptions { events: true, packets: true, ..CollectOptions::default() };
    let mut recording = run(&case, Seed(1), &SimOptions { collect, ..SimOptions::default() }).recording;
    "kernel".clone_into(&mut recording.header.substrate);
    recording.header.system = Some("6.1.192-tcpassay".to_owned());
    recording.header.seed = 1;
    recording.header.case = case.recorded();
    recording.events = with_whole_writes(&recording.events).into();
    recording
}

/// The log of a kernel has one row for a write, that of the model one for each part that fitted into a segment.
fn with_whole_writes(log: &EventLog) -> Vec<EventRow> {
    let mut rows: Vec<EventRow> = Vec::new();
    let mut first = None;
    for event in log.iter() {
        let writes = event.app_call() == Some(AppCall::Write);
        if let Some(place) = first.filter(|_| writes && event.asked.is_none()) {
            let row: &mut EventRow = &mut rows[place];
            row.value = row.value.zip(event.value).map(|(a, b)| a + b);
            row.asked = row.asked.filter(|asked| Some(asked.get()) != row.value);
            continue;
        }
        if writes {
            first = Some(rows.len());
        }
        rows.push(event);
    }
    rows
}

#[test]
fn the_first_other_window_of_an_end_is_a_finding_of_level_difference_with_the_models_reason() {
    let mut recording = recorded(&[]);
    assert_eq!(differences(&recording, &none), []);
    let mut acks = recording.packets.iter_mut().filter_map(|packet| {
        let receiver = packet.interface == packet.from && packet.from == 1;
        Some((packet.at, packet.segment.as_mut().filter(|segment| receiver && segment.len == 0)?))
    });
    let (at, segment) = acks.nth(3).expect("the receiver sends ACKs");
    segment.window -= 7;
    let found = differences(&recording, &none);
    assert_eq!(found.len(), 1, "{found:?}");
    let found = &found[0];
    assert_eq!((found.oracle, found.level), ("follow", Level::Difference));
    assert_eq!(found.title, "linux-6.1: an ACK with another window");
    assert_eq!((found.start, found.host), (at, 1));
    assert!(
        found.text.contains(" The model: at 0.") && found.text.contains("__tcp_select_window"),
        "{}",
        found.text
    );
    assert_eq!(found.rows.len(), 1);
}

#[test]
fn a_run_that_cannot_be_followed_is_not_judged_and_the_reason_is_told() {
    let mut recording = recorded(&[("app.linger", "1s")]);
    let why = lacks(&recording.header, &none);
    assert_eq!(why.as_deref(), Some("the log does not tell when a close gives up (`app.linger`)"));
    recording = recorded(&[]);
    assert_eq!(lacks(&recording.header, &none), None);
    recording.header.system = Some("7.4.0".to_owned());
    assert_eq!(lacks(&recording.header, &none).as_deref(), Some("the model has no profile of Linux 7.4.0"));
    assert_eq!(differences(&recording, &none), []);
}

#[test]
fn a_retransmission_at_a_time_at_which_nothing_arrives_is_that_of_a_timer() {
    let mut recording = recorded(&[]);
    let data = |packet: &PacketRecord| {
        packet.interface == 0 && packet.from == 0 && packet.segment.is_some_and(|segment| segment.len > 0)
    };
    let last = recording.packets.iter().rposition(data).expect("the sender sends data");
    let mut again = recording.packets[last].clone();
    again.at += Dur::from_micros(300);
    let place = recording.packets.partition_point(|packet| packet.at <= again.at);
    recording.packets.insert(place, again);
    let found = differences(&recording, &none);
    let sender = found.iter().find(|found| found.host == 0).expect("the sender differs");
    assert_eq!(sender.title, "linux-6.1: a retransmission that the model would not have sent: timer");
    assert!(
        sender.text.contains("nothing arrives at this time, and the model's next timer fires at 0.")
            && sender.text.contains("tcp_retransmit_timer"),
        "{}",
        sender.text
    );
}
