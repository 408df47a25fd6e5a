//! The ends of the timers of the sender.

use super::rto::Rto;
use crate::finding::Findings;
use crate::rules::names::SENDER as NAME;
use crate::step::{Context, Step};
use tcpassay_case::SmallQueues;
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::Timer;
use tcpassay_tcp::{Config, StackFlavor, TimerTicks, Tlp};
use tcpassay_units::{Dur, Time};
use tcpassay_wire::Flags;

/// The largest delay of an ACK for which a probe waits (RFC 8985 `TLP.max_ack_delay`, Linux `TCP_RTO_MIN`).
const MAX_ACK_DELAY: Dur = Dur::from_millis(200);
/// The least wait of a probe before Linux 4.15 (`tcp_schedule_loss_probe`).
const LEAST_PROBE: Dur = Dur::from_millis(10);
/// The time for which a corked segment is held back (tcp(7)).
const CORK: Dur = Dur::from_millis(200);
/// The least wait before the first window probe of Linux (`tcp_probe0_base`).
const LEAST_WINDOW_PROBE: Dur = Dur::from_millis(200);
/// A tick of Linux's timers.
const TICK: Dur = Dur::from_millis(1);

/// State of the timers of one end.
#[derive(Clone, Debug, Default)]
pub(super) struct Deadlines {
    srtt: Option<Dur>,
    /// When the retransmission timer fires.
    rto_due: Option<Time>,
    /// Time of the last transmission of data.
    sent: Time,
    /// How often the timer of window probes has fired since data were sent.
    probes: u32,
    /// The timer of window probes fired: time, row, and the window of the peer.
    fired: Option<(Time, usize, u64)>,
    /// When the timer of a corked segment fires, and the row that set it.
    corked: Option<(Time, usize)>,
}

impl Deadlines {
    pub fn on(&mut self, context: &Context<'_>, step: &Step<'_>, rto: Rto, found: &mut Findings) {
        let Some(stack) = context.stack(step.flow) else { return };
        self.answered(context, step, stack, found);
        match step.event.kind {
            EventKind::Rtt => self.srtt = step.event.srtt,
            EventKind::Out | EventKind::Retransmit if step.len() > 0 || step.flags().has(Flags::FIN) => {
                self.sent = step.at();
                self.corked = None;
                // A window probe of FreeBSD is a byte that does not count as sent.
                if stack.persist.is_none() || step.len() > 1 {
                    self.probes = 0;
                }
            }
            EventKind::TimerFire => match step.event.timer() {
                Some(Timer::Rto) => self.rto_due = None,
                Some(Timer::Persist) => {
                    self.probes += 1;
                    self.fired = Some((step.at(), step.row, step.end.wnd));
                }
                Some(Timer::Cork) => self.corked = None,
                _ => {}
            },
            EventKind::TimerCancel if step.event.timer() == Some(Timer::Rto) => self.rto_due = None,
            EventKind::TimerSet => self.set(context, step, stack, rto, found),
            _ => {}
        }
    }

    fn set(
        &mut self,
        context: &Context<'_>,
        step: &Step<'_>,
        stack: &Config,
        rto: Rto,
        found: &mut Findings,
    ) {
        let Some(due) = step.event.value.map(Time::from_nanos) else { return };
        let (title, expected) = match step.event.timer() {
            Some(Timer::Rto) => {
                self.rto_due = Some(due);
                (
                    "the retransmission timer counts from another time",
                    Deadlines::retransmission(step, stack, rto),
                )
            }
            Some(Timer::Tlp) => {
                let expected = self.probe(context, step, stack, rto);
                if stack.timer_ticks == TimerTicks::Linux {
                    // Rounding does not put the probe behind the retransmission: they share a timer.
                    self.rto_due = self.rto_due.map(|at| at.max(due));
                }
                ("the probe timer is set for another time", expected)
            }
            Some(Timer::Cork) => {
                self.held(context, step, due, found);
                ("a corked segment is held for another time", corked(step, stack, rto))
            }
            Some(Timer::Persist) => {
                ("the timer of window probes is set for another time", self.window_probe(step, stack, rto))
            }
            _ => return,
        };
        if expected.is_empty() || expected.contains(&due) {
            return;
        }
        found.add(step.of_sender(context, NAME, title), || {
            let expected: Vec<String> = expected.iter().map(Time::to_string).collect();
            format!(
                "At {} {} set this timer for {due}; the rule gives {}. SRTT is {}, the RTO {}.",
                step.at(),
                context.who(step.flow),
                expected.join(" or "),
                self.srtt.map_or_else(|| "unknown".to_owned(), |srtt| srtt.to_string()),
                rto.get(stack).map_or_else(|| "unknown".to_owned(), |rto| rto.to_string()),
            )
        });
    }

