//! Flow control: RFC 9293 section 3.8.6.

use super::cork::Cork;
use super::names::FLOW_CONTROL as NAME;
use crate::finding::{Findings, Level, Occurrence, Oracle};
use crate::needs::Need;
use crate::step::{Context, PerEnd, Rule, Step};
use tcpassay_units::{Dur, Time};

pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "flow control against RFC 9293",
    asserts: "the right edge that a receiver announces never moves left; a receiver whose application has read everything opens a window that was smaller than a segment; with TCP_CORK a segment \
              smaller than the MSS is held back for 200 ms, or until a tail loss probe sends it.",
    why: "RFC 9293 sections 3.8.6 (a receiver should not shrink its window) and 3.8.6.2.2 (silly window avoidance); tcp(7) (TCP_CORK).",
    evidence: "the segment and the announcement that it contradicts; for a missing window update, the last read and the end of the wait.",
    wrong_when: "announcements are missing from the log, so that a window seems to shrink or an update seems to be missing.",
    needs: &[Need::BothDirections, Need::Handshake, Need::EveryPacket, Need::NoCopies, Need::AtEnd],
};

/// Longest time until a window update.
const PATIENCE: Dur = Dur::from_millis(200);

#[derive(Clone, Debug, Default)]
struct Half {
    /// The largest right edge announced to the peer, and the row that announced it.
    offered: (u64, usize),
    /// Exponent of the largest power of two that divides every window announced.
    scale: Option<u32>,
    owes: Option<Owed>,
    cork: Cork,
}

/// An announced window that is smaller than a segment although the application has read everything.
#[derive(Clone, Copy, Debug)]
struct Owed {
    since: Time,
    row: usize,
    /// The right edge, and the position up to which everything arrived and was read.
    edge: u64,
    read: u64,
    told: bool,
}

/// The rules of the documentation of this module.
pub(super) fn rule(flows: usize) -> Box<dyn Rule> {
    PerEnd::<Half>::rule(flows, on)
}

fn on(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    if step.is_sent() && step.is_stream() {
        edge_stays(half, context, step, found);
    }
    if step.role.receives {
        update_follows(half, context, step, found);
        step.deadline(half.owes.filter(|owed| !owed.told).map(|owed| owed.since), PATIENCE);
    }
    if step.role.sends {
        half.cork.on(context, step, found);
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
        let one =
            step.of_receiver(context, NAME, "the right edge of the window moved left").since(row, step.at());
        // Linux and the model never do what the RFC only advises against.
        let known = !context.recording.has_unknown_tcp(context.recording.flows[step.flow].from);
        let level = if known { one.level } else { Level::Warning };
        found.add(Occurrence { level, ..one }, || {
            format!(
                "{} announced a window up to {edge}, after it had announced one up to {before} (RFC 9293 section 3.8.6: a \
                 receiver SHOULD NOT shrink its window).",
                context.who(step.flow)
            )
        });
    }
    if edge >= before {
        half.offered = (edge, step.row);
    }
}

/// RFC 9293 section 3.8.6.2.2: the window opens when the application has read the data of a segment.
fn update_follows(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let mss = context.mss(step.peer);
    let now = &step.end.now;
    // The probe of the peer that ends the wait may itself be accepted and fill the window again.
    let waited = |owed: &Owed| !owed.told && step.at().since(owed.since) > PATIENCE && !step.is_sent();
    if let Some(owed) = half.owes.as_mut().filter(|owed| waited(owed)) {
        owed.told = true;
        let owed = *owed;
        found.add(
            step.of_receiver(context, NAME, "no window update after the application read")
                .since(owed.row, owed.since),
            || {
                format!(
                    "The application of {} had read everything at {:#}, but its window ends at {}, {} bytes above what had arrived, less than a \
                     segment of {mss} bytes, and no update was sent (RFC 9293 section 3.8.6.2.2).",
                    context.who(step.flow), owed.since, owed.edge, owed.edge - owed.read
                )
            },
        );
    }
    let all_read = step.end.read + 1 >= now.frontier && step.end.above.is_empty();
    let blocked = now.offered < now.frontier + mss && step.end.read > 0 && step.end.fin_in.is_none();
    if !(all_read && blocked && step.end.open && !step.end.over) || step.end.fin_out.is_some() {
        half.owes = None;
    } else {
        half.owes.get_or_insert(Owed {
            since: step.at(),
            row: step.row,
            edge: now.offered,
            read: now.frontier,
            told: false,
        });
    }
}
