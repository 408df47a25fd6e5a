//! The retransmission timer: RFC 6298.

use super::estimator::Estimator;
use super::give_up::GiveUp;
use super::keepalive::Keepalive;
use super::names::RETRANSMISSION_TIMER as NAME;
use super::timer_restart::TimerRestart;
use crate::finding::{Findings, Oracle};
use crate::needs::Need;
use crate::step::{Context, Rule, Step};
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::Timer;
use tcpassay_tcp::{Config, CongestionState, Recovery, StackFlavor, TimerTicks};
use tcpassay_units::{Dur, Time};

pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "retransmission timer against RFC 6298",
    asserts: "a round-trip sample is taken from a segment that was sent once, or from its timestamp, and is not below the \
              propagation delay; without timestamps it is the time since a transmission of what the ACK delivers; an ACK that \
              delivers nothing gives none, nor does one of a SYN that was sent again without timestamps, one of new data that were sent once gives one; the RTO of the model is the one that \
              its samples give (RFC 6298, or the filter of Linux); an ACK of new data restarts the timer for the whole RTO; SRTT = 7/8 SRTT + 1/8 sample; the RTO lies between its bounds, and between SRTT plus the \
              deviation of the last sample and SRTT plus four times the largest deviation; the timer runs for the current RTO \
              while data are outstanding; the RTO doubles with each timeout, and the timer is not set beyond the user timeout; after the last progress the timer fires neither \
              before the smallest RTO nor after the RTO; a connection is not given up for missing acknowledgments before its \
              user timeout or its number of retransmissions, and on Linux it is given up when its user timeout has passed since \
              the first timeout, or the first probe of a closed window, without an answer.",
    why: "RFC 6298 sections 2 (estimator and bounds), 3 (Karn's algorithm) and 5 (rules 5.1 to 5.6), RFC 5482 and RFC 9293 sections \
          3.8.3 (R2) and 3.9.1 (user timeout): a timer that is too short causes spurious retransmissions and reduces the window without a loss, a timer without back-off adds load to a congested path, and a timer that is not restarted on progress fires although data are being acknowledged.",
    evidence: "the sample, or the row at which the timer was set or fired, and the row from which the expected value follows.",
    wrong_when: "the timers of a real kernel have the granularity of its clock tick, and its log contains neither samples nor \
                 the setting of timers: the oracle then computes the back-off from the times at which timers fired, and \
                 compares the first timeout with an upper bound of the RTO from the round-trip times. A user timeout that \
                 shortens the last wait is recognised by its duration.",
    needs: &[Need::Event(EventKind::TimerFire)],
};

/// Tolerance for the rounding of a computed time.
const ROUNDING: Dur = Dur::from_micros(2);
/// A tick of a kernel with 100 Hz.
const KERNEL_TICK: Dur = Dur::from_millis(10);
/// The granularity of timestamps (RFC 7323 section 4.1: Linux and the model count milliseconds).
const TICK: Dur = Dur::from_millis(1);

