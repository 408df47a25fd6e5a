//! Detection and repair of loss: RFC 5681, RFC 6675, RFC 8985.

use crate::finding::{Findings, Oracle};
use crate::step::{Context, Rule, Step};
use tcpassay_measure::EventKind;
use tcpassay_tcp::{CongestionState, LossDetection, Pacing, StackFlavor};
use tcpassay_units::{Dur, Time};

pub(super) const NAME: &str = "loss-detection";

pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "loss detection and repair against RFC 5681, RFC 6675 and RFC 8985",
    asserts: "by the duplicate threshold a segment is lost once three segments above it are SACKed, not before, and then without \
              delay; by time not sooner than a round trip after it was sent, and only if something sent later was delivered; what \
              recovery begins with goes out again within a round trip; what is acknowledged or SACKed is not sent again, but after \
              a timeout.",
    why: "RFC 5681 section 3.2 (three duplicates), RFC 6675 sections 4 (IsLost) and 5, RFC 8985 section 6.2 (sent later, and the \
          reordering window), RFC 2018 section 5.1 (SACKed segments are not retransmitted before a timeout).",
    evidence: "the row that marks the loss, or the segment that was sent again, and for what is missing the ACK that made it due.",
    wrong_when: "an adaptive threshold has grown, which the log does not tell: then only what comes too early is judged.",
    needs: &[EventKind::Lost, EventKind::Congestion],
};

#[derive(Clone, Debug, Default)]
struct Half {
    /// Duplicate ACKs in a row.
    duplicates: u32,
    /// Three segments above the first hole are SACKed, and it is not marked lost: since when.
    overdue: Option<(Time, usize)>,
    /// Recovery began and nothing was retransmitted yet.
    repair: Option<(Time, usize)>,
    srtt: Option<Dur>,
    /// A timeout happened: SACKed data may go again up to here.
    forgiven: u64,
}

/// See the module.
pub(super) struct Loss {
    halves: Vec<Half>,
}

impl Loss {
    pub fn new(flows: usize) -> Loss {
        Loss { halves: vec![Half::default(); flows] }
    }
}

impl Rule for Loss {
    fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let half = &mut self.halves[step.flow];
        late(half, context, step, found);
        match step.event.kind {
            EventKind::In => arrival(half, step),
            EventKind::Lost => lost(half, context, step, found),
            EventKind::TimerFire if step.event.why == "Rto" => {
                half.forgiven = step.end.now.nxt;
                half.duplicates = 0;
            }
            EventKind::Rtt => half.srtt = step.event.srtt,
            EventKind::Retransmit => again(half, context, step, found),
            EventKind::Congestion if step.end.now.state == CongestionState::Recovery => {
                half.overdue = None;
                half.repair = Some((step.at(), step.row));
            }
            EventKind::Congestion => half.repair = None,
            _ => {}
        }
    }
}

fn arrival(half: &mut Half, step: &Step<'_>) {
    if step.end.taken.acked > 0 {
        half.duplicates = 0;
        half.repair = None;
    } else if step.len() == 0 && step.event.ack == Some(step.before.una) && step.before.nxt > step.before.una
    {
        half.duplicates += 1;
    }
}

