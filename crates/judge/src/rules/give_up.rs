//! When a connection is given up: RFC 9293 section 3.8.3, RFC 5482.

use super::names::RETRANSMISSION_TIMER as NAME;
use crate::finding::Findings;
use crate::step::{Context, Step};
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::{StateChange, TcpState};
use tcpassay_tcp::CongestionState;
use tcpassay_units::{Dur, Time};
use tcpassay_wire::Flags;

/// A tick of a kernel.
const TICK: Dur = Dur::from_millis(10);

/// The last progress of one sender.
#[derive(Clone, Debug, Default)]
pub(super) struct GiveUp {
    /// The last time at which no retransmission was outstanding and no recovery lasted: a kernel counts from the first retransmission
    /// after that.
    progress: Time,
    reset: bool,
}

impl GiveUp {
    /// A row of a log.
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
        // Linux counts by time: as long as so many timeouts take with the smallest RTO (`retransmits_timed_out`).
        let waited = step.at().since(self.progress);
        let least = match (stack.user_timeout, stack.retries) {
            (Some(patience), _) => patience,
            (None, retries) => stack.rto.min.saturating_mul((2 << retries.min(20)) - 1),
        };
        if waited + TICK < least {
            found.add(step.of_sender(context, NAME, "given up too early").since(step.row, self.progress), || {
                format!(
                    "{} gave up the connection {waited} after it began to retransmit; {least} are allowed (RFC 9293 section \
                     3.8.3, RFC 5482).", context.who(step.flow)
                )
            });
        }
    }
}
