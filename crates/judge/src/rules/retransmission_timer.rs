//! The retransmission timer: RFC 6298.

use super::give_up::GiveUp;
use super::names::RETRANSMISSION_TIMER as NAME;
use super::shown::ShownTimer;
use crate::finding::{Findings, Oracle};
use crate::needs::Need;
use crate::step::{Context, Rule, Step};
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::Timer;
use tcpassay_tcp::CongestionState;
use tcpassay_units::{Dur, Time};

pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "retransmission timer against RFC 6298",
    asserts: "the interval between timeouts doubles; after the last progress the timer fires neither \
              before the smallest RTO nor after the largest RTO that the round-trip times allow; a connection is not given up for missing acknowledgments before its \
              user timeout or its number of retransmissions, and on Linux it is given up when its user timeout has passed since \
              the first timeout, or the first probe of a closed window, without an answer. Of another TCP that shows its timer and its RTO, the timer \
              runs while data are outstanding, the RTO is not below SRTT and doubles with a timeout, after which the window is one segment.",
    why: "RFC 6298 sections 2.3 and 5 (rules 5.1 to 5.6), RFC 5681 section 3.1, RFC 5482 and RFC 9293 sections \
          3.8.3 (R2) and 3.9.1 (user timeout): a timer that is too short causes spurious retransmissions and reduces the window without a loss, and a timer without back-off adds load to a congested path.",
    evidence: "the row at which the timer fired, and the row from which the expected time follows.",
    wrong_when: "the timers of a real kernel have the granularity of its clock tick: the oracle allows for one of 100 Hz. With pacing, or a queue in the host, it does not judge when a timer fires. Runs of the \
                 model are not judged: its timers are not its own witness.",
    needs: &[Need::Event(EventKind::TimerFire)],
};

/// A tick of a kernel with 100 Hz.
const KERNEL_TICK: Dur = Dur::from_millis(10);
/// The granularity of timestamps (RFC 7323 section 4.1: Linux and the model count milliseconds).
const TICK: Dur = Dur::from_millis(1);

#[derive(Clone, Debug, Default)]
struct Half {
    /// The interval between the last two timeouts, and the row of the second; `None` after an acknowledgment of new data.
    waited: Option<(Dur, usize)>,
    fired: Option<(Time, usize)>,
    /// True from a timeout until the next round-trip sample, while the back-off is kept (RFC 6298 section
    /// 5).
    backed_off: bool,
    progress: Time,
    give_up: GiveUp,
    shown: ShownTimer,
}

/// Implements the rules in the documentation of this module.
pub(super) struct RetransmissionTimer {
    halves: Vec<Half>,
}

impl RetransmissionTimer {
    pub fn new(flows: usize) -> RetransmissionTimer {
        RetransmissionTimer { halves: vec![Half::default(); flows] }
    }
}

impl Rule for RetransmissionTimer {
    fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let half = &mut self.halves[step.flow];
        if context.shows(step.flow) {
            half.shown.on(context, step, found);
        }
        match step.event.kind {
            EventKind::In => {
                let taken = step.end.taken;
                half.backed_off &= taken.sample.is_none();
                if taken.acked > 0 {
                    half.progress = step.at();
                    half.waited = None;
                    half.fired = None;
                }
            }
            EventKind::Out if step.before.una == step.before.nxt => half.progress = step.at(),
            EventKind::TimerFire if step.event.timer() == Some(Timer::Rto) && !context.exact() => {
                fires(half, context, step, found);
            }
            _ => {}
        }
        if context.of_kernel() {
            half.give_up.on(context, step, found);
        }
    }

    fn end(&mut self, context: &Context<'_>, found: &mut Findings) {
        for (place, half) in self.halves.iter().enumerate() {
            half.shown.end(context, place, found);
        }
    }
}

/// A kernel logs that the timer fired, but not for how long it was set. The wait is the time since the
/// previous timeout if nothing was acknowledged since.
fn fires(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let Some((last, row)) = half.fired.replace((step.at(), step.row)) else {
        half.waited = None;
        first_timeout(half, context, step, found);
        too_soon(half, context, step, found);
        half.backed_off = true;
        return;
    };
    half.backed_off = true;
    let wait = step.at().since(last);
    let before = half.waited.replace((wait, row));
    let Some(stack) = context.stack(step.flow).filter(|stack| stack.user_timeout.is_none()) else { return };
    if let Some((before, row)) = before
        && wait + wait / 10 + KERNEL_TICK < (before * 2).min(stack.rto.max)
    {
        found.add(
            step.of_sender(context, NAME, "no back-off after a timeout").since(row, last),
            || {
                format!(
                    "The retransmission timer of {} fired {wait:#} after it had fired last, and the interval before was {before:#}; the wait must double (RFC 6298 section 5, rule 5.5).", context.who(step.flow)
                )
            },
        );
    }
}

/// RFC 6298 section 5, rules 5.1 to 5.3: the timer is set at the last acknowledgment of new data or the last
/// transmission, and not restarted by other events.
fn first_timeout(half: &Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let Some(stack) = context.stack(step.flow).filter(|_| context.of_kernel()) else { return };
    let Some(newest) = step.end.out.iter().map(|sent| sent.last).max() else { return };
    let calm =
        matches!(step.before.state, CongestionState::Open | CongestionState::Cwr) && step.end.sacked == 0;
    let most = step.end.most_rto(stack.rto.min);
    let since = half.progress.max(newest);
    let waited = step.at().since(since);
    // Pacing delays the timer, and a closed window uses the persist timer instead.
    let mss = context.mss(step.flow);
    let plain = !context.may_pace(step.flow) && step.end.wnd >= mss;
    let calm = calm && plain && !half.backed_off;
    if calm && most > Dur::ZERO && step.end.open && waited > most + most / 8 + KERNEL_TICK {
        found.add(step.of_sender(context, NAME, "the timer fired too late").since(step.row, since), || {
            format!(
                "The retransmission timer of {} fired {waited:#} after the last transmission and the last new acknowledgement; the RTO is at most {most:#} (RFC 6298 section 5, rules 5.1 to 5.3).", context.who(step.flow)
            )
        });
    }
}

/// RFC 6298 sections 2.3 and 5: the timer is never set for less than the RTO from the last transmission of the first segment, and the RTO is SRTT plus
/// its minimum at least (Linux, `tcp_set_rto`).
fn too_soon(half: &Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let Some(stack) = context.stack(step.flow).filter(|_| context.of_kernel()) else { return };
    let (Some(head), Some((low, _))) = (step.end.out.front(), step.end.srtt.bounds()) else { return };
    let leaves = context.facts.is_some_and(|facts| !facts.queues_in_host());
    let least = low + stack.rto.min;
    let waited = step.at().since(head.last);
    let plain = leaves && stack.user_timeout.is_none() && !half.backed_off;
    if plain && step.end.open && step.end.wnd > 0 && waited + TICK * 3 < least {
        found.add(step.of_sender(context, NAME, "the timer fired too early").since(step.row, head.last), || {
            format!(
                "The retransmission timer of {} fired {waited:#} after the last transmission of the first outstanding segment; SRTT is {low:#} at \
                 least and the smallest RTO is {:#} (RFC 6298 sections 2.3 and 5).", context.who(step.flow), stack.rto.min
            )
        });
    }
}
