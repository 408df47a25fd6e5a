//! The clauses of the contract. Each compares an output of a controller with its inputs.

use super::recovery::RecoveryState;
use super::words;
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

/// The requirements on a controller. [`Range`](Clause::Range) and [`Pure`](Clause::Pure) apply to every controller,
/// [`Paces`](Clause::Paces) to those that govern recovery, the others to window-based ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clause {
    /// cwnd is at least one MSS and at most 1 GiB.
    Range,
    /// The same history gives the same outputs, whatever happens to copies of the controller.
    Pure,
    /// The controller always sets a pacing rate, and marks do not increase its window.
    Paces,
    /// The handshake and transmissions change neither cwnd nor ssthresh.
    OnlyForCause,
    /// An ACK increases cwnd by at most the bytes that it acknowledges, or by one MSS; by one more MSS if it ends slow
    /// start.
    GrowthIsEarned,
    /// An ACK outside of recovery leaves at least two segments if there were two before.
    AckKeepsTwo,
    /// A window that the sender does not fill does not grow; in slow start it does not exceed twice the filled part.
    AppLimited,
    /// After a loss cwnd is at most 96 % of its value before, after a mark at most that value; ssthresh is at least two
    /// MSS.
    Reduces,
    /// During a recovery ssthresh is constant and no ACK increases cwnd; its end sets cwnd to the window chosen at its
    /// beginning, limited by the exit rule.
    OncePerWindow,
    /// At the end of a recovery cwnd is at most `exit`, and at least one MSS is allowed.
    ExitRule,
    /// A timeout sets cwnd to one MSS; a repeated timeout of the same data keeps ssthresh.
    Collapses,
    /// After a spurious recovery cwnd and ssthresh are at least what they were before it.
    Undo,
    /// After an idle time cwnd is at most the restart window, and ssthresh is not reduced.
    Restart,
    /// In the same state, an ACK for twice the data never gives a smaller window.
    MoreAckedNeverLess,
}

impl Clause {
    /// Every clause, in the order of the documentation.
    pub const ALL: [Clause; 14] = [
        Clause::Range,
        Clause::Pure,
        Clause::Paces,
        Clause::OnlyForCause,
        Clause::GrowthIsEarned,
        Clause::AckKeepsTwo,
        Clause::AppLimited,
        Clause::Reduces,
        Clause::OncePerWindow,
        Clause::ExitRule,
        Clause::Collapses,
        Clause::Undo,
        Clause::Restart,
        Clause::MoreAckedNeverLess,
    ];

