use super::*;
use crate::collect::flow_tracker::tests::connection;

#[test]
fn states_have_the_numbers_of_the_kernel_and_the_names_of_the_log() {
    assert_eq!(moved(0, 2, "kernel"), "Open->CWR: kernel");
    assert_eq!(moved(3, 9, "kernel"), "Recovery->?: kernel");
    let names: Vec<_> = STATES.iter().map(|state| state.map_or("?", TcpState::name)).collect();
    assert_eq!(
        names,
        [
            "?",
            "Established",
            "SynSent",
            "SynReceived",
            "FinWait1",
            "FinWait2",
            "TimeWait",
            "Closed",
            "CloseWait",
            "LastAck",
            "Listen",
            "Closing",
            "SynReceived",
        ]
    );
}

#[test]
fn at_one_instant_the_arrival_comes_first_then_the_stack_then_what_it_sends_with_the_kernels_reason() {
    let mut trace = KernelTrace::default();
    trace.senders.insert(
        FlowId(0),
        Sender { retransmits: vec![(Time::from_nanos(5), "recovery")], ..Sender::default() },
    );
    trace.traced.push(TracedEvent {
        kind: TraceEventKind::State,
        id: 0,
        saddr: NOWHERE,
        daddr: NOWHERE,
        sport: NOWHERE,
        dport: NOWHERE,
        fields: Vec::new(),
    });
    let row = |at, kind| EventRow::new(Time::from_nanos(at), 0, Some(0), kind);
    let events = vec![
        row(4, EventKind::Retransmit),
        row(5, EventKind::Retransmit),
        row(5, EventKind::In),
        row(5, EventKind::Sack),
        row(3, EventKind::Out),
        row(5, EventKind::Congestion),
    ];
    let events: Vec<EventRow> = trace.order(events.into()).iter().collect();
    let told: Vec<_> = events.iter().map(|e| (e.at.as_nanos(), e.kind, e.why.as_ref())).collect();
    assert_eq!(
        told,
        [
            (3, EventKind::Out, ""),
            (4, EventKind::Retransmit, ""),
            (5, EventKind::In, ""),
            (5, EventKind::Sack, ""),
            (5, EventKind::Congestion, ""),
            (5, EventKind::Retransmit, "recovery"),
        ]
    );
}

/// An event whose record has: id (16 bits), ports, addresses, then its own fields of 32 bits from byte 16 on.
fn traced(kind: TraceEventKind, id: u64, fields: usize) -> TracedEvent {
    TracedEvent {
        kind,
        id,
        sport: TraceField::new(2, 2),
        dport: TraceField::new(4, 2),
        saddr: TraceField::new(8, 4),
        daddr: TraceField::new(12, 4),
        fields: (0..fields).map(|n| TraceField::new(16 + 4 * n, 4)).collect(),
    }
}

fn record(id: u16, values: &[u32]) -> Vec<u8> {
    let address = |host| tcpassay_measure::pcapng::host_address(host).octets();
    let mut bytes = id.to_ne_bytes().to_vec();
    bytes.extend(40_000_u16.to_ne_bytes());
    bytes.extend(5001_u16.to_ne_bytes());
    bytes.extend([0, 0]);
    bytes.extend(address(0));
    bytes.extend(address(1));
    bytes.extend(values.iter().flat_map(|n| n.to_ne_bytes()));
    bytes
}

/// Time in nanoseconds, kind and reason.
type Row = (u64, EventKind, String);

/// The rows and the counters (timeouts, recoveries) that records at 1, 2, ... ns leave.
fn log(records: &[Vec<u8>]) -> (Vec<Row>, (Option<u64>, Option<u64>)) {
    log_without(records, [0; 4])
}

/// The same, if the kernel has counted more events than it recorded: so many of each kind, in the order of `EVENTS`.
fn log_without(records: &[Vec<u8>], unrecorded: [u64; 4]) -> (Vec<Row>, (Option<u64>, Option<u64>)) {
    log_of(KernelTrace::default(), records, unrecorded)
}

