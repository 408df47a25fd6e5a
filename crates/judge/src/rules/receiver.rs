//! Times at which a receiver must send ACKs: RFC 9293, RFC 5681.

use super::names::ACK_TIMING as NAME;
use super::quick_ack::QuickAck;
use crate::facts::Facts;
use crate::finding::{Findings, Level, Occurrence, Oracle};
use crate::needs::Need;
use crate::step::{Context, Rule, Step};
use tcpassay_tcp::{CongestionState, Pacing};
use tcpassay_units::{Dur, Time};

pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "times of ACKs against RFC 9293 and RFC 5681",
    asserts: "an ACK is sent before more than twice the allowed number of full segments are unacknowledged; data out of order, \
              data that fill a gap, and duplicates are acknowledged at once (ACK compression may delay duplicate ACKs by a \
              millisecond, except the first three after a gap); without SACK these ACKs announce the same window, so that they \
              count as duplicate ACKs; a connection does not wait for a delayed ACK while the sender has data and window for \
              more, all sent data have arrived, and neither end sends; Linux does not delay the ACK of data \
              with CWR, of the first two segments from a mark on, of pushed data that the application of a host that only \
              receives has read, and of the first segments of a connection (16 quick ACKs, fewer with a small window) and after a pause \
              longer than the RTO, unless the host answers data within the delay of an ACK; each ACK of new data takes one quick ACK, \
              and after the last one ACKs of single segments are delayed.",
    why: "RFC 9293 section 3.8.6.3 (at least every second full segment), RFC 5681 section 4.2 (out-of-order data at once), RFC 9293 \
          sections 3.8.6.1, 3.10.7.4 and 3.8.4. A delayed ACK saves a packet where others follow; where the sender cannot go on \
          without it, the delay is lost time (RFC 1122 section 4.2.3.2, RFC 8257 section 3.2).",
    evidence: "the first arrival that waits, and the row at which it still waits.",
    wrong_when: "the host could not send. A Linux receiver with a closed window waits until its application reads.",
    needs: &[Need::BothDirections, Need::Handshake, Need::EveryPacket, Need::NoCopies, Need::AtEnd],
};

/// Linux may delay duplicate ACKs by a millisecond plus the slack of the timer (`tcp_comp_sack_delay_ns`,
/// `tcp_comp_sack_slack_ns`).
const AT_ONCE: Dur = Dur::from_millis(2);
/// The same in a capture, which does not show when the host processed a packet.
const AT_ONCE_CAPTURED: Dur = Dur::from_millis(50);
/// Number of duplicate ACKs that start fast retransmit (RFC 5681 section 3.2). None of them may be delayed.
const THRESHOLD: u32 = 3;
/// Time within which a receiver without ACK compression sends an ACK at once.
const INSTANT: Dur = Dur::from_micros(50);
/// The shortest delay of an ACK that Linux does not send at once (`TCP_DELACK_MIN`), less its tick.
const DELAYED: Dur = Dur::from_millis(35);
/// Number of segments out of order after which ACKs that all announce different windows are reported.
const MANY: u32 = 6;

/// Why data are acknowledged at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AtOnce {
    OutOfOrder,
    Duplicate,
    FillsGap,
}

impl AtOnce {
    /// What arrived, and the section that asks for the ACK.
    fn said(self) -> (&'static str, &'static str) {
        match self {
            AtOnce::OutOfOrder => ("data out of order", "RFC 5681 section 4.2, SHOULD"),
            AtOnce::Duplicate => ("a duplicate", "RFC 9293 section 3.10.7.4"),
            AtOnce::FillsGap => ("data that fill a gap", "RFC 5681 section 4.2, SHOULD"),
        }
    }

    /// Linux and the model do what RFC 5681 only recommends.
    fn level(self, known: bool) -> Level {
        if known || self == AtOnce::Duplicate { Level::Error } else { Level::Warning }
    }
}

