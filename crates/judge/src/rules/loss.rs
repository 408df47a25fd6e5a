//! Detection and repair of loss: RFC 5681, RFC 6675, RFC 8985.

use super::frto::Frto;
use super::joined_packets::JoinedPackets;
use super::names::LOSS_DETECTION as NAME;
use super::traced_recovery::TracedRecovery;
use super::undo_due::{self, UndoDue};
use crate::finding::{Findings, Oracle};
use crate::needs::Need;
use crate::step::{Context, Rule, Step};
use crate::taken::Sent;
use tcpassay_case::SmallQueues;
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::{CongestionCause, LossRule, Timer};
use tcpassay_tcp::{Config, CongestionState, LossDetection, Pacing, Recovery, StackFlavor};
use tcpassay_units::{Dur, Time};
use tcpassay_wire::Flags;

pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "loss detection and repair against RFC 5681, RFC 6675 and RFC 8985",
    asserts: "detection by the duplicate threshold marks a segment lost as soon as three segments above it are SACKed, and not \
              earlier (FreeBSD: every hole, once a recovery has begun); an adaptive threshold is not below the reordering that was observed; detection by time (RACK) marks a \
              segment lost only if a segment sent later was delivered, and not earlier than one round-trip time after its \
              transmission, plus a quarter if reordering was observed; after a timeout during a recovery, or without F-RTO, what \
              is lost is sent before new data; the first two duplicate ACKs permit new data (limited \
              transmit); the first loss of a recovery is retransmitted within a round trip (on a kernel at once); acknowledged or \
              SACKed data are not retransmitted except after a timeout; DSACKs undo a reduction only if they report all \
              retransmitted data (on a kernel: as many segments as were retransmitted since, and a probe that was outstanding), and F-RTO one \
              only if data were delivered that were sent before the timeout and not again; an ACK that proves by its timestamp echo, or as the last of the DSACKs, that nothing \
              was lost undoes the reduction.",
    why: "RFC 5681 section 3.2 (three duplicates), RFC 6675 sections 4 (IsLost) and 5, RFC 8985 section 6.2 (sent later, and the \
          reordering window), RFC 3042 (limited transmit), RFC 3708 and RFC 5682 (undo), RFC 2018 section 5.1 (SACKed segments are not \
          retransmitted before a timeout).",
    evidence: "the row that marks the loss, or the retransmitted segment; for a missing action, the ACK that required it.",
    wrong_when: "an adaptive threshold has grown, which the log does not show; the oracle then reports only marks that are \
                 much too early. The log of a real kernel has no loss marks; the oracle then checks only which data are \
                 retransmitted, when and in which order. With a queue in the host, or pacing, it does not check when.",
    needs: &[Need::Event(EventKind::Congestion)],
};

/// The tick of a clock of timestamps.
const TICK: Dur = Dur::from_millis(1);

#[derive(Clone, Debug, Default)]
struct Half {
    /// Number of consecutive duplicate ACKs.
    duplicates: u32,
    /// Time and row since which three segments above the first hole have been SACKed although the hole is
    /// not marked lost.
    overdue: Option<(Time, usize)>,
    /// Time at which the probe timer fired last.
    probed: Option<Time>,
    /// Time and row of the begin of a recovery in which nothing was retransmitted yet.
    repair: Option<(Time, usize)>,
    srtt: Option<Dur>,
    /// The shortest round-trip time that an ACK has shown, also by SACK.
    shortest: Option<Dur>,
    /// After a timeout: SACKed data below this position may be retransmitted.
    forgiven: u64,
    joined: JoinedPackets,
    /// The largest reordering that ACKs have shown since the last timeout, in bytes.
    reordered: u64,
    /// True if an original transmission was delivered after one that was sent later.
    reorders: bool,
    /// Time and row of the first duplicate ACK, while limited transmit must follow.
    limited: Option<(Time, usize)>,
    /// Bytes retransmitted in the present recovery; then bytes that DSACKs reported since its begin.
    retransmitted: u64,
    reported: u64,
    /// Ranges marked lost and not retransmitted since.
    lost: Vec<(u64, u64)>,
    /// RACK: time and row since which data sent after the first outstanding segment have been SACKed.
    passed: Option<(Time, usize)>,
    traced: TracedRecovery,
    /// For a kernel: the last timeout after which what is lost must be sent before new data: time, row, SND.NXT.
    repairs: Option<(Time, usize, u64)>,
    /// True if data were acknowledged since the last timeout.
    progressed: bool,
    /// The time of the last row, and SND.UNA before it: a kernel logs arrivals at its device, before TCP processes the first one of them.
    settled: (Time, u64),
    frto: Frto,
}