fn log_of(
    trace: KernelTrace,
    records: &[Vec<u8>],
    unrecorded: [u64; 4],
) -> (Vec<Row>, (Option<u64>, Option<u64>)) {
    let mut trace = KernelTrace { has: [true; 4], ..trace };
    trace.traced = vec![
        traced(TraceEventKind::Congestion, 1, 1),
        traced(TraceEventKind::Probe, 2, 6),
        traced(TraceEventKind::Retransmit, 3, 0),
        traced(TraceEventKind::State, 4, 2),
    ];
    let mut collector = Collector::new(tcpassay_measure::CollectOptions {
        events: true,
        ..tcpassay_measure::CollectOptions::default()
    });
    let flows = connection(&mut collector, 1460);
    let mut flow_tracker = FlowTracker::new(0);
    flow_tracker.open((0, 40_000), (1, 5001), flows);
    for (at, bytes) in (1..).zip(records) {
        trace.record(Time::from_nanos(at), bytes, &flow_tracker, &mut collector);
    }
    trace.leave_out(&unrecorded);
    assert_eq!(trace.unrecorded(), unrecorded.iter().sum::<u64>());
    assert_eq!(trace.available().map(|(_, is)| is), unrecorded.map(|missing| missing == 0));
    trace.close((0, Time::from_nanos(100)), &flow_tracker, &mut collector).expect("no source");
    let tcp = &collector.flow_mut(flows[0]).tcp;
    let counters = (tcp.timeouts, tcp.recoveries);
    let recording = collector.finish(Time::from_nanos(100));
    let row = |event: &EventRow| (event.at.as_nanos(), event.kind, event.why.as_ref().to_owned());
    (trace.order(recording.events).iter().map(|event| row(&event)).collect(), counters)
}

// enum tcp_ca_state: Open 0, Disorder 1, CWR 2, Recovery 3, Loss 4.
const OPEN: u32 = 0;

#[test]
fn each_entry_of_loss_is_a_timeout_and_each_change_to_recovery_is_a_recovery() {
    let states = [3, 3, 4, 4, OPEN, 3].map(|state| record(1, &[state]));
    let (rows, counters) = log(&states);
    assert_eq!(counters, (Some(2), Some(2)));
    let timers = rows.iter().filter(|(_, kind, _)| *kind == EventKind::TimerFire).count();
    assert_eq!(timers, 2);
}

#[test]
fn a_flow_without_events_has_counters_of_zero() {
    assert_eq!(log(&[]).1, (Some(0), Some(0)));
}

#[test]
fn a_window_is_a_row_when_it_changes() {
    let probe = |cwnd| record(2, &[cwnd, 0x7fff_ffff, 5000, 2000, 100, 0]);
    let rows = log(&[probe(10), probe(10), probe(11)]).0;
    let windows: Vec<_> = rows.iter().filter(|(_, kind, _)| *kind == EventKind::Window).collect();
    assert_eq!(windows.len(), 2);
    assert_eq!((windows[0].0, windows[1].0), (1, 3));
    assert_eq!(windows[0].2, "met by a segment");
}

#[test]
fn the_window_after_a_recovery_is_the_one_that_the_next_segment_finds_at_the_end_of_the_recovery() {
    let rows = log(&[record(1, &[3]), record(1, &[OPEN]), record(2, &[5, 5, 0, 0, 100, 0])]).0;
    let of =
        |kind| rows.iter().filter(|row| row.1 == kind).map(|row| (row.0, row.2.as_str())).collect::<Vec<_>>();
    assert_eq!(of(EventKind::Window), [(2, "on leaving Recovery")]);
    assert_eq!(of(EventKind::Congestion), [(1, "Open->Recovery: kernel"), (2, "Recovery->Open: kernel")]);
}

#[test]
fn the_end_of_a_recovery_without_a_later_segment_is_a_row_with_an_unknown_window() {
    let rows = log(&[record(1, &[3]), record(1, &[OPEN])]).0;
    assert_eq!(
        rows.last().unwrap(),
        &(2, EventKind::Congestion, "Recovery->Open: window unknown".to_owned())
    );
}

#[test]
fn states_of_connections_are_rows_and_records_of_other_connections_are_ignored() {
    let mut other = record(4, &[2, 1]);
    other[2..4].copy_from_slice(&1_u16.to_ne_bytes());
    let rows = log(&[record(4, &[2, 1]), other]).0;
    assert_eq!(rows, [(1, EventKind::State, "SynSent->Established".to_owned())]);
}

