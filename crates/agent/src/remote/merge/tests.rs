//! Recordings of two machines with one connection: `alpha` has the client and sender (host 0), `beta` the server
//! (host 1).

use super::*;
use tcpassay_measure::{Device, DeviceCounters, TcpSummary};
use tcpassay_units::{Bytes, Dur, Time};

const CONNECTION: Key = (0, 0, 1, 0);

fn flow(name: &str, from: u32, to: u32, start: u64, counters: FlowCounters) -> Flow {
    Flow {
        name: name.to_owned(),
        connection: 0,
        from,
        to,
        class: "bulk".to_owned(),
        cc: "cubic".to_owned(),
        mss: Bytes::new(1448),
        start: Time::from_nanos(start),
        end: None,
        counters,
        tcp: TcpSummary::default(),
    }
}

/// The recording of a machine with `hosts`, and the connections `keys`, each opened at a time of its clock.
fn part(name: &str, hosts: &[u32], keys: &[(Key, u64)]) -> Part {
    let mut recording =
        Recording { hosts: vec!["sender".to_owned(), "receiver".to_owned()], ..Recording::default() };
    recording.header.complete = true;
    for ((_, client, server, _), start) in keys {
        for (from, to) in [(*client, *server), (*server, *client)] {
            let name = format!("flow.{}", recording.flows.len());
            recording.flows.push(flow(&name, from, to, *start, FlowCounters::default()));
        }
    }
    let connections = keys.iter().map(|(key, _)| *key).collect();
    let about = PartFile { hosts: hosts.to_vec(), connections, digest: 0 };
    Part { name: name.to_owned(), recording, about, numbers: Vec::new() }
}

fn pair() -> [Part; 2] {
    [part("alpha", &[0], &[(CONNECTION, 5)]), part("beta", &[1], &[(CONNECTION, 9)])]
}

fn joined(parts: [Part; 2]) -> Recording {
    join(parts.into()).unwrap()
}

#[test]
fn transmissions_are_counted_by_the_senders_machine_and_arrivals_by_the_receivers() {
    let measured = || {
        let [mut alpha, mut beta] = pair();
        let zero = FlowCounters::default();
        alpha.recording.flows[0].counters =
            FlowCounters { sent_packets: 10, retransmitted_packets: 2, ..zero };
        beta.recording.flows[0].counters =
            FlowCounters { delivered_packets: 8, ce_packets: 3, read_bytes: 800, ..zero };
        [alpha, beta]
    };
    let [alpha, beta] = measured();
    for parts in [measured(), [beta, alpha]] {
        let counters = joined(parts).flows[0].counters;
        assert_eq!((counters.sent_packets, counters.retransmitted_packets), (10, 2));
        assert_eq!((counters.delivered_packets, counters.ce_packets, counters.read_bytes), (8, 3, 800));
    }
}

#[test]
fn connections_are_numbered_by_the_time_at_which_the_clients_machine_opened_them() {
    let (early, late) = ((0, 0, 1, 7), (0, 0, 1, 3));
    // By the clock of the server's machine the order is the opposite one.
    let alpha = part("alpha", &[0], &[(late, 20), (early, 10)]);
    let beta = part("beta", &[1], &[(late, 1), (early, 2)]);
    let joined = joined([beta, alpha]);
    let flows: Vec<_> =
        joined.flows.iter().map(|flow| (flow.name.as_str(), flow.connection, flow.from)).collect();
    assert_eq!(flows, [("flow.0", 0, 0), ("flow.1", 0, 1), ("flow.2", 1, 0), ("flow.3", 1, 1)]);
    assert_eq!(joined.flows[0].start, Time::from_nanos(10));
    assert_eq!(joined.flows[2].start, Time::from_nanos(20));
}

#[test]
fn events_are_ordered_by_time_and_at_one_instant_by_arrival_reaction_and_transmission() {
    let [mut alpha, mut beta] = pair();
    let at = |nanos, host, kind| EventRow::new(Time::from_nanos(nanos), host, Some(0), kind);
    alpha.recording.events =
        vec![at(7, 0, EventKind::Out), at(7, 0, EventKind::Window), at(7, 0, EventKind::In)].into();
    beta.recording.events = vec![at(3, 1, EventKind::Out), at(8, 1, EventKind::In)].into();
    let events: Vec<_> =
        joined([alpha, beta]).events.iter().map(|event| (event.at.as_nanos(), event.kind)).collect();
    assert_eq!(
        events,
        [
            (3, EventKind::Out),
            (7, EventKind::In),
            (7, EventKind::Window),
            (7, EventKind::Out),
            (8, EventKind::In)
        ]
    );
}

