//! What the kernel's trace events say of connections:
//!
//! * `tcp:tcp_cong_state_set` (from Linux 5.19 on): the states of congestion control. Entering `Loss` is a retransmission timeout, also
//!   again and again in the same episode; entering `Recovery` is a fast recovery.
//! * `tcp:tcp_probe`: windows, when a segment arrives and before it is processed. A window that changed is a row of the log then; the one
//!   in force on leaving `Recovery` is the one that the next segment meets. Its ssthresh is `tcp_current_ssthresh`, which outside of a
//!   reduction is never below three quarters of cwnd.
//! * `tcp:tcp_retransmit_skb`: in which state the kernel retransmitted; outside of `Recovery` and `Loss` only the tail loss probe does.
//! * `sock:inet_sock_set_state`: the states of connections.
//!
//! What a kernel does not have, it says nothing of. Windows are traced only for the event log, because every segment is an event.

use crate::collect::flow_tracker::FlowTracker;
use std::collections::BTreeMap;
use std::io;
use tcpassay_linux::perf::Events;
use tcpassay_linux::tracefs::{self, Field, Format, Pages};
use tcpassay_measure::pcapng::host_of;
use tcpassay_measure::{Collector, EventKind, EventLog, EventRow, FlowId, RTO};
use tcpassay_tcp::CongestionState;
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
/// The states of `include/net/tcp_states.h`, in the words of the model.
const STATES: [&str; 13] = [
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
];
/// ssthresh before the first congestion (`TCP_INFINITE_SSTHRESH`).
const INFINITE: u64 = 0x7fff_ffff;
/// Room for what happens between two looks: some thirty bytes a segment at 100 Gbit/s.
const KILOBYTES: u32 = 4096;

#[derive(Clone, Copy, PartialEq, Eq)]
enum TraceEventKind {
    Congestion,
    Probe,
    Retransmit,
    State,
}

/// Events by name, with the fields that are read of each.
const EVENTS: [(TraceEventKind, &str, &[&str]); 4] = [
    (TraceEventKind::Congestion, "tcp/tcp_cong_state_set", &["cong_state"]),
    (TraceEventKind::Probe, "tcp/tcp_probe", &["snd_cwnd", "ssthresh", "snd_nxt", "snd_una", "srtt"]),
    (TraceEventKind::Retransmit, "tcp/tcp_retransmit_skb", &[]),
    (TraceEventKind::State, "sock/inet_sock_set_state", &["oldstate", "newstate"]),
];

/// An event that is traced.
struct TracedEvent {
    what: TraceEventKind,
    id: u64,
    saddr: Field,
    daddr: Field,
    sport: Field,
    dport: Field,
    fields: Vec<Field>,
}

/// What is known of a direction of a connection.
#[derive(Default)]
struct Sender {
    state: usize,
    /// cwnd and ssthresh in segments, as they were last.
    window: (u64, u64),
    /// It left `Recovery` then, for this state, and no segment has arrived since.
    left: Option<(Time, usize)>,
    /// When the kernel retransmitted, and why.
    again: Vec<(Time, &'static str)>,
}

/// Where events come from.
enum Source {
    /// The one trace buffer of a guest, whose clock is the monotonic one, which began with the machine.
    Guest(Pages),
    /// Rings of our own on a machine; instants are the taps'.
    MachineLoad(Events),
}

/// The trace, being read.
#[derive(Default)]
pub struct KernelTrace {
    source: Option<Source>,
    traced: Vec<TracedEvent>,
    senders: BTreeMap<FlowId, Sender>,
    /// What this kernel could tell.
    has: [bool; 4],
}

impl KernelTrace {
    /// Switches on what a guest's kernel has; windows for an event log only.
    pub fn open(windows: bool) -> io::Result<KernelTrace> {
        let mut trace = KernelTrace::of(windows)?;
        if !trace.traced.is_empty() {
            trace.source = Some(Source::Guest(Pages::open(KILOBYTES)?));
        }
        for (_, event, _) in EVENTS.into_iter().filter(|(what, _, _)| trace.is_on(*what)) {
            tracefs::enable(event)?;
        }
        Ok(trace)
    }

