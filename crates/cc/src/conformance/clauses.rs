//! The clauses of the contract. Each compares an output of a controller with its inputs.

use crate::{Ack, Cause, Control, Controller, Event, Limited, View};
use tcpassay_units::Bytes;

/// The largest window with window scaling (RFC 7323 section 2.2), and more than any generated history can reach.
pub(super) const MAX_WINDOW: Bytes = Bytes::new(1 << 30);

/// The set of clauses that applies to a controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contract {
    /// Any controller: windows in range, a pure function, independent clones.
    Any,
    /// Window-based controllers, including all that use [`Windowed`](crate::Windowed): every [`Clause`].
    Window,
    /// Controllers that govern recovery ([`Controller::governs_recovery`]), such as BBR: the clauses of any controller, and
    /// [`Clause::Paces`].
    Rate,
    /// As `Window`, but a window that the sender does not fill may grow ([`Clause::AppLimited`]): Vegas with
    /// [`Arithmetic::Linux`](crate::Arithmetic).
    Unfilled,
}

/// The requirements on a controller. The first two apply to every controller, all of them to window-based
/// controllers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clause {
    /// cwnd is at least one MSS and at most the largest window that the sender can use.
    Range,
    /// The same history gives the same outputs, regardless of copies and of events that the copies receive.
    Pure,
    /// A controller that governs recovery always has a pacing rate, and marks do not increase its window.
    Paces,
    /// Only an ACK, a recovery, a timeout or idle changes the window.
    OnlyForCause,
    /// An ACK increases cwnd by at most the acknowledged bytes or by one MSS; by one more if it ends slow start, because an earlier
    /// congestion avoidance may have earned it (`snd_cwnd_cnt` of Linux).
    GrowthIsEarned,
    /// An ACK outside recovery leaves at least two segments if there were two before.
    AckKeepsTwo,
    /// A window that the sender does not fill does not grow; in slow start it does not exceed twice the filled part.
    AppLimited,
    /// Loss reduces the window to at most 96 %, and a mark never increases it; ssthresh is at least two MSS.
    Reduces,
    /// During a recovery ssthresh is constant, and the window at its end is at most the window chosen at its
    /// beginning: one reduction per window.
    OncePerWindow,
    /// The window at the end of a recovery respects the exit rule.
    ExitRule,
    /// A timeout sets the window to one MSS, and repeated timeouts do not reduce ssthresh again.
    Collapses,
    /// After a spurious recovery cwnd and ssthresh have at least their previous values.
    Undo,
    /// After idle the window is at most the restart window, and ssthresh is not reduced.
    Restart,
    /// In the same state, an ACK for more bytes never gives a smaller window.
    MoreAckedNeverLess,
}

/// The current recovery.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct RecoveryState {
    /// The recovery ends when all data up to this position is acknowledged.
    pub(super) point: u64,
    /// It includes a timeout.
    pub(super) timeout: bool,
    /// Marks began it and no loss followed, so that it cannot be proven spurious.
    pub(super) marks: bool,
    /// The control before the recovery.
    pub(super) before: Control,
    /// The output of the controller at the beginning.
    pub(super) entered: Control,
}

/// An event, the view before it, and the output of the controller.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClauseInput<'a> {
    pub view: &'a View,
    pub event: &'a Event,
    pub answer: &'a Control,
    pub recovery: Option<&'a RecoveryState>,
    /// The largest flight size of this round trip and the previous one.
    pub peak: Bytes,
}

type ClauseResult = Result<(), (Clause, String)>;

impl ClauseInput<'_> {
    fn demand(&self, clause: Clause, holds: bool) -> ClauseResult {
        if holds {
            return Ok(());
        }
        let ClauseInput { view, event, answer, .. } = self;
        Err((clause, format!("{event:?} found {view:?} and was answered {answer:?}")))
    }
}

pub(super) fn range(input: &ClauseInput) -> ClauseResult {
    let cwnd = input.answer.cwnd;
    input.demand(Clause::Range, cwnd >= input.view.mss && cwnd <= MAX_WINDOW)
}

pub(super) fn rate(input: &ClauseInput) -> ClauseResult {
    let grew = input.answer.cwnd > input.view.control.cwnd;
    let marked = matches!(input.event, Event::Congestion { cause: Cause::Ecn, .. });
    let paces = input.answer.pacing.is_some_and(|rate| rate.bits_per_sec() > 0);
    input.demand(Clause::Paces, paces && !(marked && grew))
}

