//! Flow control: RFC 9293 section 3.8.6.

use super::cork::Cork;
use super::names::FLOW_CONTROL as NAME;
use super::receive_window::ReceiveWindow;
use crate::finding::{Findings, Oracle};
use crate::needs::Need;
use crate::step::{Context, Rule, Step};
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::{CongestionCause, Timer};
use tcpassay_tcp::{Config, Nagle, StackFlavor};
use tcpassay_units::{Dur, Time};
use tcpassay_wire::Flags;

pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "flow control against RFC 9293",
    asserts: "the right edge that a receiver announces never moves left; where bytes of the stream are the only account of the buffer, the announced window is at most the buffer less what the application has not read, and not less than that where it may open; a receiver whose application has read everything opens a window that was smaller than a segment; a sender that has data and a closed window runs the persist timer, first for the RTO, and the interval between its probes grows; a segment smaller than the MSS is not sent while more data wait, unless it fills half of the largest window \
              that the peer ever announced, or, with Nagle's algorithm, while data are outstanding; with TCP_CORK it is held back for 200 ms, or until a tail loss probe sends it.",
    why: "RFC 9293 sections 3.8.6 (a sender must respect the window, a receiver should not shrink it), 3.8.6.1 (zero-window probes \
          with exponential back-off), 3.8.6.2.1 and 3.8.6.2.2 (silly window avoidance) and 3.7.4 (Nagle); tcp(7) (TCP_CORK).",
    evidence: "the segment and the announcement that it contradicts; for a missing window update, the last read and the end of the wait.",
    wrong_when: "announcements were lost from the log. The rules for small segments, except that of TCP_CORK, apply to the model only.",
    needs: &[Need::BothDirections, Need::Handshake, Need::EveryPacket, Need::NoCopies, Need::AtEnd],
};

/// Longest time until a window update.
const PATIENCE: Dur = Dur::from_millis(200);
/// Time within which a timer must be set after it is needed.
const AT_ONCE: Dur = Dur::from_millis(1);

#[derive(Clone, Debug, Default)]
struct Half {
    /// The largest right edge announced to the peer, and the row that announced it.
    offered: (u64, usize),
    /// Exponent of the largest power of two that divides every window announced.
    scale: Option<u32>,
    /// Time and row since which the announced window has been smaller than a segment although the
    /// application has read everything.
    owes: Option<(Time, usize)>,
    /// When the timer of the tail loss probe fired last.
    probe: Option<Time>,
    /// The interval before the next probe of a closed window, and whether the timer has fired since it was set.
    probed: Option<(Dur, bool)>,
    /// True if data were sent since the persist timer fired last, so that its back-off begins anew.
    anew: bool,
    /// The RTO of the last round-trip sample, and the number of timeouts since.
    rto: Option<Dur>,
    timeouts: u32,
    /// The largest window that the peer announced.
    largest: u64,
    /// True while the persist timer runs.
    persists: bool,
    /// True if the persist timer fired after data were sent last: a segment of any size that fits in the
    /// window may then be sent.
    overrides: bool,
    /// Time and row since which data wait for a closed window with nothing outstanding.
    shut: Option<(Time, usize)>,
    /// A mark found the window at one segment: the sender waits until then.
    paused: Time,
    cork: Cork,
    announced: ReceiveWindow,
    /// Position after the last new segment that was not full.
    small_end: u64,
}

/// Implements the rules in the documentation of this module.
pub(super) struct FlowControl {
    halves: Vec<Half>,
}

impl FlowControl {
    pub fn new(flows: usize) -> FlowControl {
        FlowControl { halves: vec![Half::default(); flows] }
    }
}

impl Rule for FlowControl {
    fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let half = &mut self.halves[step.flow];
        if step.event.kind == EventKind::Rtt {
            (half.rto, half.timeouts) = (step.event.rto, 0);
            if context.exact() {
                // A sample follows its ACK at once.
                return;
            }
        }
        if step.is_timer(EventKind::TimerFire, Timer::Tlp) {
            half.probe = Some(step.at());
        }
        if step.is_sent() && step.is_stream() {
            edge_stays(half, context, step, found);
            half.announced.sent(context, step, found);
            if step.role.sends {
                small_segment(half, context, step, found);
                silly(half, context, step, found);
            }
        }
        if step.role.receives {
            update_follows(half, context, step, found);
            step.deadline(half.owes.map(|(since, _)| since), PATIENCE);
        }
        if step.role.sends {
            probes(half, context, step, found);
            persist(half, context, step, found);
            half.cork.on(context, step, found);
            step.deadline(half.shut.map(|(since, _)| since), AT_ONCE);
        }
    }
}