impl Half {
    /// The longest time from the begin of a recovery to its first retransmission.
    fn repaired_within(&self) -> Dur {
        self.srtt.unwrap_or(Dur::from_secs(1)) + Dur::from_millis(10)
    }

    /// The longest time for which RACK waits; `None` before the first sample of the round-trip time.
    fn passed_within(&self) -> Option<Dur> {
        self.srtt.map(|srtt| srtt * 2 + Dur::from_millis(10))
    }
}

/// Implements the rules in the documentation of this module.
pub(super) struct Loss {
    halves: Vec<Half>,
    undos: Vec<UndoDue>,
}

impl Loss {
    pub fn new(flows: usize) -> Loss {
        Loss { halves: vec![Half::default(); flows], undos: vec![UndoDue::default(); flows] }
    }
}

impl Rule for Loss {
    fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        // In real time a segment may be sent after the tap has seen an ACK and before the stack processes
        // it.
        if !context.in_virtual_time() {
            return;
        }
        if context.exact() {
            undo_due::on(&mut self.undos, context, step, found);
        }
        if !step.role.sends {
            return;
        }
        let half = &mut self.halves[step.flow];
        if step.at() > half.settled.0 {
            half.settled = (step.at(), step.before.una);
        }
        late(half, context, step, found);
        if context.exact() {
            half.frto.on(context, step, found);
        }
        if context.of_kernel() {
            half.traced.on(context, step, half.forgiven, found);
            after_timeout(half, context, step, found);
        }
        match step.event.kind {
            EventKind::In => arrival(half, context, step, found),
            EventKind::Lost => lost(half, context, step, found),
            EventKind::TimerFire if step.event.timer() == Some(Timer::Rto) => {
                half.forgiven = step.end.now.nxt;
                half.duplicates = 0;
                half.reordered = 0;
                half.limited = None;
            }
            EventKind::TimerFire => {
                half.limited = None;
                if step.event.timer() == Some(Timer::Tlp) {
                    half.probed = Some(step.at());
                }
            }
            // On Linux an ACK that sets another timer ends the one of reordering, which is the same (`tcp_set_xmit_timer`).
            EventKind::TimerCancel if step.event.timer() == Some(Timer::RackReorder) => {
                let linux = context.stack(step.flow).is_some_and(|stack| stack.flavor == StackFlavor::Linux);
                half.passed = half.passed.filter(|_| !linux);
            }
            EventKind::Out if step.len() > 0 => {
                half.limited = None;
                repair_first(half, context, step, found);
            }
            EventKind::Rtt => {
                half.srtt = step.event.srtt;
                // Timestamps measure retransmitted data, too.
                let sample = step.event.value.map(Dur::from_nanos);
                half.shortest = half.shortest.into_iter().chain(sample).min();
            }
            EventKind::Retransmit => again(half, context, step, found),
            EventKind::Congestion => {
                undone(half, context, step, found);
                let linux = context.stack(step.flow).is_some_and(|stack| stack.flavor == StackFlavor::Linux);
                if linux && step.is_undo() {
                    // An undo removes loss marks, and RACK of Linux does not look at those segments again (`tcp_rack_detect_loss`).
                    half.forgiven = half.forgiven.max(step.end.now.nxt);
                }
                if !matches!(step.end.now.state, CongestionState::Open | CongestionState::Disorder) {
                    half.limited = None;
                }
                let episode = matches!(step.end.now.state, CongestionState::Recovery | CongestionState::Loss);
                if episode {
                    half.retransmitted = 0;
                    half.reported = 0;
                }
                half.repair = None;
                if step.end.now.state == CongestionState::Recovery {
                    half.overdue = None;
                    half.repair = Some((step.at(), step.row));
                }
            }
            _ => {}
        }
        if let Some((since, _)) = half.repair {
            step.deadline(Some(since), half.repaired_within());
        }
        step.deadline(half.overdue.map(|(since, _)| since), Dur::ZERO);
        if let (Some((since, _)), Some(most)) = (half.passed, half.passed_within()) {
            step.deadline(Some(since), most);
        }
    }
}