pub(super) fn window(input: &ClauseInput) -> ClauseResult {
    let found = &input.view.control;
    let answer = input.answer;
    let two = input.view.mss * 2;
    match *input.event {
        Event::Established | Event::Sent { .. } => {
            input.demand(Clause::OnlyForCause, answer.cwnd == found.cwnd && answer.ssthresh == found.ssthresh)
        }
        Event::Congestion { cause, .. } => {
            let most = match cause {
                Cause::Loss => (found.cwnd - found.cwnd / 25).max(two),
                Cause::Ecn => found.cwnd.max(two),
            };
            input.demand(
                Clause::Reduces,
                answer.ssthresh >= two && answer.ssthresh <= most && answer.cwnd <= most,
            )
        }
        Event::RecoveryExit { spurious, exit } => leave(input, spurious, exit),
        Event::Timeout { again, .. } => {
            let most = (found.cwnd - found.cwnd / 25).max(two);
            input.demand(Clause::Collapses, answer.cwnd == input.view.mss)?;
            if again {
                return input.demand(Clause::Collapses, answer.ssthresh == found.ssthresh);
            }
            let in_recovery = input.recovery.is_some_and(|recovery| !recovery.timeout);
            let most = if in_recovery { found.ssthresh } else { most };
            input.demand(Clause::Reduces, answer.ssthresh >= two && answer.ssthresh <= most)
        }
        Event::Resume { restart, .. } => input.demand(
            Clause::Restart,
            answer.cwnd <= restart.max(input.view.mss)
                && answer.cwnd <= found.cwnd
                && answer.ssthresh >= found.ssthresh,
        ),
        Event::Ack(ref ack) => on_ack(input, ack),
    }
}

fn leave(input: &ClauseInput, spurious: bool, exit: Bytes) -> ClauseResult {
    let found = &input.view.control;
    let answer = input.answer;
    let Some(recovery) = input.recovery else { return Ok(()) };
    if spurious {
        let was = &recovery.before;
        return input.demand(
            Clause::Undo,
            answer.cwnd == was.cwnd.max(found.cwnd) && answer.ssthresh == was.ssthresh.max(found.ssthresh),
        );
    }
    input.demand(Clause::ExitRule, answer.cwnd <= exit.max(input.view.mss))?;
    let begun = if recovery.timeout { found.cwnd } else { recovery.entered.cwnd };
    input.demand(
        Clause::OncePerWindow,
        answer.ssthresh == found.ssthresh && answer.cwnd == begun.min(exit.max(input.view.mss)),
    )
}

fn on_ack(input: &ClauseInput, ack: &Ack) -> ClauseResult {
    let found = &input.view.control;
    let answer = input.answer;
    let mss = input.view.mss;
    match input.recovery {
        Some(recovery) if !recovery.timeout => {
            return input.demand(
                Clause::OncePerWindow,
                answer.ssthresh == found.ssthresh && answer.cwnd <= found.cwnd,
            );
        }
        Some(_) => input.demand(Clause::OncePerWindow, answer.ssthresh == found.ssthresh)?,
        None => {}
    }
    let credit = if found.cwnd < found.ssthresh && answer.cwnd > found.ssthresh { mss } else { Bytes::ZERO };
    input.demand(Clause::GrowthIsEarned, answer.cwnd <= found.cwnd + ack.acked.max(mss) + credit)?;
    input.demand(Clause::AckKeepsTwo, answer.cwnd >= found.cwnd.min(mss * 2))?;
    let slow = found.cwnd < found.ssthresh;
    let unfilled =
        input.view.limited != Limited::Cwnd && !(slow && found.cwnd < input.peak.saturating_mul(2));
    input.demand(Clause::AppLimited, !unfilled || answer.cwnd <= found.cwnd)
}

pub(super) fn more_acked_never_less(input: &ClauseInput, mut copy: Box<dyn Controller>) -> ClauseResult {
    let Event::Ack(ack) = *input.event else { return Ok(()) };
    let more = Ack { acked: ack.acked * 2, delivered: ack.delivered + ack.acked, ..ack };
    let answer = copy.on(input.view, &Event::Ack(more));
    input.demand(Clause::MoreAckedNeverLess, answer.cwnd >= input.answer.cwnd)
}
