//! Counts of the behaviours that a run reached.

use crate::kinds::Kinds;
use std::collections::BTreeMap;
use tcpassay_measure::reason::{CongestionChange, Timer, WindowCause};
use tcpassay_measure::{ECT, EventKind, EventRow, Recording};
use tcpassay_units::{Bytes, Time};
use tcpassay_wire::Flags;

/// A behaviour that follows from more than the kind and the reason of an event.
#[derive(Clone, Copy)]
enum Regime {
    CeOnMerged,
    CeOnSegment,
    Merged,
    ClosedWindow,
    Reset,
    Ece,
    Cwr,
    Fin,
    SuperSegment,
    Ect,
    SynAgain,
    Persist,
    IdleRestart,
    Undo,
    ApplicationLimited,
    ReceiveWindowLimited,
    CongestionWindowLimited,
}

/// The names of the regimes, in their order.
const NAMES: [&str; 17] = [
    "CE on a merged segment",
    "CE on a segment",
    "merged segment",
    "closed window",
    "reset",
    "ECE",
    "CWR",
    "FIN",
    "super-segment",
    "ECN-capable segment",
    "SYN sent again",
    "persist",
    "idle restart",
    "undo",
    "application-limited",
    "limited by the receive window",
    "limited by the congestion window",
];

/// Number of events in each regime.
#[derive(Default)]
struct Regimes([u64; NAMES.len()]);

impl Regimes {
    fn add(&mut self, regime: Regime, events: u64) {
        self.0[regime as usize] += events;
    }

    fn add_if(&mut self, is: bool, regime: Regime) {
        self.add(regime, is.into());
    }

    /// `mss`: payload bytes of the largest segment of the flow, if it is known.
    fn segment(&mut self, event: &EventRow, mss: Option<u64>) {
        let flags = event.flags.unwrap_or(Flags::NONE);
        let (syn, fin) = (flags.has(Flags::SYN), flags.has(Flags::FIN));
        let merged = mss.is_some_and(|mss| u64::from(event.len.unwrap_or(0)) > mss);
        if event.kind == EventKind::In {
            self.add_if(event.ce, if merged { Regime::CeOnMerged } else { Regime::CeOnSegment });
            self.add_if(merged, Regime::Merged);
            let closed = event.window.is_some_and(Bytes::is_zero) && !flags.any(Flags::SYN | Flags::RST);
            self.add_if(closed, Regime::ClosedWindow);
            self.add_if(flags.has(Flags::RST), Regime::Reset);
            self.add_if(flags.has(Flags::ECE) && !syn, Regime::Ece);
            self.add_if(flags.has(Flags::CWR) && !syn, Regime::Cwr);
        } else {
            self.add_if(fin, Regime::Fin);
            self.add_if(merged, Regime::SuperSegment);
            self.add_if(event.why == ECT, Regime::Ect);
            self.add_if(syn && event.kind == EventKind::Retransmit, Regime::SynAgain);
        }
    }

    /// Adds `events` events of a kind with the same reason.
    fn reason(&mut self, kind: EventKind, why: &str, events: u64) {
        let regime = match kind {
            EventKind::TimerFire => (why.parse() == Ok(Timer::Persist)).then_some(Regime::Persist),
            EventKind::Window => (why.parse() == Ok(WindowCause::Resume)).then_some(Regime::IdleRestart),
            EventKind::Congestion => {
                CongestionChange::read(why).is_some_and(|change| change.is_undo()).then_some(Regime::Undo)
            }
            _ => None,
        };
        if let Some(regime) = regime {
            self.add(regime, events);
        }
    }
}

/// Counts the behaviours that a recording shows, by name. For each kind of event these are its reasons
/// (`timer_fire Rto`, `congestion Open->Recovery: rack`), and in addition regimes that follow from segments
/// and windows (`closed window`, `CE on a merged segment`). The map contains no zeros.
pub fn reached(recording: &Recording) -> BTreeMap<String, u64> {
    let log = &recording.events;
    let mut regimes = Regimes::default();
    let flow = |flow: Option<u32>| flow.and_then(|flow| recording.flows.get(flow as usize));
    // For each reason the number of events of each kind: comparing the text of each event would take most of the time.
    let mut counts = vec![[0; EventKind::ALL.len()]; log.words().len()];
    let mut event = EventRow::new(Time::ZERO, 0, None, EventKind::App);
    for (row, ((kind, of), why)) in log.kinds().zip(log.whys()).enumerate() {
        let segment = Kinds::SEGMENTS.has(kind);
        // What a segment has as its reason is a property of it.
        counts[if segment { 0 } else { why }][kind as usize] += 1;
        if segment {
            log.read(row, &mut event);
            regimes.segment(&event, flow(of).map(|flow| flow.mss.get()));
        }
    }
    for flow in &recording.flows {
        let limited = |time: Option<u64>| time.unwrap_or(0) > 0;
        regimes.add_if(limited(flow.tcp.app_limited_ns), Regime::ApplicationLimited);
        regimes.add_if(limited(flow.tcp.rwnd_limited_ns), Regime::ReceiveWindowLimited);
        regimes.add_if(limited(flow.tcp.cwnd_limited_ns), Regime::CongestionWindowLimited);
    }
    let mut reached = BTreeMap::new();
    for (word, counts) in log.words().iter().zip(&counts) {
        for (kind, count) in EventKind::ALL.iter().zip(counts).filter(|(_, count)| **count > 0) {
            regimes.reason(*kind, word, *count);
            let name =
                if word.is_empty() { kind.name().to_owned() } else { format!("{} {word}", kind.name()) };
            reached.insert(name, *count);
        }
    }
    reached.extend(path(recording));
    let regimes = NAMES.iter().zip(regimes.0).filter(|(_, count)| *count > 0);
    reached.extend(regimes.map(|(name, count)| ((*name).to_owned(), count)));
    reached
}

/// What the path did to packets, by the counters of its elements.
fn path(recording: &Recording) -> impl Iterator<Item = (String, u64)> {
    let mut all = Vec::new();
    for (element, counters) in &recording.counters {
        let counter = |name: &str| counters.get(name).copied().unwrap_or(0);
        let long = counter("drops.too-long");
        all.push(("too long for a link".to_owned(), long));
        all.push((
            "too long for a link, not reported by ICMP".to_owned(),
            long.saturating_sub(counter("icmp")),
        ));
        all.push(("forgotten by a middlebox".to_owned(), counter("drops.forgotten")));
        if element.starts_with("middlebox.") {
            let rules = recording.header.case.iter().find(|triple| triple.parameter == "link.rewrite");
            let rules = rules.map_or("", |triple| triple.value.as_str());
            all.push((format!("changed by a middlebox: {rules}"), counter("changed")));
        }
    }
    for device in recording.devices.iter().filter(|device| device.name.strip_suffix(".back").is_some()) {
        let could = device.rate.map(|rate| rate.bytes_in(recording.header.duration).get());
        let full = could.is_some_and(|could| device.counters.bytes * 10 >= could * FULL);
        all.push(("return path full".to_owned(), u64::from(full)));
    }
    all.into_iter().filter(|(_, count)| *count > 0)
}

/// Tenths of what a link could carry, from which it is full.
const FULL: u64 = 9;
