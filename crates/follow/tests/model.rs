//! The model follows its own recordings exactly: same code, same inputs. A difference is a fault of the log, of the reader or of the follower.

use std::collections::BTreeMap;
use std::sync::Arc;
use tcpassay_case::params::{Substrate, Value};
use tcpassay_case::{Case, HostSettings};
use tcpassay_follow::{End, Outcome, Row, Setup, Tolerance, follow, read};
use tcpassay_measure::{CollectOptions, Recording};
use tcpassay_sim::{SimOptions, run};
use tcpassay_tcp::{Config, Connection, LossDetection, Persist, Profile};
use tcpassay_units::{Dur, Seed, SeqNum, Stream, Time};
use tcpassay_wire::{Ecn, Flags, Options, Segment};

type Triples = Vec<(&'static str, &'static str)>;

fn recorded(triples: &[(&str, &str)], seed: u64) -> Option<Recording> {
    recorded_with(triples, seed, |_| {})
}

/// The recording of hosts that differ from their case by `fault`.
fn recorded_with(
    triples: &[(&str, &str)],
    seed: u64,
    fault: impl Fn(&mut HostSettings),
) -> Option<Recording> {
    let triples: BTreeMap<String, Value> =
        triples.iter().map(|(path, value)| ((*path).to_owned(), Value::Text((*value).to_owned()))).collect();
    let none = |name: &str| Err(std::io::Error::other(name.to_owned()));
    let case = Case::on(Substrate::Model, &triples, &none).ok()?;
    let collect = CollectOptions { events: true, packets: true, ..CollectOptions::default() };
    let mut hosts = case.clone();
    hosts.hosts.iter_mut().for_each(fault);
    let mut recording = run(&hosts, Seed(seed), &SimOptions { collect, ..SimOptions::default() }).recording;
    "model".clone_into(&mut recording.header.substrate);
    recording.header.seed = seed;
    recording.header.case = case.recorded();
    Some(recording)
}

fn exact() -> Tolerance {
    Tolerance { time: Dur::ZERO, counted: Vec::new() }
}

fn ends(recording: &Recording) -> Vec<End> {
    let none = |name: &str| Err(std::io::Error::other(name.to_owned()));
    let (ends, not) = read(recording, &none).expect("a recording of the model with events and packets");
    assert_eq!(not, []);
    ends
}

fn one<'a, T>(stream: &mut Stream, of: &'a [T]) -> &'a T {
    let place = stream.below(of.len() as u64);
    &of[usize::try_from(place).expect("a small array")]
}

/// A random case of a profile: a path, traffic, a disturbance, and some settings of the stack.
fn drawn(number: u64) -> Triples {
    const PROFILES: [&str; 6] = ["rfc", "linux", "linux-6.1", "linux-4.6", "freebsd", "freebsd-rack"];
    const PATHS: [(&str, &str); 3] = [("10Mbit", "2s"), ("100Mbit", "300ms"), ("1Gbit", "40ms")];
    const DAMAGE: [&[(&str, &str)]; 8] = [
        &[],
        &[("link.loss", "1%")],
        &[("link.loss_model", "gilbert-elliott:1%,25%")],
        &[("link.reorder", "1%:5")],
        &[("link.jitter", "1ms")],
        &[("link.duplicate", "1%"), ("link.ack_loss", "10%")],
        &[("queue.limit", "30KB"), ("app.flows", "2")],
        &[("queue.ecn_mark", "data"), ("stack.ecn", "classic")],
    ];
    const TRAFFIC: [&[(&str, &str)]; 5] = [
        &[],
        &[("app.workload", "rpc"), ("app.request", "30KB"), ("app.response", "100B")],
        &[("app.workload", "rpc"), ("app.request", "1000B"), ("app.response", "20KB"), ("app.think", "1ms")],
        &[("app.workload", "paced"), ("app.rate", "2Mbit"), ("app.burst", "6KB")],
        &[("app.flow_size", "60KB"), ("app.think", "5ms")],
    ];
    const MORE: [&[(&str, &str)]; 12] = [
        &[],
        &[],
        &[("stack.sack", "off")],
        &[("stack.timestamps", "off")],
        &[("stack.delayed_ack", "off")],
        &[("stack.initial_window", "2")],
        &[("nic.tso", "on")],
        &[("app.nodelay", "on")],
        &[("app.sndbuf", "20KB")],
        &[("app.rcvbuf", "20KB")],
        &[("app.read_rate", "5Mbit")],
        &[("stack.pacing", "on")],
    ];
    let mut stream = Seed(number).stream("case");
    let (rate, duration) = *one(&mut stream, &PATHS);
    let place = usize::try_from(number).expect("a small number") % PROFILES.len();
    let mut triples = vec![
        ("stack.profile", PROFILES[place]),
        ("stack.cc", *one(&mut stream, &["reno", "cubic", "vegas"])),
        ("link.rate", rate),
        ("app.duration", duration),
        ("link.delay", *one(&mut stream, &["50us", "1ms", "20ms"])),
    ];
    triples.extend(*one(&mut stream, &DAMAGE));
    triples.extend(*one(&mut stream, &TRAFFIC));
    triples.extend(*one(&mut stream, &MORE));
    triples
}