fn arrival(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let taken = step.end.taken;
    half.reported += taken.dsacked;
    if taken.delivered > 0 || taken.acked > 0 {
        let samples = [taken.sample, taken.oldest, taken.sacked.map(|(least, _)| least), half.shortest];
        half.shortest = samples.into_iter().flatten().min();
    }
    if taken.late > 0 {
        half.reorders = true;
        // After a timeout what was considered lost need not count as reordered.
        if step.before.state != CongestionState::Loss {
            half.reordered = half.reordered.max(taken.late);
        }
    }
    half.lost.retain(|range| range.1 > step.end.now.una);
    if taken.acked > 0 {
        half.passed = None;
        half.duplicates = 0;
        half.repair = None;
        half.limited = None;
    } else if step.len() == 0
        && step.event.ack == Some(step.before.una)
        && step.before.nxt > step.before.una
        && (!step.sacks.is_empty() || step.end.now.edge == step.before.edge)
    {
        half.duplicates += 1;
        limited_transmit(half, context, step, found);
    }
}

/// RFC 3042: each of the first two duplicate ACKs permits a new segment beyond the congestion window.
fn limited_transmit(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let Some(settings) = context.settings(step.flow).filter(|_| context.exact()) else { return };
    let stack = &settings.stack;
    let mss = context.mss(step.flow);
    let (now, end) = (&step.end.now, step.end);
    // The window may have been reduced since then. With SACK the data in flight decide (RFC 6675 section 5 step 3.3).
    let permits =
        end.outstanding() <= now.cwnd && (!stack.sack || now.cwnd >= end.outstanding() - end.sacked + mss);
    if half.duplicates == 3
        && let Some((since, row)) = half.limited.take()
        && permits
    {
        found.add(step.of_sender(context, NAME, "duplicate ACKs without limited transmit").since(row, since).warning(), || {
            format!(
                "Three duplicate ACKs have reached {} since {since}, and it sent nothing, with {} bytes written and not sent, {} \
                 outstanding and a congestion window of {} (RFC 3042).", context.who(step.flow),
                end.written.saturating_sub(now.nxt), end.outstanding(), now.cwnd
            )
        });
    }
    let plain = stack.limited_transmit
        && !(stack.sack && stack.recovery == Recovery::NewReno)
        && stack.pacing == Pacing::Off
        && !context.paces(step.flow)
        && settings.small_queues == SmallQueues::Off
        && !(stack.tso_defer && stack.tso.is_some())
        && !stack.cork
        && stack.mtu_probing.is_none()
        && stack.flavor != StackFlavor::FreeBsd;
    let calm = matches!(now.state, CongestionState::Open | CongestionState::Disorder);
    let waits = end.logs_writes && end.written >= now.nxt + 2 * mss && end.fin_out.is_none();
    let room = end.outstanding() <= now.cwnd && now.una + end.wnd >= now.nxt + 2 * mss;
    let news = end.taken.delivered > 0 || !stack.sack;
    if half.duplicates == 1 && plain && calm && waits && room && news && end.again == 0 && now.cwnd > 2 * mss
    {
        half.limited = Some((step.at(), step.row));
    }
}

