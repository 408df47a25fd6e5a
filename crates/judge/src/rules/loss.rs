//! Detection and repair of loss: RFC 5681, RFC 6675, RFC 8985.

use super::joined_packets::JoinedPackets;
use super::names::LOSS_DETECTION as NAME;
use super::traced_recovery::TracedRecovery;
use crate::finding::{Findings, Oracle};
use crate::needs::Need;
use crate::step::{Context, PerEnd, Rule, Step};
use crate::taken::Sent;
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::Timer;
use tcpassay_tcp::{CongestionState, Recovery};
use tcpassay_units::{Dur, Time};

pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "loss detection and repair against RFC 5681, RFC 6675 and RFC 8985",
    asserts: "on a kernel: a recovery begins with a loss that SACK blocks, duplicates or time show, and its first loss is retransmitted at once; after a timeout during a recovery, or without F-RTO, what \
              is lost is sent before new data; DSACKs undo a reduction only if as many segments were reported as were retransmitted since, and a probe that was outstanding; an ACK that proves by its timestamp echo \
              that nothing was lost undoes the reduction. On kernels and the model: acknowledged or \
              SACKed data are not retransmitted except after a timeout.",
    why: "RFC 5681 section 3.2 (three duplicates), RFC 6675 section 5, RFC 8985 section 6.2, RFC 3708, RFC 3522 and RFC 5682 (undo), RFC 2018 section 5.1 (SACKed segments are not \
          retransmitted before a timeout).",
    evidence: "the retransmitted segment; for a missing action, the ACK that required it.",
    wrong_when: "the log of a real kernel has no loss marks: the oracle checks only which data are \
                 retransmitted, when and in which order. With a queue in the host, or pacing, it does not check when.",
    needs: &[Need::Event(EventKind::Congestion)],
};

#[derive(Clone, Debug, Default)]
struct Half {
    /// Time at which the probe timer fired last.
    probed: Option<Time>,
    /// After a timeout: SACKed data below this position may be retransmitted.
    forgiven: u64,
    joined: JoinedPackets,
    traced: TracedRecovery,
    /// For a kernel: the last timeout after which what is lost must be sent before new data: time, row, SND.NXT.
    repairs: Option<(Time, usize, u64)>,
    /// True if data were acknowledged since the last timeout.
    progressed: bool,
    /// The time of the last row, and SND.UNA before it: a kernel logs arrivals at its device, before TCP processes the first one of them.
    settled: (Time, u64),
}

/// The rules of the documentation of this module.
pub(super) fn rule(flows: usize) -> Box<dyn Rule> {
    PerEnd::<Half>::rule(flows, on)
}

fn on(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    // In real time a segment may be sent after the tap has seen an ACK and before the stack processes
    // it.
    if !context.in_virtual_time() || !step.role.sends {
        return;
    }
    if step.at() > half.settled.0 {
        half.settled = (step.at(), step.before.una);
    }
    if context.of_kernel() {
        half.traced.on(context, step, half.forgiven, found);
        after_timeout(half, context, step, found);
    }
    match step.event.kind {
        EventKind::TimerFire if step.event.timer() == Some(Timer::Rto) => {
            half.forgiven = step.end.now.nxt;
        }
        EventKind::TimerFire if step.event.timer() == Some(Timer::Tlp) => half.probed = Some(step.at()),
        EventKind::Retransmit => again(half, context, step, found),
        EventKind::Congestion => {
            let linux = context.stack(step.flow).is_some_and(|stack| stack.flavor.is_linux());
            if linux && step.is_undo() {
                // An undo removes loss marks, and RACK of Linux does not look at those segments again (`tcp_rack_detect_loss`).
                half.forgiven = half.forgiven.max(step.end.now.nxt);
            }
        }
        _ => {}
    }
}

