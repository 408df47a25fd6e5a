//! Undo of a reduction that the ACKs prove to have been needless: RFC 3522 section 3.2, RFC 4015 section 3, RFC 3708.

use super::names::LOSS_DETECTION as NAME;
use crate::finding::Findings;
use crate::step::{Context, Step};
use std::collections::VecDeque;
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::WindowCause;
use tcpassay_tcp::{CongestionState, Recovery};
use tcpassay_units::Time;
use tcpassay_wire::Flags;

/// Number of segments on their way that are kept for the comparison.
const KEPT: usize = 1024;

/// A segment that the peer sent, with its timestamp echo.
#[derive(Clone, Copy, Debug)]
struct Echo {
    seq: u64,
    ack: u64,
    len: u64,
    stamp: u64,
}

/// An episode in which something may be undone.
#[derive(Clone, Debug, Default)]
struct Episode {
    /// Time of the first retransmission.
    first: Option<Time>,
    /// Bytes sent again, and those of them that were reported as duplicates.
    again: u64,
    reported: u64,
}

/// One sender.
#[derive(Clone, Debug, Default)]
pub(super) struct UndoDue {
    echoes: VecDeque<Echo>,
    episode: Option<Episode>,
    /// Time and row of the ACK that proves that nothing was lost, and its proof.
    due: Option<(Time, usize, &'static str)>,
}

/// Processes a row of the log of the model.
pub(super) fn on(ends: &mut [UndoDue], context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let Some(stack) = context.stack(step.flow) else { return };
    let (by_stamp, by_report) = (stack.undo.eifel && stack.timestamps, stack.undo.dsack);
    if step.is_sent() && step.is_stream() {
        // What this end sends is compared when it arrives at the peer.
        if let Some(stamp) =
            step.event.value.filter(|_| context.stack(step.peer).is_some_and(|stack| stack.undo.eifel))
        {
            let echoes = &mut ends[step.peer].echoes;
            if echoes.len() == KEPT {
                echoes.pop_front();
            }
            echoes.push_back(Echo {
                seq: step.seq(),
                ack: step.event.ack.unwrap_or(0),
                len: step.len(),
                stamp,
            });
        }
    }
    let own = &mut ends[step.flow];
    own.judge(context, step, found);
    let end = step.end;
    match step.event.kind {
        EventKind::Congestion => {
            if own.due.is_some() && (step.is_undo() || end.now.state == CongestionState::Open) {
                own.due = None;
            }
            let begins = matches!(end.now.state, CongestionState::Recovery | CongestionState::Loss);
            let calm = matches!(step.before.state, CongestionState::Open | CongestionState::Disorder);
            // What an earlier episode retransmitted may still be reported.
            own.episode =
                (begins && calm && end.again == 0 && context.window_based(step.flow)).then(Episode::default);
        }
        EventKind::Window if step.event.window_cause() == Some(WindowCause::Leave) => own.due = None,
        EventKind::Retransmit => {
            if let Some(episode) = &mut own.episode {
                episode.first.get_or_insert(step.at());
                episode.again += step.len() + u64::from(step.flags().has(Flags::FIN));
            }
        }
        EventKind::In if step.is_arrival() && step.is_stream() => {
            let UndoDue { echoes, episode: Some(episode), due } = own else { return };
            let timeout = end.now.state == CongestionState::Loss;
            let inside = timeout || end.now.state == CongestionState::Recovery && end.again == 0;
            episode.reported += end.taken.dsacked;
            let Some(first) = episode.first else { return };
            if !inside || end.taken.acked == 0 || !stack.sack {
                return;
            }
            let old = |stamp: u64| stamp < first.as_nanos() / 1_000_000;
            if by_stamp && echo(echoes, step).is_some_and(old) {
                *due = Some((
                    step.at(),
                    step.row,
                    "its timestamp echoes a transmission before the first retransmission",
                ));
            } else if by_report
                && stack.recovery != Recovery::NewReno
                && end.taken.dsacked > 0
                && episode.reported == episode.again
            {
                *due = Some((step.at(), step.row, "every retransmission was reported as a duplicate"));
            }
        }
        _ => {}
    }
}

/// The timestamp echo of a segment that arrives; `None` if several segments with other echoes may be the one.
fn echo(echoes: &VecDeque<Echo>, step: &Step<'_>) -> Option<u64> {
    let (seq, ack, len) = (step.seq(), step.event.ack.unwrap_or(0), step.len());
    let same = |one: &&Echo| (one.seq, one.ack, one.len) == (seq, ack, len);
    let mut equal = echoes.iter().filter(same);
    let stamp = equal.next()?.stamp;
    equal.all(|other| other.stamp == stamp).then_some(stamp)
}

impl UndoDue {
    fn judge(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let Some((at, row, proof)) = self.due.filter(|(at, ..)| step.at() > *at) else { return };
        self.due = None;
        self.episode = None;
        found.add(step.of_sender(context, NAME, "an undo that is due does not happen").since(row, at), || {
            format!(
                "The ACK that {} received at {at} proves that nothing had been lost ({proof}), and the reduction was not undone (RFC 3522 section \
                 3.2, RFC 3708).", context.who(step.flow)
            )
        });
    }
}