#[test]
fn round_trip_times_of_a_flow_are_joined_and_one_way_delays_are_absent() {
    let [mut alpha, mut beta] = pair();
    let histogram = |micros: &[u64]| {
        let mut histogram = Histogram::default();
        for n in micros {
            histogram.record(Dur::from_micros(*n));
        }
        histogram
    };
    let latency = |kind, entity: &str, micros: &[u64]| Latency {
        kind,
        entity: entity.to_owned(),
        histogram: histogram(micros),
    };
    alpha.recording.latencies = vec![
        latency(LatencyKind::Rtt, "flow.0", &[100, 200]),
        latency(LatencyKind::Rtt, "all", &[100, 200]),
        latency(LatencyKind::OneWay, "flow.0", &[1]),
    ];
    beta.recording.latencies =
        vec![latency(LatencyKind::Rtt, "flow.1", &[300]), latency(LatencyKind::Rtt, "all", &[300])];
    let latencies = joined([alpha, beta]).latencies;
    let counts: Vec<_> =
        latencies.iter().map(|one| (one.kind, one.entity.as_str(), one.histogram.count())).collect();
    assert_eq!(
        counts,
        [(LatencyKind::Rtt, "flow.0", 2), (LatencyKind::Rtt, "flow.1", 1), (LatencyKind::Rtt, "all", 3)]
    );
}

#[test]
fn columns_of_both_ends_of_a_flow_are_added_where_both_have_values() {
    let series = |first, name: &str, values: &[f64]| EntitySeries {
        entity: "flow.0".to_owned(),
        first,
        columns: vec![SeriesColumn { name: name.to_owned(), values: values.to_vec() }],
    };
    let sum = of_both_ends(&series(2, "bytes", &[10.0, 20.0]), &series(3, "bytes", &[5.0, f64::NAN, 7.0]));
    assert_eq!(sum.first, 2);
    let values = &sum.columns[0].values;
    assert_eq!(values[..2], [10.0, 25.0]);
    assert!(values[2].is_nan(), "{values:?}");
    assert_eq!(values[3..], [7.0]);
    let columns = of_both_ends(&series(0, "cwnd", &[1.0]), &series(0, "bytes", &[2.0])).columns;
    let columns: Vec<_> = columns.iter().map(|column| (column.name.as_str(), column.values[0])).collect();
    assert_eq!(columns, [("bytes", 2.0), ("cwnd", 1.0)]);
}

#[test]
fn series_of_devices_follow_those_of_flows_and_keep_their_names() {
    let [mut alpha, mut beta] = pair();
    let series = |entity: &str| EntitySeries {
        entity: entity.to_owned(),
        first: 0,
        columns: vec![SeriesColumn { name: "bytes".to_owned(), values: vec![1.0] }],
    };
    let interval = Dur::from_millis(10);
    alpha.recording.series =
        Some(Series { interval, entities: vec![series("queue.bottleneck"), series("flow.0")] });
    beta.recording.series = Some(Series { interval, entities: vec![series("flow.0")] });
    let series = joined([alpha, beta]).series.unwrap();
    assert_eq!(series.interval, interval);
    let entities: Vec<_> =
        series.entities.iter().map(|one| (one.entity.as_str(), one.columns[0].values[0])).collect();
    assert_eq!(entities, [("flow.0", 2.0), ("queue.bottleneck", 1.0)]);
}

#[test]
fn counters_are_added_and_a_run_has_finished_only_if_it_has_on_every_machine() {
    let counters = |rows: &[(&str, &str, u64)]| {
        let mut all = BTreeMap::<String, BTreeMap<String, u64>>::new();
        for (entity, name, n) in rows {
            all.entry((*entity).to_owned()).or_default().insert((*name).to_owned(), *n);
        }
        all
    };
    let mut all = counters(&[("run", "finished", 1), ("run", "traced_cwnd", 0), ("run", "requests", 4)]);
    join_counters(
        &mut all,
        counters(&[
            ("run", "finished", 0),
            ("run", "traced_cwnd", 1),
            ("run", "requests", 5),
            ("receiver", "drops", 2),
        ]),
    );
    assert_eq!(
        all,
        counters(&[
            ("receiver", "drops", 2),
            ("run", "finished", 0),
            ("run", "requests", 9),
            ("run", "traced_cwnd", 0)
        ])
    );
}