#[derive(Clone, Debug, Default)]
struct Half {
    srtt: Option<Dur>,
    /// RTO after the last sample.
    rto: Option<Dur>,
    /// Timeouts since the last sample.
    doublings: u32,
    /// Time at which the timer will fire, and the row that set it.
    due: Option<(Time, usize)>,
    /// Duration for which the last timeout set the timer, and the row; `None` after an acknowledgment of new
    /// data.
    waited: Option<(Dur, usize)>,
    fired: Option<(Time, usize)>,
    /// True from a timeout until the next round-trip sample, while the back-off is kept (RFC 6298 section
    /// 5).
    backed_off: bool,
    progress: Time,
    advanced: Option<(Time, usize)>,
    other_timer: Option<Time>,
    /// The last arrival if all data that it newly delivered had been sent more than once: time, row.
    ambiguous: Option<(Time, usize)>,
    /// The largest deviation of a sample from SRTT so far.
    deviation: Dur,
    give_up: GiveUp,
    keepalive: Keepalive,
    estimator: Estimator,
    restart: TimerRestart,
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
        match step.event.kind {
            EventKind::In => {
                let taken = step.end.taken;
                let only_again = taken.again && !taken.once;
                // An ACK that acknowledges a retransmission may have waited for it, so it gives no sample of
                // other data either. Linux does not count a segment before it is acknowledged as a whole (`tcp_clean_rtx_queue`).
                let linux = context.stack(step.flow).is_some_and(|stack| stack.flavor == StackFlavor::Linux);
                let again = if linux { taken.acked_again_whole } else { taken.acked_again };
                let waited = again && !taken.sacked_once;
                half.ambiguous = (only_again || waited).then_some((step.at(), step.row));
                half.backed_off &= taken.sample.is_none();
                if taken.acked > 0 {
                    half.progress = step.at();
                    half.advanced = Some((step.at(), step.row));
                    half.waited = None;
                    half.fired = None;
                }
            }
            EventKind::Out if step.before.una == step.before.nxt => half.progress = step.at(),
            EventKind::Rtt => sample(half, context, step, found),
            EventKind::TimerSet if step.event.timer() == Some(Timer::Rto) => set(half, context, step, found),
            EventKind::TimerFire if step.event.timer() == Some(Timer::Rto) => {
                fire(half, context, step, found);
            }
            EventKind::TimerCancel if step.event.timer() == Some(Timer::Rto) => half.due = None,
            _ => {}
        }
        running(half, context, step, found);
        if context.of_kernel() {
            half.give_up.on(context, step, found);
        }
        half.keepalive.on(context, step, found);
        half.estimator.on(context, step, found);
        half.restart.on(context, step, half.rto, found);
    }
}

/// Checks a round-trip sample, SRTT and the RTO (RFC 6298 sections 2 and 3).
fn sample(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let event = step.event;
    let (Some(value), Some(srtt), Some(rto)) = (event.value.map(Dur::from_nanos), event.srtt, event.rto)
    else {
        return;
    };
    let Some(stack) = context.stack(step.flow) else { return };
    let least = context.least_rtt(step.flow);
    let granularity = if stack.timestamps { TICK } else { Dur::ZERO };
    if value + granularity < least {
        found.add(step.of_sender(context, NAME, "a sample below the propagation delay"), || {
            format!("{} measured a round-trip time of {value}, but the propagation delay of the links is {least} in total.", context.who(step.flow))
        });
    }
    // A sample from a timestamp is a multiple of the timestamp clock's period.
    if let Some((at, row)) = half.ambiguous
        && at == step.at()
        && context.exact()
        // Without timestamps FreeBSD times one segment at a time, which may have been SACKed before.
        && stack.flavor != StackFlavor::FreeBsd
        && (!stack.timestamps || !value.as_nanos().is_multiple_of(TICK.as_nanos()))
    {
        found.add(
            step.of_sender(context, NAME, "a sample of retransmitted data").since(row, at),
            || {
                format!(
                    "{} took a sample of {value} from an ACK that acknowledges retransmitted data, and not by its timestamp \
                     (Karn's algorithm, RFC 6298 section 3).", context.who(step.flow)
                )
            },
        );
    }
    // The sample of the handshake is not logged; SRTT before this sample was at most 8/7 of SRTT after it.
    let known = half.srtt.unwrap_or(srtt * 8 / 7);
    half.deviation = half.deviation.max(known.abs_diff(value)).max(known / 2).max(value / 2);
    let ceiling = (srtt + (half.deviation * 4).max(stack.rto.min) + stack.rto.slop).min(stack.rto.max);
    if rto > stack.timer_ticks.round_up(ceiling) + ROUNDING && context.exact() {
        found.add(step.of_sender(context, NAME, "the RTO is longer than its samples explain"), || {
            format!(
                "After a sample of {value} the RTO of {} is {rto}; SRTT is {srtt}, no sample has deviated from it by more than {}, and \
                 a sample ends the back-off (RFC 6298 sections 2.3 and 5).", context.who(step.flow), half.deviation
            )
        });
    }
    if let Some(before) = half.srtt {
        let expected = (before * 7 + value) / 8;
        if srtt.abs_diff(expected) > ROUNDING {
            found.add(step.of_sender(context, NAME, "SRTT does not follow its samples"), || {
                format!(
                    "{} took a sample of {value} with SRTT {before}; SRTT became {srtt}, not {expected} (RFC 6298 section 2.3: \
                     7/8 SRTT + 1/8 R).", context.who(step.flow)
                )
            });
        }
        let deviation = value.saturating_sub(before);
        let floor = (srtt + deviation).max(stack.rto.min).min(stack.rto.max);
        if rto + ROUNDING < floor {
            found.add(step.of_sender(context, NAME, "the RTO ignores the deviation or its minimum"), || {
                format!(
                    "After a sample of {value} with SRTT {before} the RTO of {} is {rto}; SRTT is {srtt}, the sample deviates by \
                     {deviation}, and the smallest RTO is {} (RFC 6298 sections 2.3 and 2.4).",
                    context.who(step.flow), stack.rto.min
                )
            });
        }
    }
    if rto > stack.rto.max + ROUNDING {
        found.add(step.of_sender(context, NAME, "the RTO is above its maximum"), || {
            format!("The RTO of {} is {rto}; its largest value is {}.", context.who(step.flow), stack.rto.max)
        });
    }
    half.srtt = Some(srtt);
    half.rto = Some(rto);
    // Every sample ends the back-off (RFC 6298 section 5), also a sample from a SACK block.
    half.doublings = 0;
    half.waited = None;
    half.fired = None;
}

