//! Flow control: RFC 9293 section 3.8.6.

use crate::finding::{Findings, Oracle};
use crate::step::{Context, Rule, Step};
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::Timer;
use tcpassay_tcp::Nagle;
use tcpassay_units::{Dur, Time};
use tcpassay_wire::Flags;

pub(super) const NAME: &str = "flow-control";

pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "flow control against RFC 9293",
    asserts: "no segment reaches beyond the largest right edge that the peer announced, but for a probe of one byte; the right \
              edge that a receiver announces never moves left; a receiver whose application has read everything opens a window \
              that was too small for a segment; a sender with data and a shut window keeps a timer, and its probes come ever more \
              slowly; a segment smaller than the MSS is not sent while more data wait, unless it fills half of the largest window \
              that the peer ever announced, or, with Nagle's algorithm, while data are outstanding.",
    why: "RFC 9293 sections 3.8.6 (a sender must respect the window, a receiver should not shrink it), 3.8.6.1 (zero-window probes \
          with exponential back-off), 3.8.6.2.1 and 3.8.6.2.2 (silly window avoidance) and 3.7.4 (Nagle).",
    evidence: "the segment and the announcement that it contradicts; for what is missing, the last read and the end of the wait.",
    wrong_when: "announcements were lost from the log. Small segments are judged on the model alone, where each write is logged.",
    needs: &[],
};

/// How long a window update may take.
const PATIENCE: Dur = Dur::from_millis(200);
/// A timer is set at the instant from which on it is needed.
const AT_ONCE: Dur = Dur::from_millis(1);

#[derive(Clone, Debug, Default)]
struct Half {
    /// The row that announced the largest right edge to the peer, and what it announced.
    offered: (u64, usize),
    /// The largest power of two that divides every window announced.
    scale: Option<u32>,
    /// The window is too small for a segment and everything was read: since when.
    owes: Option<(Time, usize)>,
    /// Waits between probes of a shut window.
    probed: Option<(Time, Dur)>,
    /// The largest window that the peer announced.
    largest: u64,
    /// The persist timer runs.
    persists: bool,
    /// The persist timer fired since data were sent last: what the window holds may leave, however little.
    overrides: bool,
    /// Data wait, the window is shut and nothing is outstanding: since when.
    shut: Option<(Time, usize)>,
}

/// See the module.
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
        if step.is_sent() && step.is_stream() {
            within_window(context, step, found);
            edge_stays(half, context, step, found);
            small_segment(context, step, found);
            silly(half, context, step, found);
        }
        update_follows(half, context, step, found);
        probes(half, context, step, found);
        persist(half, context, step, found);
    }
}

fn within_window(context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let (end, edge) = (step.seq_end(), step.before.edge);
    if step.len() > 1 && edge > 0 && end > edge {
        found.add(step.of_sender(context, NAME, "data beyond the peer's window"), || {
            format!(
                "{} sent positions {} to {end}, but the largest right edge that its peer had announced is {edge}.",
                context.who(step.flow), step.seq()
            )
        });
    }
}

fn edge_stays(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let (Some(ack), Some(window)) = (step.event.ack, step.event.window) else { return };
    // FreeBSD announces what its buffer holds when the handshake is over (profile `freebsd`, `bsd_window`).
    if context.stack(step.flow).is_some_and(|stack| stack.bsd_window) {
        return;
    }
    let edge = ack + window.get();
    let (before, row) = half.offered;
    // What the scale cannot say (RFC 7323 section 2.4): windows are multiples of a power of two.
    half.scale = window.get().trailing_zeros().min(half.scale.unwrap_or(14)).into();
    let unit = 1 << half.scale.unwrap_or(0);
    // An ACK of less than what arrived in order announces the window that belongs to the later position: so does the ACK that
    // Linux's DCTCP sends for the state before a change of CE (`dctcp_ece_ack_update`).
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

/// RFC 9293 sections 3.7.4 and 3.8.6.2.1.
fn small_segment(context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let Some(stack) = context.stack(step.flow).filter(|_| context.exact()) else { return };
    let mss = context.recording.flows[step.flow].mss.get();
    let (len, end) = (step.len(), step.seq_end());
    if step.event.kind != EventKind::Out || len == 0 || len >= mss || !step.end.logs_writes {
        return;
    }
    // What ends at a window's edge, or with the data, is as long as it can be. Options may take a few bytes.
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
        // What these look at is not in the log.
        Nagle::Small | Nagle::Idle => false,
    };
    let plain = !stack.nodelay && !stack.cork && !step.flags().any(Flags::FIN | Flags::URG) && room >= mss;
    if held && plain && waits == 0 && len + 40 < mss {
        found.add(step.of_sender(context, NAME, "a small segment against Nagle's algorithm"), || {
            format!(
                "{} sent {len} bytes at position {} with {} bytes outstanding and without TCP_NODELAY (RFC 9293 section 3.7.4).",
                context.who(step.flow), step.seq(), step.before.nxt - step.before.una
            )
        });
    }
}

