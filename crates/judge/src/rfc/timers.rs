//! Back-off of timers, as segments show it: RFC 6298 section 5.5, RFC 9293 section 3.8.6.1.

use super::bound::{Bound, PerEnd, Strength, of_another_tcp, time, took};
use crate::finding::{Findings, Occurrence};
use crate::kinds::Sorts;
use crate::needs::Need;
use crate::step::{Context, Step};
use tcpassay_measure::EventKind;
use tcpassay_units::{Bytes, Dur, Time};
use tcpassay_wire::Flags;

pub(super) const SYN: Bound = Bound {
    name: "syn-back-off",
    title: "a SYN is sent again without back-off",
    section: "RFC 6298 section 5.5, MUST",
    strength: Strength::Must,
    statement: "the intervals between the transmissions of a SYN that nothing answers grow.",
    exceptions: "Linux 6.5 and later (`tcp_syn_linear_timeouts`) and BSD begin with four or five equal intervals: eight in succession are \
                 reported, if the shortest is at least 100 ms and none is longer than 50 s. Three are reported of another TCP in a run.",
    needs: &[Need::NoCopies],
    looks: Sorts::SYN,
    new: |flows| PerEnd::<Repeats>::rule(flows, syn),
};

pub(super) const DATA: Bound = Bound {
    name: "timeout-back-off",
    title: "data are sent again without back-off",
    section: "RFC 6298 section 5.5, MUST",
    strength: Strength::Must,
    statement: "while nothing arrives from the peer, the intervals between retransmissions of the same data grow.",
    exceptions: "Linux can be told not to back off for the first six timeouts of a thin stream (`tcp_thin_linear_timeouts`), and a maximum \
                 of the timeout below the 60 s of RFC 6298 makes intervals equal: eight equal ones in succession are reported, if the \
                 shortest is at least 100 ms and none is longer than 50 s.",
    needs: &[Need::BothDirections, Need::NoCopies],
    looks: Sorts::DATA_OUT.or(Sorts::DATA_IN).or(Sorts::EMPTY_IN),
    new: |flows| PerEnd::<Repeats>::rule(flows, data),
};

pub(super) const PROBES: Bound = Bound {
    name: "probe-back-off",
    title: "probes of a closed window without back-off",
    section: "RFC 9293 section 3.8.6.1, SHLD-30 (SHOULD)",
    strength: Strength::Should,
    statement: "the intervals between the probes of a window that stays closed grow.",
    exceptions: "a maximum of the persist timer: eight equal intervals in succession are reported, if the shortest is at least 100 ms and \
                 none is longer than 50 s.",
    needs: &[Need::BothDirections, Need::NoCopies],
    looks: Sorts::DATA_OUT.or(Sorts::EMPTY_OUT).or(Sorts::DATA_IN).or(Sorts::EMPTY_IN),
    new: |flows| PerEnd::<Probes>::rule(flows, probes),
};

/// Number of equal intervals that are reported.
const EQUAL: u32 = 8;
/// Of SYNs where the stack is neither Linux nor BSD.
const EQUAL_OF_OTHERS: u32 = 3;
/// Periods of a capture's batches in an interval that can be compared with others.
const PERIODS: u64 = 4;

/// Shorter intervals are not those of a timer.
const SHORTEST: Dur = Dur::from_millis(100);
/// RFC 6298 section 2.5 permits a maximum of 60 s.
const LONGEST: Dur = Dur::from_secs(50);

/// Transmissions of the same positions.
#[derive(Clone, Debug, Default)]
struct Repeats {
    /// The position, the row and the time of the first transmission of the series.
    first: Option<(u64, usize, Time)>,
    last: Time,
    /// The shortest and the longest interval, and their number.
    intervals: Option<(Dur, Dur, u32)>,
}

impl Repeats {
    fn end(&mut self) {
        *self = Repeats::default();
    }

    /// A transmission of `position`. Returns the row and the time of the first one, when `enough` intervals were equal.
    fn sent(&mut self, position: u64, step: &Step<'_>, enough: u32) -> Option<(usize, Time)> {
        let at = step.at();
        let Some((known, row, since)) = self.first.filter(|(known, ..)| *known == position) else {
            *self = Repeats { first: Some((position, step.row, at)), last: at, intervals: None };
            return None;
        };
        let interval = at.since(std::mem::replace(&mut self.last, at));
        let (shortest, longest, count) = self.intervals.unwrap_or((interval, interval, 0));
        let (shortest, longest) = (shortest.min(interval), longest.max(interval));
        self.intervals = Some((shortest, longest, count + 1));
        let equal = shortest >= SHORTEST && longest <= LONGEST && longest <= shortest + shortest / 5;
        if !equal {
            // The series begins anew with this transmission.
            *self = Repeats { first: Some((known, step.row, at)), last: at, intervals: None };
            return None;
        }
        (count + 1 == enough).then_some((row, since))
    }

    fn found(
        &self,
        bound: &Bound,
        context: &Context<'_>,
        step: &Step<'_>,
        first: Option<(usize, Time)>,
    ) -> Option<(Occurrence, String)> {
        let (row, since) = first?;
        let (shortest, longest, count) = self.intervals?;
        // A capture whose times are known to a period only makes intervals of a few periods equal.
        let resolution = context.captured.map_or(Dur::ZERO, |captured| captured.resolution);
        if shortest < resolution.saturating_mul(PERIODS) {
            return None;
        }
        let (begin, shortest, longest) = (time(since), took(shortest), took(longest));
        let said = format!(
            "{} times from {begin} to {}, and the {count} intervals are {shortest} to {longest}",
            count + 1,
            time(step.at())
        );
        Some((bound.of_sender(context, step).since(row, since), said))
    }
}

