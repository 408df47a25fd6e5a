//! The trace events of the kernel about connections, as rows of the event log and counters of flows.
//!
//! * `tcp:tcp_cong_state_set` (since Linux 5.19) has the states of congestion control. Each time that the state becomes `Loss`, a
//!   retransmission timeout has expired, also if the state was `Loss` before. A change to `Recovery` is a fast recovery.
//! * `tcp:tcp_probe` has the windows when a segment arrives, before the segment is processed. A row of the log is written if a window has
//!   changed. The window after the end of `Recovery` is the one that the next segment finds. ssthresh is `tcp_current_ssthresh`,
//!   which outside of a reduction is at least three quarters of cwnd.
//! * `tcp:tcp_retransmit_skb` contains the state in which the kernel retransmitted. In states other than
//!   `Recovery` and `Loss` only the tail loss probe retransmits.
//! * `sock:inet_sock_set_state` has the states of connections.
//!
//! Events that a kernel does not have are missing in the log. Windows are traced only for an event log, because each segment is an event.

use crate::collect::flow_tracker::FlowTracker;
use std::collections::BTreeMap;
use std::io;
use std::ops::RangeInclusive;
use tcpassay_linux::perf::PerfEvents;
use tcpassay_linux::tracefs::{self, Format, Pages, TraceField};
use tcpassay_measure::pcapng::{host_address, host_of};
use tcpassay_measure::reason::{CongestionChange, CongestionState, StateChange, TcpState, Timer};
use tcpassay_measure::{Collector, EventKind, EventLog, EventRow, FlowId};
use tcpassay_units::{Bytes, Dur, Time};

/// `enum tcp_ca_state` (include/uapi/linux/tcp.h).
const CONGESTION: [CongestionState; 5] = [
    CongestionState::Open,
    CongestionState::Disorder,
    CongestionState::Cwr,
    CongestionState::Recovery,
    CongestionState::Loss,
];
const RECOVERY: usize = 3;
const LOSS: usize = 4;
/// The states of `include/net/tcp_states.h` by their numbers; 12 is `TCP_NEW_SYN_RECV`.
const STATES: [Option<TcpState>; 13] = [
    None,
    Some(TcpState::Established),
    Some(TcpState::SynSent),
    Some(TcpState::SynReceived),
    Some(TcpState::FinWait1),
    Some(TcpState::FinWait2),
    Some(TcpState::TimeWait),
    Some(TcpState::Closed),
    Some(TcpState::CloseWait),
    Some(TcpState::LastAck),
    Some(TcpState::Listen),
    Some(TcpState::Closing),
    Some(TcpState::SynReceived),
];
/// The value of ssthresh before the first reduction (`TCP_INFINITE_SSTHRESH`).
const INFINITE: u64 = 0x7fff_ffff;
/// The size of the ring buffer: about 30 bytes for each segment of 100 Gbit/s between two reads.
const KILOBYTES: u32 = 4096;

#[derive(Clone, Copy, PartialEq, Eq)]
enum TraceEventKind {
    Congestion,
    Probe,
    Retransmit,
    State,
}

/// The events by name, each with the fields that are read beside addresses and ports.
const EVENTS: [(TraceEventKind, &str, &[&str]); 4] = [
    (TraceEventKind::Congestion, "tcp/tcp_cong_state_set", &["cong_state"]),
    (TraceEventKind::Probe, "tcp/tcp_probe", &["snd_cwnd", "ssthresh", "snd_nxt", "snd_una", "srtt"]),
    (TraceEventKind::Retransmit, "tcp/tcp_retransmit_skb", &[]),
    (TraceEventKind::State, "sock/inet_sock_set_state", &["oldstate", "newstate"]),
];

/// An event that is traced, and where its fields are in a record.
struct TracedEvent {
    kind: TraceEventKind,
    id: u64,
    saddr: TraceField,
    daddr: TraceField,
    sport: TraceField,
    dport: TraceField,
    fields: Vec<TraceField>,
}