#[derive(Clone, Debug, Default)]
struct Half {
    /// The first arrival since the last ACK that must be acknowledged at once: time, row, reason.
    urgent: Option<(Time, usize, AtOnce)>,
    /// Time and row since which too many full segments have been unacknowledged, and their bytes.
    many: Option<(Time, usize, u64)>,
}

/// Arrivals since RCV.NXT advanced last.
#[derive(Clone, Debug, Default)]
struct Gap {
    /// Number of arrivals out of order.
    arrivals: u32,
    /// Time and row of one of the first arrivals out of order, while its ACK is missing.
    instant: Option<(Time, usize)>,
    /// Number of ACKs that announced the same window as the ACK before; then number of the others.
    same: u32,
    others: u32,
    /// The right edge and the acknowledgment number of the last ACK.
    edge: (u64, u64),
    /// Bytes that the application had read at that time. A window grows when it reads.
    read: u64,
}

impl Gap {
    /// An ACK is sent.
    fn announced(&mut self, step: &Step<'_>) {
        let ack = step.event.ack.unwrap_or(0);
        let edge = ack + step.event.window.map_or(0, tcpassay_units::Bytes::get);
        (self.edge, self.read) = ((edge, ack), step.end.read);
    }
}

/// Data that were not acknowledged at once.
#[derive(Clone, Debug, Default)]
struct Delay {
    /// Time and row of the last arrival of data since the last ACK.
    newest: Option<(Time, usize)>,
    /// The highest position that this end sent.
    sent: u64,
    /// The highest position that this end knows to be acknowledged.
    una: u64,
    /// Time since which this end has data that both windows permit.
    ready: Option<Time>,
}

/// Implements the rules in the documentation of this module.
pub(super) struct Receiver {
    halves: Vec<Half>,
    gaps: Vec<Gap>,
    delays: Vec<Delay>,
    quick: Vec<QuickAck>,
}

impl Receiver {
    pub fn new(flows: usize) -> Receiver {
        Receiver {
            halves: vec![Half::default(); flows],
            gaps: vec![Gap::default(); flows],
            delays: vec![Delay::default(); flows],
            quick: vec![QuickAck::default(); flows],
        }
    }
}

impl Rule for Receiver {
    fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let half = &mut self.halves[step.flow];
        waits(half, context, step, found);
        gap(&mut self.gaps[step.flow], context, step, found);
        if context.of_kernel() {
            both_wait(&mut self.delays, context, step, found);
            self.quick[step.flow].on(context, step, found);
        }
        if step.is_sent() && step.is_stream() {
            *half = Half::default();
        }
        if step.end.over || !step.end.open {
            *half = Half::default();
        } else if step.is_arrival() && step.is_stream() && step.len() > 0 && step.end.fin_in.is_none() {
            arrival(half, context, step);
        }
        step.deadline(half.urgent.map(|(since, ..)| since), AT_ONCE);
        step.deadline(half.many.map(|(since, ..)| since), AT_ONCE);
    }
}

fn arrival(half: &mut Half, context: &Context<'_>, step: &Step<'_>) {
    let (before, now) = (step.before.frontier, step.end.now.frontier);
    // Linux only schedules the ACK of duplicates, and delays it if less than half of the receive buffer is free (`tcp_data_queue`,
    // `__tcp_select_window`). The log of a kernel does not tell what was read.
    let adaptive = context.stack(step.flow).is_some_and(|stack| stack.delayed_ack.adaptive);
    let open = if context.exact() {
        !adaptive || step.end.read + 1 >= before
    } else {
        step.seq_end() <= step.before.acked_out
    };
    let why = if step.seq() > before {
        Some(AtOnce::OutOfOrder)
    } else if step.end.repeated.is_some() && step.seq_end() <= before && open {
        Some(AtOnce::Duplicate)
    } else if now > before && now > step.seq_end() {
        Some(AtOnce::FillsGap)
    } else {
        None
    };
    if let Some(why) = why {
        half.urgent.get_or_insert((step.at(), step.row, why));
    }
    let stack = context.stack(step.flow);
    if stack.is_none() && context.captured.is_some() {
        return;
    }
    let mss = context.mss(step.peer);
    // RFC 9293 section 3.8.6.3: every second full segment.
    let every = stack.map_or(2, |stack| u64::from(stack.delayed_ack.every.max(1)));
    let waiting = now.saturating_sub(step.end.now.acked_out);
    // Linux delays an ACK that would announce a smaller right edge than the last one
    // (`__tcp_ack_snd_check`).
    let held = adaptive && step.end.read + 1 < before;
    if !held && waiting > 2 * every * mss && step.end.now.offered > now + mss {
        half.many.get_or_insert((step.at(), step.row, waiting));
    }
}

