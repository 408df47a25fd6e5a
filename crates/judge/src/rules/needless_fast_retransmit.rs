//! Fast retransmits of what was only reordered: RFC 5681 section 3.2, RFC 4653, RFC 8985 section 6.2.

use crate::finding::{Findings, Level, Occurrence, Oracle};
use crate::history::{Half, History, Mark, Segment, at, ms};
use crate::needs::Need;
use tcpassay_measure::EventKind;
use tcpassay_tcp::CongestionState;
use tcpassay_units::{Bytes, Dur};

pub(super) const NAME: &str = "needless-fast-retransmit";
pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "fast retransmit of what was only reordered",
    asserts: "of the segments that a fast recovery retransmits, at least one had been lost.",
    why: "duplicate ACKs are taken for loss because a network rarely reorders (RFC 5681 section 3.2); when it does, the sender \
          repeatedly reduces its window without need. It can raise its threshold (RFC 4653), wait for a reordering window \
          (RFC 8985 section 6.2) or undo the reduction (RFC 3522, RFC 3708, RFC 4015), so a path that reorders need not cost \
          throughput. What the random reordering of a case explains is a note.",
    evidence: "the original transmission of the segment that was retransmitted first, its arrival at the receiver, the start of \
               the recovery, the retransmission.",
    wrong_when: "the path duplicates packets and lost the other copy, the receiver dropped what the log shows as arrived, or a \
                 retransmission was faster than all that was sent only once between these hosts. Recoveries in which a segment \
                 was really lost are not judged, though some of what they retransmit may be needless.",
    needs: &[Need::Event(EventKind::Congestion)],
};

/// Judges every fast recovery by what it retransmitted.
pub(super) fn look(history: &History<'_>, found: &mut Findings) {
    for flow in 0..history.halves.len() {
        let changes = &history.halves[flow].changes;
        for (index, change) in changes.iter().enumerate() {
            if history.change(change).is_none_or(|change| change.to != Some(CongestionState::Recovery)) {
                continue;
            }
            // Until the next change, which the end of this recovery is.
            let until = changes.get(index + 1).map_or_else(|| history.last_place(), |next| next.place);
            let again: Vec<&Segment> = history.halves[flow].sent_again(change.place, until).collect();
            if !again.is_empty() && again.iter().all(|segment| needless(history, flow, segment)) {
                add(history, flow, change, &again, found);
            }
        }
    }
}

/// Whether a retransmission was of what arrived before any retransmission of it could: it was the original.
pub(super) fn needless(history: &History<'_>, flow: usize, again: &Segment) -> bool {
    let fastest = history.fastest(flow).max(Dur::from_nanos(1));
    history
        .ledger(flow)
        .cells(again.start, again.end)
        .iter()
        .all(|cell| cell.first_arrival < cell.first_again.saturating_add(fastest))
}

fn add(history: &History<'_>, flow: usize, change: &Mark, again: &[&Segment], found: &mut Findings) {
    let (first, last) = (again[0], again[again.len() - 1]);
    let arrived = history.ledger(flow).arrived(first.start, first.end);
    let original = history.halves[flow].covering(first.start, true);
    let arrival = history.halves[history.peer(flow)].covering(first.start, false);
    let mut rows: Vec<usize> = original.into_iter().chain(arrival).map(|segment| segment.row).collect();
    rows.extend([change.row, first.row]);
    let one = Occurrence {
        start: change.at,
        end: last.at.max(arrived),
        level: if reorders_at_random(history) { Level::Note } else { Level::Warning },
        rows,
        ..history.occurrence(NAME, "", flow, flow)
    };
    found.add(one, || {
        let when = if arrived <= first.at {
            format!("it had arrived at {}, {} before", at(arrived), ms(first.at.since(arrived).as_nanos()))
        } else {
            format!("it was under way and arrived at {}, before the retransmission could", at(arrived))
        };
        let number = if again.len() == 1 {
            "The retransmission".to_owned()
        } else {
            format!("All {} retransmissions", again.len())
        };
        format!(
            "{} entered fast recovery of {} at {} ({}) and retransmitted position {} at {}, but nothing had been lost: {when}. \
             {number} of this recovery did nothing{}.",
            history.who(flow),
            history.name(flow),
            at(change.at),
            history.change(change).map_or("", |change| change.cause),
            first.start,
            at(first.at),
            cost(history, &history.halves[flow], change),
        )
    });
}

/// Whether the case asks for random reordering, and for none that goes on all the time.
pub(super) fn reorders_at_random(history: &History<'_>) -> bool {
    let reorder = history.said("link.reorder");
    let steady = reorder.is_some_and(|rule| rule.starts_with("reverse-burst"))
        || history.said("nic.lro_order") == Some("stale-hash");
    !steady && (reorder.is_some() || history.said("link.jitter").is_some())
}

/// What became of the window that the recovery reduced.
fn cost(history: &History<'_>, half: &Half, change: &Mark) -> String {
    let reduced = " but reduce the window".to_owned();
    let Some(left) = half.changes.iter().find(|later| later.place > change.place) else { return reduced };
    let cwnd = |mark: &Mark| history.row(mark).cwnd.map_or(0, Bytes::get);
    let had = half.windows.iter().rfind(|window| window.at < change.at).map(cwnd);
    let has = half.windows.iter().filter(|window| window.at == left.at).map(cwnd).max();
    // A kernel gives no reason, but its window is what it was before.
    let restored = matches!((had, has), (Some(had), Some(has)) if has >= had);
    if restored || history.change(left).is_some_and(|left| left.is_undo()) {
        return format!("; the reduction of the window was undone at {}", at(left.at));
    }
    reduced
}
