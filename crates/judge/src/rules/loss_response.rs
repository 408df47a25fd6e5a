//! The answer of a real kernel to a loss: how much it reduces its window, and whether it takes a reduction back. The latter also of the model.

use super::needless_fast_retransmit::{needless, reorders_at_random};
use crate::finding::{Findings, Level, Occurrence, Oracle};
use crate::history::{Half, History, Mark, Segment, at};
use crate::needs::Need;
use std::collections::BTreeMap;
use tcpassay_measure::reason::{CongestionCause, CongestionChange};
use tcpassay_measure::{EventKind, EventRow};
use tcpassay_tcp::CongestionState;
use tcpassay_units::{Bytes, Dur, Time};

pub(super) const NAME: &str = "loss-response";
pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "answer to a loss",
    asserts: "a loss that begins a fast recovery or a timeout, outside of an earlier reduction, leaves a slow-start threshold of \
              the controller's factor of the window (0.5, CUBIC 0.7) and two segments; a reduction by a fast recovery is not \
              undone if everything that was retransmitted since had been lost, nor one by a timeout if the first outstanding \
              segment had been lost; and with timestamps it is undone if nothing had been lost.",
    why: "RFC 5681 section 3.1 (equation 4), RFC 9438 section 4.6, RFC 8257 section 3.5: without a reduction a sender keeps a \
          congested path congested. An undo is for losses that were none (RFC 3522, RFC 3708, RFC 4015, RFC 5682): without it a \
          path that reorders or pauses costs throughput although it loses nothing.",
    evidence: "the change of the congestion state, the last window before it and the first one after it; for an undo the first \
               retransmission as well.",
    wrong_when: "the controller restores its window by its own rules (BBR; other controllers than these three are not judged), \
                 the parameters of the controller are not its defaults (`stack.cc.*`; such runs are not judged), or a window \
                 between two segments is not in the log. A missing undo is judged only where the path loses no ACKs and marks \
                 nothing, and where round trips are longer than the granularity of timestamps. Of the model only an undo is judged; it logs \
                 more of each reduction, which `window-reduction` judges.",
    needs: &[Need::Event(EventKind::Congestion), Need::Event(EventKind::Window)],
};

/// The reason of the row with the window at the end of a recovery.
const LEAVING: &str = "on leaving Recovery";
/// Segments: the smallest threshold, and the rounding to whole segments.
const SPARE: u64 = 2;
/// Settings without which a missing undo may have another reason.
const CLEAR: [(&str, &str); 6] = [
    ("stack.timestamps", "on"),
    ("stack.ecn", "off"),
    ("link.ack_loss", "0"),
    ("link.ack_thinning", "1"),
    ("link.duplicate", "0"),
    ("link.corrupt", "0"),
];
/// Shortest delay in one direction: timestamps count milliseconds.
const TICKS: Dur = Dur::from_millis(2);

/// What remains of the window after a loss, in tenths; other controllers are not judged.
fn tenths(cc: &str) -> Option<u64> {
    match cc {
        "reno" | "dctcp" => Some(5),
        "cubic" => Some(7),
        _ => None,
    }
}

/// Judges every change of the congestion state of a kernel.
pub(super) fn look(history: &History<'_>, found: &mut Findings) {
    for flow in 0..history.halves.len() {
        if history.of_model() {
            undone(history, flow, found);
        } else {
            of_flow(history, flow, found);
        }
    }
}

