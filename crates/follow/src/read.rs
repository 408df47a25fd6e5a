//! The ends of a recording.

use crate::end::{End, Row, Setup, Substrate};
use crate::gro;
use crate::inside::Told;
use crate::order::{Call, ordered, placed};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tcpassay_case::params::{self, Value};
use tcpassay_case::{Case, CcEngine, HostSettings, Implementation};
use tcpassay_measure::reason::{AppCall, StateChange, TcpState};
use tcpassay_measure::{EventKind, EventRow, Header, PacketRecord, Recording};
use tcpassay_tcp::{EcnMode, PacketPages, Profile};
use tcpassay_units::{Bytes, Dur, Seed, Time};
use tcpassay_wire::Flags;

/// A kernel's clock ticks at whole milliseconds of the run, and what happens at this nanosecond happens before the tick.
const BEFORE_TICK: Dur = Dur::from_nanos(1);

/// The profile of the model that follows the kernel of a run; `None` if there is none.
pub(crate) fn profile_of(header: &Header) -> Option<Profile> {
    Profile::of_release(header.system.as_deref()?)
}

/// An end, or a whole recording, that cannot be followed, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unfollowed {
    /// The flow that the end sends; `None` if it is the recording.
    pub flow: Option<u32>,
    /// Why.
    pub why: String,
}

/// Host and port of both ends of a connection, its client first.
type Ports = [(u32, u16); 2];

/// What the event log tells about one end.
#[derive(Default)]
struct Said {
    calls: Vec<Call>,
    merged: Vec<(Time, u32)>,
    inside: Vec<(Time, Told)>,
    /// When the connection left SYN-RECEIVED.
    opened: Option<Time>,
    /// Segments of the present instant: when, arrived, left.
    instant: (Time, usize, usize),
}

/// The ends of a recording with packets and an event log, and those that cannot be followed. `traces` reads files that the case names.
///
/// # Errors
/// A recording that lacks packets or events, or whose case this version does not know.
pub fn read(
    recording: &Recording,
    traces: &dyn Fn(&str) -> std::io::Result<String>,
) -> Result<(Vec<End>, Vec<Unfollowed>), Unfollowed> {
    let whole = |why: String| Unfollowed { flow: None, why };
    let substrate = match recording.header.substrate.as_str() {
        "model" => Substrate::Model,
        "kernel" => Substrate::Kernel,
        other => return Err(whole(format!("the clocks of the substrate `{other}` are not exact"))),
    };
    if recording.events.is_empty() || recording.packets.is_empty() {
        let why = "only a recording with an event log and packets can be followed (`[collect]` of the plan)";
        return Err(whole(why.to_owned()));
    }
    let case = case_of(&recording.header, substrate, traces).map_err(whole)?;
    let ports = connections(recording);
    let mut told = events(recording);
    let (mut ends, mut not) = (Vec::new(), Vec::new());
    for (connection, ports) in ports {
        for side in 0..2 {
            let flow = connection[side];
            let said = told.remove(&flow).unwrap_or_default();
            let host = ports[side].0;
            match setup(recording, &case, substrate, (flow, side == 0)) {
                Ok(setup) => {
                    let end = end(recording, setup, (flow, host), (&ports, side), &said);
                    if end.syn().is_some() {
                        ends.push(end);
                    } else {
                        let why = "the log does not have the SYN of this end".to_owned();
                        not.push(Unfollowed { flow: Some(flow), why });
                    }
                }
                Err(why) => not.push(Unfollowed { flow: Some(flow), why }),
            }
        }
    }
    Ok((ends, not))
}

/// The case of a recording, or why this version does not know it.
pub(crate) fn case_of(
    header: &Header,
    substrate: Substrate,
    traces: &dyn Fn(&str) -> std::io::Result<String>,
) -> Result<Case, String> {
    let on = if substrate == Substrate::Model { params::Substrate::Model } else { params::Substrate::Kernel };
    let triples: BTreeMap<String, Value> = header
        .case
        .iter()
        .map(|triple| {
            let (entity, name) = (&triple.entity, &triple.parameter);
            let path = if entity.is_empty() { name.clone() } else { format!("{entity}/{name}") };
            (path, Value::Text(triple.value.clone()))
        })
        .collect();
    let mut case = Case::on(on, &triples, traces)
        .map_err(|errors| errors.first().map_or(String::new(), ToString::to_string))?;
    if let (Substrate::Kernel, Some(release)) = (substrate, header.system.as_deref()) {
        case.adopt(release);
    }
    Ok(case)
}