/// RFC 3708: a reduction is undone only if DSACKs reported every retransmission of the recovery.
fn undone(half: &Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let proven = half.reported >= half.retransmitted;
    if !context.exact() || proven || step.congestion_cause() != Some(CongestionCause::UndoDsack) {
        return;
    }
    found.add(step.of_sender(context, NAME, "an undo although not all retransmissions were reported as duplicates"), || {
        format!(
            "{} undid a reduction because of DSACKs, which report {} bytes; {} bytes were retransmitted (RFC 3708).",
            context.who(step.flow), half.reported, half.retransmitted
        )
    });
}

/// RFC 6675 section 4, `NextSeg`: during recovery lost data are sent before new data.
fn repair_first(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let Some(stack) = context.stack(step.flow).filter(|_| context.exact()) else { return };
    let new = step.seq() >= step.before.nxt;
    if !new || step.end.now.state != CongestionState::Recovery || !stack.sack || half.lost.is_empty() {
        return;
    }
    let end = step.end;
    // A row that marks a loss may include data that were already retransmitted. By the duplicate threshold a
    // segment is lost as long as more than two segments above it are SACKed (RFC 6675 section 4).
    let mss = context.mss(step.flow);
    let Some(Sent { start, end: until, .. }) = end.first_sent_once(&half.lost, u64::MAX) else { return };
    if end.sacked_above(start, 2 * mss + 1).0 <= 2 * mss {
        return;
    }
    // The peer's window may prevent a segment other than the first one; a FIN may be sent in any case.
    let fits = until <= end.now.una + end.wnd;
    if fits && stack.flavor == StackFlavor::Rfc && !step.flags().any(Flags::FIN) {
        found.add(step.of_sender(context, NAME, "new data before what is lost"), || {
            format!(
                "In recovery {} sent new data at position {} before positions {start} to {until}, which it had marked lost (RFC 6675 \
                 section 4).", context.who(step.flow), step.seq()
            )
        });
        half.lost.clear();
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
                "{} had a timeout at {at} during a recovery and then sent new data at position {}, although positions {} to {} were neither \
                 acknowledged nor SACKed nor sent again since (RFC 5682 section 2, RFC 5681 section 3.1).", context.who(step.flow),
                step.seq(), waits.start, waits.end
            )
        });
    }
}

fn lost(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    half.overdue = None;
    half.passed = None;
    let (start, end) = (step.seq(), step.seq_end());
    half.lost.push((start, end));
    let mss = context.mss(step.flow);
    let first = step.end.from(start).take_while(|s| s.start < end).find(|s| !s.sacked);
    let Some(first) = first else { return };
    match step.event.loss_rule() {
        Some(LossRule::DupThresh) => {
            let Some(stack) = context.stack(step.flow) else { return };
            let most = seen_segments(half, mss) / 2;
            let (bytes, count) = step.end.sacked_above(first.start, mss * most.max(3));
            // FreeBSD sends every hole below the recovery point again once a recovery has begun (`tcp_sack_output`).
            let every_hole = step.end.now.state == CongestionState::Recovery
                && matches!(stack.recovery, Recovery::FreeBsd { .. });
            let early = every_hole || stack.early_retransmit;
            if bytes <= 2 * mss && count < 3 && half.duplicates < 3 && !early {
                found.add(step.of_sender(context, NAME, "a loss below the duplicate threshold"), || {
                    format!(
                        "{} marked position {} lost with {bytes} bytes in {count} segments SACKed above it and {} duplicate ACKs; \
                         three are required (RFC 5681 section 3.2, RFC 6675 section 4).",
                        context.who(step.flow), first.start, half.duplicates
                    )
                });
            }
            adapted(half, context, step, found, (bytes, count));
        }
        Some(LossRule::Rack) => {
            // The round-trip time of RACK is that of a delivered segment, and not shorter than the shortest one of the connection
            // (section 6.2, step 2).
            let known = half.shortest.map_or(Dur::ZERO, |shortest| shortest.min(step.end.handshake));
            let known = known - known / 50;
            let least = context.least_rtt(step.flow).max(if context.exact() { known } else { Dur::ZERO });
            // The sample of a timestamp may be a tick of its clock too short, and with it the shortest round trip, below which the ACK of a
            // retransmission counts as that of the original (section 6.2, step 2).
            let stamps = context.stack(step.flow).is_some_and(|stack| stack.timestamps);
            let least = if stamps && context.exact() { least.saturating_sub(TICK) } else { least };
            let waited = step.at().since(first.last);
            // After reordering was observed, a quarter of the smallest round-trip time is added (RFC 8985
            // section 6.2, step 4).
            let seen = half.reorders
                && step.end.taken.late == 0
                && context.exact()
                && context.stack(step.flow).is_some_and(|stack| stack.flavor != StackFlavor::FreeBsd);
            let least = if seen { least * 5 / 4 } else { least };
            if waited < least {
                found.add(step.of_sender(context, NAME, "a loss sooner than a round trip"), || {
                    format!(
                        "{} marked position {} lost {waited} after it was sent; a round trip{} takes {least} at least (RFC 8985 section \
                         6.2).", context.who(step.flow), first.start, if seen { " with its reordering window" } else { "" }
                    )
                });
            }
        }
        _ => {}
    }
}