/// Judges every undo of the model, which logs its cause.
fn undone(history: &History<'_>, flow: usize, found: &mut Findings) {
    let calm = |state| matches!(state, Some(CongestionState::Open | CongestionState::Disorder));
    let mut begin: Option<(&Mark, CongestionChange<'_>)> = None;
    for mark in &history.halves[flow].changes {
        let Some(change) = history.change(mark) else { continue };
        if calm(change.from) {
            begin = Some((mark, change));
        } else if !calm(change.to) {
            // A reduction within a reduction: which one is undone depends on the proof.
            begin = None;
        } else if let Some((first, entered)) = begin
            .take()
            // F-RTO asks whether other data than the first segment arrived; `loss-detection` judges it.
            .filter(|_| change.is_undo() && change.known_cause() != Some(CongestionCause::UndoFrto))
        {
            let (had, has) = (history.row(first), history.row(mark));
            let one = Reduction {
                history,
                flow,
                mark: first,
                change: entered,
                before: first,
                after: mark,
                had,
                has,
            };
            one.restored(mark, found);
        }
    }
}

fn of_flow(history: &History<'_>, flow: usize, found: &mut Findings) {
    let half = &history.halves[flow];
    let calm = |state| matches!(state, Some(CongestionState::Open | CongestionState::Disorder));
    let lost = |state| matches!(state, Some(CongestionState::Recovery | CongestionState::Loss));
    let mut restored = None;
    for (index, mark) in half.changes.iter().enumerate() {
        let change = history.change(mark);
        if !change.is_some_and(|change| calm(change.from)) {
            restored = Some(mark.place);
        }
        let Some(change) = change.filter(|change| calm(change.from) && lost(change.to)) else { continue };
        let next = half.changes.get(index + 1);
        let left = next.map_or_else(|| history.last_place(), |next| next.place);
        let (Some(before), Some(after)) =
            (last_window(half, mark.place), first_window(half, mark.place, left))
        else {
            continue;
        };
        // On leaving a reduction the window may have been restored, and is known from the next row on.
        if restored.is_some_and(|restored| before.place < restored) {
            continue;
        }
        let reduction = Reduction {
            history,
            flow,
            mark,
            change,
            before,
            after,
            had: history.row(before),
            has: history.row(after),
        };
        reduction.size(found);
        // A timeout within a recovery may be spurious, and its undo restores the window of before the recovery (F-RTO).
        let ended = next.filter(|next| history.change(next).is_some_and(|next| calm(next.to)));
        if let Some(ended) = ended.filter(|_| threshold(&reduction.has) < threshold(&reduction.had)) {
            reduction.undo(ended, found);
            reduction.kept(ended, found);
        }
    }
}

/// A reduction of the window for a loss.
struct Reduction<'a> {
    history: &'a History<'a>,
    flow: usize,
    /// The change of the congestion state.
    mark: &'a Mark,
    change: CongestionChange<'a>,
    /// The last window before it, and the first one after it.
    before: &'a Mark,
    after: &'a Mark,
    had: EventRow,
    has: EventRow,
}