    /// Listens to what a machine's kernel has; to nothing where it lets nobody.
    pub fn listen(windows: bool) -> KernelTrace {
        let listening = || {
            tracefs::show()?;
            let mut trace = KernelTrace::of(windows)?;
            if !trace.traced.is_empty() {
                let ids: Vec<u64> = trace.traced.iter().map(|traced| traced.id).collect();
                trace.source = Some(Source::MachineLoad(Events::open(&ids)?));
            }
            io::Result::Ok(trace)
        };
        listening().unwrap_or_default()
    }

    /// What this kernel has, by the formats of its events.
    fn of(windows: bool) -> io::Result<KernelTrace> {
        let mut trace = KernelTrace::default();
        for (place, (what, event, names)) in EVENTS.into_iter().enumerate() {
            let Some(format) = Format::of(event)? else { continue };
            let read = || {
                let one = |name: &str| format.field(name);
                let fields = names.iter().map(|name| one(name)).collect::<Option<_>>()?;
                let (saddr, daddr, sport, dport) =
                    (one("saddr")?, one("daddr")?, one("sport")?, one("dport")?);
                Some(TracedEvent { what, id: format.id, saddr, daddr, sport, dport, fields })
            };
            let Some(traced) = read() else { continue };
            trace.has[place] = true;
            if what != TraceEventKind::Probe || windows {
                trace.traced.push(traced);
            }
        }
        Ok(trace)
    }

    fn is_on(&self, what: TraceEventKind) -> bool {
        self.traced.iter().any(|traced| traced.what == what)
    }

    /// Whether timeouts and recoveries are told.
    pub fn counts_timeouts(&self) -> bool {
        self.has[0]
    }

    /// What an event log of this kernel holds, as counters of the recording.
    pub fn has(&self) -> [(&'static str, u64); 4] {
        let names = ["traced_congestion", "traced_windows", "traced_retransmits", "traced_states"];
        std::array::from_fn(|i| (names[i], u64::from(self.has[i])))
    }

    /// Whether something was lost.
    pub fn missed(&self) -> bool {
        self.source.as_ref().is_some_and(|source| match source {
            Source::Guest(pages) => pages.missed,
            Source::MachineLoad(events) => events.missed,
        })
    }

    /// Reads what has happened since the last time; on a machine, before `until`: a processor may have yet to tell the last.
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
            Source::MachineLoad(events) => events.drain(until, each),
        }
        self.source = Some(source);
    }