    /// The contract to which the clause belongs: `all`, `window` or `rate`.
    pub fn contract(self) -> &'static str {
        match self {
            Clause::Range | Clause::Pure => "all",
            Clause::Paces => "rate",
            _ => "window",
        }
    }

    /// What it demands, in words.
    pub fn rule(self) -> &'static str {
        match self {
            Clause::Range => "cwnd is at least one MSS and at most 1 GiB.",
            Clause::Pure => {
                "The same history gives the same outputs, whatever happens to copies of the controller."
            }
            Clause::Paces => {
                "The controller always sets a pacing rate, and marks do not increase its window."
            }
            Clause::OnlyForCause => "The handshake and transmissions change neither cwnd nor ssthresh.",
            Clause::GrowthIsEarned => {
                "An ACK increases cwnd by at most the bytes that it acknowledges, or by one MSS; by one more MSS \
                 if it ends slow start."
            }
            Clause::AckKeepsTwo => {
                "An ACK outside of recovery leaves at least two segments if there were two before."
            }
            Clause::AppLimited => {
                "A window that the sender does not fill does not grow; in slow start it does not exceed twice the \
                 filled part."
            }
            Clause::Reduces => {
                "After a loss cwnd is at most 96 % of its value before, after a mark at most that value; ssthresh \
                 is at least two MSS."
            }
            Clause::OncePerWindow => {
                "During a recovery ssthresh is constant and no ACK increases cwnd; its end sets cwnd to the \
                 window chosen at its beginning, limited by the exit rule."
            }
            Clause::ExitRule => {
                "At the end of a recovery cwnd is at most `exit`, and at least one MSS is allowed."
            }
            Clause::Collapses => {
                "A timeout sets cwnd to one MSS; a repeated timeout of the same data keeps ssthresh."
            }
            Clause::Undo => {
                "After a spurious recovery cwnd and ssthresh are at least what they were before it."
            }
            Clause::Restart => {
                "After an idle time cwnd is at most the restart window, and ssthresh is not reduced."
            }
            Clause::MoreAckedNeverLess => {
                "In the same state, an ACK for twice the data never gives a smaller window."
            }
        }
    }

    /// Why it demands that.
    pub fn reason(self) -> &'static str {
        match self {
            Clause::Range => {
                "A sender with a window below one segment never sends again, and no peer can announce more than 1 \
                 GiB (RFC 7323 section 2.2)."
            }
            Clause::Pure => {
                "A run is a function of case, seed and version: replay, isolation and this kit rely on it. State \
                 belongs to the object, not to the class or the module."
            }
            Clause::Paces => {
                "Its window also applies while losses are repaired, so that only its rate limits bursts; a mark \
                 is a request to send less (RFC 3168 section 6.1.2)."
            }
            Clause::OnlyForCause => {
                "They say nothing about the path; ACKs, recoveries, timeouts and idle times do."
            }
            Clause::GrowthIsEarned => {
                "Each acknowledged byte has left the network and may be replaced twice (RFC 5681 section 3.1, RFC \
                 3465); more is a burst that no ACK clocks. Linux may have earned the further segment before \
                 (`snd_cwnd_cnt`)."
            }
            Clause::AckKeepsTwo => {
                "A window of one segment waits for the peer's delayed-ACK timer in each round trip (RFC 9293 \
                 section 3.8.6.3); only timeouts and marks reduce so far."
            }
            Clause::AppLimited => {
                "ACKs of a window that was not used do not show that the path can carry it (RFC 7661 section 1, \
                 Linux `tcp_is_cwnd_limited`)."
            }
            Clause::Reduces => {
                "Congestion must be answered (RFC 5681 section 3.1, equation 4; RFC 3168 section 6.1.2). The check \
                 allows every fixed factor up to 0.96. A rule that sets the window from an estimate of the path \
                 (Westwood: bandwidth times the shortest round-trip time) keeps it where the estimate is higher; \
                 that is its design, and such a class keeps the contract `any` only."
            }
            Clause::OncePerWindow => {
                "All losses and marks of one window are one sign of congestion (RFC 6675 section 5, RFC 3168 \
                 section 6.1.2). A delay-based rule that changes ssthresh with an ACK must wait for \
                 `RecoveryExit`; one that does not is no window-based controller, and keeps the contract `any` \
                 only."
            }
            Clause::ExitRule => {
                "`exit` prevents a burst when one ACK empties the flight (RFC 6582 section 3.2 step 3, \
                 `stack.recovery_exit`)."
            }
            Clause::Collapses => {
                "The loss window and the rule for repeated timeouts of RFC 5681 section 3.1: the second timeout \
                 says nothing new about the path's capacity."
            }
            Clause::Undo => {
                "The cause was reordering or delay instead of loss (RFC 4015, RFC 5682, Linux \
                 `tcp_undo_cwnd_reduction`). The proof may arrive after the recovery ended."
            }
            Clause::Restart => {
                "The old window would be a burst into a path that may have changed (RFC 5681 section 4.1, RFC \
                 2861)."
            }
            Clause::MoreAckedNeverLess => {
                "Otherwise a lost or merged ACK would change the direction of the answer (RFC 3465 counts bytes \
                 for this reason)."
            }
        }
    }
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
    /// Clauses that are known to be violated, and do not count again.
    pub known: &'a [Clause],
}

type ClauseResult = Result<(), (Clause, String)>;

impl ClauseInput<'_> {
    fn demand(&self, clause: Clause, holds: bool) -> ClauseResult {
        if holds || self.known.contains(&clause) {
            return Ok(());
        }
        Err((clause, words::answered(self.view, self.event, self.answer, self.recovery)))
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