const NOWHERE: TraceField = TraceField::new(0, 0);

/// A recovery, a retransmission, its end and the next window, a timeout, and a change of the connection's state.
fn eventful() -> Vec<Vec<u8>> {
    vec![
        record(4, &[2, 1]),
        record(2, &[10, 0x7fff_ffff, 5000, 2000, 100, 0]),
        record(1, &[3]),
        record(3, &[]),
        record(1, &[OPEN]),
        record(2, &[5, 5, 0, 0, 100, 0]),
        record(1, &[4]),
    ]
}

#[test]
fn nothing_is_derived_from_events_of_which_the_kernel_did_not_record_all() {
    use EventKind::{Congestion, State, TimerFire, Window};
    let kinds = |unrecorded| {
        let (rows, counters) = log_without(&eventful(), unrecorded);
        let mut kinds: Vec<_> = rows.into_iter().map(|(_, kind, _)| kind).collect();
        kinds.dedup();
        (kinds, counters)
    };
    let all = [State, Window, Congestion, Window, Congestion, TimerFire, Congestion];
    assert_eq!(kinds([0; 4]), (all.to_vec(), (Some(1), Some(1))));
    assert_eq!(kinds([1, 0, 0, 0]), (vec![State, Window], (None, None)));
    assert_eq!(kinds([0, 1, 0, 0]), (vec![State, Congestion, TimerFire, Congestion], (Some(1), Some(1))));
    assert_eq!(kinds([0, 0, 7, 0]), (all.to_vec(), (Some(1), Some(1))));
    assert_eq!(kinds([0, 0, 0, 2]), (all[1..].to_vec(), (Some(1), Some(1))));
}

#[test]
fn without_all_windows_the_window_at_the_end_of_a_recovery_is_unknown() {
    let why = |unrecorded| {
        let rows = log_without(&eventful(), unrecorded).0;
        rows.into_iter().find(|(_, _, why)| why.starts_with("Recovery->Open")).expect("the end").2
    };
    assert_eq!(why([0; 4]), "Recovery->Open: kernel");
    assert_eq!(why([0, 1, 0, 0]), "Recovery->Open: window unknown");
}

#[test]
fn a_retransmission_has_a_reason_only_if_all_events_of_its_cause_were_recorded() {
    let reason = |unrecorded| {
        let mut trace = KernelTrace { has: [true; 4], ..KernelTrace::default() };
        trace.traced =
            vec![traced(TraceEventKind::Congestion, 1, 1), traced(TraceEventKind::Retransmit, 3, 0)];
        let sender = Sender { retransmits: vec![(Time::from_nanos(5), "recovery")], ..Sender::default() };
        trace.senders.insert(FlowId(0), sender);
        trace.leave_out(unrecorded);
        let row = EventRow::new(Time::from_nanos(5), 0, Some(0), EventKind::Retransmit);
        let rows: Vec<EventRow> = trace.order(vec![row].into()).iter().collect();
        rows[0].why.as_ref().to_owned()
    };
    assert_eq!(reason(&[0, 0]), "recovery");
    assert_eq!(reason(&[1, 0]), "");
    assert_eq!(reason(&[0, 1]), "");
}

#[test]
fn only_of_a_host_that_merges_segments_each_arrival_with_data_has_a_row() {
    let probes = [2920, 0].map(|len| record(2, &[10, 0x7fff_ffff, 5000, 2000, 100, len]));
    let merged = |merging| {
        let trace = KernelTrace { merging: vec![merging; 2], ..KernelTrace::default() };
        log_of(trace, &probes, [0; 4])
            .0
            .iter()
            .filter(|row| row.1 == EventKind::Merged)
            .map(|row| row.0)
            .collect()
    };
    let (with, without): (Vec<u64>, Vec<u64>) = (merged(true), merged(false));
    assert_eq!((with, without), (vec![1], vec![]));
}

#[test]
fn losses_are_repaired_in_recovery_and_loss() {
    let mut sender = Sender::default();
    let changes = [(10, true), (20, true), (35, false), (50, false), (60, true), (100, false)];
    let times = changes.map(|(at, repairs)| sender.repairs_until(Time::from_nanos(at), repairs));
    assert_eq!(times, [0, 10, 15, 0, 0, 40]);
}
