//! RFC 8257 section 3.2: what changes the state of CE is acknowledged at once.

use super::names::ECN as NAME;
use crate::finding::Findings;
use crate::step::{Context, Step};
use tcpassay_measure::EventKind;
use tcpassay_tcp::DctcpReceiver;
use tcpassay_units::{Dur, Time};

/// The time of a receiver that acknowledges at once, which may have to wait for a merge.
const AT_ONCE: Dur = Dur::from_millis(1);

/// The mark of the data that arrived last, and data that wait for their ACK.
#[derive(Clone, Debug, Default)]
pub(super) struct CeChange {
    ce: bool,
    /// Data with another mark than those before: when they came, the row, the position that is to be acknowledged.
    due: Option<(Time, usize, u64)>,
}

impl CeChange {
    /// A row of an end that has agreed on DCTCP's echo.
    pub fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        self.waits(context, step, found);
        if step.is_sent() && step.is_stream() {
            let ack = step.event.ack.unwrap_or(0);
            // What was sent in the instant of the arrival, or later, and covers it; out of order any ACK serves.
            if self.due.is_some_and(|(_, _, until)| ack >= until) {
                self.due = None;
            }
        }
        let new = step.end.repeated.is_none() && step.len() > 0;
        if step.event.kind != EventKind::In || step.refused || !new || !step.is_stream() {
            return;
        }
        let in_order = step.end.now.frontier == step.seq_end();
        if step.event.ce != self.ce && in_order && step.end.above.is_empty() {
            self.due.get_or_insert((step.at(), step.row, step.seq_end()));
        }
        self.ce = step.event.ce;
    }

    fn waits(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let Some(settings) = context.settings(step.flow).filter(|_| context.in_virtual_time()) else {
            return;
        };
        let Some((since, row, until)) = self.due else { return };
        let patience = AT_ONCE + settings.nic.gro_timeout + settings.nic.rx_delay;
        if step.at().since(since) <= patience {
            return;
        }
        self.due = None;
        // A shut window holds ACKs back until the application reads; the other receivers of `stack.dctcp_receiver` are faults by choice.
        let room =
            step.end.now.offered > step.end.now.frontier + context.recording.flows[step.peer].mss.get();
        if settings.stack.dctcp_receiver != DctcpReceiver::Immediate || !room {
            return;
        }
        found.add(
            step.of_receiver(context, NAME, "a change of CE is not acknowledged at once").since(row, since),
            || {
                format!(
                    "At {since} data up to position {until} reached {} with another mark than the data before, and {} later it had not \
                     acknowledged them (RFC 8257 section 3.2).", context.who(step.flow), step.at().since(since)
                )
            },
        );
    }
}