fn syn(state: &mut Repeats, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    if !step.is_sent() || step.flags().has(Flags::RST) {
        return state.end();
    }
    let enough = if of_another_tcp(context, step.flow) { EQUAL_OF_OTHERS } else { EQUAL };
    let first = state.sent(0, step, enough);
    if let Some((one, said)) = state.found(&SYN, context, step, first) {
        found.add(one, || format!("{} sent its SYN {said}.", context.who(step.flow)));
    }
}

fn data(state: &mut Repeats, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    if step.event.kind == EventKind::In || step.flags().has(Flags::SYN) {
        return state.end();
    }
    if step.event.kind != EventKind::Retransmit || step.seq() != step.before.una || step.len() <= 1 {
        return;
    }
    let first = state.sent(step.seq(), step, EQUAL);
    if let Some((one, said)) = state.found(&DATA, context, step, first) {
        found.add(one, || {
            format!("{} sent the data at position {} again {said}.", context.who(step.flow), step.seq())
        });
    }
}

/// Probes of a closed window.
#[derive(Clone, Debug, Default)]
struct Probes {
    /// The peer has announced a closed window.
    closed: bool,
    repeats: Repeats,
}

fn probes(state: &mut Probes, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    if step.event.kind == EventKind::In {
        state.closed = step.event.window.is_some_and(Bytes::is_zero) && step.is_stream();
        if !state.closed {
            state.repeats.end();
        }
        return;
    }
    let before = &step.before;
    let below = step.len() == 0 && step.seq() + 1 == before.nxt;
    let next = step.len() > 0 && step.seq() + 1 >= before.una && step.seq() <= before.nxt;
    if !state.closed || !step.is_stream() || !(below || next) {
        return;
    }
    let first = state.repeats.sent(step.seq(), step, EQUAL);
    if let Some((one, said)) = state.repeats.found(&PROBES, context, step, first) {
        found.add(one, || format!("{} probed a closed window {said}.", context.who(step.flow)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Line, ack, data, found, judged, opened, syn, window};
    use crate::needs::Need;
    use tcpassay_wire::{Ecn, Flags};

    const NOTHING: [Vec<u64>; 0] = [];

    /// Times in milliseconds of a series with these intervals.
    fn series(intervals: &[u64]) -> Vec<u64> {
        let mut at = 0;
        std::iter::once(0)
            .chain(intervals.iter().map(|interval| {
                at += interval;
                at
            }))
            .collect()
    }

    fn syns(intervals: &[u64]) -> Vec<Line> {
        series(intervals).into_iter().map(|ms| (ms * 1000, 0, syn(Flags::SYN, 0))).collect()
    }

    #[test]
    fn the_intervals_between_syns_grow() {
        assert_eq!(found("syn-back-off", &syns(&[1000; 8])), [vec![1, 9]]);
        assert_eq!(found("syn-back-off", &syns(&[1000, 1000, 1000, 1000, 1000, 2000, 4000, 8000])), NOTHING);
        assert_eq!(found("syn-back-off", &syns(&[1000, 2000, 4000, 8000, 16_000, 32_000, 64_000])), NOTHING);
        assert_eq!(judged("syn-back-off", &syns(&[1000; 8]), &[Need::NoCopies], Ecn::NotEct), NOTHING);
    }

    fn retransmissions(intervals: &[u64]) -> Vec<Line> {
        let mut log = opened();
        log.push((10_000, 0, data(1, 1000)));
        log.extend(series(intervals).into_iter().map(|ms| (300_000 + ms * 1000, 0, data(1, 1000))));
        log
    }

    #[test]
    fn the_intervals_between_retransmissions_grow() {
        assert_eq!(found("timeout-back-off", &retransmissions(&[400; 8])), [vec![5, 13]]);
        assert_eq!(found("timeout-back-off", &retransmissions(&[400; 7])), NOTHING);
        assert_eq!(
            found("timeout-back-off", &retransmissions(&[400, 800, 1600, 3200, 6400, 12_800])),
            NOTHING
        );
        // An ACK in between: the path works.
        let mut log = retransmissions(&[400; 8]);
        log.insert(9, (1_950_000, 1, ack(1)));
        assert_eq!(found("timeout-back-off", &log), NOTHING);
    }

    fn probed(intervals: &[u64]) -> Vec<Line> {
        let mut log = opened();
        log.extend([(10_000, 0, data(1, 1000)), (11_000, 1, window(0, ack(1001)))]);
        for ms in series(intervals) {
            log.push((300_000 + ms * 1000, 0, data(1001, 1)));
            log.push((300_100 + ms * 1000, 1, window(0, ack(1001))));
        }
        log
    }

    #[test]
    fn the_intervals_between_probes_grow() {
        assert_eq!(found("probe-back-off", &probed(&[1000; 8])), [vec![6, 22]]);
        assert_eq!(
            found("probe-back-off", &probed(&[1000, 2000, 4000, 8000, 16_000, 32_000, 60_000])),
            NOTHING
        );
        let mut log = probed(&[1000; 8]);
        log[10].2.window = 2000;
        assert_eq!(found("probe-back-off", &log), NOTHING);
    }
}