#[test]
fn the_bottleneck_is_the_device_of_the_machine_that_has_it() {
    let [mut alpha, mut beta] = pair();
    let device = |name: &str| Device {
        name: name.to_owned(),
        kind: "htb".to_owned(),
        rate: None,
        counters: DeviceCounters::default(),
    };
    alpha.recording.devices = vec![device("queue.sender")];
    beta.recording.devices = vec![device("queue.receiver"), device("queue.bottleneck")];
    beta.recording.header.bottleneck = Some(1);
    let joined = joined([alpha, beta]);
    assert_eq!(joined.header.bottleneck, Some(2));
    assert_eq!(joined.devices[2].name, "queue.bottleneck");
}

#[test]
fn a_recording_is_complete_only_if_every_part_is_and_lasts_as_long_as_the_longest() {
    let [mut alpha, mut beta] = pair();
    alpha.recording.header.duration = Dur::from_millis(900);
    beta.recording.header.duration = Dur::from_millis(950);
    beta.recording.header.complete = false;
    let joined = joined([alpha, beta]);
    assert!(!joined.header.complete);
    assert_eq!(joined.header.duration, Dur::from_millis(950));
}

#[test]
fn rows_of_the_environment_name_their_machine() {
    let [mut alpha, beta] = pair();
    alpha.recording.environment = vec![EnvironmentProperty {
        entity: "cpu".to_owned(),
        property: "load".to_owned(),
        unit: "1".to_owned(),
        asked: None,
        measured: Some(0.5),
    }];
    let environment = joined([alpha, beta]).environment;
    assert_eq!(environment[0].entity, "cpu.alpha");
}

#[test]
fn recordings_of_different_cases_are_not_joined() {
    let [alpha, mut beta] = pair();
    beta.recording.hosts.push("third".to_owned());
    assert_eq!(join(vec![alpha, beta]).unwrap_err(), "the recording of `beta` is of another case");
    assert_eq!(join(Vec::new()).unwrap_err(), "there is no recording to join");
}

/// The message about a part that is written to a folder and read again.
fn refused(spoil: impl FnOnce(&mut Part)) -> Option<String> {
    let folder = std::env::temp_dir().join(format!(
        "tcpassay-merge-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    let [mut alpha, _] = pair();
    spoil(&mut alpha);
    alpha.recording.write(&folder).unwrap();
    std::fs::write(folder.join(PART_FILE), serde_json::to_vec(&alpha.about).unwrap()).unwrap();
    let result = read(&Source { name: "alpha".to_owned(), folder: folder.clone() });
    std::fs::remove_dir_all(&folder).unwrap();
    result.err()
}

#[test]
fn a_part_whose_tables_name_what_it_does_not_have_is_refused_with_its_machine() {
    assert_eq!(refused(|_| ()), None);
    assert_eq!(
        refused(|part| part.about.connections.clear()).unwrap(),
        "the recording of `alpha`: 2 flows of 0 connections"
    );
    assert_eq!(
        refused(|part| part.about.hosts = vec![2]).unwrap(),
        "the recording of `alpha`: a host that the case does not have"
    );
    assert_eq!(
        refused(|part| part.recording.flows[1].from = 0).unwrap(),
        "the recording of `alpha`: the flow `flow.1` is not one of its connection"
    );
    assert_eq!(
        refused(|part| {
            let event = EventRow::new(Time::from_nanos(1), 0, Some(2), EventKind::In);
            part.recording.events = vec![event].into();
        })
        .unwrap(),
        "the recording of `alpha`: an event of a host or flow that it does not have"
    );
    assert_eq!(
        refused(|part| part.recording.header.bottleneck = Some(0)).unwrap(),
        "the recording of `alpha`: a device or interface that it does not have"
    );
}

#[test]
fn a_series_ends_at_the_largest_interval_at_the_latest() {
    let series = |first| EntitySeries {
        entity: "flow.0".to_owned(),
        first,
        columns: vec![SeriesColumn { name: "wire_bytes".to_owned(), values: vec![0.0; 4] }],
    };
    assert!(ends_in_time(&series(4_194_300)));
    assert!(!ends_in_time(&series(4_194_301)));
    assert!(!ends_in_time(&series(u64::MAX)));
}