#[test]
fn the_model_follows_a_hundred_of_its_own_random_recordings_exactly() {
    let (mut followed, mut rows, mut lossy, mut profiles) = (0, 0, 0, BTreeMap::new());
    for number in 0..120 {
        let triples = drawn(number);
        let Some(recording) = recorded(&triples, number) else { continue };
        let retransmits: u64 = recording.flows.iter().map(|flow| flow.counters.retransmitted_packets).sum();
        lossy += u64::from(retransmits > 0);
        *profiles.entry(triples[0].1).or_insert(0) += 1;
        for end in ends(&recording) {
            let outcome = follow(&end, &exact());
            assert_eq!(outcome.first, None, "case {number} {triples:?}, flow {}", end.flow);
            assert_eq!(outcome.followed, outcome.rows);
            followed += 1;
            rows += outcome.rows;
        }
    }
    assert!(followed >= 200 && rows > 100_000 && lossy >= 30, "{followed} ends, {rows} rows, {lossy} lossy");
    assert_eq!(profiles.len(), 6);
}

/// The end that sends the data of a bulk transfer with losses, of the profile `linux`.
fn sender() -> End {
    let triples = [
        ("stack.profile", "linux"),
        ("stack.cc", "cubic"),
        ("link.rate", "10Mbit"),
        ("link.delay", "20ms"),
        ("app.duration", "2s"),
        ("link.loss_model", "gilbert-elliott:1%,25%"),
    ];
    let recording = recorded(&triples, 3).expect("a valid case");
    ends(&recording).swap_remove(0)
}

fn changed(
    end: &End,
    which: impl Fn(&tcpassay_follow::Row) -> bool,
    change: impl Fn(&mut Segment),
) -> (usize, Outcome) {
    let mut end = end.clone();
    let half = end.rows.len() / 2;
    let place = (half..end.rows.len()).find(|row| which(&end.rows[*row].1)).expect("there is one");
    if let tcpassay_follow::Row::Out { segment, .. } = &mut end.rows[place].1 {
        change(segment);
    }
    (place, follow(&end, &exact()))
}

fn leaves(row: &tcpassay_follow::Row) -> bool {
    matches!(row, tcpassay_follow::Row::Out { .. })
}

#[test]
fn a_changed_field_is_the_first_difference_at_its_row() {
    let (place, outcome) = changed(&sender(), leaves, |segment| segment.window ^= 1);
    let first = outcome.first.expect("a difference");
    assert_eq!((first.row, outcome.followed), (place, place));
    assert_eq!(first.cause, "new data with another window");
    assert!(first.source.contains("__tcp_select_window"), "{}", first.source);
}

#[test]
fn a_field_that_is_only_counted_ends_nothing() {
    let mut end = sender();
    let place = end.rows.iter().position(|(_, row)| leaves(row)).expect("there is one");
    if let tcpassay_follow::Row::Out { segment, .. } = &mut end.rows[place].1 {
        segment.window ^= 1;
    }
    let outcome = follow(&end, &Tolerance { counted: vec!["window".to_owned()], ..exact() });
    assert_eq!(outcome.first, None);
    assert_eq!(outcome.counted, BTreeMap::from([("window", 1)]));
}