/// RFC 6298 section 5: the timer is set for the current RTO.
fn set(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let Some(due) = step.event.value.map(Time::from_nanos) else { return };
    let wait = due.since(step.at());
    half.due = Some((due, step.row));
    let Some(stack) = context.stack(step.flow) else { return };
    limited(half, context, step, stack, due, found);
    // The user timeout may shorten the last wait.
    let patient = stack.user_timeout.is_none_or(|patience| due < half.progress + patience);
    let most = stack.rto.max;
    let at_timeout = half.fired.is_some_and(|(at, _)| at == step.at());
    if let (true, Some((before, row))) = (at_timeout && patient, half.waited)
        && wait + wait / 20 + ROUNDING < (stack.timer_ticks.least(before) * 2).min(most)
    {
        found.add(
            step.of_sender(context, NAME, "no back-off after a timeout").since(row, step.at()),
            || {
                format!(
                    "{} had waited {before} for a retransmission timeout and now waits {wait}; the wait must double (RFC 6298 \
                     section 5, rule 5.5) up to {most}.", context.who(step.flow)
                )
            },
        );
    }
    let current = half.rto.map(|rto| rto.saturating_mul(1 << half.doublings.min(32)).min(most));
    if at_timeout {
        // The wait without its rounding to ticks.
        let wait =
            current.filter(|_| stack.timer_ticks == TimerTicks::Linux).map_or(wait, |rto| rto.min(wait));
        half.waited = Some((wait, step.row));
    }
    let Some(expected) = current.filter(|_| context.exact() && patient) else { return };
    if due > stack.timer_ticks.expiry(step.at(), expected) + ROUNDING {
        found.add(step.of_sender(context, NAME, "the timer is set for longer than the RTO"), || {
            format!(
                "{} set its retransmission timer for {wait}; the current RTO is {expected}.",
                context.who(step.flow)
            )
        });
    }
    // Linux counts from the transmission of the first segment after a probe or a reordering timer.
    if wait + ROUNDING < expected && stack.flavor != StackFlavor::Linux {
        found.add(step.of_sender(context, NAME, "the timer is set for less than the RTO"), || {
            format!(
                "{} set its retransmission timer for {wait}; the current RTO is {expected} (RFC 6298 section 5).",
                context.who(step.flow)
            )
        });
    }
}

/// RFC 5482, Linux `tcp_clamp_rto_to_user_timeout`: the timer does not fire later than the user timeout after the last progress, at which the
/// connection is given up. What begins to be sent now restarts it.
fn limited(
    half: &Half,
    context: &Context<'_>,
    step: &Step<'_>,
    stack: &Config,
    due: Time,
    found: &mut Findings,
) {
    let Some(patience) = stack.user_timeout.filter(|_| context.exact()) else { return };
    let latest = half.progress.saturating_add(patience).max(step.at());
    if due > latest + ROUNDING && step.end.outstanding() > 0 && step.end.wnd > 0 {
        found.add(step.of_sender(context, NAME, "the timer is set beyond the user timeout"), || {
            format!(
                "{} set its retransmission timer for {due}; the last progress was at {}, and its user timeout is {patience} (RFC 5482).",
                context.who(step.flow), half.progress
            )
        });
    }
}

