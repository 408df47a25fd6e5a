//! RFC 8257 section 3.2: a DCTCP receiver sends an ACK at once when the CE mark of arriving data changes.

use super::names::ECN as NAME;
use crate::finding::Findings;
use crate::step::{Context, Step};
use tcpassay_measure::EventKind;
use tcpassay_tcp::DctcpReceiver;
use tcpassay_units::{Dur, Time};

/// Time within which a receiver that acknowledges at once sends its ACK. It may wait for a merge by GRO.
const AT_ONCE: Dur = Dur::from_millis(1);

/// The CE mark of the data that arrived last, and the data that wait for their ACK.
#[derive(Clone, Debug, Default)]
pub(super) struct CeChange {
    ce: bool,
    /// Data with another CE mark than the data before: time of arrival, row, position that must be
    /// acknowledged.
    due: Option<(Time, usize, u64)>,
}

impl CeChange {
    /// Processes a row of an end that uses DCTCP's echo of CE marks.
    pub fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let Some(settings) = context.settings(step.flow).filter(|_| context.in_virtual_time()) else {
            return;
        };
        let patience = AT_ONCE + settings.nic.gro_timeout + settings.nic.rx_delay;
        self.waits(patience, context, step, found);
        self.update(step);
        step.deadline(self.due.map(|(since, ..)| since), patience);
    }

    fn update(&mut self, step: &Step<'_>) {
        if step.is_sent() && step.is_stream() {
            let ack = step.event.ack.unwrap_or(0);
            // An ACK sent at the time of the arrival or later, which covers the data. For data out of order
            // any ACK is sufficient.
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

    fn waits(&mut self, patience: Dur, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let Some((since, row, until)) = self.due else { return };
        if step.at().since(since) <= patience {
            return;
        }
        self.due = None;
        // A closed window delays ACKs until the application reads. The other values of
        // `stack.dctcp_receiver` are intended faults.
        let room = step.end.now.offered > step.end.now.frontier + context.mss(step.peer);
        let immediate =
            context.stack(step.flow).is_some_and(|stack| stack.dctcp_receiver == DctcpReceiver::Immediate);
        if !immediate || !room {
            return;
        }
        found.add(
            step.of_receiver(context, NAME, "a change of CE is not acknowledged at once").since(row, since),
            || {
                format!(
                    "At {since:#} data up to position {until} reached {} with another CE mark than the data before, and {:#} later it had not acknowledged them (RFC 8257 section 3.2).", context.who(step.flow), step.at().since(since)
                )
            },
        );
    }
}