fn edge_stays(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let (Some(ack), Some(window)) = (step.event.ack, step.event.window) else { return };
    // After the handshake FreeBSD announces the size of its buffer, which may be less than the window of the
    // SYN (profile `freebsd`, `bsd_window`).
    if context.stack(step.flow).is_some_and(|stack| stack.bsd_window) {
        return;
    }
    // After the FIN of the peer nothing can arrive.
    if step.end.fin_in.is_some() {
        return;
    }
    let edge = ack + window.get();
    let (before, row) = half.offered;
    // With window scaling, windows are multiples of a power of two (RFC 7323 section 2.4), and the right
    // edge may retreat by the rounding.
    half.scale = window.get().trailing_zeros().min(half.scale.unwrap_or(14)).into();
    let unit = 1 << half.scale.unwrap_or(0);
    // An ACK below RCV.NXT announces the window that belongs to RCV.NXT. Linux's DCTCP sends such an ACK at
    // a change of CE (`dctcp_ece_ack_update`).
    if edge + unit <= before && ack >= step.before.frontier {
        found.add(
            step.of_receiver(context, NAME, "the right edge of the window moved left").since(row, step.at()),
            || {
                format!(
                    "{} announced a window up to {edge}, after it had announced one up to {before}.",
                    context.who(step.flow)
                )
            },
        );
    }
    if edge >= before {
        half.offered = (edge, step.row);
    }
}

/// Checks a segment smaller than the MSS (RFC 9293 sections 3.7.4 and 3.8.6.2.1).
///
/// A tail loss probe may be any new segment (RFC 8985 section 7.3; `tcp_send_loss_probe`).
fn small_segment(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let small_end = half.small_end;
    let Some(stack) = context.stack(step.flow).filter(|_| context.exact()) else { return };
    let mss = context.mss(step.flow);
    let (len, end) = (step.len(), step.seq_end());
    if step.event.kind != EventKind::Out || len == 0 || len >= mss || !step.end.logs_writes {
        return;
    }
    if len + 40 < mss {
        half.small_end = end;
    }
    // A segment that ends at the edge of the window, or at the end of the data, cannot be longer. Options
    // may take a few bytes of a full segment.
    let waits = step.end.written.saturating_sub(end);
    let room = step.before.edge.saturating_sub(end);
    if waits >= mss && room >= mss && len + 40 < mss && !stack.nodelay && !stack.cork && stack.skbs.is_none()
    {
        found.add(step.of_sender(context, NAME, "a small segment although more data waited"), || {
            format!(
                "{} sent {len} bytes at position {} with {waits} more bytes written and {room} bytes of window; its MSS is {mss}.",
                context.who(step.flow), step.seq()
            )
        });
    }
    let held = match stack.nagle {
        Nagle::All => step.before.nxt > step.before.una,
        // draft-minshall-nagle: another small segment is not acknowledged yet.
        Nagle::Small => small_end > step.before.una,
        // The log does not contain the condition of this variant.
        Nagle::Idle => false,
    };
    let held = held && half.probe != Some(step.at());
    let plain = !stack.nodelay && !stack.cork && !step.flags().any(Flags::FIN | Flags::URG) && room >= mss;
    if held && plain && waits == 0 && len + 40 < mss {
        found.add(step.of_sender(context, NAME, "a small segment that violates Nagle's algorithm"), || {
            format!(
                "{} sent {len} bytes at position {} with {} bytes outstanding and without TCP_NODELAY (RFC 9293 section 3.7.4).",
                context.who(step.flow), step.seq(), step.before.nxt - step.before.una
            )
        });
    }
}