/// Why the model cannot follow the ends of a host; `None` if it can.
pub(crate) fn unfollowable(host: &HostSettings) -> Option<&'static str> {
    if host.implementation != Implementation::Model {
        return Some("its TCP is neither the model nor Linux (`stack.implementation`)");
    }
    if host.python.is_some() || host.engine != CcEngine::Kernel {
        return Some("the model has no such controller (`stack.cc`, `stack.cc_engine`)");
    }
    if host.fastopen {
        return Some("the log has no cookies of Fast Open (`stack.fastopen`)");
    }
    if host.linger.is_some_and(|linger| linger > Dur::ZERO) {
        return Some("the log does not tell when a close gives up (`app.linger`)");
    }
    None
}

/// The flows of each connection of which a SYN was captured, its client's first, and its addresses.
fn connections(recording: &Recording) -> Vec<([u32; 2], Ports)> {
    let mut syns: BTreeMap<(Time, u32), VecDeque<&PacketRecord>> = BTreeMap::new();
    for packet in &recording.packets {
        if let Some(segment) = &packet.segment
            && segment.flags.has(Flags::SYN)
            && !segment.flags.has(Flags::ACK)
            && packet.interface == packet.from
        {
            syns.entry((packet.at, packet.from)).or_default().push_back(packet);
        }
    }
    let mut found: BTreeMap<u32, ([u32; 2], Ports)> = BTreeMap::new();
    recording.events.each(|event| {
        let Some(flow) = event.flow.filter(|_| is_syn(event)) else { return };
        let Some(packet) = syns.get_mut(&(event.at, event.host)).and_then(VecDeque::pop_front) else {
            return;
        };
        let back = |other: &tcpassay_measure::Flow| {
            other.connection == recording.flows[flow as usize].connection && other.from == packet.to
        };
        let back =
            recording.flows.iter().enumerate().position(|(n, other)| n != flow as usize && back(other));
        if let Some(back) = back.and_then(|back| u32::try_from(back).ok()) {
            let ports = [(packet.from, packet.from_port), (packet.to, packet.to_port)];
            found.entry(flow).or_insert(([flow, back], ports));
        }
    });
    found.into_values().collect()
}

/// Whether a SYN leaves its client.
fn is_syn(event: &EventRow) -> bool {
    matches!(event.kind, EventKind::Out | EventKind::Retransmit)
        && event.flags.is_some_and(|flags| flags.has(Flags::SYN) && !flags.has(Flags::ACK))
}

/// The calls and merged segments of each end, by the flow that it sends.
fn events(recording: &Recording) -> BTreeMap<u32, Said> {
    let mut told: BTreeMap<u32, Said> = BTreeMap::new();
    recording.events.each(|event| {
        let Some(flow) = event.flow else { return };
        let told = told.entry(flow).or_default();
        if told.instant.0 != event.at {
            told.instant = (event.at, 0, 0);
        }
        match event.kind {
            EventKind::In => told.instant.1 += 1,
            EventKind::Out | EventKind::Retransmit => told.instant.2 += 1,
            EventKind::Merged => told.merged.extend(event.len.map(|len| (event.at, len))),
            EventKind::Window | EventKind::Congestion => told.inside.extend(inside(event).map(|row| (event.at, row))),
            EventKind::State => {
                let from = TcpState::SynReceived;
                let leaves = matches!(event.state_change(), Some(StateChange::Moved { from: Some(one), .. }) if one == from);
                told.opened = told.opened.or(leaves.then_some(event.at));
            }
            EventKind::App => {
                if let Some(row) = call(event) {
                    let (at, arrived, left) = told.instant;
                    told.calls.push(Call { at, row, arrived, left, before: event.seq });
                }
            }
            _ => {}
        }
    });
    told
}

/// What a kernel tells of its congestion control.
fn inside(event: &EventRow) -> Option<Told> {
    if let Some(change) = event.congestion_change().filter(|_| event.kind == EventKind::Congestion) {
        return change.to.map(Told::State);
    }
    let (cwnd, ssthresh) = (event.cwnd?, event.ssthresh.unwrap_or(Bytes::MAX));
    // Of its arrivals a kernel tells the number of segments that are outstanding.
    Some(if event.flight.is_some() { Told::Before(cwnd, ssthresh) } else { Told::After(cwnd, ssthresh) })
}

fn call(event: &EventRow) -> Option<Row> {
    let bytes = Bytes::new(event.value.unwrap_or(0));
    Some(match event.app_call()? {
        AppCall::Write => Row::Write { taken: bytes, asked: event.asked },
        AppCall::Read => Row::Read(bytes),
        AppCall::Shutdown => Row::Shutdown,
        AppCall::Close => Row::Close,
        // The log ends here.
        AppCall::Reboot => return None,
    })
}

