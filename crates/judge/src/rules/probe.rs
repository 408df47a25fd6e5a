//! Tail loss probes: RFC 8985 section 7.

use super::names::TAIL_LOSS_PROBE as NAME;
use super::traced_probe::TracedProbe;
use crate::finding::{Findings, Oracle};
use crate::step::{Context, Rule, Step};
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::Timer;
use tcpassay_tcp::{CongestionState, StackFlavor};
use tcpassay_units::{Dur, Time};

pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "tail loss probes against RFC 8985",
    asserts: "a probe leaves when the sender has heard nothing for two smoothed round trips or an RTO, not sooner; none leaves in \
              recovery or (but with Linux) while segments are SACKed, and no second one before new data were acknowledged; it is new data \
              or the last segment again; a retransmission timer that fires in the open state with nothing SACKed comes after a probe.",
    why: "RFC 8985 sections 7.2 (when the probe timer is set, and for how long) and 7.3 (what a probe sends, and one at a time).",
    evidence: "the row at which the timer fired, and the transmission that the wait is counted from.",
    wrong_when: "samples that the log does not have made the smoothed round-trip time shorter. The log of a real kernel has no timer of \
                 probes: there they are known as retransmissions by the reason that the kernel gives, and new data that leave after a \
                 silence are taken for one.",
    needs: &[EventKind::TimerFire],
};

#[derive(Clone, Debug, Default)]
struct Half {
    srtt: Option<Dur>,
    rto: Option<Dur>,
    /// A probe was sent and nothing was acknowledged since.
    probing: Option<(Time, usize)>,
    /// The probe timer fired at this time, and what it sends is not seen yet.
    fired: Option<Time>,
    /// Of a kernel.
    traced: TracedProbe,
}

/// See the module.
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
        match step.event.kind {
            EventKind::In if step.end.taken.acked > 0 => half.probing = None,
            EventKind::Rtt => {
                half.srtt = step.event.srtt;
                half.rto = step.event.rto;
            }
            EventKind::TimerFire if step.event.timer() == Some(Timer::Tlp) => {
                fired(half, context, step, found);
            }
            EventKind::TimerFire => half.fired = None,
            EventKind::Out | EventKind::Retransmit if step.len() > 0 => sent(half, context, step, found),
            _ => {}
        }
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
    if let Some((at, row)) = half.probing {
        found.add(
            step.of_sender(context, NAME, "a second probe without an answer to the first").since(row, at).warning(),
            || {
                format!(
                    "{} sent a probe at {at}, nothing was acknowledged since, and its probe timer fired again (RFC 8985 section 7.3).",
                    context.who(step.flow)
                )
            },
        );
    }
    half.fired = Some(step.at());
    let (Some(srtt), Some(rto)) = (half.srtt, half.rto) else { return };
    let (Some(head), Some(newest)) = (step.end.out.front(), step.end.out.back()) else { return };
    let waited = step.at().since(newest.last);
    let least = (srtt * 2).min(rto);
    // The timer may have been set with an SRTT that was shorter, and it ends with the RTO of the first segment.
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
    half.probing = Some((at, step.row));
    if step.seq_end() < step.before.nxt && step.end.fin_out.is_none() {
        found.add(step.of_sender(context, NAME, "a probe that is not of the last segment"), || {
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
