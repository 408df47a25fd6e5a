//! Tail loss probes: RFC 8985 section 7.

use super::names::TAIL_LOSS_PROBE as NAME;
use super::probe_repair::ProbeRepair;
use super::traced_probe::TracedProbe;
use crate::finding::{Findings, Oracle};
use crate::needs::Need;
use crate::step::{Context, Rule, Step};
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::Timer;
use tcpassay_tcp::{CongestionState, StackFlavor, Tlp};
use tcpassay_units::{Dur, Time};

pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "tail loss probes against RFC 8985",
    asserts: "a probe is sent when no segment has arrived for two SRTT or for the RTO, and not earlier; its timer is set for no \
              less; on a kernel it comes no later than two of the longest round trips after the last delivery and, if a single segment is outstanding, the delay of an ACK; no probe is sent in recovery or (except on Linux) while segments are SACKed, and no second probe before new \
              data were acknowledged or, where the stack follows RFC 8985, a round trip was measured; \
              a probe consists of new data or repeats the last segment; a loss that a probe repaired, which an ACK of later data without a report of a duplicate shows, reduces the window; \
              a retransmission timer that fires in state Open with nothing SACKed was preceded by a probe.",
    why: "RFC 8985 sections 7.2 (when the probe timer is set, and its duration) and 7.3 (contents of a probe; at most one \
          probe is outstanding) and 7.4 (the answer to a loss that the probe repaired).",
    evidence: "the row at which the timer fired, and the transmission at which the wait began.",
    wrong_when: "samples that are missing from the log made SRTT shorter. The log of a real kernel does not contain the probe \
                 timer: a retransmission is a probe if the kernel gives this reason, and new data that are sent after a \
                 silence are considered a probe.",
    needs: &[Need::Event(EventKind::TimerFire)],
};

/// Tolerance for the rounding of a computed time.
const ROUNDING: Dur = Dur::from_micros(2);
/// The largest delay of an ACK for which a sender waits (RFC 8985 `TLP.max_ack_delay`).
const MAX_ACK_DELAY: Dur = Dur::from_millis(200);

#[derive(Clone, Debug, Default)]
struct Half {
    srtt: Option<Dur>,
    rto: Option<Dur>,
    /// Time and row of a probe after which nothing was acknowledged yet.
    probing: Option<(Time, usize)>,
    /// Time and row of a probe after which no round trip was measured yet.
    unsampled: Option<(Time, usize)>,
    /// Time at which the retransmission timer will fire.
    rto_due: Option<Time>,
    /// Time at which the probe timer fired, until the log shows the probe.
    fired: Option<Time>,
    repair: ProbeRepair,
    /// State of the rules for the log of a kernel.
    traced: TracedProbe,
}

/// Implements the rules in the documentation of this module.
pub(super) struct Probe {
    halves: Vec<Half>,
}

impl Probe {
    pub fn new(flows: usize) -> Probe {
        Probe { halves: vec![Half::default(); flows] }
    }
}

impl Rule for Probe {
    fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let half = &mut self.halves[step.flow];
        if !context.exact() {
            if context.of_kernel() {
                half.traced.on(context, step, found);
            }
            return;
        }
        // Nothing is probed before data were sent.
        if step.end.now.nxt == 1 && matches!(step.event.kind, EventKind::In | EventKind::Out) {
            return;
        }
        half.repair.on(context, step, found);
        match step.event.kind {
            EventKind::In if step.end.taken.acked > 0 => half.probing = None,
            EventKind::Rtt => {
                half.srtt = step.event.srtt;
                half.rto = step.event.rto;
                half.unsampled = None;
            }
            EventKind::TimerSet if step.event.timer() == Some(Timer::Rto) => {
                half.rto_due = step.event.value.map(Time::from_nanos);
            }
            EventKind::TimerSet if step.event.timer() == Some(Timer::Tlp) => set(half, context, step, found),
            EventKind::TimerFire if step.event.timer() == Some(Timer::Tlp) => {
                fired(half, context, step, found);
            }
            EventKind::TimerFire => half.fired = None,
            EventKind::Out | EventKind::Retransmit if step.len() > 0 => sent(half, context, step, found),
            _ => {}
        }
    }
}