/// The state of one direction of a connection.
#[derive(Default)]
struct Sender {
    state: usize,
    /// The last cwnd and ssthresh, in segments.
    window: (u64, u64),
    /// When the connection left `Recovery`, and its new state; `None` once a segment has arrived since.
    left_recovery: Option<(Time, usize)>,
    /// When the kernel retransmitted, and the reason.
    retransmits: Vec<(Time, &'static str)>,
}

/// The source of the events.
enum Source {
    /// The trace buffer of a guest. Its clock is the monotonic one, which began at the boot of the guest.
    Guest(Pages),
    /// Ring buffers of this process on a host, with the clock of the taps.
    Host(PerfEvents),
}

/// The trace events of a run.
#[derive(Default)]
pub struct KernelTrace {
    source: Option<Source>,
    traced: Vec<TracedEvent>,
    senders: BTreeMap<FlowId, Sender>,
    /// Whether this kernel has each event, in the order of `EVENTS`.
    has: [bool; 4],
}

impl KernelTrace {
    /// Enables the events of a guest's kernel. `windows`: also those with windows.
    pub fn open(windows: bool) -> io::Result<KernelTrace> {
        let mut trace = KernelTrace::of(windows)?;
        if !trace.traced.is_empty() {
            trace.source = Some(Source::Guest(Pages::open(KILOBYTES)?));
        }
        for (_, event, _) in EVENTS.into_iter().filter(|(kind, _, _)| trace.is_traced(*kind)) {
            tracefs::enable(event)?;
        }
        Ok(trace)
    }

    /// Subscribes to the events of a host's kernel about connections of these hosts of the case to servers with these ports; to none if the
    /// kernel does not permit it.
    ///
    /// The kernel compares addresses where it can, and ports otherwise. Without a filter the connections of other programs would fill the
    /// rings, and an event would take the longer, the more agents of a testbed share the kernel.
    pub fn listen(windows: bool, hosts: &[u32], ports: &RangeInclusive<u16>) -> KernelTrace {
        let listening = || {
            tracefs::mount()?;
            let mut trace = KernelTrace::of(windows)?;
            if !trace.traced.is_empty() && !hosts.is_empty() {
                let filter = |traced: &TracedEvent| {
                    let addresses = hosts.iter().map(|host| host_address(*host).octets());
                    let filter = traced.saddr.filter("saddr", addresses);
                    filter.unwrap_or_else(|| TraceField::port_filter(["sport", "dport"], ports))
                };
                let wanted: Vec<_> = trace.traced.iter().map(|traced| (traced.id, filter(traced))).collect();
                trace.source = Some(Source::Host(PerfEvents::open(&wanted)?));
            }
            io::Result::Ok(trace)
        };
        listening().unwrap_or_default()
    }

    /// The events that this kernel has, not yet enabled.
    fn of(windows: bool) -> io::Result<KernelTrace> {
        let mut trace = KernelTrace::default();
        for (place, (kind, event, names)) in EVENTS.into_iter().enumerate() {
            let Some(format) = Format::of(event)? else { continue };
            let read = || {
                let one = |name: &str| format.field(name);
                let fields = names.iter().map(|name| one(name)).collect::<Option<_>>()?;
                let (saddr, daddr, sport, dport) =
                    (one("saddr")?, one("daddr")?, one("sport")?, one("dport")?);
                Some(TracedEvent { kind, id: format.id, saddr, daddr, sport, dport, fields })
            };
            let Some(traced) = read() else { continue };
            trace.has[place] = true;
            if kind != TraceEventKind::Probe || windows {
                trace.traced.push(traced);
            }
        }
        Ok(trace)
    }

    /// Discards the events before the start of a run. Those of other connections of a host may have filled its rings.
    pub fn discard(&mut self) {
        if let Some(Source::Host(events)) = &mut self.source {
            events.discard();
        }
    }

    fn is_traced(&self, kind: TraceEventKind) -> bool {
        self.traced.iter().any(|traced| traced.kind == kind)
    }

    /// Returns true if the events contain timeouts and recoveries.
    pub fn counts_timeouts(&self) -> bool {
        self.has[0]
    }