impl Reduction<'_> {
    fn half(&self) -> &Half {
        &self.history.halves[self.flow]
    }

    fn cc(&self) -> &str {
        &self.history.recording.flows[self.flow].cc
    }

    /// The states before and after it, for a text.
    fn states(&self) -> String {
        let name = |state: Option<CongestionState>| state.map_or("?", CongestionState::name);
        format!("{} to {}", name(self.change.from), name(self.change.to))
    }

    /// Whether the threshold that is left is at most the controller's factor of the window.
    fn size(&self, found: &mut Findings) {
        let case = &self.history.recording.header.case;
        let Some(tenths) =
            tenths(self.cc()).filter(|_| !case.iter().any(|one| one.parameter.starts_with("stack.cc.")))
        else {
            return;
        };
        // The window may have grown since the row that is known: what is in flight shows how far.
        let mss = self.history.recording.flows[self.flow].mss.get();
        let flight = self.has.flight.map_or(0, Bytes::get);
        let window = (self.had.cwnd.map_or(0, Bytes::get) + self.earned() * mss).max(flight);
        let spare = SPARE * mss;
        let known = threshold(&self.had);
        let allowed = if known < window { known } else { 0 };
        let left = threshold(&self.has);
        // In tenths of bytes, so that nothing is rounded.
        if left.saturating_mul(10)
            <= ((tenths * window).max(spare * 10) + spare * 10).max(allowed.saturating_mul(10))
        {
            return;
        }
        let rows = [self.before, self.mark, self.after];
        found.add(self.occurrence("a loss leaves more than the controller's factor", Level::Error, rows), || {
            let told = if left == u64::MAX {
                "no threshold".to_owned()
            } else {
                format!("a slow-start threshold of {left} bytes")
            };
            format!(
                "{} found a loss of {} at {} ({}) with a window of {window} bytes, and {} left {told}: more than 0.{tenths} of \
                 the window and two segments of {mss} (RFC 5681 section 3.1).",
                self.history.who(self.flow),
                self.history.name(self.flow),
                at(self.mark.at),
                self.states(),
                self.cc(),
            )
        });
    }

    /// The number of segments that the last arrival before the loss acknowledged or reported as received. The log has the window that this
    /// arrival met, not the one that it left; the window also grows while segments are out of order.
    fn earned(&self) -> u64 {
        let half = self.half();
        let before = half.after(self.mark.place);
        let Some(last) = half.segments[..before].iter().rposition(|s| !s.sent).filter(|last| *last > 0)
        else {
            return 0;
        };
        let (from, to) = (half.segments[last - 1].una, half.segments[last].una);
        let mss = self.history.recording.flows[self.flow].mss.get();
        // The first of several transmissions with the same end.
        let mut lengths: BTreeMap<u64, u64> = BTreeMap::new();
        for segment in half.segments.iter().filter(|s| s.sent && s.has_data() && s.end > from && s.end <= to)
        {
            lengths.entry(segment.end).or_insert(segment.end - segment.start);
        }
        let acked: u64 = lengths.values().map(|length| length.div_ceil(mss)).sum();
        let known =
            half.segments[..last].iter().rfind(|s| !s.sent).map(|s| self.blocks(s)).unwrap_or_default();
        let reported = |(start, end): (u64, u64)| {
            let shared = known.iter().map(|known| end.min(known.1).saturating_sub(start.max(known.0)));
            (end - start).saturating_sub(shared.sum())
        };
        let sacked: u64 = self.blocks(&half.segments[last]).into_iter().map(reported).sum();
        acked + sacked.div_ceil(mss)
    }

    /// The positions that the SACK blocks of an arrival report, which follow it in the log.
    fn blocks(&self, arrival: &Segment) -> Vec<(u64, u64)> {
        let events = &self.history.recording.events;
        let kind = events.kind_of(arrival.row).map(|(_, flow)| (EventKind::Sack, flow));
        (arrival.row + 1..events.len())
            .take_while(|row| events.kind_of(*row) == kind)
            .map(|row| events.range(row))
            .map(|(start, len)| (start, start + len))
            .collect()
    }

    /// Whether the window is restored although what was sent again had been lost. `ended`: the state is left.
    fn undo(&self, ended: &Mark, found: &mut Findings) {
        // Controllers whose window an undo restores.
        if tenths(self.cc()).is_none() && !matches!(self.cc(), "vegas" | "mvegas") {
            return;
        }
        let half = self.half();
        let by_timeout = self.change.to == Some(CongestionState::Loss);
        // Without SACK a timeout that is undone stays in its state until newer data are acknowledged (RFC 6582 section 3.2).
        let inside =
            half.windows.iter().filter(|w| w.place > self.mark.place && w.place < ended.place).skip(1);
        let after = left_with(self.history, half, ended);
        let window = self.had.cwnd.map_or(0, Bytes::get);
        let is_full = |mark: &&Mark| {
            let row = self.history.row(mark);
            threshold(&row) >= threshold(&self.had) && row.cwnd.map_or(0, Bytes::get) >= window
        };
        let Some(restored) = inside.filter(|_| by_timeout).chain(after).find(is_full) else { return };
        self.restored(if restored.place < ended.place { restored } else { ended }, found);
    }

    /// Whether what was sent again until the window was restored, at `ended`, had been lost.
    fn restored(&self, ended: &Mark, found: &mut Findings) {
        let half = self.half();
        let by_timeout = self.change.to == Some(CongestionState::Loss);
        let mut again: Vec<&Segment> = half.sent_again(self.mark.place, ended.place).collect();
        if by_timeout && !self.delays() {
            // After a timeout Linux without SACK also sends again what arrived. Whether the timeout was spurious depends on the
            // first outstanding segment (RFC 5682 section 2.1): only its repair lets the ACKs advance. If it had been sent
            // again before, that transmission may be the one that was only late.
            again.truncate(1);
            let cells = again.first().map(|one| self.history.ledger(self.flow).cells(one.start, one.end));
            if cells.is_some_and(|cells| cells.iter().any(|cell| cell.first_again < self.mark.at)) {
                return;
            }
        }
        let lost = |one: &&&Segment| self.lost(one) && (!self.history.of_model() || self.overtaken(one));
        if again.iter().any(|one| needless(self.history, self.flow, one)) || again.iter().find(lost).is_none()
        {
            return;
        }
        let one = self.occurrence(
            "a reduction for a real loss is undone",
            Level::Warning,
            [self.mark, self.mark, ended],
        );
        let rows = vec![self.mark.row, again[0].row, ended.row];
        found.add(Occurrence { rows, start: again[0].at, ..one }, || {
            format!(
                "{} reduced the window of {} for a loss at {} and restored it at {}, although what it had retransmitted ({} \
                 segments) had been lost (RFC 4015 section 3).",
                self.history.who(self.flow),
                self.history.name(self.flow),
                at(self.mark.at),
                at(ended.at),
                again.len(),
            )
        });
    }

    /// Whether the path may hold an original for so long that it looks like its retransmission.
    fn delays(&self) -> bool {
        ["link.pause", "link.slot"]
            .iter()
            .any(|row| self.history.said(row).is_some_and(|value| value != "off"))
    }

    /// Whether the reduction stays although nothing was lost. With timestamps the first ACK of new data proves that it answers an
    /// original (RFC 3522 section 3.2).
    fn kept(&self, ended: &Mark, found: &mut Findings) {
        let clear =
            CLEAR.iter().all(|(row, usual)| self.history.said(row).is_none_or(|value| value == *usual));
        if tenths(self.cc()).is_none() || !clear || self.history.fastest(self.flow) < TICKS {
            return;
        }
        let half = self.half();
        let Some(after) = left_with(self.history, half, ended) else { return };
        let left = threshold(&self.history.row(after));
        let (Some(first), Some(last)) = (half.before(self.mark.place), half.before(ended.place)) else {
            return;
        };
        if left >= threshold(&self.had) {
            return;
        }
        // Every transmission of what was outstanding arrived.
        let cells = self.history.ledger(self.flow).cells(half.segments[first].una, half.segments[last].nxt);
        let again: Vec<&Segment> = half.sent_again(self.mark.place, ended.place).collect();
        if !again.first().is_some_and(|one| self.proven(one))
            || cells.iter().any(|cell| cell.arrivals < cell.sends)
        {
            return;
        }
        let one = self.occurrence(
            "a needless reduction is not undone",
            Level::Warning,
            [self.mark, self.mark, ended],
        );
        let rows = vec![self.mark.row, again[0].row, ended.row];
        found.add(Occurrence { rows, start: again[0].at, ..one }, || {
            let to = self.change.to.map_or("?", CongestionState::name);
            format!(
                "{} reduced the window of {} at {} ({}) and sent {} segments again, but nothing was lost; at {}, on leaving {to}, \
                 its slow-start threshold is {left} bytes, although the timestamps of the ACKs prove it (RFC 3522 section 3.2, \
                 RFC 4015 section 3).",
                self.history.who(self.flow),
                self.history.name(self.flow),
                at(self.mark.at),
                self.states(),
                again.len(),
                at(ended.at),
            )
        });
    }

    /// Whether the receiver acknowledged what was sent again before the second copy arrived, so that its ACK echoes an original. A receiver that
    /// has both may answer them with one ACK, which echoes the later one (Linux since 6.7, `__tcp_ack_snd_check`).
    fn proven(&self, again: &Segment) -> bool {
        let peer = &self.history.halves[self.history.peer(self.flow)].segments;
        let copies =
            peer.iter().filter(|s| !s.sent && s.has_data() && s.start <= again.start && again.start < s.end);
        let answered = peer.iter().find(|s| s.sent && s.ack >= again.end).map(|s| s.at);
        answered < copies.map(|s| s.at).nth(1) && answered.is_some()
    }

    /// Whether a transmission of what a segment repeats never arrived.
    fn lost(&self, again: &Segment) -> bool {
        let cells = self.history.ledger(self.flow).cells(again.start, again.end);
        cells.iter().any(|cell| cell.reached < cell.sends)
    }

    /// Whether data that were sent between a segment and its first repetition arrived before it, so that not the original arrived at last.
    /// On a path that reorders this proves nothing.
    fn overtaken(&self, again: &Segment) -> bool {
        let ledger = self.history.ledger(self.flow);
        let between = |first: Time, second: Time, arrival: Time| {
            ledger.all().iter().any(|cell| {
                cell.first_sent > first && cell.first_sent < second && cell.first_arrival < arrival
            })
        };
        let cells = ledger.cells(again.start, again.end);
        !reorders_at_random(self.history)
            && cells.iter().all(|cell| between(cell.first_sent, cell.first_again, cell.first_arrival))
    }

    fn occurrence(&self, title: &'static str, level: Level, rows: [&Mark; 3]) -> Occurrence {
        Occurrence {
            start: rows[1].at,
            end: rows[2].at,
            level,
            rows: rows.iter().map(|mark| mark.row).collect(),
            ..self.history.occurrence(NAME, title, self.flow, self.flow)
        }
    }
}

