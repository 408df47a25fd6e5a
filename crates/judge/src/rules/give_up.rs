//! The earliest time at which a connection may be given up: RFC 9293 section 3.8.3, RFC 5482.

use super::names::RETRANSMISSION_TIMER as NAME;
use crate::finding::Findings;
use crate::step::{Context, Step};
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::{StateChange, TcpState};
use tcpassay_tcp::CongestionState;
use tcpassay_units::{Dur, Time};
use tcpassay_wire::Flags;

/// The largest clock tick of a kernel (100 Hz).
const TICK: Dur = Dur::from_millis(10);

/// The rule for one sender: its last progress.
#[derive(Clone, Debug, Default)]
pub(super) struct GiveUp {
    /// The last time without an outstanding retransmission and without recovery. A kernel counts from the
    /// first retransmission after this time.
    progress: Time,
    reset: bool,
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
    }

    fn state(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let gone = StateChange::read(&step.event.why).is_some_and(|change| {
            matches!(
                change,
                StateChange::Moved { from: Some(TcpState::Established), to: Some(TcpState::Closed) }
            )
        });
        let waits = step.end.outstanding() > 0 && step.end.fin_out.is_none() && step.end.fin_in.is_none();
        let Some(stack) =
            context.stack(step.flow).filter(|_| context.of_kernel() && gone && waits && !self.reset)
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
                    "{} gave up the connection {waited} after it began to retransmit; it must retransmit for at least {least} (RFC 9293 section 3.8.3, RFC 5482).", context.who(step.flow)
                )
            });
        }
    }
}