/// The observed reordering in segments, as far as an adaptive threshold follows it.
fn seen_segments(half: &Half, mss: u64) -> u64 {
    (half.reordered / mss.max(1)).min(300)
}

/// Checks that an adaptive threshold follows the observed reordering (Linux `tcp_check_sack_reordering`).
fn adapted(
    half: &Half,
    context: &Context<'_>,
    step: &Step<'_>,
    found: &mut Findings,
    (bytes, count): (u64, u32),
) {
    let mss = context.mss(step.flow);
    let Some(stack) = context.stack(step.flow).filter(|_| context.exact()) else { return };
    let adapts = matches!(stack.loss_detection, LossDetection::DupThresh { adaptive: true, .. });
    let seen = seen_segments(half, mss);
    // Tolerance of a half: the sender counts segments, which may be small or already acknowledged.
    let most = seen / 2;
    let detects = matches!(step.end.now.state, CongestionState::Open | CongestionState::Disorder);
    if adapts
        && reads_sack(stack)
        && detects
        && most >= 3
        && bytes < most * mss
        && u64::from(count) < most
        && u64::from(half.duplicates) + 1 < most
    {
        found.add(step.of_sender(context, NAME, "a loss below the observed reordering"), || {
            format!(
                "{} has seen segments reordered by {seen}, and marked a segment lost with {bytes} bytes in {count} segments SACKed \
                 above it; its threshold adapts.", context.who(step.flow)
            )
        });
    }
}

