//! The window after an undo: RFC 4015 section 3.

use super::bound::{Bound, PerEnd, Strength, time};
use crate::finding::Findings;
use crate::kinds::Sorts;
use crate::needs::Need;
use crate::step::{Context, Step};
use tcpassay_measure::EventKind;
use tcpassay_tcp::CongestionState;
use tcpassay_units::{Bytes, Dur, Time};

pub(super) const HALF: Bound = Bound {
    name: "undo-leaves-window",
    title: "an undo restores the threshold and not the window",
    section: "RFC 4015 section 3, SHOULD (the response is optional; Linux `tcp_undo_cwnd_reduction`)",
    strength: Strength::Should,
    statement: "a sender that raises its slow-start threshold again because a loss was none may have as much in flight as before it: its window is at least what was in \
                flight when it was reduced, or the window of then if that was smaller, less two segments.",
    exceptions: "a sender that restores the threshold alone and returns by slow start (RFC 3708 section 3). Controllers that restore their window by rules \
                 of their own (BBR) are not judged, nor is what a row shows after a silence of 150 ms, in which a restart after idle may have changed the window.",
    needs: &[Need::Event(EventKind::Window), Need::Event(EventKind::Congestion)],
    looks: Sorts::EMPTY_IN.or(Sorts::DATA_IN),
    new: |flows| PerEnd::<Reduced>::rule(flows, on),
};

const SILENCE: Dur = Dur::from_millis(150);

/// A reduction for a loss, and the undo of it.
#[derive(Clone, Debug, Default)]
struct Reduced {
    /// The last window with its time, and the one of an earlier instant; each as what it permits in flight.
    known: Option<(Time, u64)>,
    earlier: Option<u64>,
    /// What the window of before the present reduction permitted; the row and the time at which that began.
    before: Option<(u64, usize, Time)>,
    /// The smallest threshold since then.
    low: Option<u64>,
    /// The state was left: the next window is the last one that may show an undo.
    left: bool,
    /// The undo: time, the window that it left, row.
    undone: Option<(Time, u64, usize)>,
}

fn is_lost(state: CongestionState) -> bool {
    matches!(state, CongestionState::Recovery | CongestionState::Loss)
}

fn on(state: &mut Reduced, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    if !context.window_based(step.flow) {
        return;
    }
    tell(state, context, step, found);
    match step.event.kind {
        EventKind::Congestion => changed(state, step),
        EventKind::Window => window(state, step),
        _ => {}
    }
}

/// An undo whose instant is over.
fn tell(state: &mut Reduced, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let Some((at, cwnd, row)) = state.undone.filter(|(at, ..)| step.at() > *at) else { return };
    state.undone = None;
    let Some((had, begun, since)) = state.before.take() else { return };
    // A segment may be counted as delivered between two rows, and a window in segments is rounded.
    if cwnd < had.saturating_sub(2 * context.mss(step.flow)) {
        let mut one = HALF.of_sender(context, step).since(begun, since);
        (one.end, one.rows) = (at, vec![begun, row]);
        found.add(one, || {
            format!(
                "{} reduced its window at {} and raised its slow-start threshold again at {}; its window is then {cwnd} bytes, although {had} bytes were in \
                 flight before.",
                context.who(step.flow),
                time(since),
                time(at)
            )
        });
    }
}

fn changed(state: &mut Reduced, step: &Step<'_>) {
    let (was, is) = (step.before.state, step.end.now.state);
    if is_lost(is) && is != was {
        // An undo of a reduction for marks, or of a loss within one for another loss, restores less.
        let begins = matches!(was, CongestionState::Open | CongestionState::Disorder);
        let known = state.known.filter(|(at, _)| *at < step.at()).map(|(_, had)| had).or(state.earlier);
        state.before = known.filter(|_| begins).map(|had| (had, step.row, step.at()));
        (state.low, state.left, state.undone) = (None, false, None);
    } else if is_lost(was) && !is_lost(is) {
        state.left = true;
    }
}

fn window(state: &mut Reduced, step: &Step<'_>) {
    let (end, at) = (step.end, step.at());
    let Some(cwnd) = step.event.cwnd.map(Bytes::get) else { return };
    let silent = state.known.is_some_and(|(known, _)| at.since(known) > SILENCE);
    if let Some((_, had)) = state.known.filter(|(known, _)| *known < at) {
        state.earlier = Some(had);
    }
    state.known = Some((at, cwnd.min(end.outstanding().saturating_sub(end.sacked))));
    if state.before.is_none() {
        return;
    }
    let ssthresh = end.now.ssthresh;
    if let Some((since, shown, row)) = &mut state.undone {
        if at == *since && cwnd > *shown {
            (*shown, *row) = (cwnd, step.row);
        }
    } else if state.low.is_some_and(|low| ssthresh > low) && !silent {
        state.undone = Some((at, cwnd, step.row));
    } else if state.left || silent && state.low.is_some() {
        (state.before, state.left) = (None, false);
    } else {
        state.low = Some(state.low.map_or(ssthresh, |low| low.min(ssthresh)));
    }
}
