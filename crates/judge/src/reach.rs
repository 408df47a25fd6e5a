//! Counts of the behaviours that a run reached.

use std::collections::BTreeMap;
use tcpassay_measure::reason::{Timer, WindowCause};
use tcpassay_measure::{ECT, EventKind, Recording};
use tcpassay_units::Bytes;
use tcpassay_wire::Flags;

/// Counts the behaviours that a recording shows, by name. For each kind of event these are its reasons
/// (`timer_fire Rto`, `congestion Open->Recovery: rack`), and in addition regimes that follow from segments
/// and windows (`closed window`, `CE on a merged segment`). The map contains no zeros.
pub fn reached(recording: &Recording) -> BTreeMap<String, u64> {
    let mut reached: BTreeMap<String, u64> = BTreeMap::new();
    let mut words: Vec<BTreeMap<String, u64>> = vec![BTreeMap::new(); EventKind::ALL.len()];
    let mut regimes: BTreeMap<&'static str, u64> = BTreeMap::new();
    recording.events.each(|event| {
        let segment = matches!(event.kind, EventKind::In | EventKind::Out | EventKind::Retransmit);
        let word = if segment { "" } else { event.why.as_ref() };
        let counts = &mut words[event.kind as usize];
        match counts.get_mut(word) {
            Some(count) => *count += 1,
            None => drop(counts.insert(word.to_owned(), 1)),
        }
        let mut saw = |what: &'static str| *regimes.entry(what).or_default() += 1;
        let (flags, len) = (event.flags.unwrap_or(Flags::NONE), u64::from(event.len.unwrap_or(0)));
        let flow = event.flow.and_then(|flow| recording.flows.get(flow as usize));
        let merged = flow.is_some_and(|flow| len > flow.mss.get());
        match event.kind {
            EventKind::In => {
                if event.ce {
                    saw(if merged { "CE on a merged segment" } else { "CE on a segment" });
                }
                if merged {
                    saw("merged segment");
                }
                if event.window.is_some_and(Bytes::is_zero) && !flags.any(Flags::SYN | Flags::RST) {
                    saw("closed window");
                }
                if flags.has(Flags::RST) {
                    saw("reset");
                }
                if flags.has(Flags::ECE) && !flags.has(Flags::SYN) {
                    saw("ECE");
                }
                if flags.has(Flags::CWR) && !flags.has(Flags::SYN) {
                    saw("CWR");
                }
            }
            EventKind::Out | EventKind::Retransmit => {
                if flags.has(Flags::FIN) {
                    saw("FIN");
                }
                if merged {
                    saw("super-segment");
                }
                if event.why == ECT {
                    saw("ECN-capable segment");
                }
                if flags.has(Flags::SYN) && event.kind == EventKind::Retransmit {
                    saw("SYN sent again");
                }
            }
            EventKind::TimerFire if event.timer() == Some(Timer::Persist) => saw("persist"),
            EventKind::Window if event.window_cause() == Some(WindowCause::Resume) => saw("idle restart"),
            EventKind::Congestion if event.congestion_change().is_some_and(|change| change.is_undo()) => {
                saw("undo");
            }
            _ => {}
        }
    });
    for flow in &recording.flows {
        let limited = |time: Option<u64>| time.unwrap_or(0) > 0;
        let mut saw = |what: &'static str| *regimes.entry(what).or_default() += 1;
        if limited(flow.tcp.app_limited_ns) {
            saw("application-limited");
        }
        if limited(flow.tcp.rwnd_limited_ns) {
            saw("limited by the receive window");
        }
        if limited(flow.tcp.cwnd_limited_ns) {
            saw("limited by the congestion window");
        }
    }
    for (kind, counts) in EventKind::ALL.iter().zip(words) {
        for (word, count) in counts {
            let name =
                if word.is_empty() { kind.name().to_owned() } else { format!("{} {word}", kind.name()) };
            reached.insert(name, count);
        }
    }
    reached.extend(regimes.into_iter().map(|(what, count)| (what.to_owned(), count)));
    reached
}
