//! Slow start after a timeout: RFC 5681 section 3.1.

use super::bound::{Bound, PerEnd, Strength, time};
use crate::finding::Findings;
use crate::kinds::Sorts;
use crate::needs::Need;
use crate::step::{Context, Step};
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::Timer;
use tcpassay_tcp::CongestionState;
use tcpassay_units::{Bytes, Time};

pub(super) const STANDS: Bound = Bound {
    name: "slow-start-stands",
    title: "slow start after a timeout hardly grows",
    section: "RFC 5681 section 3.1 (equation 2, RECOMMENDED, which is SHOULD) and RFC 9438 section 4.10",
    strength: Strength::Should,
    statement: "after a timeout, while the window is below the slow-start threshold and outstanding data wait to be sent again, each ACK that advances adds a segment \
                to it, or what it acknowledges if that is less. Less than half of this, over eight segments, is a finding.",
    exceptions: "a controller may grow by another rule: only Reno, CUBIC and DCTCP are judged, and other TCPs that show their window. Nothing is judged while the \
                 peer's window is the smaller one, nor in a fast recovery or a reduction for marks.",
    needs: &[Need::Event(EventKind::Window)],
    looks: Sorts::EMPTY_IN.or(Sorts::DATA_IN),
    new: |flows| PerEnd::<Restart>::rule(flows, on),
};

/// Segments that ACKs must have earned before anything is said.
const SEGMENTS: u64 = 8;

/// The slow start since a timeout.
#[derive(Clone, Debug, Default)]
struct Restart {
    /// The timeout.
    since: Option<(Time, usize)>,
    /// The smallest window since then.
    from: Option<u64>,
    /// Bytes that the ACKs since then have earned, without the last one: the log of a kernel has the window that an arrival met.
    earned: u64,
    last: u64,
}

fn on(state: &mut Restart, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let begin = || Restart { since: Some((step.at(), step.row)), ..Restart::default() };
    match step.event.kind {
        EventKind::TimerFire if step.event.timer() == Some(Timer::Rto) => *state = begin(),
        EventKind::Congestion => match step.end.now.state {
            CongestionState::Loss if !step.is_undo() => *state = begin(),
            CongestionState::Recovery | CongestionState::Cwr => *state = Restart::default(),
            _ if step.is_undo() => *state = Restart::default(),
            _ => {}
        },
        EventKind::In if step.is_arrival() => earn(state, context, step),
        EventKind::Window => window(state, context, step, found),
        _ => {}
    }
}

fn earn(state: &mut Restart, context: &Context<'_>, step: &Step<'_>) {
    let (Some((since, _)), end) = (state.since, step.end) else { return };
    state.earned += std::mem::take(&mut state.last);
    if !end.out.iter().any(|sent| !sent.sacked && sent.last < since) {
        *state = Restart::default();
    } else if end.wnd > end.now.cwnd {
        state.last = end.taken.acked.min(context.mss(step.flow));
    }
}

fn window(state: &mut Restart, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let Some((since, row)) = state.since else { return };
    let known = matches!(context.recording.flows[step.flow].cc.as_str(), "reno" | "cubic" | "dctcp");
    let (Some(cwnd), Some(ssthresh)) = (step.event.cwnd.map(Bytes::get), step.event.ssthresh) else { return };
    if cwnd >= ssthresh.get() || !known && !context.shows(step.flow) {
        // The row of a kernel before the timeout had an effect has the window of before.
        if state.from.is_some() {
            *state = Restart::default();
        }
        return;
    }
    let from = *state.from.get_or_insert(cwnd);
    if cwnd < from {
        *state = Restart { since: state.since, from: Some(cwnd), ..Restart::default() };
        return;
    }
    let earned = state.earned;
    if earned >= SEGMENTS * context.mss(step.flow) && 2 * (cwnd - from) < earned {
        *state = Restart::default();
        found.add(STANDS.of_sender(context, step).since(row, since), || {
            format!(
                "{} timed out at {}. While lost data waited to be sent again, ACKs should have added {earned} bytes to a window of {from} bytes; it is {cwnd} \
                 bytes, below the slow-start threshold of {} bytes.",
                context.who(step.flow),
                time(since),
                ssthresh.get()
            )
        });
    }
}