    fn record(&mut self, at: Time, record: &[u8], flow_tracker: &FlowTracker, collector: &mut Collector) {
        let id = u64::from(u16::from_ne_bytes(record[..2].try_into().expect("2 bytes")));
        let Some(traced) = self.traced.iter().find(|traced| traced.id == id) else { return };
        let end = |address: Field, port: Field| {
            let host = host_of(std::net::Ipv4Addr::from(address.address(record)).into())?;
            Some((host, u16::try_from(port.of(record)).ok()?))
        };
        let (Some(from), Some(to)) = (end(traced.saddr, traced.sport), end(traced.daddr, traced.dport))
        else {
            return;
        };
        let Some(flow) = flow_tracker.flow(from, to) else { return };
        let fields: Vec<u64> = traced.fields.iter().map(|field| field.of(record)).collect();
        let new = |kind| EventRow::new(at, from.0, Some(flow.0), kind);
        let sender = self.senders.entry(flow).or_default();
        match (traced.what, &fields[..]) {
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
                    sender.left = Some((at, state));
                    return;
                }
                if state == LOSS {
                    collector.event(EventRow { why: RTO.into(), ..new(EventKind::TimerFire) });
                }
                collector
                    .event(EventRow { why: moved(before, state, "kernel"), ..new(EventKind::Congestion) });
            }
            (TraceEventKind::Probe, &[cwnd, ssthresh, next, una, srtt]) => {
                let left = sender.left.take();
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
                    sender.again.push((at, why));
                }
            }
            (TraceEventKind::State, &[before, after]) => {
                let word = |n: u64| STATES.get(usize::try_from(n).unwrap_or(0)).copied().unwrap_or("?");
                let why = format!("{}->{}", word(before), word(after)).into();
                collector.event(EventRow { why, ..new(EventKind::State) });
            }
            _ => unreachable!("as many fields as were asked for"),
        }
    }

    /// Reads the rest, and says 0 of the flows to which nothing happened.
    pub fn close(&mut self, start: u64, flow_tracker: &FlowTracker, collector: &mut Collector) {
        self.drain((start, u64::MAX), flow_tracker, collector);
        for (flow, sender) in &mut self.senders {
            let host = collector.flow_mut(*flow).from;
            sender.flush(*flow, host, collector);
        }
        if self.counts_timeouts() {
            for flow in flow_tracker.flows() {
                let tcp = &mut collector.flow_mut(flow).tcp;
                tcp.timeouts.get_or_insert(0);
                tcp.recoveries.get_or_insert(0);
            }
        }
    }

    /// Puts the log of a run in order, and says of each retransmission what the kernel said.
    pub fn order(&self, log: EventLog) -> EventLog {
        if self.traced.is_empty() {
            return log;
        }
        let mut events: Vec<EventRow> = log.iter().collect();
        // At one instant: what arrived, what the stack made of it, what it sent.
        events.sort_by_key(|event| {
            let place = match event.kind {
                EventKind::In => 0,
                EventKind::Out | EventKind::Retransmit => 2,
                _ => 1,
            };
            (event.at, place)
        });
        for event in events.iter_mut().filter(|event| event.kind == EventKind::Retransmit) {
            let Some(sender) = event.flow.and_then(|flow| self.senders.get(&FlowId(flow))) else { continue };
            let (before, after) =
                sender.again.split_at(sender.again.partition_point(|(at, _)| *at <= event.at));
            let said = match (&self.source, before.last(), after.first()) {
                // The kernel says so when the packet has been handed to the device: in real time a little later.
                (Some(Source::MachineLoad(_)), Some(one), Some(other)) => {
                    Some(if other.0 - event.at < event.at - one.0 { other } else { one })
                }
                (Some(Source::MachineLoad(_)), None, other) => other,
                (_, one, _) => one,
            };
            if let Some((_, why)) = said {
                event.why = (*why).into();
            }
        }
        events.into()
    }
}

fn moved(before: usize, after: usize, how: &str) -> tcpassay_measure::Reason {
    let word = |n: usize| CONGESTION.get(n).map_or("?", |state| state.name());
    format!("{}->{}: {how}", word(before), word(after)).into()
}

impl Sender {
    /// It left `Recovery`, and what it left with nobody has seen.
    fn flush(&mut self, flow: FlowId, host: u32, collector: &mut Collector) {
        if let Some((at, state)) = self.left.take() {
            let why = moved(RECOVERY, state, "window unknown");
            collector.event(EventRow { why, ..EventRow::new(at, host, Some(flow.0), EventKind::Congestion) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpassay_tcp::State;

    #[test]
    fn states_have_the_names_that_the_model_logs() {
        assert_eq!(moved(0, 2, "kernel"), "Open->CWR: kernel");
        assert_eq!(tcpassay_tcp::Timer::Rto.name(), RTO);
        // The places of include/net/tcp_states.h; 12 is TCP_NEW_SYN_RECV.
        let states = [
            (1, State::Established),
            (2, State::SynSent),
            (3, State::SynReceived),
            (4, State::FinWait1),
            (5, State::FinWait2),
            (6, State::TimeWait),
            (7, State::Closed),
            (8, State::CloseWait),
            (9, State::LastAck),
            (10, State::Listen),
            (11, State::Closing),
            (12, State::SynReceived),
        ];
        for (place, state) in states {
            assert_eq!(STATES[place], format!("{state:?}"));
        }
    }

    #[test]
    fn at_one_instant_the_arrival_comes_first_then_the_stack_then_what_it_sends_with_the_kernels_reason() {
        let mut trace = KernelTrace::default();
        trace.senders.insert(
            FlowId(0),
            Sender { again: vec![(Time::from_nanos(5), "recovery")], ..Sender::default() },
        );
        trace.traced.push(TracedEvent {
            what: TraceEventKind::State,
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
                (5, EventKind::Congestion, ""),
                (5, EventKind::Retransmit, "recovery"),
            ]
        );
    }

    const NOWHERE: Field = Field::NOTHING;
}