#[test]
fn a_segment_that_was_not_sent_is_missing_with_the_reason_of_the_model() {
    let mut end = sender();
    let half = end.rows.len() / 2;
    let place = (half..end.rows.len()).find(|row| leaves(&end.rows[*row].1)).expect("there is one");
    // Nothing else leaves at this time, so that time shows the difference.
    let at = end.rows[place].0;
    end.rows.retain(|(time, row)| *time != at || !leaves(row));
    let first = follow(&end, &exact()).first.expect("a difference");
    assert_eq!(first.at, at);
    assert!(first.cause.contains("of the model is missing"), "{}", first.cause);
    assert!(!first.why.is_empty() && !first.source.is_empty());
}

#[test]
fn a_segment_that_the_model_would_not_send_is_named() {
    let mut end = sender();
    let half = end.rows.len() / 2;
    let place = (half..end.rows.len()).find(|row| leaves(&end.rows[*row].1)).expect("there is one");
    let again = end.rows[place];
    end.rows.insert(place + 1, again);
    let first = follow(&end, &exact()).first.expect("a difference");
    assert_eq!(first.row, place + 1);
    assert!(
        first.cause.starts_with("a retransmission that the model would not have sent"),
        "{}",
        first.cause
    );
}

#[test]
fn a_time_that_is_off_by_less_than_the_tolerance_is_no_difference() {
    let mut end = sender();
    for (at, row) in &mut end.rows {
        if leaves(row) {
            *at += Dur::from_nanos(900);
        }
    }
    end.rows.sort_by_key(|(at, _)| *at);
    assert_eq!(follow(&end, &Tolerance::exact()).first, None);
    assert!(follow(&end, &exact()).first.is_some());
}

#[test]
fn an_end_whose_log_has_no_syn_is_not_followed() {
    let mut end = sender();
    end.rows.retain(|(at, _)| *at > Time::ZERO + Dur::from_millis(200));
    let outcome = follow(&end, &exact());
    assert_eq!((outcome.followed, outcome.first), (0, None));
}

/// Of 2^40 possibilities of when an application has read between 40 arrivals of one instant, what leaves at that instant decides.
#[test]
fn what_leaves_at_an_instant_rules_out_candidates_before_there_are_too_many() {
    let setup = sender().setup;
    let config = Arc::new(Config::profile(Profile::Linux61));
    let cc = tcpassay_cc::build("reno", &setup.params).expect("a controller");
    let mut conn = Connection::listen(Arc::clone(&config), cc, SeqNum::new(0), 0);
    let at = |ms| Time::ZERO + Dur::from_millis(ms);
    let mut rows = Vec::new();
    let arrives = |conn: &mut Connection, now: Time, segment: Segment, rows: &mut Vec<(Time, Row)>| {
        rows.push((now, Row::In { segment, ecn: Ecn::NotEct, packets: 1, size: 0 }));
        conn.on_segment(now, &segment, Ecn::NotEct);
    };
    let sends = |conn: &mut Connection, now: Time| {
        let mut sent = Vec::new();
        while conn.may_transmit()
            && let Some(out) = conn.poll_transmit(now)
        {
            sent.push((now, Row::Out { segment: out.segment, ecn: out.ecn }));
        }
        sent
    };
    let options = Options { mss: Some(1460), window_scale: Some(7), ..Options::default() };
    let syn =
        Segment { seq: SeqNum::new(0), flags: Flags::SYN, window: 60_000, options, ..Segment::default() };
    arrives(&mut conn, at(1), syn, &mut rows);
    rows.extend(sends(&mut conn, at(1)));
    let next = Segment {
        seq: SeqNum::new(1),
        ack: SeqNum::new(1),
        flags: Flags::ACK,
        window: 500,
        ..Segment::default()
    };
    arrives(&mut conn, at(2), next, &mut rows);
    let mut left = Vec::new();
    for n in 0..40 {
        let data = Segment { seq: SeqNum::new(1 + 1000 * n), len: 1000, ..next };
        arrives(&mut conn, at(3), data, &mut rows);
        left.extend(sends(&mut conn, at(3)));
        if n == 20 || n == 39 {
            let _ = conn.read(at(3), conn.readable());
            left.extend(sends(&mut conn, at(3)));
        }
    }
    assert!(left.len() > 10, "{}", left.len());
    rows.extend(left);
    let setup = Setup {
        substrate: tcpassay_follow::Substrate::Kernel,
        config,
        cc: "reno".to_owned(),
        active: false,
        reads_are_logged: false,
        reads_everything: true,
        in_order: true,
        ..setup
    };
    let end = End { flow: 0, host: 0, setup, rows, inside: Vec::new(), until: at(4) };
    assert_eq!(follow(&end, &Tolerance::exact()).first, None);
}