/// RFC 9293 section 3.8.6.2.2: the window opens when the application has read the data of a segment.
fn update_follows(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let mss = context.mss(step.peer);
    let now = &step.end.now;
    let all_read = step.end.read + 1 >= now.frontier && step.end.above.is_empty();
    let blocked = now.offered < now.frontier + mss && step.end.read > 0 && step.end.fin_in.is_none();
    if !(all_read && blocked && step.end.open && !step.end.over) || step.end.fin_out.is_some() {
        half.owes = None;
        return;
    }
    let (since, row) = *half.owes.get_or_insert((step.at(), step.row));
    if step.at().since(since) > PATIENCE {
        half.owes = Some((Time::MAX, row));
        found.add(
            step.of_receiver(context, NAME, "no window update after the application read").since(row, since),
            || {
                format!(
                    "The application of {} had read everything at {since}, but its window ends at {}, {} bytes above what has \
                     arrived, less than a segment of {mss} bytes, and no update was sent.", context.who(step.flow),
                    now.offered, now.offered - now.frontier
                )
            },
        );
    }
}

/// Checks the intervals between probes of a closed window (RFC 9293 section 3.8.6.1).
fn probes(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    if step.end.taken.acked > 0 || step.end.wnd > 0 {
        half.probed = None;
    }
    match step.event.kind {
        EventKind::TimerFire if step.event.timer() == Some(Timer::Rto) => half.timeouts += 1,
        EventKind::TimerFire if step.event.timer() == Some(Timer::Persist) => {
            half.anew = false;
            if let Some((_, fired)) = &mut half.probed {
                *fired = true;
            }
        }
        EventKind::TimerSet if step.event.timer() == Some(Timer::Persist) => {
            probe_follows(half, context, step, found);
        }
        // A probe may have a byte of data.
        EventKind::Out if step.len() > 1 => half.anew = true,
        _ => {}
    }
}

/// The timer of the next probe is set.
fn probe_follows(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let Some(due) = step.event.value else { return };
    let wait = Time::from_nanos(due).since(step.at());
    if step.end.wnd > 0 {
        return;
    }
    let Some(stack) = context.stack(step.flow) else { return };
    let most = stack.persist.map_or(stack.rto.max, |persist| persist.max);
    if let Some((before, fired)) = half.probed {
        // An ACK that leaves the window closed restarts the timer with the same interval in Linux (`tcp_ack_probe`).
        let least = (before * if fired { 2 } else { 1 }).min(most);
        let floor = stack.persist.is_some_and(|persist| wait <= persist.min);
        if wait + wait / 20 < least && !floor {
            found.add(step.of_sender(context, NAME, "probes of a closed window without back-off"), || {
                format!(
                    "{} waits {wait} before the next probe of a closed window, after {before} before the last one; the interval should grow exponentially.", context.who(step.flow)
                )
            });
        }
    } else if let Some(rto) = half.rto.filter(|_| std::mem::take(&mut half.anew)) {
        first_probe(half, (stack, rto), context, step, wait, found);
    }
    half.probed = Some((stack.timer_ticks.least(wait), false));
}

/// RFC 9293 section 3.8.6.1: the first probe is sent when the window has been closed for the retransmission timeout.
fn first_probe(
    half: &Half,
    (stack, rto): (&Config, Dur),
    context: &Context<'_>,
    step: &Step<'_>,
    wait: Dur,
    found: &mut Findings,
) {
    let rto = rto.saturating_mul(1 << half.timeouts.min(16));
    let most = match stack.persist {
        // Linux waits for at least 200 ms (`tcp_probe0_base`).
        None if stack.flavor == StackFlavor::Linux => rto.max(Dur::from_millis(200)),
        None => rto.max(stack.rto.min),
        // FreeBSD: four smoothed round-trip times and eight deviations (`tcp_setpersist`).
        Some(persist) => (rto * 4).max(persist.min),
    };
    let nominal = stack.timer_ticks.least(wait);
    if nominal > most + most / 20 {
        found.add(step.of_sender(context, NAME, "the first probe of a closed window comes late"), || {
            format!(
                "{} waits {wait} before the first probe of a window that has closed anew; its RTO is {rto} (RFC 9293 section 3.8.6.1).",
                context.who(step.flow)
            )
        });
    }
}