/// RFC 5682 section 2: F-RTO, which sends new data after a timeout, does not begin during a recovery. Without it what is lost is
/// repaired first (RFC 5681 section 3.1, RFC 6675 section 5.1). For kernels.
fn after_timeout(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let end = step.end;
    half.progressed |= end.taken.acked > 0;
    if step.is_timer(EventKind::TimerFire, Timer::Rto) {
        // Linux begins F-RTO also in a timeout that repeats one without progress (`tcp_enter_loss`).
        let again = step.before.state == CongestionState::Loss && half.progressed;
        let frto = context.stack(step.flow).is_none_or(|stack| stack.frto);
        let recovers = step.before.state == CongestionState::Recovery || again || !frto;
        half.repairs = recovers.then_some((step.at(), step.row, end.now.nxt));
        half.progressed = false;
    }
    let Some((at, row, until)) = half.repairs else { return };
    if end.now.una >= until || !matches!(end.now.state, CongestionState::Loss | CongestionState::Recovery) {
        half.repairs = None;
        return;
    }
    let new = step.event.kind == EventKind::Out && step.len() > 0 && step.seq() >= step.before.nxt;
    let Some((_, longest)) = end.round_trips.filter(|_| new && end.now.state == CongestionState::Loss) else {
        return;
    };
    // Linux does not consider lost what was sent within the last round trip (`tcp_timeout_mark_lost`). A queue in the host holds back
    // what it still contains.
    let old = |s: &&Sent| !s.sacked && s.end <= until && s.last + longest * 2 + Dur::from_millis(5) < at;
    let waits = end.out.iter().find(old).copied();
    let free = context.facts.is_some_and(|facts| !facts.queues_in_host()) && end.fin_out.is_none();
    let sack = |flow| context.stack(flow).is_some_and(|stack| stack.sack);
    if let Some(waits) = waits.filter(|_| free && sack(step.flow) && sack(step.peer)) {
        half.repairs = None;
        found.add(step.of_sender(context, NAME, "new data after a timeout before what is lost").since(row, at), || {
            format!(
                "{} had a timeout at {at:#} during a recovery and then sent new data at position {}, although positions {} to {} were neither \
                 acknowledged nor SACKed nor sent again since (RFC 5682 section 2, RFC 5681 section 3.1).", context.who(step.flow),
                step.seq(), waits.start, waits.end
            )
        });
    }
}

fn again(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    if !step.is_stream() || step.len() == 0 {
        return;
    }
    let (start, end) = (step.seq(), step.seq_end());
    let known = if context.exact() { step.before.una } else { half.settled.1 };
    if end <= known && step.len() > 1 {
        found.add(step.of_sender(context, NAME, "acknowledged data are sent again"), || {
            format!(
                "{} retransmitted positions {start} to {end}, but everything below {} was acknowledged.",
                context.who(step.flow),
                known
            )
        });
    }
    let parts = || step.end.from(start).take_while(|s| s.end <= end);
    let sacked: u64 = parts().filter(|s| s.sacked).map(|s| s.end - s.start).sum();
    // The probe of Linux repeats the last segment even if it was SACKed (`tcp_send_loss_probe`, RFC 8985 section 7.3): its timer may
    // have been set before the first SACK block arrived.
    let linux = context.stack(step.flow).is_some_and(|stack| stack.flavor.is_linux());
    let probe = linux && half.probed == Some(step.at()) || step.event.why == "tail loss probe";
    // NewReno does not use SACK blocks.
    let sacks = context.stack(step.flow).is_none_or(|stack| stack.recovery != Recovery::NewReno);
    let joined = half.joined.contain_sacked_parts(step);
    half.joined.sent_again(step, linux);
    if sacked > 0 && sacks && start >= half.forgiven && step.end.fin_out.is_none() && !probe && !joined {
        found.add(step.of_sender(context, NAME, "SACKed data are sent again"), || {
            format!(
                "{} retransmitted positions {start} to {end}, of which {sacked} bytes were SACKed (RFC 2018 section 5.1).",
                context.who(step.flow)
            )
        });
    }
}
