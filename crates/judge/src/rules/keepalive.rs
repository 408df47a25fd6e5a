//! Keepalive probes: RFC 9293 section 3.8.4, tcp(7).

use super::names::RETRANSMISSION_TIMER as NAME;
use crate::finding::Findings;
use crate::step::{Context, Step};
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::Timer;
use tcpassay_units::{Dur, Time};

/// The probes of one end.
#[derive(Clone, Debug, Default)]
pub(super) struct Keepalive {
    /// Time and row of the last segment that arrived; the number of probes since.
    heard: Option<(Time, usize)>,
    probes: u32,
}

impl Keepalive {
    pub fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        if step.event.kind == EventKind::In {
            (self.heard, self.probes) = (Some((step.at(), step.row)), 0);
        } else if step.is_timer(EventKind::TimerFire, Timer::Keepalive) {
            self.fired(context, step, found);
        }
    }

    /// The first probe follows after the idle time, each further one after the interval; after the last one the connection is given up.
    fn fired(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let keepalive =
            context.stack(step.flow).filter(|_| context.exact()).and_then(|stack| stack.keepalive);
        let (Some(keepalive), Some((at, row))) = (keepalive, self.heard) else { return };
        let due = keepalive.idle + keepalive.interval * u64::from(self.probes);
        if self.probes > keepalive.count {
            found.add(step.of_sender(context, NAME, "keepalive probes go on").since(row, at), || {
                format!(
                    "{} heard from its peer last at {at} and has sent {} keepalive probes since; after {} it gives up (tcp(7)).",
                    context.who(step.flow), self.probes, keepalive.count
                )
            });
        }
        let waited = step.at().since(at);
        let spare = keepalive.interval / 2 + Dur::from_millis(1);
        if waited + Dur::from_micros(1) < due || waited > due + spare {
            found.add(step.of_sender(context, NAME, "a keepalive probe at a wrong time").since(row, at), || {
                format!(
                    "{} heard from its peer last at {at} and has sent {} keepalive probes since; the next is due {due} after that, not {waited} \
                     (tcp(7)).", context.who(step.flow), self.probes
                )
            });
        }
        self.probes += 1;
    }
}