/// What a host does differently.
type Fault = fn(&mut HostSettings);

const SENT: &str = "that the model would not have sent";
const OTHER: &str = "with another sequence number";
const MISSING: &str = "of the model is missing";

/// Settings of a case, what its hosts do differently, and how the first difference begins.
type Planted = (&'static [(&'static str, &'static str)], Fault, &'static str, &'static str);

const FAULTS: [Planted; 10] = [
    (
        &[("stack.min_rto", "200ms"), ("link.loss", "2%")],
        |host| host.stack.rto.min = Dur::from_millis(1),
        "a retransmission",
        SENT,
    ),
    (&[("link.duplicate", "2%")], |host| host.stack.dsack = false, "an ACK", "with another SACK blocks"),
    (&[("link.reorder", "1%:3")], |host| detects_at(host, 1), "new data", OTHER),
    (&[("link.loss", "2%")], |host| detects_at(host, 40), "a retransmission", OTHER),
    (
        &[("link.loss", "2%"), ("stack.limited_transmit", "on")],
        |host| host.stack.limited_transmit = false,
        "new data",
        MISSING,
    ),
    (
        &[("app.workload", "paced"), ("app.rate", "2Mbit"), ("app.burst", "300B")],
        |host| host.stack.nodelay = true,
        "new data",
        SENT,
    ),
    (&[], |host| host.stack.delayed_ack.every = 8, "an ACK", MISSING),
    (&[], |host| host.stack.initial_window = 40, "new data", SENT),
    (
        &[
            ("app.read_rate", "20Kbit"),
            ("app.rcvbuf", "16KB"),
            ("app.duration", "4s"),
            ("stack.min_rto", "200ms"),
        ],
        |host| {
            let constant = Dur::from_millis(200);
            host.stack.persist = Some(Persist { min: constant, max: constant });
        },
        "new data",
        SENT,
    ),
    (
        &[
            ("app.duration", "2s"),
            ("stack.cc", "dctcp"),
            ("stack.ecn", "dctcp"),
            ("queue.ecn_mark", "data"),
            ("queue.ecn_threshold", "30KB"),
        ],
        // Alpha stays near its first value, 1, although few packets are marked.
        |host| _ = host.cc_values.insert("g".to_owned(), 0.001),
        "new data",
        MISSING,
    ),
];

fn detects_at(host: &mut HostSettings, threshold: u32) {
    host.stack.loss_detection = LossDetection::DupThresh { threshold, adaptive: false };
}

#[test]
fn a_stack_that_deviates_from_its_settings_has_a_first_difference_of_this_kind() {
    let mut wrong = Vec::new();
    for (more, fault, what, how) in FAULTS {
        let base = [("app.duration", "1s"), ("link.rate", "20Mbit"), ("link.delay", "2ms")];
        let triples = [&base, more].concat();
        let clean = recorded(&triples, 1).expect("a valid case");
        let faulty = recorded_with(&triples, 1, fault).expect("a valid case");
        assert!(ends(&clean).iter().all(|end| follow(end, &exact()).first.is_none()), "{more:?}");
        let first = |end: &End| follow(end, &exact()).first.map(|first| (first.at, first.cause));
        let cause = ends(&faulty).iter().filter_map(first).min().map_or(String::new(), |first| first.1);
        if !cause.starts_with(&format!("{what} {how}")) {
            wrong.push(format!("{more:?}: {cause:?} instead of {what} {how}"));
        }
    }
    assert_eq!(wrong, [""; 0]);
}