/// The settings of the end that sends `flow`, or why the model cannot follow it.
fn setup(
    recording: &Recording,
    case: &Case,
    substrate: Substrate,
    (flow, active): (u32, bool),
) -> Result<Setup, String> {
    let record = &recording.flows[flow as usize];
    let host = &case.hosts[record.from as usize];
    if let Some(why) = unfollowable(host) {
        return Err(why.to_owned());
    }
    let mut config = host.stack.clone();
    if substrate == Substrate::Kernel {
        match profile_of(&recording.header) {
            Some(Profile::Linux61) => config.as_linux_6_1(),
            Some(Profile::Linux73) => config.as_linux_7_3(),
            _ => {}
        }
    }
    let cc = record.cc.clone();
    if cc != host.cc.name() && cc != "dctcp" && config.ecn == EcnMode::Dctcp {
        config.ecn = EcnMode::Off;
    }
    let relayed = (0..case.links.len()).any(|link| case.has_relay(link, false));
    if let Some(memory) = config.recv_memory.as_mut().filter(|_| relayed && substrate == Substrate::Kernel) {
        memory.pages = PacketPages::Ring;
    }
    let params = host.cc_params(&cc, Seed(recording.header.seed).stream("cc"));
    if tcpassay_cc::build(&cc, &params).is_err() {
        return Err(format!("the model has no controller `{cc}`"));
    }
    let schedule = case.plan(Seed(recording.header.seed));
    let paces =
        schedule.parts().iter().any(|part| part.spec.read_rate.is_some() || part.spec.read_size.is_some());
    Ok(Setup {
        substrate,
        config: Arc::new(config),
        cc,
        params,
        active,
        linger: host.linger,
        reads_are_logged: false,
        reads_everything: !paces,
        merges: host.nic.gro,
        in_packets: substrate == Substrate::Kernel,
        in_order: substrate == Substrate::Model,
    })
}

/// The end of `flow`: the packets of its connection at its host, and what the event log tells.
fn end(
    recording: &Recording,
    mut setup: Setup,
    (flow, host): (u32, u32),
    (ports, side): (&Ports, usize),
    told: &Said,
) -> End {
    let (own, peer) = (ports[side], ports[1 - side]);
    let (mut rows, mut seen) = (Vec::new(), Vec::new());
    for (number, packet) in (0..).zip(recording.packets.iter().filter(|packet| packet.interface == host)) {
        let Some(segment) = packet.segment else { continue };
        let ends = ((packet.from, packet.from_port), (packet.to, packet.to_port));
        if ends == (own, peer) {
            rows.push((packet.at, Row::Out { segment, ecn: packet.ecn }));
        } else if ends == (peer, own) {
            rows.push((packet.at, Row::In { segment, ecn: packet.ecn, packets: 1, size: 0 }));
        } else {
            continue;
        }
        seen.push(number);
    }
    let exact = setup.substrate == Substrate::Model;
    setup.reads_are_logged = exact || told.calls.iter().any(|call| matches!(call.row, Row::Read(_)));
    setup.in_packets &= !has_super_segments(&rows);
    let mut inside = if exact { Vec::new() } else { told.inside.clone() };
    inside.sort_by_key(|(at, _)| *at);
    // What a NIC merges is logged at its neighbour, before it is merged.
    let happened = if exact || setup.merges { None } else { placed(&rows, &seen, &told.calls) };
    setup.in_order |= happened.is_some();
    let mut rows = happened.unwrap_or_else(|| {
        ordered(setup.substrate, gro::merge(rows, &told.merged, told.opened), &told.calls)
    });
    if !exact {
        let times = rows.iter_mut().map(|(at, _)| at).chain(inside.iter_mut().map(|(at, _)| at));
        times.for_each(|at| *at = at.saturating_sub(BEFORE_TICK));
    }
    End { flow, host, setup, rows, inside, until: Time::ZERO + recording.header.duration }
}

/// Whether a segment left that is longer than the peer accepts in one packet: the log has super-segments.
fn has_super_segments(rows: &[(Time, Row)]) -> bool {
    let announced = rows.iter().find_map(|(_, row)| match row {
        Row::In { segment, .. } if segment.flags.has(Flags::SYN) => segment.options.mss,
        _ => None,
    });
    let most = u32::from(announced.unwrap_or(536));
    rows.iter().any(|(_, row)| matches!(row, Row::Out { segment, .. } if segment.len > most))
}