/// The window after a reduction; `None` if the next segment met the window that was known before.
fn left_with<'a>(history: &History<'_>, half: &'a Half, ended: &Mark) -> Option<&'a Mark> {
    let leaving = last_window(half, ended.place);
    let named = |mark: &&Mark| mark.at == ended.at && history.recording.events.why(mark.row) == Some(LEAVING);
    if let Some(leaving) = leaving.filter(named) {
        return Some(leaving);
    }
    // Later rows show what later segments did to the window.
    let later = half.segments.partition_point(|s| s.at <= ended.at);
    let come = half.segments[later..].iter().find(|s| !s.sent)?;
    first_window(half, ended.place, history.last_place()).filter(|after| after.at <= come.at)
}

/// The slow-start threshold of a row in bytes; without one there is no bound.
fn threshold(row: &EventRow) -> u64 {
    row.ssthresh.map_or(u64::MAX, Bytes::get)
}

fn last_window(half: &Half, place: usize) -> Option<&Mark> {
    half.windows[..half.windows.partition_point(|window| window.place < place)].last()
}

fn first_window(half: &Half, place: usize, end: usize) -> Option<&Mark> {
    half.windows[half.windows.partition_point(|window| window.place <= place)..]
        .first()
        .filter(|w| w.place < end)
}