    /// tcp(7), `TCP_CORK`: the time of a corked segment counts from when it began to wait, whatever is written since.
    fn held(&mut self, context: &Context<'_>, step: &Step<'_>, due: Time, found: &mut Findings) {
        let Some((first, row)) = self.corked.replace((due, step.row)) else { return };
        if due > first && first > step.at() {
            found.add(step.of_sender(context, NAME, "the time of a corked segment begins anew").since(row, step.at()), || {
                format!(
                    "{} holds a corked segment until {first}; without a transmission since then it set the timer for {due} (tcp(7), TCP_CORK).",
                    context.who(step.flow)
                )
            });
        }
    }

    /// The times that RFC 8985 section 7.2 and Linux permit for the probe timer; empty if they are not known.
    fn probe(&self, context: &Context<'_>, step: &Step<'_>, stack: &Config, rto: Rto) -> Vec<Time> {
        let (Some(srtt), Some(rto_due), Some(rto)) = (self.srtt, self.rto_due, rto.get(stack)) else {
            return Vec::new();
        };
        let (now, end) = (step.at(), step.end);
        let shares = stack.flavor == StackFlavor::Linux && stack.tlp == Tlp::On;
        // What was sent again is split or joined, and a FIN takes a position.
        let single = end.out.len() == 1 && end.outstanding() <= context.mss(step.flow);
        let unclear = end.fin_out.is_some() || end.again > 0;
        let time = |single: bool| {
            let wait = match (stack.tlp, single) {
                (Tlp::OpenOnly, true) => (srtt * 2).max(LEAST_PROBE).max(srtt * 3 / 2 + MAX_ACK_DELAY),
                (Tlp::OpenOnly, false) => (srtt * 2).max(LEAST_PROBE),
                (_, true) => srtt * 2 + MAX_ACK_DELAY,
                (_, false) => srtt * 2 + stack.timer_floor,
            };
            let mut at = now.saturating_add(wait).min(rto_due);
            // The timer that is shared with the RTO counts that from the first segment (`tcp_rto_delta_us`).
            let head = end.out.front().map(|head| if self.sent == now { head.last } else { now });
            if let Some(over) = head.map(|from| from.saturating_add(rto)).filter(|over| shares && *over > now)
            {
                at = at.min(over);
            }
            stack.timer_ticks.expiry(now, at.since(now))
        };
        if unclear { vec![time(single), time(!single)] } else { vec![time(single)] }
    }

    /// On Linux the retransmission timer counts from now, or after a probe or a reordering timer from the transmission of the first segment
    /// (`tcp_rearm_rto`). `retransmission-timer` has the rule of the other stacks.
    fn retransmission(step: &Step<'_>, stack: &Config, rto: Rto) -> Vec<Time> {
        let head = step.end.out.front();
        let (Some(rto), Some(head)) = (rto.get(stack), head) else { return Vec::new() };
        if stack.flavor != StackFlavor::Linux || stack.user_timeout.is_some() || head.sacked {
            return Vec::new();
        }
        let now = step.at();
        let rest = head.last.saturating_add(rto).max(now + TICK);
        [rto, rest.since(now)].map(|wait| stack.timer_ticks.expiry(now, wait)).to_vec()
    }

