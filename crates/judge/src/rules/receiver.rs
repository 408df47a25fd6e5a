//! When a receiver acknowledges: RFC 9293, RFC 5681.

use crate::finding::{Findings, Oracle};
use crate::step::{Context, Rule, Step};
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::Timer;
use tcpassay_units::{Dur, Time};

pub(super) const NAME: &str = "ack-timing";

pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "when ACKs are sent, against RFC 9293 and RFC 5681",
    asserts: "an ACK leaves before more than twice the allowed number of full segments wait for it; data out of order, data that \
              fill a gap, and duplicates are acknowledged at once, which a compression of duplicate ACKs may delay by a \
              millisecond, but not the first three after a gap; without SACK these ACKs announce the same window, so that they are \
              duplicates; a probe below the window is answered; no keepalive probe leaves without the option, and one leaves \
              when the connection was idle for its time.",
    why: "RFC 9293 section 3.8.6.3 (at least every second full segment), RFC 5681 section 4.2 (out-of-order data at once), RFC 9293 \
          sections 3.8.6.1, 3.10.7.4 and 3.8.4.",
    evidence: "the first arrival that waits, and the row at which it still waits.",
    wrong_when: "the host could not send. A window that is shut lets a Linux receiver wait for its application to read.",
    needs: &[],
};

/// Duplicate ACKs may be compressed for a millisecond and its slack (Linux `tcp_comp_sack_delay_ns`).
const AT_ONCE: Dur = Dur::from_millis(2);
/// Duplicate ACKs that start fast retransmit (RFC 5681 section 3.2): none of them may wait.
const THRESHOLD: u32 = 3;
/// The time of a receiver that sends an ACK at once.
const INSTANT: Dur = Dur::from_micros(50);
/// Data out of order after which a sender without SACK has no duplicate ACK, if each ACK announces another window.
const MANY: u32 = 6;

#[derive(Clone, Debug, Default)]
struct Half {
    /// The first arrival since the last ACK that must be acknowledged at once: when, row, why.
    urgent: Option<(Time, usize, &'static str)>,
    /// Enough full segments wait: since when.
    many: Option<(Time, usize)>,
}

/// What arrived since the position in order moved last.
#[derive(Clone, Debug, Default)]
struct Gap {
    /// Arrivals out of order.
    arrivals: u32,
    /// One of the first of them waits for its ACK: since when, the row.
    instant: Option<(Time, usize)>,
    /// ACKs that announced the window of the ACK before, and ACKs that did not.
    same: u32,
    others: u32,
    /// The right edge and position of the last ACK.
    edge: (u64, u64),
}

/// See the module.
pub(super) struct Receiver {
    halves: Vec<Half>,
    gaps: Vec<Gap>,
}

impl Receiver {
    pub fn new(flows: usize) -> Receiver {
        Receiver { halves: vec![Half::default(); flows], gaps: vec![Gap::default(); flows] }
    }
}

impl Rule for Receiver {
    fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let half = &mut self.halves[step.flow];
        waits(half, context, step, found);
        gap(&mut self.gaps[step.flow], context, step, found);
        if step.is_sent() && step.is_stream() {
            *half = Half::default();
        }
        if step.end.over || !step.end.open {
            *half = Half::default();
            return;
        }
        if step.is_arrival() && step.is_stream() && step.len() > 0 && step.end.fin_in.is_none() {
            arrival(half, context, step);
        }
        keepalive(context, step, found);
    }
}

fn arrival(half: &mut Half, context: &Context<'_>, step: &Step<'_>) {
    let (before, now) = (step.before.frontier, step.end.now.frontier);
    let why = if step.seq() > before {
        Some("data out of order")
    } else if step.end.repeated.is_some() && step.seq_end() <= before {
        Some("a duplicate")
    } else if now > step.seq_end() {
        Some("data that fill a gap")
    } else {
        None
    };
    if let Some(why) = why {
        half.urgent.get_or_insert((step.at(), step.row, why));
    }
    let Some(stack) = context.stack(step.flow) else { return };
    let mss = context.recording.flows[step.peer].mss.get();
    let every = u64::from(stack.delayed_ack.every.max(1));
    let waiting = now.saturating_sub(step.end.now.acked_out);
    // Linux waits while an ACK would announce less than was announced before (`__tcp_ack_snd_check`).
    let held = stack.delayed_ack.adaptive && step.end.read + 1 < before;
    if !held && waiting > 2 * every * mss && step.end.now.offered > now + mss {
        half.many.get_or_insert((step.at(), step.row));
    }
}