fn again(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    half.repair = None;
    half.retransmitted += step.len();
    in_order(half, context, step, found);
    half.lost.retain(|range| range.1 <= step.seq() || step.seq_end() <= range.0);
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
    let linux = context.stack(step.flow).is_some_and(|stack| stack.flavor == StackFlavor::Linux);
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

/// RFC 6675 section 4, `NextSeg` rule 1: of what is lost the first segment is sent first.
fn in_order(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let Some(stack) = context.stack(step.flow).filter(|_| context.exact()) else { return };
    // Linux keeps some marks in flight (`tcp_mark_skb_lost`), and FreeBSD follows its own order.
    let recovers = step.before.state == CongestionState::Recovery;
    if !recovers || !stack.sack || stack.flavor != StackFlavor::Rfc || half.probed == Some(step.at()) {
        return;
    }
    let waits = step.end.first_sent_once(&half.lost, step.seq());
    let Some(first) = waits.filter(|first| first.end <= step.end.now.una + step.end.wnd) else { return };
    half.lost.retain(|range| range.1 <= first.start || first.end <= range.0);
    found.add(step.of_sender(context, NAME, "a lost segment is skipped"), || {
        format!(
            "In recovery {} retransmitted position {} before positions {} to {}, which it had marked lost, too (RFC 6675 section 4).",
            context.who(step.flow), step.seq(), first.start, first.end
        )
    });
}

/// RFC 8985 section 6.2: the reordering window is at most one round-trip time, and a timer ends it.
fn passed(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let Some(stack) = context.stack(step.flow) else { return };
    let Some(srtt) = half.srtt else { return };
    if let (Some((since, row)), Some(most)) = (half.passed, half.passed_within())
        && step.at().since(since) > most
    {
        half.passed = None;
        found.add(
            step.of_sender(context, NAME, "a loss later than the reordering window").since(row, since),
            || {
                format!(
                    "Data that {} sent after its first outstanding segment were SACKed at {since}, and {} later that segment is not \
                     marked lost; SRTT is {srtt} (RFC 8985 section 6.2).", context.who(step.flow), step.at().since(since)
                )
            },
        );
    }
    let calm = matches!(step.end.now.state, CongestionState::Open | CongestionState::Disorder);
    let Some(head) = step.end.out.front() else {
        half.passed = None;
        return;
    };
    let waits = calm && !head.sacked && head.tries == 1 && head.start >= half.forgiven;
    if !waits || !matches!(stack.loss_detection, LossDetection::Rack { .. }) || !reads_sack(stack) {
        half.passed = None;
    } else if half.passed.is_none() && step.is_arrival() && !step.sacks.is_empty() {
        // Sent later, or at the same time with a higher position (RFC 8985 section 6.1). A SACK shortly after a retransmission may report the
        // original (section 6.2, step 2).
        let later = step.end.out.iter().skip(1).any(|s| s.sacked && s.tries == 1 && s.first >= head.last);
        // Linux looks only when an ACK delivers something: after an undo nothing is lost until then (`tcp_rack_advance`).
        let looks = stack.flavor != StackFlavor::Linux || step.end.taken.delivered > 0;
        half.passed = (later && looks).then_some((step.at(), step.row));
    }
}

/// Whether a sender uses SACK blocks: in recovery by NewReno it ignores them.
fn reads_sack(stack: &Config) -> bool {
    stack.sack && stack.recovery != Recovery::NewReno
}

/// Reports actions that are overdue.
fn late(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let Some(stack) = context.stack(step.flow).filter(|_| context.exact()) else { return };
    if let Some((since, row)) = half.repair
        && step.at().since(since) > half.repaired_within()
    {
        half.repair = None;
        // The bounds of BBR's model may hold the retransmission back.
        if !context.may_pace(step.flow) && step.end.wnd > 0 && stack.flavor == StackFlavor::Rfc {
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
                step.of_sender(context, NAME, "no loss detection at the duplicate threshold").since(row, since),
                || {
                    format!(
                        "More than three segments above the first outstanding one of {} were SACKed at {since}, and no loss was \
                         detected (RFC 6675 section 5).", context.who(step.flow)
                    )
                },
            );
        }
    }
    passed(half, context, step, found);
    if !step.is_arrival() || step.sacks.is_empty() || half.overdue.is_some() {
        return;
    }
    // FreeBSD before 13 counts only duplicate ACKs, as RFC 5681 does.
    let counts_sacked = stack.recovery != Recovery::FreeBsd { pipe: false };
    let fixed = counts_sacked
        && matches!(stack.loss_detection, LossDetection::DupThresh { threshold: 3, adaptive: false });
    if fixed && reads_sack(stack) {
        let mss = context.mss(step.flow);
        let hole =
            step.end.out.front().is_some_and(|s| !s.sacked && s.tries == 1 && s.start >= half.forgiven);
        let calm = matches!(step.end.now.state, CongestionState::Open | CongestionState::Disorder);
        if hole && calm && step.end.sacked > 3 * mss {
            half.overdue = Some((step.at(), step.row));
        }
    }
}