    /// RFC 9293 section 3.8.6.1: the RTO, doubled with each probe.
    fn window_probe(&self, step: &Step<'_>, stack: &Config, rto: Rto) -> Vec<Time> {
        // FreeBSD counts with a deviation that the log does not contain.
        let Some(first) = rto.get(stack).filter(|_| stack.persist.is_none()) else { return Vec::new() };
        let linux = stack.flavor == StackFlavor::Linux;
        let least = if linux { LEAST_WINDOW_PROBE } else { Dur::ZERO };
        let wait = |shift: u32| {
            let wait = first.max(least).saturating_mul(1 << (self.probes + shift).min(32));
            let wait = wait.max(stack.rto.min.max(least)).min(stack.rto.max);
            stack.timer_ticks.expiry(step.at(), wait)
        };
        // Linux adds the back-off of the retransmission timer, except at the begin (`tcp_ack_probe`).
        if linux { vec![wait(0), wait(rto.doublings)] } else { vec![wait(0)] }
    }

    /// RFC 9293 sections 3.8.6.1 and 3.8.6.2.1: when the timer of window probes fires, a probe is sent, or what a small window holds.
    fn answered(&mut self, context: &Context<'_>, step: &Step<'_>, stack: &Config, found: &mut Findings) {
        let Some((at, row, window)) = self.fired else { return };
        if step.end.over {
            self.fired = None;
            return;
        }
        if step.at() == at {
            if step.is_sent() {
                self.fired = None;
                Deadlines::content(context, step, stack, window, found);
            }
            return;
        }
        self.fired = None;
        if !may_wait(context, step.flow) && !step.event.kind.eq(&EventKind::State) {
            found.add(step.of_sender(context, NAME, "the timer of window probes fires and nothing is sent").since(row, at), || {
                format!(
                    "The timer of window probes of {} fired at {at} with a peer's window of {window} bytes, and nothing was sent (RFC 9293 sections \
                     3.8.6.1 and 3.8.6.2.1).", context.who(step.flow)
                )
            });
        }
    }

    fn content(context: &Context<'_>, step: &Step<'_>, stack: &Config, window: u64, found: &mut Findings) {
        if may_wait(context, step.flow) || step.flags().any(Flags::FIN | Flags::RST | Flags::SYN) {
            return;
        }
        let before = &step.before;
        let right = match (window, stack.persist) {
            // What the window holds, or what is left to send.
            (1.., _) => step.len() > 0,
            (0, None) => step.len() == 0 && step.seq() + 1 == before.una,
            (0, Some(_)) => step.len() <= 1,
        };
        if !right {
            found.add(step.of_sender(context, NAME, "a window probe with other contents"), || {
                format!(
                    "The timer of window probes of {} fired with a peer's window of {window} bytes, and {} bytes were sent at position {} (RFC 9293 \
                     section 3.8.6.1).", context.who(step.flow), step.len(), step.seq()
                )
            });
        }
    }
}

/// The time of a corked segment: on Linux that of the timer of window probes, which is the RTO at least (`tcp_check_probe_timer`).
fn corked(step: &Step<'_>, stack: &Config, rto: Rto) -> Vec<Time> {
    let wait = match (stack.flavor, rto.get(stack)) {
        (StackFlavor::Linux, Some(rto)) => rto.max(CORK),
        (StackFlavor::Linux, None) => return Vec::new(),
        _ => CORK,
    };
    vec![stack.timer_ticks.expiry(step.at(), wait)]
}

/// Whether pacing, the host or the search for the path MTU may hold back what the timer releases.
fn may_wait(context: &Context<'_>, flow: usize) -> bool {
    context.may_pace(flow)
        || context.settings(flow).is_none_or(|settings| {
            !matches!(settings.small_queues, SmallQueues::Off) || settings.stack.mtu_probing.is_some()
        })
}