fn waits(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    if let Some((since, row, why)) = half.urgent
        && step.at().since(since) > AT_ONCE
    {
        half.urgent = None;
        found.add(
            step.of_receiver(context, NAME, "an ACK that is due at once is missing").since(row, since),
            || {
                format!(
                    "{} received {why} at {since} and had sent no ACK {} later (RFC 5681 section 4.2).",
                    context.who(step.flow),
                    step.at().since(since)
                )
            },
        );
    }
    if let Some((since, row)) = half.many
        && step.at().since(since) > AT_ONCE
    {
        half.many = None;
        found.add(step.of_receiver(context, NAME, "full segments wait for an ACK").since(row, since), || {
            format!(
                "{} had {} bytes unacknowledged at {since} and sent no ACK (RFC 9293 section 3.8.6.3).",
                context.who(step.flow),
                step.end.now.frontier - step.end.now.acked_out
            )
        });
    }
}

/// RFC 5681 section 4.2: each of the first segments out of order is answered at once, by an ACK that counts as a duplicate (section 2).
fn gap(gap: &mut Gap, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let Some(settings) = context.settings(step.flow).filter(|_| context.in_virtual_time()) else { return };
    let nic = &settings.nic;
    let patience = INSTANT + nic.rx_delay + nic.rx_cost * 64;
    if let Some((since, row)) = gap.instant
        && step.at().since(since) > patience
    {
        gap.instant = None;
        found.add(
            step.of_receiver(context, NAME, "one of the first duplicate ACKs is held back").since(row, since),
            || {
                format!(
                    "{} received data out of order at {since}, not more than {THRESHOLD} segments after the gap, and had sent no ACK {} \
                     later: the sender counts these ACKs (RFC 5681 sections 3.2 and 4.2).", context.who(step.flow),
                    step.at().since(since)
                )
            },
        );
    }
    let now = &step.end.now;
    if now.frontier != step.before.frontier || step.end.above.is_empty() || step.end.over {
        // An arrival that fills a part of the gap is the first of those that are answered at once.
        let first = u32::from(step.is_arrival() && step.len() > 0 && !step.end.above.is_empty());
        *gap = Gap { edge: gap.edge, arrivals: first, ..Gap::default() };
    }
    if step.is_sent() && step.is_stream() {
        gap.instant = None;
        let ack = step.event.ack.unwrap_or(0);
        let edge = ack + step.event.window.map_or(0, tcpassay_units::Bytes::get);
        if gap.arrivals > 0 && step.len() == 0 && gap.edge.1 == ack {
            if edge == gap.edge.0 { gap.same += 1 } else { gap.others += 1 }
        }
        gap.edge = (edge, ack);
    }
    let out_of_order =
        step.is_arrival() && step.len() > 0 && step.seq() > now.frontier && step.end.repeated.is_none();
    // A duplicate is answered, too.
    let counts = step.is_arrival() && step.len() > 0 && !step.end.above.is_empty();
    if counts && now.frontier == step.before.frontier {
        gap.arrivals += 1;
        // Where GRO keeps packets until a timeout, Linux 6.1 was seen to answer 72 us after the arrival; the reason is not known.
        let known = nic.gro_timeout.is_zero();
        if out_of_order && known && gap.arrivals <= THRESHOLD && step.end.open && step.end.fin_in.is_none() {
            gap.instant.get_or_insert((step.at(), step.row));
        }
    }
    let sack = |flow| context.stack(flow).is_some_and(|stack| stack.sack);
    if !(sack(step.flow) && sack(step.peer)) && gap.others >= MANY && gap.same < THRESHOLD {
        gap.others = 0;
        found.add(step.of_receiver(context, NAME, "ACKs of data out of order announce other windows").warning(), || {
            format!(
                "{} answered data out of order with {MANY} ACKs of position {}, each with another window than the one before: without SACK \
                 none of them is a duplicate ACK (RFC 5681 section 2).", context.who(step.flow), now.frontier
            )
        });
    }
}

fn keepalive(context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let fired = step.is_timer(EventKind::TimerFire, Timer::Keepalive);
    let off = context.stack(step.flow).is_some_and(|stack| stack.keepalive.is_none());
    if fired && off {
        found.add(step.of_sender(context, NAME, "a keepalive probe although the option is off"), || {
            format!(
                "{} sends keepalive probes; the option is off (RFC 9293 section 3.8.4).",
                context.who(step.flow)
            )
        });
    }
}
