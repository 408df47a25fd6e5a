//! What the congestion controller is told of reductions, timeouts, the end of a recovery, and idle time.

use super::rto::Rto;
use crate::finding::Findings;
use crate::rules::names::SENDER as NAME;
use crate::step::{Context, Step};
use tcpassay_cc::{Cause, Event};
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::{CongestionCause, Timer};
use tcpassay_tcp::{
    AfterIdle, Config, CongestionState as Ca, Recovery, RecoveryExitRule, StackFlavor, TimerTicks,
};
use tcpassay_units::{Bytes, Dur, Time};
use tcpassay_wire::Flags;

/// Whether a decision of the controller is about an event that is judged here.
pub(super) fn is_judged(event: &Event) -> bool {
    matches!(
        event,
        Event::Congestion { .. } | Event::RecoveryExit { .. } | Event::Timeout { .. } | Event::Resume { .. }
    )
}

/// State of one end.
#[derive(Clone, Debug, Default)]
pub(super) struct Events {
    /// Places of the decisions of this flow, and the next one of them.
    pub decisions: Vec<usize>,
    next: usize,
    /// The last arrival: time, and what was outstanding before it.
    arrival: (Time, u64),
    /// Data that were sent beyond the window since the state became Disorder (limited transmit).
    limited: u64,
    /// Timeouts since the last progress.
    timeouts: u32,
    /// Time of the last transmission of data.
    sent: Option<Time>,
}

impl Events {
    pub fn on(&mut self, context: &Context<'_>, step: &Step<'_>, rto: Rto, found: &mut Findings) {
        let Some(stack) = context.stack(step.flow) else { return };
        match step.event.kind {
            EventKind::In if step.is_arrival() => {
                self.arrival = (step.at(), step.before.nxt - step.before.una);
                if step.end.taken.acked > 0 {
                    self.timeouts = 0;
                } else if step.end.wnd == 0 {
                    self.timeouts = self.timeouts.min(1);
                }
            }
            EventKind::Out | EventKind::Retransmit if step.len() > 0 || step.flags().has(Flags::FIN) => {
                self.sends(context, step, stack, rto, found);
            }
            EventKind::TimerFire if step.event.timer() == Some(Timer::Rto) => {
                self.timeouts += 1;
                self.timeout(context, step, stack, found);
            }
            EventKind::Congestion => self.changes(context, step, stack, found),
            _ => {}
        }
    }

    /// The next decision about an event of the present time for which `is` holds; those before it are passed over.
    fn take(&mut self, context: &Context<'_>, now: Time, is: impl Fn(&Event) -> bool) -> Option<usize> {
        let decisions = &context.recording.decisions;
        let mut place = self.next;
        while let Some(&index) = self.decisions.get(place) {
            if decisions[index].view.now > now {
                break;
            }
            place += 1;
            if decisions[index].view.now == now && is(&decisions[index].event) {
                self.next = place;
                return Some(index);
            }
        }
        None
    }

    fn changes(&mut self, context: &Context<'_>, step: &Step<'_>, stack: &Config, found: &mut Findings) {
        let (before, now) = (step.before.state, step.end.now.state);
        match (before, now) {
            (Ca::Open, Ca::Disorder) => self.limited = 0,
            (Ca::Open | Ca::Disorder, Ca::Recovery | Ca::Cwr) => {
                self.reduces(context, step, stack, found);
            }
            (Ca::Recovery | Ca::Loss | Ca::Cwr, Ca::Open | Ca::Disorder) => {
                self.limited = 0;
                let undo = step.is_undo();
                if undo && before == Ca::Loss && stack.flavor == StackFlavor::Linux {
                    self.timeouts = 0;
                }
                self.ends(context, step, stack, found);
            }
            _ => {}
        }
    }

    /// RFC 5681 section 3.2 step 2, and equation 4: the flight without the data of limited transmit.
    fn reduces(&mut self, context: &Context<'_>, step: &Step<'_>, stack: &Config, found: &mut Findings) {
        let Some(place) = self.take(context, step.at(), |event| matches!(event, Event::Congestion { .. }))
        else {
            return;
        };
        let decision = &context.recording.decisions[place];
        let Event::Congestion { cause, flight } = decision.event else { return };
        let right = if step.end.now.state == Ca::Recovery { cause == Cause::Loss } else { true };
        let ece = step.congestion_cause() == Some(CongestionCause::Ece);
        let present = step.end.outstanding();
        let cwnd = decision.view.control.cwnd.get();
        let size = |out: u64| {
            if stack.reduce_from_cwnd {
                return cwnd;
            }
            let beyond = self.limited.min(out.saturating_sub(cwnd));
            if step.end.now.state == Ca::Recovery { out - beyond } else { out }
        };
        let before = if self.arrival.0 == step.at() { self.arrival.1 } else { present };
        let expected = [size(before), size(present)];
        if !right || ece != (cause == Cause::Ecn) || !expected.contains(&flight.get()) {
            found.add(step.of_sender(context, NAME, "the controller is told another flight of a reduction"), || {
                format!(
                    "The controller of {} was told a reduction for {cause:?} with a flight of {flight}; {} bytes were outstanding, the window was {cwnd}, \
                     and {} bytes were sent by limited transmit, which gives {}.", context.who(step.flow), before, self.limited, expected[0]
                )
            });
        }
    }

