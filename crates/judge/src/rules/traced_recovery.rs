//! Fast recovery in the log of a kernel, which has the changes of the congestion state and neither loss marks nor the reasons of an undo.

use super::names::LOSS_DETECTION as NAME;
use crate::facts::Facts;
use crate::finding::Findings;
use crate::step::{Context, Step};
use crate::taken::Sent;
use tcpassay_measure::EventKind;
use tcpassay_tcp::CongestionState;
use tcpassay_units::{Dur, Time};

/// Tolerance of the distance of two transmissions.
const SPARE: Dur = Dur::from_micros(200);

/// The present fast recovery. Amounts are in segments, as Linux counts them (`undo_retrans`).
#[derive(Clone, Copy, Debug)]
struct Episode {
    at: Time,
    row: usize,
    /// SND.NXT at its begin (the recovery point).
    until: u64,
    /// Segments sent again since, and a tail loss probe that was outstanding at its begin.
    again: u64,
    /// Segments that DSACKs reported since.
    reported: u64,
}

/// State of the rules for one sender.
#[derive(Clone, Debug, Default)]
pub(super) struct TracedRecovery {
    episode: Option<Episode>,
    /// Time and row of the begin of a recovery that must send something again at this instant.
    begun: Option<(Time, usize)>,
    /// SND.NXT when a tail loss probe repeated data that are neither acknowledged nor reported as duplicates since.
    probe: Option<u64>,
    /// Segments that the arrivals of the last instant reported as duplicates.
    duplicates: (Time, u64),
    /// Time at which SND.UNA advanced last.
    advanced: Time,
    /// The first hole that was not sent again although it is known to be lost: position, time, row, and whether it was reported.
    hole: Option<(u64, Time, usize, bool)>,
}

impl TracedRecovery {
    /// A row of a kernel's log. `forgiven`: after a timeout, data below this position are not judged.
    pub fn on(&mut self, context: &Context<'_>, step: &Step<'_>, forgiven: u64, found: &mut Findings) {
        self.sent_at_once(context, step, found);
        self.unrepaired(context, step, forgiven, found);
        let mss = context.mss(step.flow).max(1);
        match step.event.kind {
            EventKind::In => self.arrival(step, mss),
            EventKind::Retransmit => {
                self.begun = None;
                if let Some(episode) = &mut self.episode {
                    episode.again += step.len().div_ceil(mss).max(1);
                }
                if step.event.why == "tail loss probe" {
                    self.probe = Some(step.end.now.nxt);
                }
            }
            EventKind::Congestion => self.changed(context, step, found),
            _ => {}
        }
    }

    fn arrival(&mut self, step: &Step<'_>, mss: u64) {
        let taken = step.end.taken;
        if taken.acked > 0 {
            self.advanced = step.at();
        }
        if taken.dsacked > 0 || self.probe.is_some_and(|until| step.end.now.una >= until) {
            self.probe = None;
        }
        let reported = taken.dsacked.div_ceil(mss);
        let before = if self.duplicates.0 == step.at() { self.duplicates.1 } else { 0 };
        self.duplicates = (step.at(), before + reported);
        if let Some(episode) = &mut self.episode {
            episode.reported += reported;
        }
    }

    fn changed(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let (before, now) = (step.before.state, step.end.now.state);
        let calm = |state| matches!(state, CongestionState::Open | CongestionState::Disorder);
        self.begun = None;
        if let Some(episode) = self.episode.take()
            && before == CongestionState::Recovery
            && calm(now)
        {
            self.undone(context, step, episode, found);
        }
        // A queue in the host, or pacing, delays what was sent and what is sent.
        let direct = context.facts.is_some_and(|facts| !facts.queues_in_host());
        if now != CongestionState::Recovery || !calm(before) || !direct || context.may_pace(step.flow) {
            return;
        }
        let (at, row, until) = (step.at(), step.row, step.end.now.nxt);
        // A kernel logs arrivals at its device: those of this instant may come after the begin of the recovery.
        let reported = if self.duplicates.0 == at { self.duplicates.1 } else { 0 };
        let again = u64::from(self.probe.is_some());
        self.episode = Some(Episode { at, row, until, again, reported });
        let end = step.end;
        let fits = end.out.front().is_some_and(|head| head.end <= end.now.una + end.wnd);
        // What was sent again before may be lost and already on its way again.
        if fits && end.again == 0 && end.open && !end.over {
            self.begun = Some((at, row));
        }
    }

