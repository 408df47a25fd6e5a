//! One module for each oracle or group of rules, the list of oracles, and the pass over the log that applies
//! them.

mod acknowledgment;
mod additive_increase;
mod alpha;
mod bounds;
mod ce_change;
mod codel;
mod cork;
mod cubic_curve;
mod delivery;
mod ecn;
mod fairness;
mod flow_control;
mod give_up;
mod growth;
mod hystart;
mod late_ack;
mod latency;
mod loss;
mod loss_response;
mod mutual_silence;
mod names;
mod needless_fast_retransmit;
mod nic;
mod probe;
mod quick_ack;
mod quickack_mode;
mod receiver;
mod recovery_window;
mod reduction;
mod retransmission_timer;
mod small_window_after_recovery;
mod timeout_without_loss;
mod timestamp_clock;
mod traced_probe;
mod traced_window;
mod utilisation;

use crate::end::End;
use crate::facts::Facts;
use crate::finding::{Findings, Found, Oracle};
use crate::history::History;
use crate::step::{Context, Rule, Step};
use tcpassay_measure::{EventKind, EventRow, Recording};
use tcpassay_units::Time;

/// All oracles of this crate, in the order of the documentation.
pub const ORACLES: &[Oracle] = &[
    timeout_without_loss::ORACLE,
    mutual_silence::ORACLE,
    late_ack::ORACLE,
    small_window_after_recovery::ORACLE,
    needless_fast_retransmit::ORACLE,
    loss_response::ORACLE,
    delivery::ORACLE,
    retransmission_timer::ORACLE,
    flow_control::ORACLE,
    ecn::ORACLE,
    growth::ORACLE,
    reduction::ORACLE,
    loss::ORACLE,
    probe::ORACLE,
    receiver::ORACLE,
    acknowledgment::ORACLE,
    utilisation::ORACLE,
    nic::ORACLE,
    codel::ORACLE,
    bounds::ORACLE,
    fairness::ORACLE,
    latency::ORACLE,
];

/// The oracle `name`, if it judges row by row.
fn rule(name: &str, flows: usize) -> Option<Box<dyn Rule>> {
    Some(match name {
        names::RETRANSMISSION_TIMER => Box::new(retransmission_timer::RetransmissionTimer::new(flows)),
        names::FLOW_CONTROL => Box::new(flow_control::FlowControl::new(flows)),
        names::ECN => Box::new(ecn::Ecn::new(flows)),
        names::WINDOW_GROWTH => Box::new(growth::Growth::new(flows)),
        names::WINDOW_REDUCTION => Box::new(reduction::Reduction::new(flows)),
        loss::NAME => Box::new(loss::Loss::new(flows)),
        names::ACK_TIMING => Box::new(receiver::Receiver::new(flows)),
        names::SEGMENT_CONTENTS => Box::new(acknowledgment::Acknowledgment::new(flows)),
        names::TAIL_LOSS_PROBE => Box::new(probe::Probe::new(flows)),
        bounds::NAME => Box::new(bounds::Bounds::new(flows)),
        fairness::NAME => Box::new(fairness::Fairness::new(flows)),
        latency::NAME => Box::new(latency::Latency::new(flows)),
        codel::NAME => Box::new(codel::CoDel::new()),
        nic::NAME => Box::new(nic::Nic::new(flows)),
        utilisation::NAME => Box::new(utilisation::Utilisation::new(flows)),
        _ => return None,
    })
}