/// A kernel logs that the timer fired, but not for how long it was set. The wait is the time since the
/// previous timeout if nothing was acknowledged since.
fn kernel_fire(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
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
                    "The retransmission timer of {} fired {wait} after it had fired last, and the interval before was {before}; the wait must double (RFC 6298 section 5, rule 5.5).", context.who(step.flow)
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
                "The retransmission timer of {} fired {waited} after the last transmission and the last new acknowledgement; the RTO is at most {most} (RFC 6298 section 5, rules 5.1 to 5.3).", context.who(step.flow)
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
                "The retransmission timer of {} fired {waited} after the last transmission of the first outstanding segment; SRTT is {low} at \
                 least and the smallest RTO is {} (RFC 6298 sections 2.3 and 5).", context.who(step.flow), stack.rto.min
            )
        });
    }
}

fn fire(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    half.due = None;
    if !context.exact() {
        kernel_fire(half, context, step, found);
        return;
    }
    let first = half.fired.is_none();
    half.fired = Some((step.at(), step.row));
    half.doublings += 1;
    let Some(stack) = context.stack(step.flow).filter(|_| context.exact()) else { return };
    if first {
        half.waited = half.rto.map(|rto| (rto, step.row));
    }
    let Some(head) = step.end.out.front() else {
        found.add(step.of_sender(context, NAME, "a timeout with nothing outstanding"), || {
            format!("The retransmission timer of {} fired with nothing outstanding (RFC 6298 section 5, rule 5.2).", context.who(step.flow))
        });
        return;
    };
    // During a recovery without SACK only the first partial ACK restarts the timer (RFC 6582 section 4).
    let recovers = step.before.state == CongestionState::Recovery;
    if recovers && (!stack.sack || stack.recovery == Recovery::NewReno) {
        return;
    }
    let restarts = stack.flavor != StackFlavor::Linux && !recovers;
    let since =
        if restarts { half.advanced.map_or(head.last, |(at, _)| at.max(head.last)) } else { head.last };
    let waited = step.at().since(since);
    let patient = stack.user_timeout.is_none_or(|patience| step.at() < half.progress + patience);
    if patient && waited + ROUNDING < stack.rto.min {
        let row = half.advanced.filter(|(at, _)| *at == since).map_or(step.row, |(_, row)| row);
        found.add(
            step.of_sender(context, NAME, "the timer fired too early").since(row, since),
            || {
                format!(
                    "The retransmission timer of {} fired {waited} after the last progress of the first outstanding segment; the \
                     smallest RTO is {} (RFC 6298 section 5, rules 5.3 and 5.6).", context.who(step.flow), stack.rto.min
                )
            },
        );
    }
}

/// RFC 6298 section 5, rule 5.1: the timer runs while data are outstanding.
fn running(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let event = step.event;
    if event.kind == EventKind::TimerSet && !matches!(event.timer(), Some(Timer::Rto | Timer::DelayedAck)) {
        half.other_timer = event.value.map(Time::from_nanos);
    }
    // The rule is evaluated at the first row with a later time: all rows of the last instant are then known.
    let quiet = half.due.is_none() && half.other_timer.is_none_or(|at| at < step.at());
    if quiet
        && context.exact()
        && step.end.open
        && !step.end.over
        && step.is_arrival()
        && step.before.nxt > step.before.una
        && let Some(newest) = step.end.out.back()
        && step.at().since(newest.last) > TICK
        && half.rto.is_some()
    {
        found.add(step.of_sender(context, NAME, "no timer runs with data outstanding"), || {
            format!(
                "{} has {} bytes outstanding, sent {} ago, and no retransmission timer runs (RFC 6298 section 5, rule 5.1).",
                context.who(step.flow), step.before.nxt - step.before.una, step.at().since(newest.last)
            )
        });
    }
}