    /// RFC 6675 section 5, step 4.3, and RFC 9937 section 6.2: the first retransmission of a recovery does not wait for its window.
    fn sent_at_once(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let Some((since, row)) = self.begun.filter(|(since, _)| step.at() > *since) else { return };
        self.begun = None;
        found.add(
            step.of_sender(context, NAME, "a recovery begins without a retransmission").since(row, since),
            || {
                format!(
                    "{} began a fast recovery at {since:#} and sent nothing again at this time; the first retransmission does not wait for room \
                     in the window (RFC 6675 section 5, RFC 9937 section 6.2).", context.who(step.flow)
                )
            },
        );
    }

    /// RFC 3708 section 3: a reduction is undone only if DSACKs reported every retransmission. An ACK that advances SND.UNA may prove by its
    /// timestamp that a retransmission was needless (RFC 4015).
    fn undone(&self, context: &Context<'_>, step: &Step<'_>, episode: Episode, found: &mut Findings) {
        let Episode { at, row, until, again, reported } = episode;
        if step.end.now.una >= until || self.advanced == step.at() || reported >= again {
            return;
        }
        let title = "an undo although not all retransmissions were reported as duplicates";
        found.add(step.of_sender(context, NAME, title).since(row, at), || {
            format!(
                "{} ended a fast recovery at {:#}, with an ACK that did not advance, before the data up to position {until} were acknowledged; it had \
                 sent {again} segments again and DSACKs had reported {reported} (RFC 3708 section 3).", context.who(step.flow), step.at()
            )
        });
    }

    /// RFC 6675 section 5: new data wait for what is lost. A hole is lost if three segments above it have been SACKed for longer than a round
    /// trip, or (RFC 8985 section 6.2: the reordering window is at most SRTT) if data were delivered that were sent SRTT later.
    fn unrepaired(&mut self, context: &Context<'_>, step: &Step<'_>, forgiven: u64, found: &mut Findings) {
        let end = step.end;
        let recovers = end.now.state == CongestionState::Recovery;
        let Some((_, longest)) = end.round_trips.filter(|_| recovers && end.sacked > 0) else {
            self.hole = None;
            return;
        };
        let mss = context.mss(step.flow);
        let mut above = end.sacked;
        let waits = end.out.iter().find(|sent| {
            above -= if sent.sacked { sent.end - sent.start } else { 0 };
            !sent.sacked && sent.tries == 1 && sent.start >= forgiven && above > 3 * mss
        });
        let Some(waits) = waits.copied() else {
            self.hole = None;
            return;
        };
        if self.hole.is_none_or(|(position, ..)| position != waits.start) {
            self.hole = Some((waits.start, step.at(), step.row, false));
        }
        let Some((position, since, row, false)) = self.hole else { return };
        let new = step.event.kind == EventKind::Out && step.len() > 0 && step.seq() >= step.before.nxt;
        let fits = waits.end <= end.now.una + end.wnd;
        if !new || !fits || end.fin_out.is_some() {
            return;
        }
        let long = step.at().since(since) > longest + Dur::from_millis(5);
        if long || passed(context, step, &waits) {
            self.hole = Some((position, since, row, true));
            found.add(step.of_sender(context, NAME, "new data before what is lost").since(row, since), || {
                format!(
                    "In recovery {} sent new data at position {}, although more than three segments above position {position} were SACKed \
                     since {since:#} and it was not sent again (RFC 6675 sections 4 and 5, RFC 8985 section 6.2).", context.who(step.flow), step.seq()
                )
            });
        }
    }
}

/// Whether data were delivered that were sent more than SRTT after a segment. In a queue of the host the times of transmission are not known.
fn passed(context: &Context<'_>, step: &Step<'_>, waits: &Sent) -> bool {
    let direct = context.facts.is_some_and(|facts: &Facts| !facts.queues_in_host());
    let Some((_, srtt)) = step.end.srtt.bounds() else { return false };
    let later = |sent: &Sent| sent.sacked && sent.tries == 1 && sent.first.since(waits.last) > srtt + SPARE;
    direct && !context.may_pace(step.flow) && step.end.out.iter().any(later)
}
