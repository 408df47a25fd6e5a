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

/// In the order of `EVENTS`.
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
    (
        TraceEventKind::Probe,
        "tcp/tcp_probe",
        &["snd_cwnd", "ssthresh", "snd_nxt", "snd_una", "srtt", "data_len"],
    ),
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
    /// Since when losses are repaired: the states `Recovery` and `Loss`.
    repairs: Option<Time>,
    /// When a segment arrived last.
    arrived: Option<Time>,
    /// The last cwnd and ssthresh, in segments.
    window: (u64, u64),
    /// When the connection left `Recovery`, and its new state; `None` once a segment has arrived since.
    left_recovery: Option<(Time, usize)>,
    /// When the kernel retransmitted, and the reason.
    retransmits: Vec<(Time, &'static str)>,
}

impl Sender {
    /// For how long the sender has waited for a timer that fires now: since it last sent something, and since something arrived.
    fn waited(&self, now: Time, sent: Option<Time>) -> u64 {
        let idle = self.arrived.max(sent);
        idle.map_or(0, |idle| now.since(idle).as_nanos())
    }

    /// The congestion state changes; `repairs`: losses are repaired from now on. Returns the nanoseconds in which they were until now.
    fn repairs_until(&mut self, now: Time, repairs: bool) -> u64 {
        let since = std::mem::replace(&mut self.repairs, repairs.then_some(now));
        since.map_or(0, |since| now.since(since).as_nanos())
    }
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
    /// For each host of the case, whether its NIC merges packets on receipt.
    merging: Vec<bool>,
    /// Whether this kernel has each event, in the order of `EVENTS`. After [`KernelTrace::close`]: and has recorded all of them.
    has: [bool; 4],
    /// How many events the kernel has counted and not recorded, in the order of `EVENTS`.
    unrecorded: [u64; 4],
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

    /// The hosts whose NIC merges packets on receipt: the log tells which segments their stacks process.
    pub fn set_merging(&mut self, merging: Vec<bool>) {
        self.merging = merging;
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

    /// How many events the kernel has counted and not recorded. The log and the counters contain nothing that is derived from an event of
    /// which records are missing.
    pub fn unrecorded(&self) -> u64 {
        self.unrecorded.iter().sum()
    }

    /// Returns true if events were lost because a buffer was full.
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
                let waited = if state == LOSS {
                    sender.waited(at, flow_tracker.last_sent_before(flow, at))
                } else {
                    0
                };
                // The wait for the timer may be a part of the repair before.
                let repaired = sender.repairs_until(at, matches!(state, RECOVERY | LOSS));
                let tcp = &mut collector.flow_mut(flow).tcp;
                *tcp.limits.recovery.get_or_insert(0) += repaired.saturating_sub(waited);
                *tcp.limits.timers.get_or_insert(0) += waited;
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
            (TraceEventKind::Probe, &[cwnd, ssthresh, next, una, srtt, len]) => {
                sender.arrived = Some(at);
                if len > 0 && self.merging.get(from.0 as usize).copied().unwrap_or(false) {
                    let len = u32::try_from(len).ok();
                    collector.event(EventRow { len, ..new(EventKind::Merged) });
                }
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
                if why == "tail loss probe" {
                    let waited = sender.waited(at, flow_tracker.last_sent_before(flow, at));
                    *collector.flow_mut(flow).tcp.limits.timers.get_or_insert(0) += waited;
                }
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

    /// Reads the remaining events, and sets the counters of flows without timeouts and recoveries to 0. Fails if the kernel does not tell how
    /// many events it has counted.
    pub fn close(
        &mut self,
        (start, end): (u64, Time),
        flow_tracker: &FlowTracker,
        collector: &mut Collector,
    ) -> io::Result<()> {
        if let Some(Source::Host(events)) = &self.source {
            events.stop()?;
        }
        self.drain((start, u64::MAX), flow_tracker, collector);
        if let Some(Source::Host(events)) = &self.source {
            let unrecorded = events.unrecorded()?;
            self.leave_out(&unrecorded);
        }
        for (flow, sender) in &mut self.senders {
            let row = collector.flow_mut(*flow);
            *row.tcp.limits.recovery.get_or_insert(0) += sender.repairs_until(end, false);
            let host = row.from;
            sender.flush(*flow, host, collector);
        }
        let counts = self.counts_timeouts();
        for flow in flow_tracker.flows() {
            let flow = collector.flow_mut(flow);
            if flow_tracker.is_local(flow.from) {
                let tcp = &mut flow.tcp;
                tcp.timeouts = counts.then(|| tcp.timeouts.unwrap_or(0));
                tcp.recoveries = counts.then(|| tcp.recoveries.unwrap_or(0));
            }
        }
        Ok(())
    }

    /// Notes how many events of each traced kind are missing. A kind of which events are missing counts as one that this kernel does not have.
    fn leave_out(&mut self, unrecorded: &[u64]) {
        for (traced, missing) in self.traced.iter().zip(unrecorded).filter(|(_, missing)| **missing > 0) {
            let place = traced.kind as usize;
            (self.has[place], self.unrecorded[place]) = (false, *missing);
        }
    }

    /// Returns true if records of this event are missing.
    fn lacks(&self, kind: TraceEventKind) -> bool {
        self.unrecorded[kind as usize] > 0
    }

    /// Returns true for rows that are not derived from an event of which records are missing.
    fn keeps(&self, event: &EventRow) -> bool {
        match event.kind {
            EventKind::TimerFire | EventKind::Congestion => !self.lacks(TraceEventKind::Congestion),
            EventKind::Window | EventKind::Merged => !self.lacks(TraceEventKind::Probe),
            EventKind::State => !self.lacks(TraceEventKind::State),
            _ => true,
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
            .filter(|event| self.keeps(event))
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
        if self.lacks(TraceEventKind::Probe) {
            for event in events.iter_mut().filter(|event| event.kind == EventKind::Congestion) {
                if let Some(change) = CongestionChange::read(&event.why)
                    && change.from == Some(CongestionState::Recovery)
                {
                    let cause = CongestionChange::WINDOW_UNKNOWN;
                    event.why = CongestionChange { cause, ..change }.to_string().into();
                }
            }
        }
        if self.lacks(TraceEventKind::Congestion) || self.lacks(TraceEventKind::Retransmit) {
            return events.into();
        }
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
mod tests;