fn waits(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let patience = if context.captured.is_some() { AT_ONCE_CAPTURED } else { AT_ONCE };
    let known = !context.recording.has_unknown_tcp(context.recording.flows[step.flow].from);
    if let Some((since, row, why)) = half.urgent
        && step.at().since(since) > patience
    {
        half.urgent = None;
        let one = step.of_receiver(context, NAME, "an ACK that is due at once is missing").since(row, since);
        found.add(Occurrence { level: why.level(known), ..one }, || {
            let ((what, section), waited) = (why.said(), step.at().since(since));
            format!(
                "{} received {what} at {since:#} and had sent no ACK {waited:#} later ({section}).",
                context.who(step.flow)
            )
        });
    }
    if let Some((since, row, bytes)) = half.many
        && step.at().since(since) > AT_ONCE
    {
        half.many = None;
        let one =
            step.of_receiver(context, NAME, "too many full segments are unacknowledged").since(row, since);
        let level = if known { one.level } else { Level::Warning };
        found.add(Occurrence { level, ..one }, || {
            format!(
                "{} had {bytes} bytes unacknowledged at {since:#} and sent no ACK within {AT_ONCE:#} (RFC 9293 section \
                 3.8.6.3: an ACK SHOULD be sent for every second full segment).",
                context.who(step.flow)
            )
        });
    }
}

/// RFC 5681 section 4.2: each of the first segments out of order is acknowledged at once by a duplicate ACK
/// as section 2 defines it.
fn gap(gap: &mut Gap, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let Some(settings) = context.settings(step.flow).filter(|_| context.in_virtual_time()) else { return };
    let nic = &settings.nic;
    let patience = || INSTANT + nic.rx_delay + nic.rx_cost * 64;
    if let Some((since, row)) = gap.instant
        && step.at().since(since) > patience()
    {
        gap.instant = None;
        found.add(
            step.of_receiver(context, NAME, "one of the first duplicate ACKs is delayed").since(row, since),
            || {
                format!(
                    "{} received data out of order at {since:#}, not more than {THRESHOLD} segments after the gap, and had sent no ACK {:#} \
                     later: the sender counts these ACKs (RFC 5681 sections 3.2 and 4.2).", context.who(step.flow),
                    step.at().since(since)
                )
            },
        );
    }
    let now = &step.end.now;
    if step.end.above.is_empty() {
        // Nothing is out of order.
        *gap = Gap { edge: gap.edge, read: gap.read, ..Gap::default() };
        if step.is_sent() && step.is_stream() {
            gap.announced(step);
        }
        return;
    }
    if now.frontier != step.before.frontier || step.end.over {
        // An arrival that fills a part of the gap is the first of the new gap that must be acknowledged at
        // once.
        let first = u32::from(step.is_arrival() && step.len() > 0 && !step.end.above.is_empty());
        *gap = Gap { edge: gap.edge, read: gap.read, arrivals: first, ..Gap::default() };
    }
    if step.is_sent() && step.is_stream() {
        gap.instant = None;
        let (before, read) = (gap.edge, gap.read);
        gap.announced(step);
        if gap.arrivals > 0 && step.len() == 0 && before.1 == gap.edge.1 {
            if before.0 == gap.edge.0 {
                gap.same += 1;
            } else {
                gap.others += u32::from(read == step.end.read);
            }
        }
    }
    let out_of_order =
        step.is_arrival() && step.len() > 0 && step.seq() > now.frontier && step.end.repeated.is_none();
    // A duplicate is also answered by an ACK.
    let counts = step.is_arrival() && step.len() > 0 && !step.end.above.is_empty();
    if counts && now.frontier == step.before.frontier {
        gap.arrivals += 1;
        // With a GRO flush timeout Linux 6.1 was observed to answer 72 us after the arrival. The reason is
        // not known.
        let known = nic.gro_timeout.is_zero();
        if out_of_order && known && gap.arrivals <= THRESHOLD && step.end.open && step.end.fin_in.is_none() {
            gap.instant.get_or_insert((step.at(), step.row));
        }
    }
    let sack = |flow| context.stack(flow).is_some_and(|stack| stack.sack);
    if gap.others >= MANY && gap.same < THRESHOLD && !(sack(step.flow) && sack(step.peer)) {
        gap.others = 0;
        found.add(step.of_receiver(context, NAME, "ACKs of data out of order announce different windows").warning(), || {
            format!(
                "{} answered data out of order with {MANY} ACKs of position {}, each with another window than the one before: without SACK \
                 none of them is a duplicate ACK (RFC 5681 section 2).", context.who(step.flow), now.frontier
            )
        });
    }
    if let Some((since, _)) = gap.instant {
        step.deadline(Some(since), patience());
    }
}