/// RFC 9293 section 3.8.6.2.1: a segment smaller than the MSS may be sent if it fills half of the largest
/// window, or if the override timer fires.
fn silly(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let (len, end) = (step.len(), step.seq_end());
    if len == 0 {
        return;
    }
    let overrides = std::mem::take(&mut half.overrides);
    let Some(stack) = context.stack(step.flow).filter(|_| context.exact()) else { return };
    let mss = context.mss(step.flow);
    let room = step.before.edge.saturating_sub(step.seq());
    let more = step.end.logs_writes && step.end.written > end;
    let new = step.event.kind == EventKind::Out && step.seq() >= step.before.nxt;
    // A probe of one byte may exceed the window. Options may take a few bytes of a full segment.
    let small = len > 1 && room > 0 && room + 40 < mss && len + 40 < mss;
    // Linux sends a super-segment up to the edge of the window, and then what is left of it (`tcp_mss_split_point`).
    let cuts = stack.flavor == StackFlavor::Linux && stack.tso.is_some();
    // Linux divides packets when the options of their headers need more space, and sends what is left of a packet if it fits into the
    // window: it is not the window that makes this segment small (`tcp_write_xmit`, `tso_fragment`).
    let rest = stack.skbs.is_some() && len < room;
    if new && small && more && !overrides && room < half.largest / 2 && !stack.cork && !cuts && !rest {
        found.add(step.of_sender(context, NAME, "a small segment into a large window"), || {
            format!(
                "{} sent {len} bytes at position {} because the window ended there, with more data written; the MSS is {mss} and the \
                 largest window was {} (RFC 9293 section 3.8.6.2.1).", context.who(step.flow), step.seq(), half.largest
            )
        });
    }
}

/// RFC 9293 section 3.8.6.1: while data wait for a closed window and nothing is outstanding, the persist
/// timer runs.
fn persist(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    if let Some((since, row)) = half.shut
        && step.at().since(since) > AT_ONCE
    {
        half.shut = Some((Time::MAX, row));
        if !half.persists {
            found.add(
                step.of_sender(context, NAME, "a closed window without a persist timer").since(row, since),
                || {
                    format!(
                        "{} had {} bytes to send, a closed window and nothing outstanding at {since}, and {} later no persist timer ran.",
                        context.who(step.flow), step.end.written.saturating_sub(step.before.nxt), step.at().since(since)
                    )
                },
            );
        }
    }
    match step.event.kind {
        EventKind::TimerSet if step.event.timer() == Some(Timer::Persist) => half.persists = true,
        EventKind::TimerCancel if step.event.timer() == Some(Timer::Persist) => half.persists = false,
        EventKind::TimerFire if step.event.timer() == Some(Timer::Persist) => {
            half.persists = false;
            half.overrides = true;
        }
        EventKind::Congestion if step.congestion_cause() == Some(CongestionCause::Ece) => {
            pause(half, context, step);
        }
        EventKind::In if !step.flags().any(Flags::SYN | Flags::RST) => {
            half.largest = half.largest.max(step.event.window.map_or(0, tcpassay_units::Bytes::get));
        }
        _ => {}
    }
    let waits = step.end.logs_writes && step.end.written > step.end.now.nxt && step.end.fin_out.is_none();
    let shut = step.end.wnd == 0 && step.end.outstanding() == 0 && step.end.now.edge > 0;
    if context.exact() && waits && shut && step.end.open && !step.end.over {
        half.shut.get_or_insert((step.at().max(half.paused), step.row));
    } else {
        half.shut = None;
    }
}

/// RFC 3168 section 6.1.2: a mark that finds the window at one segment restarts the retransmission timer, and the sender sends new data
/// only when it fires, although nothing is outstanding. The persist timer begins then.
fn pause(half: &mut Half, context: &Context<'_>, step: &Step<'_>) {
    let Some(stack) = context.stack(step.flow).filter(|stack| stack.mark_stops_one_segment) else { return };
    if step.end.now.cwnd <= context.mss(step.flow) {
        let rto = half.rto.unwrap_or(stack.rto.initial).saturating_mul(1 << half.timeouts.min(16));
        half.paused = step.at() + rto.min(stack.rto.max);
        half.shut = half.shut.map(|(since, row)| (since.max(half.paused), row));
    }
}
