//! The proof of F-RTO: RFC 5682 section 2.1.

use super::names::LOSS_DETECTION as NAME;
use crate::end::End;
use crate::finding::Findings;
use crate::step::{Context, Step};
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::{CongestionCause, Timer};
use tcpassay_units::Time;

/// What is known since the last timeout.
#[derive(Clone, Copy, Debug)]
struct Since {
    row: usize,
    at: Time,
    /// SND.NXT at the timeout.
    until: u64,
    /// Bytes below `until` that were sent once and not delivered.
    open: u64,
    /// True once such data were delivered.
    proven: bool,
    /// True if data may have been sent again in a row that is no retransmission.
    stale: bool,
}

/// The last timeout of one end.
#[derive(Clone, Debug, Default)]
pub(super) struct Frto(Option<Since>);

fn open(end: &End, until: u64) -> u64 {
    let before = end.out.iter().take_while(|sent| sent.end <= until);
    before.filter(|sent| sent.tries == 1 && !sent.sacked).map(|sent| sent.end - sent.start).sum()
}

impl Frto {
    /// A timeout was spurious if data are delivered that were sent before it and not sent again. New data, and the repair itself, prove
    /// nothing.
    pub fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        if step.is_timer(EventKind::TimerFire, Timer::Rto) {
            let until = step.end.now.nxt;
            let open = open(step.end, until);
            self.0 = Some(Since { row: step.row, at: step.at(), until, open, proven: false, stale: false });
            return;
        }
        let Some(since) = &mut self.0 else { return };
        match step.event.kind {
            EventKind::Retransmit => since.open = open(step.end, since.until),
            EventKind::Out => since.stale |= step.seq() < step.before.nxt,
            // Only the delivery of data that were sent once changes the sum.
            EventKind::In if !since.proven && (since.stale || step.end.taken.once) => {
                since.stale = false;
                let left = open(step.end, since.until);
                since.proven = left < since.open;
                since.open = left;
            }
            EventKind::Congestion if step.congestion_cause() == Some(CongestionCause::UndoFrto) => {
                let Since { row, at, proven, .. } = *since;
                self.0 = None;
                if proven {
                    return;
                }
                found.add(step.of_sender(context, NAME, "F-RTO without a proof").since(row, at), || {
                    format!(
                        "{} took its timeout at {at} for spurious, although nothing that it had sent before and not again was delivered since \
                         (RFC 5682 section 2.1).", context.who(step.flow)
                    )
                });
            }
            _ => {}
        }
    }
}
