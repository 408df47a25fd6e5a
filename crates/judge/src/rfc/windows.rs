//! Windows: RFC 9293 section 3.8.6.

use super::bound::{Bound, PerEnd, Strength, time, took};
use crate::finding::{Findings, Occurrence};
use crate::kinds::Sorts;
use crate::needs::Need;
use crate::step::{Context, Step};
use tcpassay_measure::EventKind;
use tcpassay_units::{Dur, Time};
use tcpassay_wire::Flags;

pub(super) const BEYOND: Bound = Bound {
    name: "beyond-window",
    title: "data beyond the peer's window",
    section: "RFC 9293 section 3.8.6, MUST",
    strength: Strength::Must,
    statement: "no segment except a probe of one byte exceeds the largest right edge that the peer announced.",
    exceptions: "announcements that the capture missed: data of a capture are reported only if the next ACK of the peer does not acknowledge \
                 what lies beyond the window.",
    needs: &[Need::BothDirections, Need::Handshake, Need::EveryPacket, Need::AtEnd],
    looks: Sorts::DATA_OUT.or(Sorts::DATA_IN).or(Sorts::EMPTY_IN),
    new: |flows| PerEnd::<Beyond>::rule(flows, beyond),
};

pub(super) const SILLY_FILLED: Bound = Bound {
    name: "silly-window-filled",
    title: "a silly window is filled",
    section: "RFC 9293 section 3.8.6.2.1, SHOULD (MUST-38 asks for an algorithm, and leaves it open)",
    strength: Strength::Should,
    statement: "a sender with more data does not at once fill a window that opened to less than a segment and less than half of the largest \
                window of its peer.",
    exceptions: "a segment with PSH may end the data. Linux without Nagle's algorithm sends the rest of a segment that a window cut. The override timeout may send it later than 20 ms after the announcement.",
    needs: &[Need::BothDirections, Need::Handshake, Need::EveryPacket, Need::NoCopies, Need::AtEnd],
    looks: Sorts::EMPTY_IN.or(Sorts::DATA_IN).or(Sorts::DATA_OUT),
    new: |flows| PerEnd::<Opened>::rule(flows, filled),
};

/// Bytes of the timestamps option, with padding.
const TIMESTAMPS: u64 = 12;

/// Time after an announcement in which the data that it permits are sent because of it.
const AT_ONCE: Dur = Dur::from_millis(20);

/// A segment of a capture beyond the window: positions, the right edge, time, row.
#[derive(Clone, Debug, Default)]
struct Beyond(Option<((u64, u64), u64, Time, usize)>);

fn beyond(state: &mut Beyond, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let captured = context.captured.is_some();
    if step.event.kind == EventKind::In {
        let Some(ack) = step.event.ack.filter(|_| step.is_stream() && captured) else { return };
        if let Some((range, edge, at, row)) = state.0.take()
            && ack <= edge
        {
            let one = BEYOND.of_sender(context, step);
            let one = Occurrence { start: at, end: at, rows: vec![row], ..one };
            found.add(one, || said(context, step, range, edge));
        }
        return;
    }
    let (range, edge) = ((step.seq(), step.seq_end()), step.before.edge);
    if !step.is_stream() || step.len() <= 1 || edge == 0 || range.1 <= edge {
        return;
    }
    if captured {
        state.0.get_or_insert((range, edge, step.at(), step.row));
    } else {
        found.add(BEYOND.of_sender(context, step), || said(context, step, range, edge));
    }
}

fn said(context: &Context<'_>, step: &Step<'_>, (start, end): (u64, u64), edge: u64) -> String {
    format!(
        "{} sent positions {start} to {end}, but the largest right edge that its peer had announced is {edge}.",
        context.who(step.flow)
    )
}

/// The window that a sender may fill.
#[derive(Clone, Debug, Default)]
struct Opened {
    /// The arrival that moved the right edge last, if nothing was sent since: time and row.
    at: Option<(Time, usize)>,
    largest: u64,
}

fn filled(state: &mut Opened, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    if step.event.kind == EventKind::In {
        state.largest = state.largest.max(step.event.window.map_or(0, tcpassay_units::Bytes::get));
        if step.end.now.edge > step.before.edge {
            state.at = Some((step.at(), step.row));
        }
        return;
    }
    let Some((at, row)) = state.at.take() else { return };
    let (before, len) = (&step.before, step.len());
    let room = before.edge.saturating_sub(before.nxt);
    // The timestamps option takes its bytes from the segment (RFC 9293 section 3.7.1).
    let segment = context.mss(step.flow) - if step.event.value.is_some() { TIMESTAMPS } else { 0 };
    let least = segment.min(state.largest / 2);
    let ends = step.flags().any(Flags::PSH | Flags::FIN | Flags::SYN | Flags::URG);
    let fills = step.seq() == before.nxt && len == room && len > 1;
    if fills && room < least && !ends && step.at().since(at) < AT_ONCE {
        found.add(SILLY_FILLED.of_sender(context, step).since(row, step.at()), || {
            format!(
                "{} sent {len} bytes at {}, all that the window permitted, {} after it had opened to that size; a segment has {}, and the \
                 largest window was {}.",
                context.who(step.flow), time(step.at()), took(step.at().since(at)), segment, state.largest
            )
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Line, ack, data, found, judged, opened, segment, window};
    use crate::needs::Need;
    use tcpassay_wire::{Ecn, Flags};

    const NOTHING: [Vec<u64>; 0] = [];

    #[test]
    fn data_stay_within_the_window() {
        let mut log = opened();
        log[1].2.window = 3000;
        log.extend([
            (10_000, 0, data(1, 1000)),
            (10_010, 0, data(1001, 1000)),
            (10_020, 0, data(2001, 1001)),
            (20_000, 1, window(3000, ack(3001))),
        ]);
        assert_eq!(found("beyond-window", &log), [vec![6]]);
        assert_eq!(judged("beyond-window", &log, &[Need::EveryPacket], Ecn::NotEct), NOTHING);
        // The peer takes what is beyond the window: the capture missed an announcement.
        log[6] = (20_000, 1, window(3000, ack(3002)));
        assert_eq!(found("beyond-window", &log), NOTHING);
        log[5] = (10_020, 0, data(2001, 1000));
        log[6] = (20_000, 1, window(3000, ack(3001)));
        assert_eq!(found("beyond-window", &log), NOTHING);
    }

    fn reader(windows: &[(u32, u16)]) -> Vec<Line> {
        let mut log = opened();
        log[1].2.window = 8000;
        log.push((5_000, 1, window(8000, ack(1))));
        for n in 0..8 {
            log.push((10_000 + u64::from(n), 0, data(1 + 1000 * n, 1000)));
        }
        for (number, (position, open)) in windows.iter().enumerate() {
            log.push((20_000 + 1000 * number as u64, 1, window(*open, ack(*position))));
        }
        log
    }

    #[test]
    fn a_window_that_opens_to_less_than_a_segment_is_not_filled_at_once() {
        let mut log = reader(&[(8001, 0), (8001, 100)]);
        log.push((21_100, 0, data(8001, 100)));
        assert_eq!(found("silly-window-filled", &log), [vec![14, 15]]);
        // The last data of the application.
        log[14].2 = segment(8001, 100, 1, Flags::ACK | Flags::PSH);
        assert_eq!(found("silly-window-filled", &log), NOTHING);
        // After the override timeout.
        log[14] = (300_000, 0, data(8001, 100));
        assert_eq!(found("silly-window-filled", &log), NOTHING);
    }
}