    /// The bound of the window after a recovery (RFC 6582 section 3.2 step 3), and whether it was spurious.
    fn ends(&mut self, context: &Context<'_>, step: &Step<'_>, stack: &Config, found: &mut Findings) {
        let Some(place) = self.take(context, step.at(), |event| matches!(event, Event::RecoveryExit { .. }))
        else {
            return;
        };
        let decision = &context.recording.decisions[place];
        let Event::RecoveryExit { spurious, exit } = decision.event else { return };
        let (flight, mss) = (decision.view.flight.get(), decision.view.mss.get());
        let bound = if spurious || step.before.state != Ca::Recovery {
            Bytes::MAX
        } else {
            match stack.recovery_exit {
                RecoveryExitRule::Ssthresh => Bytes::MAX,
                RecoveryExitRule::Rfc3782LessCareful => Bytes::new(flight + mss),
                RecoveryExitRule::Rfc6582 => Bytes::new(flight.max(mss) + mss),
            }
        };
        // Without SACK the bound takes away the duplicates of the end of the recovery, which are not counted any more.
        let selective = |flow: usize| {
            context.stack(flow).is_some_and(|stack| stack.sack && stack.recovery != Recovery::NewReno)
        };
        let exact = selective(step.flow) && selective(step.peer);
        if spurious != step.is_undo() || exit > bound || exact && exit != bound {
            found.add(step.of_sender(context, NAME, "the controller is told another end of a recovery"), || {
                format!(
                    "The controller of {} was told the end of a recovery (spurious: {spurious}) with a bound of {exit}; with {flight} bytes in flight \
                     the bound is {bound}.", context.who(step.flow)
                )
            });
        }
    }

    /// RFC 5681 equation 4: a timeout after a timeout does not change ssthresh.
    fn timeout(&mut self, context: &Context<'_>, step: &Step<'_>, stack: &Config, found: &mut Findings) {
        let Some(place) = self.take(context, step.at(), |event| matches!(event, Event::Timeout { .. }))
        else {
            return;
        };
        let decision = &context.recording.decisions[place];
        let Event::Timeout { flight, again } = decision.event else { return };
        let out =
            if stack.reduce_from_cwnd { decision.view.control.cwnd.get() } else { step.end.outstanding() };
        if flight.get() != out || again != (self.timeouts > 1) {
            found.add(step.of_sender(context, NAME, "the controller is told another timeout"), || {
                format!(
                    "The controller of {} was told a timeout with a flight of {flight} (repeated: {again}); it is number {} without progress, and the \
                     flight is {out} bytes.", context.who(step.flow), self.timeouts
                )
            });
        }
    }

    fn sends(
        &mut self,
        context: &Context<'_>,
        step: &Step<'_>,
        stack: &Config,
        rto: Rto,
        found: &mut Findings,
    ) {
        let (before, end) = (&step.before, step.end);
        if before.state == Ca::Disorder
            && end.outstanding() > before.cwnd
            && step.event.kind == EventKind::Out
        {
            self.limited += step.len();
        }
        let idle = before.nxt == before.una && step.event.kind == EventKind::Out;
        if idle
            && step.len() > 1
            && context.window_based(step.flow)
            && !context.recording.decisions.is_empty()
            && let (Some(last), Some(rto)) = (self.sent, rto.get(stack))
        {
            self.resumes(context, step, stack, (last, rto), found);
        }
        // A window probe of FreeBSD is a byte that does not count as sent.
        if stack.persist.is_none() || step.len() > 1 {
            self.sent = Some(step.at());
        }
    }

    /// RFC 5681 section 4.1 and RFC 2861: after an idle time of more than the RTO the window restarts.
    fn resumes(
        &mut self,
        context: &Context<'_>,
        step: &Step<'_>,
        stack: &Config,
        (last, rto): (Time, Dur),
        found: &mut Findings,
    ) {
        let idle = between(stack, last, step.at());
        // The event may be earlier than the segment, which waited for something else.
        let mut told = None;
        while let Some(&index) = self.decisions.get(self.next) {
            let decision = &context.recording.decisions[index];
            if decision.view.now > step.at() {
                break;
            }
            self.next += 1;
            if let Event::Resume { .. } = decision.event
                && decision.view.now > last
            {
                told = Some(decision);
            }
        }
        let due = idle > rto && stack.after_idle != AfterIdle::Keep;
        let Some(decision) = told else {
            let shut = stack.flavor == StackFlavor::Linux;
            if due && !shut {
                found.add(step.of_sender(context, NAME, "idle time is not reported to the controller").since(step.row, last), || {
                    format!("{} sent nothing for {idle}, more than its RTO of {rto}, and its window does not restart (RFC 5681 section 4.1).", context.who(step.flow))
                });
            }
            return;
        };
        let Event::Resume { idle, rto: told_rto, restart } = decision.event else { return };
        let waited = between(stack, last, decision.view.now);
        let cwnd = decision.view.control.cwnd.get();
        let initial = decision.view.mss.get() * u64::from(stack.initial_window.max(1));
        let floor = initial.min(cwnd);
        let window = if stack.after_idle == AfterIdle::Decay {
            let halvings = (waited.as_nanos() / rto.as_nanos().max(1)).min(63);
            (cwnd >> halvings).max(floor)
        } else {
            floor
        };
        if !due || idle != waited || told_rto != rto || restart.get() != window {
            found.add(step.of_sender(context, NAME, "the controller is told another idle time").since(step.row, last), || {
                format!(
                    "The controller of {} was told an idle time of {idle}, an RTO of {told_rto} and a restart window of {restart}; nothing was sent for \
                     {waited}, the RTO is {rto}, and the restart window {window} (RFC 5681 section 4.1, RFC 2861).", context.who(step.flow)
                )
            });
        }
    }
}

/// The time between two instants as the stack counts it.
fn between(stack: &Config, earlier: Time, later: Time) -> Dur {
    let tick = |at: Time| match stack.timer_ticks {
        TimerTicks::Off => at,
        TimerTicks::Linux => Time::from_nanos(at.as_nanos() / 1_000_000 * 1_000_000),
    };
    tick(later).since(tick(earlier))
}
