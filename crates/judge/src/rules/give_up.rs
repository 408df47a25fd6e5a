//! The earliest and the latest time at which a connection is given up: RFC 9293 section 3.8.3, RFC 5482.

use super::names::RETRANSMISSION_TIMER as NAME;
use crate::finding::Findings;
use crate::step::{Context, Step};
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::{StateChange, TcpState, Timer};
use tcpassay_tcp::CongestionState;
use tcpassay_units::{Dur, Time};
use tcpassay_wire::Flags;

/// The largest clock tick of a kernel (100 Hz).
const TICK: Dur = Dur::from_millis(10);

/// The wheel of Linux's timers rounds up a wait by an eighth at most (`kernel/time/timer.c`, `LVL_GRAN`).
const ROUNDED: u64 = 8;

/// The rules for one sender: its last progress.
#[derive(Clone, Debug, Default)]
pub(super) struct GiveUp {
    /// The last time without an outstanding retransmission and without recovery. A kernel counts from the
    /// first retransmission after this time.
    progress: Time,
    reset: bool,
    /// Time and row of the first timeout, or of the first probe of a closed window, since the peer acknowledged data or opened its window.
    tries: Option<(Time, usize)>,
}

impl GiveUp {
    /// Processes a row of the log.
    pub fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        match step.event.kind {
            EventKind::In => self.reset |= step.flags().has(Flags::RST),
            EventKind::State => self.state(context, step, found),
            _ => {}
        }
        if step.end.again == 0
            && step.end.now.state == CongestionState::Open
            && step.event.kind != EventKind::State
        {
            self.progress = step.at();
        }
        self.late(context, step, found);
    }

    /// RFC 9293 section 3.9.1 and RFC 5482: after the user timeout the connection is aborted. Linux counts from the first retransmission or the first
    /// probe, and lets no timer run longer (`tcp_clamp_rto_to_user_timeout`, `tcp_clamp_probe0_to_user_timeout`).
    fn late(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let end = step.end;
        let Some(patience) = context.stack(step.flow).and_then(|stack| stack.user_timeout) else { return };
        let heard = step.event.kind == EventKind::In
            && (end.taken.acked > 0 || end.taken.delivered > 0 || end.now.edge > step.before.edge);
        let ends = gone(step) && !self.reset;
        if !context.of_kernel() || heard || !end.open || end.over && !ends {
            self.tries = None;
            return;
        }
        let timeout = step.is_timer(EventKind::TimerFire, Timer::Rto) && end.outstanding() > 0;
        let waits = end.outstanding() == 0 && end.written > end.now.nxt;
        let probe =
            step.event.kind == EventKind::Out && step.len() == 0 && step.seq() + 1 == end.now.una && waits;
        if timeout || probe {
            self.tries.get_or_insert((step.at(), step.row));
        }
        let Some((since, row)) = self.tries.filter(|_| timeout || probe || ends) else { return };
        let waited = step.at().since(since);
        if waited > patience + patience / ROUNDED + TICK * 2 {
            self.tries = None;
            found.add(step.of_sender(context, NAME, "connection given up too late").since(row, since), || {
                format!(
                    "{} still has its connection {waited:#} after its first timeout or probe without an answer; its user timeout is {patience:#} (RFC 9293 section \
                     3.9.1, RFC 5482).", context.who(step.flow)
                )
            });
        }
    }

    fn state(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let waits = step.end.outstanding() > 0 && step.end.fin_out.is_none() && step.end.fin_in.is_none();
        let Some(stack) =
            context.stack(step.flow).filter(|_| context.of_kernel() && gone(step) && waits && !self.reset)
        else {
            return;
        };
        // Linux converts the number of retransmissions to a time: the duration of as many timeouts with the
        // smallest RTO (`retransmits_timed_out`).
        let waited = step.at().since(self.progress);
        let least = match (stack.user_timeout, stack.retries) {
            (Some(patience), _) => patience,
            (None, retries) => stack.rto.min.saturating_mul((2 << retries.min(20)) - 1),
        };
        if waited + TICK < least {
            found.add(step.of_sender(context, NAME, "connection given up too early").since(step.row, self.progress), || {
                format!(
                    "{} gave up the connection {waited:#} after it began to retransmit; it must retransmit for at least {least:#} (RFC 9293 section 3.8.3, RFC 5482).", context.who(step.flow)
                )
            });
        }
    }
}

/// Whether a row ends an established connection at once.
fn gone(step: &Step<'_>) -> bool {
    let closes = |change| {
        matches!(change, StateChange::Moved { from: Some(TcpState::Established), to: Some(TcpState::Closed) })
    };
    step.event.kind == EventKind::State && StateChange::read(&step.event.why).is_some_and(closes)
}