/// RFC 9293 section 3.8.6.2.2: the window opens when a segment's worth was read.
fn update_follows(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let mss = context.recording.flows[step.peer].mss.get();
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

/// RFC 9293 section 3.8.6.1.
fn probes(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    if step.end.taken.acked > 0 || step.end.wnd > 0 {
        half.probed = None;
    }
    let Some(due) = step.event.value.filter(|_| step.is_timer(EventKind::TimerSet, Timer::Persist)) else {
        return;
    };
    let wait = Time::from_nanos(due).since(step.at());
    if step.end.wnd > 0 {
        return;
    }
    let Some(stack) = context.stack(step.flow) else { return };
    let most = stack.persist.map_or(stack.rto.max, |persist| persist.max);
    if let Some((_, before)) = half.probed {
        let least = (before * 2).min(most);
        let floor = stack.persist.is_some_and(|persist| wait <= persist.min);
        if wait + wait / 20 < least && !floor {
            found.add(step.of_sender(context, NAME, "probes of a shut window without back-off"), || {
                format!(
                    "{} waits {wait} before the next probe of a shut window, after {before} before the last one; the interval \
                     should grow exponentially.", context.who(step.flow)
                )
            });
        }
    }
    half.probed = Some((step.at(), wait));
}

/// RFC 9293 section 3.8.6.2.1: a part of a segment leaves when it fills half of the largest window, or when the timer says so.
fn silly(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let (len, end) = (step.len(), step.seq_end());
    if len == 0 {
        return;
    }
    let overrides = std::mem::take(&mut half.overrides);
    let Some(stack) = context.stack(step.flow).filter(|_| context.exact()) else { return };
    let mss = context.recording.flows[step.flow].mss.get();
    let room = step.before.edge.saturating_sub(step.seq());
    let more = step.end.logs_writes && step.end.written > end;
    let new = step.event.kind == EventKind::Out && step.seq() >= step.before.nxt;
    // A probe of one byte goes beyond the window. Options may take a few bytes.
    let small = len > 1 && room > 0 && room + 40 < mss && len + 40 < mss;
    if new && small && more && !overrides && room < half.largest / 2 && !stack.cork {
        found.add(step.of_sender(context, NAME, "a small segment into a large window"), || {
            format!(
                "{} sent {len} bytes at position {} because the window ended there, with more data written; the MSS is {mss} and the \
                 largest window was {} (RFC 9293 section 3.8.6.2.1).", context.who(step.flow), step.seq(), half.largest
            )
        });
    }
}

/// RFC 9293 section 3.8.6.1: while data wait for a shut window and nothing is outstanding, the persist timer runs.
fn persist(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    if let Some((since, row)) = half.shut
        && step.at().since(since) > AT_ONCE
    {
        half.shut = Some((Time::MAX, row));
        if !half.persists {
            found.add(
                step.of_sender(context, NAME, "a shut window without a persist timer").since(row, since),
                || {
                    format!(
                        "{} had {} bytes for a shut window and nothing outstanding at {since}, and {} later no persist timer ran.",
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
        EventKind::In if !step.flags().any(Flags::SYN | Flags::RST) => {
            half.largest = half.largest.max(step.event.window.map_or(0, tcpassay_units::Bytes::get));
        }
        _ => {}
    }
    let waits = step.end.logs_writes && step.end.written > step.end.now.nxt && step.end.fin_out.is_none();
    let shut = step.end.wnd == 0 && step.end.outstanding() == 0 && step.end.now.edge > 0;
    if context.exact() && waits && shut && step.end.open && !step.end.over {
        half.shut.get_or_insert((step.at(), step.row));
    } else {
        half.shut = None;
    }
}