/// RFC 8985 section 7.2: the timer is set for two SRTT, but it fires no later than the retransmission timer, which Linux counts from the
/// transmission of the first segment. In Linux 4.6, with one segment in flight, it is set for 3/2 SRTT and the largest delay of an ACK.
fn set(half: &Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let (Some(due), Some(srtt), Some(rto)) = (step.event.value.map(Time::from_nanos), half.srtt, half.rto)
    else {
        return;
    };
    let wait = due.since(step.at());
    let least = (srtt * 2).min(srtt * 3 / 2 + MAX_ACK_DELAY);
    let head = step.end.out.front().map(|head| head.last.saturating_add(rto));
    let at_rto = |end: Option<Time>| end.is_none_or(|end| due + ROUNDING >= end);
    if wait + ROUNDING < least && !at_rto(half.rto_due) && !at_rto(head) {
        found.add(step.of_sender(context, NAME, "the probe timer is set for less than two SRTT"), || {
            format!(
                "{} set its probe timer for {wait}; SRTT is {srtt}, the RTO {rto} (RFC 8985 section 7.2).",
                context.who(step.flow)
            )
        });
    }
}

fn fired(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let recovers = matches!(step.end.now.state, CongestionState::Recovery | CongestionState::Loss);
    // Linux's timer keeps running in CWR and Disorder (`tcp_schedule_loss_probe`).
    let linux = context.stack(step.flow).is_some_and(|stack| stack.flavor == StackFlavor::Linux);
    if recovers || step.end.sacked > 0 && !linux {
        found.add(
            step.of_sender(context, NAME, "a probe in recovery or beside SACKed data").warning(),
            || {
                format!(
                    "The probe timer of {} fired in state {} with {} bytes SACKed (RFC 8985 section 7.2).",
                    context.who(step.flow),
                    step.end.now.state.name(),
                    step.end.sacked
                )
            },
        );
    }
    half.fired = Some(step.at());
    let (Some(srtt), Some(rto)) = (half.srtt, half.rto) else { return };
    let (Some(head), Some(newest)) = (step.end.out.front(), step.end.out.back()) else { return };
    let waited = step.at().since(newest.last);
    let least = (srtt * 2).min(rto);
    // The timer may have been set with a shorter SRTT, and it ends no later than the RTO of the first
    // segment.
    let at_rto = step.at().since(head.last) + rto / 10 >= rto;
    if waited < least / 2 && !at_rto {
        found.add(
            step.of_sender(context, NAME, "a probe too early").since(step.row, newest.last),
            || {
                format!(
                    "The probe timer of {} fired {waited} after it sent data last; SRTT is {srtt}, the RTO {rto} (RFC 8985 section \
                     7.2).", context.who(step.flow)
                )
            },
        );
    }
}

fn sent(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let Some(at) = half.fired.take().filter(|at| *at == step.at()) else { return };
    half.repair.probes(step);
    // In Linux the timer may run and fire while a probe is outstanding; then it continues as the retransmission timer.
    if let Some((first, row)) = half.probing.replace((at, step.row)) {
        found.add(
            step.of_sender(context, NAME, "a second probe before the first was acknowledged").since(row, first).warning(),
            || {
                format!(
                    "{} sent a probe at {first}, nothing was acknowledged since, and it sent another one (RFC 8985 section 7.3).",
                    context.who(step.flow)
                )
            },
        );
    }
    let samples = context
        .stack(step.flow)
        .is_some_and(|stack| stack.flavor != StackFlavor::Linux && stack.tlp == Tlp::On);
    if let Some((before, row)) = half.unsampled.replace((at, step.row)).filter(|_| samples) {
        found.add(
            step.of_sender(context, NAME, "a second probe without a new round-trip sample").since(row, before),
            || {
                format!(
                    "{} sent a probe at {before}, has measured no round trip since, and sent another one (RFC 8985 section 7.3).",
                    context.who(step.flow)
                )
            },
        );
    }
    if step.seq_end() < step.before.nxt && step.end.fin_out.is_none() {
        found.add(step.of_sender(context, NAME, "a probe that does not repeat the last segment"), || {
            format!(
                "{} probed with positions {} to {}; the last one sent is {} (RFC 8985 section 7.3).",
                context.who(step.flow),
                step.seq(),
                step.seq_end(),
                step.before.nxt
            )
        });
    }
}