fn lost(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    half.overdue = None;
    let (start, end) = (step.seq(), step.seq_end());
    let mss = context.recording.flows[step.flow].mss.get();
    let first = step.end.out.iter().find(|s| !s.sacked && s.start >= start && s.start < end);
    let Some(first) = first else { return };
    match step.event.why.as_ref() {
        "dupthresh" => {
            let Some(stack) = context.stack(step.flow) else { return };
            let pieces = step.end.out.iter().filter(|s| s.sacked && s.start > first.start);
            let (bytes, count) =
                pieces.fold((0, 0u32), |(bytes, count), s| (bytes + s.end - s.start, count + 1));
            if bytes <= 2 * mss && count < 3 && half.duplicates < 3 && !stack.early_retransmit {
                found.add(step.of_sender(context, NAME, "a loss below the duplicate threshold"), || {
                    format!(
                        "{} marked position {} lost with {bytes} bytes in {count} segments SACKed above it and {} duplicate ACKs; \
                         three are required (RFC 5681 section 3.2, RFC 6675 section 4).",
                        context.who(step.flow), first.start, half.duplicates
                    )
                });
            }
        }
        "rack" => {
            let flow = &context.recording.flows[step.flow];
            let least = context.facts.map_or(Dur::ZERO, |facts| facts.least_rtt(flow.from, flow.to));
            let waited = step.at().since(first.last);
            if waited < least {
                found.add(step.of_sender(context, NAME, "a loss sooner than a round trip"), || {
                    format!(
                        "{} marked position {} lost {waited} after it was sent; a round trip takes {least} at least (RFC 8985 section \
                         6.2).", context.who(step.flow), first.start
                    )
                });
            }
        }
        _ => {}
    }
}

fn again(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    half.repair = None;
    if !step.is_stream() || step.len() == 0 {
        return;
    }
    let (start, end) = (step.seq(), step.seq_end());
    if end <= step.before.una && step.len() > 1 {
        found.add(step.of_sender(context, NAME, "acknowledged data are sent again"), || {
            format!(
                "{} retransmitted positions {start} to {end}, but everything below {} was acknowledged.",
                context.who(step.flow),
                step.before.una
            )
        });
    }
    let sacked: u64 = step
        .end
        .out
        .iter()
        .filter(|s| s.sacked && s.start >= start && s.end <= end)
        .map(|s| s.end - s.start)
        .sum();
    if sacked > 0 && start >= half.forgiven && step.end.fin_out.is_none() {
        found.add(step.of_sender(context, NAME, "SACKed data are sent again"), || {
            format!(
                "{} retransmitted positions {start} to {end}, of which {sacked} bytes were SACKed (RFC 2018 section 5.1).",
                context.who(step.flow)
            )
        });
    }
}

/// What should have happened by now.
fn late(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let Some(stack) = context.stack(step.flow).filter(|_| context.exact()) else { return };
    let wait = half.srtt.unwrap_or(Dur::from_secs(1)) + Dur::from_millis(10);
    if let Some((since, row)) = half.repair
        && step.at().since(since) > wait
    {
        half.repair = None;
        if stack.pacing == Pacing::Off && step.end.wnd > 0 && stack.flavor == StackFlavor::Rfc {
            found.add(
                step.of_sender(context, NAME, "recovery without a retransmission").since(row, since),
                || {
                    format!(
                        "{} entered fast recovery at {since} and retransmitted nothing within a round trip.",
                        context.who(step.flow)
                    )
                },
            );
        }
    }
    if let Some((since, row)) = half.overdue
        && step.at() > since
    {
        half.overdue = None;
        if matches!(step.end.now.state, CongestionState::Open | CongestionState::Disorder) {
            found.add(
                step.of_sender(context, NAME, "a loss beyond the duplicate threshold").since(row, since),
                || {
                    format!(
                        "More than three segments above the first outstanding one of {} were SACKed at {since}, and no loss was \
                         detected (RFC 6675 section 5).", context.who(step.flow)
                    )
                },
            );
        }
    }
    let fixed = matches!(stack.loss_detection, LossDetection::DupThresh { threshold: 3, adaptive: false });
    if fixed && stack.sack && step.is_arrival() && !step.sacks.is_empty() && half.overdue.is_none() {
        let mss = context.recording.flows[step.flow].mss.get();
        let hole =
            step.end.out.front().is_some_and(|s| !s.sacked && s.tries == 1 && s.start >= half.forgiven);
        let calm = matches!(step.end.now.state, CongestionState::Open | CongestionState::Disorder);
        if hole && calm && step.end.sacked > 3 * mss {
            half.overdue = Some((step.at(), step.row));
        }
    }
}
