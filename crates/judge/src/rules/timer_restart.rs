//! RFC 6298 section 5.3: an ACK that acknowledges new data restarts the retransmission timer for the current RTO.

use super::names::RETRANSMISSION_TIMER as NAME;
use crate::finding::Findings;
use crate::step::{Context, Step};
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::Timer;
use tcpassay_tcp::{CongestionState, Recovery, StackFlavor, TimerTicks};
use tcpassay_units::{Dur, Time};

/// Tolerance for the rounding of a computed time.
const ROUNDING: Dur = Dur::from_micros(2);

/// The restarts of one end.
#[derive(Clone, Debug, Default)]
pub(super) struct TimerRestart {
    /// When the timer fires.
    due: Option<Time>,
    /// Time and row of the last ACK of new data, until the next instant, and the RTO after it.
    advanced: Option<(Time, usize, Dur)>,
    /// True until another segment arrives: a sample is one of that ACK.
    samples: bool,
}

impl TimerRestart {
    /// `rto`: the RTO after the last sample.
    pub fn on(&mut self, context: &Context<'_>, step: &Step<'_>, rto: Option<Dur>, found: &mut Findings) {
        let Some(stack) = context.stack(step.flow).filter(|_| context.exact() && step.end.open) else {
            return;
        };
        // During a recovery without SACK only the first partial ACK restarts the timer (RFC 6582 section 4).
        let restarts = || {
            let blocks = stack.sack && context.stack(step.peer).is_some_and(|peer| peer.sack);
            let newreno = !blocks || stack.recovery == Recovery::NewReno;
            let recovers = |state| state == CongestionState::Recovery;
            !newreno || !recovers(step.before.state) && !recovers(step.end.now.state)
        };
        if let Some((at, row, rto)) = self.advanced
            && step.at() > at
        {
            self.advanced = None;
            if let Some(due) = self.due.filter(|_| restarts())
                && due + ROUNDING < at + rto
                // The timer does not run beyond the user timeout.
                && stack.user_timeout.is_none_or(|patience| rto < patience)
            {
                found.add(step.of_sender(context, NAME, "an ACK of new data does not restart the timer").since(row, at), || {
                    format!(
                        "{} received an ACK of new data at {at}, and its retransmission timer still fires at {due}; the RTO is {rto} (RFC 6298 \
                         section 5, rule 5.3).", context.who(step.flow)
                    )
                });
            }
        }
        match step.event.kind {
            EventKind::In if step.is_arrival() && step.end.taken.acked > 0 => {
                // With timers that count ticks, probes and retransmissions share a timer.
                let linux = stack.flavor == StackFlavor::Linux || stack.timer_ticks == TimerTicks::Linux;
                let judged = !linux && restarts() && step.end.outstanding() > 0;
                self.advanced = judged.then_some((step.at(), step.row, rto.unwrap_or(Dur::ZERO)));
                self.samples = true;
            }
            EventKind::In => self.samples = false,
            EventKind::Rtt if self.samples => {
                if let (Some(advanced), Some(rto)) = (&mut self.advanced, step.event.rto) {
                    advanced.2 = rto;
                }
            }
            EventKind::TimerSet if step.event.timer() == Some(Timer::Rto) => {
                self.due = step.event.value.map(Time::from_nanos);
                // It was restarted; whether for the RTO is judged elsewhere.
                self.advanced = None;
            }
            EventKind::TimerCancel | EventKind::TimerFire if step.event.timer() == Some(Timer::Rto) => {
                self.due = None;
            }
            _ => {}
        }
    }
}