    /// Which events this kernel has, by the names of counters of the recording.
    pub fn available(&self) -> [(&'static str, bool); 4] {
        let names = ["traced_congestion", "traced_windows", "traced_retransmits", "traced_states"];
        std::array::from_fn(|i| (names[i], self.has[i]))
    }

    /// Returns true if events were lost.
    pub fn missed(&self) -> bool {
        self.source.as_ref().is_some_and(|source| match source {
            Source::Guest(pages) => pages.missed,
            Source::Host(events) => events.missed,
        })
    }

    /// Reads the events since the last call. `start` is the start of the run. On a host, only events before `until` are read, because the
    /// processors write their rings independently.
    pub fn drain(
        &mut self,
        (start, until): (u64, u64),
        flow_tracker: &FlowTracker,
        collector: &mut Collector,
    ) {
        let Some(mut source) = self.source.take() else { return };
        let mut each = |at: u64, record: &[u8]| {
            if let Some(at) = at.checked_sub(start) {
                self.record(Time::from_nanos(at), record, flow_tracker, collector);
            }
        };
        match &mut source {
            Source::Guest(pages) => pages.drain(|at, record| each(crate::environment::BOOT + at, record)),
            Source::Host(events) => events.drain(until, each),
        }
        self.source = Some(source);
    }

    fn record(&mut self, at: Time, record: &[u8], flow_tracker: &FlowTracker, collector: &mut Collector) {
        let id = u64::from(u16::from_ne_bytes(record[..2].try_into().expect("2 bytes")));
        let Some(traced) = self.traced.iter().find(|traced| traced.id == id) else { return };
        let end = |address: TraceField, port: TraceField| {
            let host = host_of(std::net::Ipv4Addr::from(address.address(record)).into())?;
            Some((host, u16::try_from(port.of(record)).ok()?))
        };
        let (Some(from), Some(to)) = (end(traced.saddr, traced.sport), end(traced.daddr, traced.dport))
        else {
            return;
        };
        let Some(flow) = flow_tracker.flow(from, to).filter(|_| flow_tracker.is_local(from.0)) else {
            return;
        };
        let fields: Vec<u64> = traced.fields.iter().map(|field| field.of(record)).collect();
        let new = |kind| EventRow::new(at, from.0, Some(flow.0), kind);
        let sender = self.senders.entry(flow).or_default();
        match (traced.kind, &fields[..]) {
            (TraceEventKind::Congestion, &[state]) => {
                let state = usize::try_from(state).expect("8 bits");
                let before = std::mem::replace(&mut sender.state, state);
                let tcp = &mut collector.flow_mut(flow).tcp;
                *tcp.timeouts.get_or_insert(0) += u64::from(state == LOSS);
                *tcp.recoveries.get_or_insert(0) += u64::from(state == RECOVERY && before != RECOVERY);
                if !collector.wants_events() {
                    return;
                }
                sender.flush(flow, from.0, collector);
                if before == RECOVERY && state != RECOVERY && state != LOSS && self.has[1] {
                    sender.left_recovery = Some((at, state));
                    return;
                }
                if state == LOSS {
                    collector.event(EventRow { why: Timer::Rto.name().into(), ..new(EventKind::TimerFire) });
                }
                collector
                    .event(EventRow { why: moved(before, state, "kernel"), ..new(EventKind::Congestion) });
            }
            (TraceEventKind::Probe, &[cwnd, ssthresh, next, una, srtt]) => {
                let left = sender.left_recovery.take();
                if left.is_none() && sender.window == (cwnd, ssthresh) {
                    return;
                }
                sender.window = (cwnd, ssthresh);
                let bytes = |segments: u64| Bytes::new(segments * flow_tracker.mss(flow));
                let at = left.map_or(at, |(at, _)| at);
                // Sequence numbers have 32 bits and wrap.
                let flight = left.is_none().then(|| Bytes::new(next.wrapping_sub(una) & 0xffff_ffff));
                collector.event(EventRow {
                    at,
                    cwnd: Some(bytes(cwnd)),
                    ssthresh: (ssthresh < INFINITE).then(|| bytes(ssthresh)),
                    flight,
                    srtt: (srtt > 0).then(|| Dur::from_micros(srtt)),
                    why: if left.is_some() { "on leaving Recovery" } else { "met by a segment" }.into(),
                    ..new(EventKind::Window)
                });
                if let Some((_, state)) = left {
                    let why = moved(RECOVERY, state, "kernel");
                    collector.event(EventRow { at, why, ..new(EventKind::Congestion) });
                }
            }
            (TraceEventKind::Retransmit, _) => {
                let why = match sender.state {
                    RECOVERY => "recovery",
                    LOSS => "timeout",
                    _ => "tail loss probe",
                };
                if collector.wants_events() {
                    sender.retransmits.push((at, why));
                }
            }
            (TraceEventKind::State, &[before, after]) => {
                let state = |n: u64| {
                    let place = usize::try_from(n).unwrap_or(0);
                    STATES.get(place).copied().flatten()
                };
                let change = StateChange::Moved { from: state(before), to: state(after) };
                let why = change.to_string().into();
                collector.event(EventRow { why, ..new(EventKind::State) });
            }
            _ => unreachable!("each event has the fields of its row in EVENTS"),
        }
    }

    /// Reads the remaining events, and sets the counters of flows without timeouts and recoveries to 0.
    pub fn close(&mut self, start: u64, flow_tracker: &FlowTracker, collector: &mut Collector) {
        self.drain((start, u64::MAX), flow_tracker, collector);
        for (flow, sender) in &mut self.senders {
            let host = collector.flow_mut(*flow).from;
            sender.flush(*flow, host, collector);
        }
        if self.counts_timeouts() {
            for flow in flow_tracker.flows() {
                let flow = collector.flow_mut(flow);
                if !flow_tracker.is_local(flow.from) {
                    continue;
                }
                let tcp = &mut flow.tcp;
                tcp.timeouts.get_or_insert(0);
                tcp.recoveries.get_or_insert(0);
            }
        }
    }

    /// Sorts the event log, and adds the reason of each retransmission.
    pub fn order(&self, log: EventLog) -> EventLog {
        if self.traced.is_empty() {
            return log;
        }
        // At the same instant: the segment that arrived, the reaction of the stack, the segments that it sent. SACK blocks follow
        // their segment.
        let mut place = 1;
        let mut placed: Vec<((Time, u8), EventRow)> = log
            .iter()
            .map(|event| {
                place = match event.kind {
                    EventKind::In => 0,
                    EventKind::Out | EventKind::Retransmit => 2,
                    EventKind::Sack => place,
                    _ => 1,
                };
                ((event.at, place), event)
            })
            .collect();
        placed.sort_by_key(|(key, _)| *key);
        let mut events: Vec<EventRow> = placed.into_iter().map(|(_, event)| event).collect();
        for event in events.iter_mut().filter(|event| event.kind == EventKind::Retransmit) {
            let Some(sender) = event.flow.and_then(|flow| self.senders.get(&FlowId(flow))) else { continue };
            let (before, after) =
                sender.retransmits.split_at(sender.retransmits.partition_point(|(at, _)| *at <= event.at));
            let reason = match (&self.source, before.last(), after.first()) {
                // The kernel writes the event after it has handed the packet to the device: in real time a little later.
                (Some(Source::Host(_)), Some(one), Some(other)) => {
                    Some(if other.0 - event.at < event.at - one.0 { other } else { one })
                }
                (Some(Source::Host(_)), None, other) => other,
                (_, one, _) => one,
            };
            if let Some((_, why)) = reason {
                event.why = (*why).into();
            }
        }
        events.into()
    }
}

/// The reason of a change of state.
fn moved(before: usize, after: usize, how: &str) -> tcpassay_measure::Reason {
    let state = |n: usize| CONGESTION.get(n).copied();
    CongestionChange { from: state(before), to: state(after), cause: how }.to_string().into()
}

impl Sender {
    /// Writes the end of a recovery after which no segment showed the window.
    fn flush(&mut self, flow: FlowId, host: u32, collector: &mut Collector) {
        if let Some((at, state)) = self.left_recovery.take() {
            let why = moved(RECOVERY, state, CongestionChange::WINDOW_UNKNOWN);
            collector.event(EventRow { why, ..EventRow::new(at, host, Some(flow.0), EventKind::Congestion) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let mut trace = KernelTrace { has: [true; 4], ..KernelTrace::default() };
        trace.traced = vec![
            traced(TraceEventKind::Congestion, 1, 1),
            traced(TraceEventKind::Probe, 2, 5),
            traced(TraceEventKind::Retransmit, 3, 0),
            traced(TraceEventKind::State, 4, 2),
        ];
        let mut collector = Collector::new(tcpassay_measure::CollectOptions {
            events: true,
            ..tcpassay_measure::CollectOptions::default()
        });
        let flows = [(0, 1), (1, 0)].map(|(from, to)| {
            collector.add_flow(tcpassay_measure::Flow {
                name: format!("flow.{from}"),
                connection: 0,
                from,
                to,
                class: String::new(),
                cc: "reno".to_owned(),
                mss: Bytes::new(1460),
                start: Time::ZERO,
                end: None,
                counters: tcpassay_measure::FlowCounters::default(),
                tcp: tcpassay_measure::TcpSummary::default(),
            })
        });
        let mut flow_tracker = FlowTracker::new(0);
        flow_tracker.open((0, 40_000), (1, 5001), flows);
        for (at, bytes) in (1..).zip(records) {
            trace.record(Time::from_nanos(at), bytes, &flow_tracker, &mut collector);
        }
        trace.close(0, &flow_tracker, &mut collector);
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
        let probe = |cwnd| record(2, &[cwnd, 0x7fff_ffff, 5000, 2000, 100]);
        let rows = log(&[probe(10), probe(10), probe(11)]).0;
        let windows: Vec<_> = rows.iter().filter(|(_, kind, _)| *kind == EventKind::Window).collect();
        assert_eq!(windows.len(), 2);
        assert_eq!((windows[0].0, windows[1].0), (1, 3));
        assert_eq!(windows[0].2, "met by a segment");
    }

    #[test]
    fn the_window_after_a_recovery_is_the_one_that_the_next_segment_finds_at_the_end_of_the_recovery() {
        let rows = log(&[record(1, &[3]), record(1, &[OPEN]), record(2, &[5, 5, 0, 0, 100])]).0;
        let of = |kind| {
            rows.iter().filter(|row| row.1 == kind).map(|row| (row.0, row.2.as_str())).collect::<Vec<_>>()
        };
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
}