/// Judges a run after its last row.
type Look = fn(&History<'_>, &mut Findings);

/// The oracle `name`, if it judges after the last row.
fn look(name: &str) -> Option<Look> {
    Some(match name {
        timeout_without_loss::NAME => timeout_without_loss::look,
        mutual_silence::NAME => mutual_silence::look,
        late_ack::NAME => late_ack::look,
        small_window_after_recovery::NAME => small_window_after_recovery::look,
        needless_fast_retransmit::NAME => needless_fast_retransmit::look,
        loss_response::NAME => loss_response::look,
        delivery::NAME => delivery::look,
        _ => return None,
    })
}

/// Applies the oracles named in `wanted` to a recording and returns their findings. Names that are not in
/// [`ORACLES`] are ignored.
pub fn judge(recording: &Recording, wanted: &[&str]) -> Vec<Found> {
    let flows = recording.flows.len();
    let names = || ORACLES.iter().map(|oracle| oracle.name).filter(|name| wanted.contains(name));
    let mut rules: Vec<Box<dyn Rule>> = names().filter_map(|name| rule(name, flows)).collect();
    let looks: Vec<Look> = names().filter_map(look).collect();
    if recording.events.is_empty() {
        return Vec::new();
    }
    let facts = Facts::of(recording);
    let context = Context::new(recording, facts.as_ref());
    let mut found = Findings::default();
    let mut history = (!looks.is_empty()).then(|| History::new(recording, peers(recording)));
    walk(recording, |step| {
        for rule in &mut rules {
            rule.on(&context, step, &mut found);
        }
        if let Some(history) = &mut history {
            history.add(step);
        }
    });
    for rule in &mut rules {
        rule.end(&context, &mut found);
    }
    let mut all = Vec::new();
    for look in looks {
        let mut found = Findings::default();
        look(history.as_ref().expect("it was collected for them"), &mut found);
        all.extend(found.take());
    }
    all.extend(found.take());
    all
}

/// Calls `look` for every row of a connection, with the state of the end that logged it.
fn walk(recording: &Recording, mut look: impl FnMut(&Step<'_>)) {
    let peers = peers(recording);
    let mut ends: Vec<End> = recording.flows.iter().map(|flow| End::new(flow.mss.get())).collect();
    let order = order(recording);
    let row_at = |place: usize| order.as_ref().map_or(place, |rows| rows[place]);
    let rows = recording.events.len();
    // The log of a kernel does not contain which arrivals it refused.
    let kernel = recording.header.substrate != "model";
    let mut sacks = Vec::new();
    let mut event = EventRow::new(Time::ZERO, 0, None, EventKind::App);
    let mut place = 0;
    while place < rows {
        let row = row_at(place);
        recording.events.read(row, &mut event);
        place += 1;
        let Some(flow) = event.flow.map(|flow| flow as usize).filter(|f| *f < ends.len()) else { continue };
        sacks.clear();
        let mut refused = false;
        if matches!(event.kind, EventKind::In | EventKind::Out | EventKind::Retransmit) {
            let follows = |place, kind| {
                place < rows && recording.events.kind_of(row_at(place)) == Some((kind, event.flow))
            };
            while follows(place, EventKind::Sack) {
                let (start, len) = recording.events.range(row_at(place));
                sacks.push((start, start + len));
                place += 1;
            }
            refused = follows(place, EventKind::Refused) || kernel && ends[flow].is_old(&event);
        }
        let before = ends[flow].now;
        ends[flow].update(&event, &sacks, refused);
        look(&Step {
            row,
            event: &event,
            flow,
            peer: peers[flow],
            before,
            end: &ends[flow],
            sacks: &sacks,
            refused,
        });
    }
}

/// For each flow: the index of the other direction of its connection, or its own index if there is none.
fn peers(recording: &Recording) -> Vec<usize> {
    let mut of_connection = std::collections::BTreeMap::new();
    let mut peers: Vec<usize> = (0..recording.flows.len()).collect();
    for (place, flow) in recording.flows.iter().enumerate() {
        if let Some(other) = of_connection.insert(flow.connection, place) {
            peers[place] = other;
            peers[other] = place;
        }
    }
    peers
}

/// Indices of the rows in the order of time; `None` if the log has this order already.
fn order(recording: &Recording) -> Option<Vec<usize>> {
    let times: Vec<_> = recording.events.times().collect();
    if times.is_sorted() {
        return None;
    }
    let mut rows: Vec<usize> = (0..times.len()).collect();
    rows.sort_by_key(|row| times[*row]);
    Some(rows)
}
