//! The clauses, each a comparison of one answer with what was told.

use crate::{Ack, Cause, Control, Controller, Event, Limited, View};
use tcpassay_units::Bytes;

/// The largest window that a sender with window scaling can use (RFC 7323 section 2.2), and more than any history
/// of the kit can earn.
pub(super) const MAX_WINDOW: Bytes = Bytes::new(1 << 30);

/// Which clauses bind a controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contract {
    /// Any controller: windows in range, a pure function, independent clones.
    Any,
    /// Window-based ones, and so all under [`Windowed`](crate::Windowed): every [`Clause`].
    Window,
    /// As `Window`, but a window that the sender does not fill may grow ([`Clause::AppLimited`]): Vegas with
    /// [`Arithmetic::Linux`](crate::Arithmetic).
    Unfilled,
}

/// What a controller owes its sender. The first two bind every controller, all of them a window-based one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clause {
    /// cwnd is never below one MSS nor above what the sender can use.
    Range,
    /// The same history gives the same answers, whether copies are made on the way or not, and whatever they are told.
    Pure,
    /// Only an ACK, a recovery, a timeout or idle changes the window.
    OnlyForCause,
    /// An ACK raises cwnd by at most what it acknowledges, or by one MSS.
    GrowthIsEarned,
    /// An ACK outside recovery never leaves less than two segments, where there were two.
    AckKeepsTwo,
    /// A window that the sender does not fill does not grow; in slow start, not beyond twice what it does fill.
    AppLimited,
    /// Loss reduces the window to at most 96 % of it, and a mark never raises it; ssthresh stays at two MSS or more.
    Reduces,
    /// Between the beginning and the end of a recovery ssthresh rests, and the window that recovery ends with is the one
    /// that it began with, or less: one reduction a window.
    OncePerWindow,
    /// A recovery ends with a window within the exit rule.
    ExitRule,
    /// A timeout leaves one MSS, and repeated timeouts do not lower ssthresh again.
    Collapses,
    /// After a false recovery cwnd and ssthresh are what they were, or what they are when that is more.
    Undo,
    /// After idle the window is at most the restart window, and ssthresh is not lowered.
    Restart,
    /// In the same place, an ACK for more bytes never leaves a smaller window.
    MoreAckedNeverLess,
}

/// The recovery under way.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Recovery {
    /// It ends when everything up to here is acknowledged.
    pub(super) point: u64,
    /// A timeout is part of it.
    pub(super) timeout: bool,
    /// Marks began it, and nothing else has happened: it cannot be proven false.
    pub(super) marks: bool,
    /// What was in force before.
    pub(super) before: Control,
    /// What the controller answered to its beginning.
    pub(super) entered: Control,
}

/// One event, what it found and what came of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told<'a> {
    pub view: &'a View,
    pub event: &'a Event,
    pub answer: &'a Control,
    pub recovery: Option<&'a Recovery>,
    /// The largest flight of this round trip and the one before.
    pub peak: Bytes,
}

type Outcome = Result<(), (Clause, String)>;

impl Told<'_> {
    fn demand(&self, clause: Clause, holds: bool) -> Outcome {
        if holds {
            return Ok(());
        }
        let Told { view, event, answer, .. } = self;
        Err((clause, format!("{event:?} found {view:?} and was answered {answer:?}")))
    }
}

pub(super) fn range(told: &Told) -> Outcome {
    let cwnd = told.answer.cwnd;
    told.demand(Clause::Range, cwnd >= told.view.mss && cwnd <= MAX_WINDOW)
}

pub(super) fn window(told: &Told) -> Outcome {
    let found = &told.view.control;
    let answer = told.answer;
    let two = told.view.mss * 2;
    match *told.event {
        Event::Established | Event::Sent { .. } => {
            told.demand(Clause::OnlyForCause, answer.cwnd == found.cwnd && answer.ssthresh == found.ssthresh)
        }
        Event::Congestion { cause, .. } => {
            let most = match cause {
                Cause::Loss => (found.cwnd - found.cwnd / 25).max(two),
                Cause::Ecn => found.cwnd.max(two),
            };
            told.demand(
                Clause::Reduces,
                answer.ssthresh >= two && answer.ssthresh <= most && answer.cwnd <= most,
            )
        }
        Event::RecoveryExit { spurious, exit } => leave(told, spurious, exit),
        Event::Timeout { again, .. } => {
            let most = (found.cwnd - found.cwnd / 25).max(two);
            told.demand(Clause::Collapses, answer.cwnd == told.view.mss)?;
            if again {
                return told.demand(Clause::Collapses, answer.ssthresh == found.ssthresh);
            }
            let in_recovery = told.recovery.is_some_and(|recovery| !recovery.timeout);
            let most = if in_recovery { found.ssthresh } else { most };
            told.demand(Clause::Reduces, answer.ssthresh >= two && answer.ssthresh <= most)
        }
        Event::Resume { restart, .. } => told.demand(
            Clause::Restart,
            answer.cwnd <= restart.max(told.view.mss)
                && answer.cwnd <= found.cwnd
                && answer.ssthresh >= found.ssthresh,
        ),
        Event::Ack(ref ack) => on_ack(told, ack),
    }
}

fn leave(told: &Told, spurious: bool, exit: Bytes) -> Outcome {
    let found = &told.view.control;
    let answer = told.answer;
    let Some(recovery) = told.recovery else { return Ok(()) };
    if spurious {
        let was = &recovery.before;
        return told.demand(
            Clause::Undo,
            answer.cwnd == was.cwnd.max(found.cwnd) && answer.ssthresh == was.ssthresh.max(found.ssthresh),
        );
    }
    told.demand(Clause::ExitRule, answer.cwnd <= exit.max(told.view.mss))?;
    let begun = if recovery.timeout { found.cwnd } else { recovery.entered.cwnd };
    told.demand(
        Clause::OncePerWindow,
        answer.ssthresh == found.ssthresh && answer.cwnd == begun.min(exit.max(told.view.mss)),
    )
}

fn on_ack(told: &Told, ack: &Ack) -> Outcome {
    let found = &told.view.control;
    let answer = told.answer;
    let mss = told.view.mss;
    match told.recovery {
        Some(recovery) if !recovery.timeout => {
            return told.demand(
                Clause::OncePerWindow,
                answer.ssthresh == found.ssthresh && answer.cwnd <= found.cwnd,
            );
        }
        Some(_) => told.demand(Clause::OncePerWindow, answer.ssthresh == found.ssthresh)?,
        None => {}
    }
    told.demand(Clause::GrowthIsEarned, answer.cwnd <= found.cwnd + ack.acked.max(mss))?;
    told.demand(Clause::AckKeepsTwo, answer.cwnd >= found.cwnd.min(mss * 2))?;
    let slow = found.cwnd < found.ssthresh;
    let unfilled = told.view.limited != Limited::Cwnd && !(slow && found.cwnd < told.peak.saturating_mul(2));
    told.demand(Clause::AppLimited, !unfilled || answer.cwnd <= found.cwnd)
}

pub(super) fn more_acked_never_less(told: &Told, mut copy: Box<dyn Controller>) -> Outcome {
    let Event::Ack(ack) = *told.event else { return Ok(()) };
    let more = Ack { acked: ack.acked * 2, delivered: ack.delivered + ack.acked, ..ack };
    let answer = copy.on(told.view, &Event::Ack(more));
    told.demand(Clause::MoreAckedNeverLess, answer.cwnd >= told.answer.cwnd)
}