/// The sender waits for an ACK that the receiver delays: all data that were sent have arrived, and there are more to send.
fn both_wait(delays: &mut [Delay], context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    // A queue in the host holds back what may be sent.
    if !context.of_kernel() || context.facts.is_none_or(Facts::queues_in_host) {
        return;
    }
    let (end, now) = (step.end, &step.end.now);
    let Some(settings) = context.settings(step.flow) else { return };
    let mss = context.mss(step.flow);
    // Nagle's algorithm and a cork hold back what is shorter than a segment; pacing and a full send buffer hold back everything.
    let free =
        settings.stack.pacing == Pacing::Off && !settings.stack.cork && settings.buffers.send.is_none();
    let paced = !free || context.paces(step.flow);
    let more = end.logs_writes && end.written >= now.nxt + mss && end.fin_out.is_none();
    let calm = matches!(now.state, CongestionState::Open | CongestionState::Cwr)
        && end.sacked == 0
        && end.again == 0;
    let ready = !paced && more && calm && end.outstanding() > 0 && now.una + end.wnd >= now.nxt + 2 * mss;
    let own = &mut delays[step.flow];
    own.sent = now.nxt;
    own.una = now.una;
    own.ready = if ready { own.ready.or(Some(step.at())) } else { None };
    if step.is_arrival() && step.is_stream() && step.len() > 0 {
        own.newest = Some((step.at(), step.row));
        return;
    }
    if !(step.is_sent() && step.is_stream()) {
        return;
    }
    let Some((since, row)) = own.newest.take() else { return };
    let sender = &delays[step.peer];
    // A sender may also wait for an ACK that was lost.
    let told = sender.una == step.before.acked_out;
    let all = told && sender.sent == now.frontier && sender.ready.is_some_and(|at| at <= since);
    let owed = step.before.acked_out < now.frontier && step.event.ack.unwrap_or(0) >= now.frontier;
    let Some(stack) = context.stack(step.flow) else { return };
    let waited = step.at().since(since);
    if all && owed && waited >= DELAYED.min(stack.delayed_ack.timeout) && end.open && end.fin_in.is_none() {
        found.add(step.of_receiver(context, NAME, "both ends wait for a delayed ACK").since(row, since).warning(), || {
            format!(
                "All data that were sent had reached {} at {since:#}, it acknowledged them {waited:#} later, and its peer, which had more to \
                 send and room in the announced window, sent nothing meanwhile (RFC 1122 section 4.2.3.2).", context.who(step.flow)
            )
        });
    }
}
