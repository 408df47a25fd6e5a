//! Explicit congestion notification: RFC 3168, RFC 8257, RFC 9768.

use super::ce_change::CeChange;
use super::names::ECN as NAME;
use crate::finding::{Findings, Oracle};
use crate::step::{Context, PerEnd, Rule, Step};
use tcpassay_measure::reason::{CongestionCause, WindowCause};
use tcpassay_measure::{ECT, EventKind};
use tcpassay_tcp::{CongestionState, EcnMode, StackFlavor};
use tcpassay_units::Time;
use tcpassay_wire::Flags;

pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "ECN against RFC 3168, RFC 8257 and RFC 9768",
    asserts: "classic ECN: a receiver sets ECE on every segment from a CE mark until CWR, and on no other; DCTCP: ECE of an ACK equals the CE mark of the last data that it acknowledges, and data with another mark than the data before are acknowledged at once; accurate ECN: the ACE field is the count of CE packets, from 5 on, \
              modulo 8. A sender reduces its window once per window of data with ECE or, with accurate ECN, with another ACE field, and sets CWR on the next new data.",
    why: "RFC 3168 sections 6.1.2 (one reduction a window, CWR) and 6.1.3 (ECE until CWR); RFC 8257 section 3.2; RFC 9768 sections 3.2.1 and 3.2.2.",
    evidence: "the mark or the ACK with ECE, and the segment that contradicts it.",
    wrong_when: "marks reached the host in a packet that is missing from the log. The oracle ignores an end that is closing.",
    needs: &[],
};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Mode {
    #[default]
    Off,
    Classic,
    Dctcp,
    Accurate,
}

#[expect(clippy::struct_excessive_bools, reason = "independent facts of a connection")]
#[derive(Clone, Debug, Default)]
struct Half {
    asked: bool,
    mode: Mode,
    agreed: bool,
    /// Classic ECN: the row with a CE mark for which no CWR has arrived yet.
    latched: Option<usize>,
    /// Classic ECN: the receiver may set ECE or not, after a segment with CWR that is older than all that was acknowledged, which
    /// Linux does not accept, or after a mark of a duplicate, which Linux does not take.
    unsure: bool,
    /// The end of the data that arrived last.
    newest: u64,
    /// DCTCP: the CE mark of the last data, and RCV.NXT after them.
    mark: (bool, u64),
    /// Accurate ECN: number of packets with CE; `None` if marks in the handshake make it unknown.
    marked: Option<u64>,
    /// Number of packets by which the count may be too low.
    slack: u64,
    /// The first ECE that was not followed by a reduction: row, time, SND.NXT at that time.
    unanswered: Option<(usize, Time, u64)>,
    /// SND.NXT at the last reduction, and its row.
    reduced: Option<(u64, usize)>,
    /// The row of a reduction after which no new data with CWR were sent yet.
    cwr_due: Option<usize>,
    /// True if a row `window` showed a reduction and the row with its cause has not come yet.
    entered: bool,
    /// True after the first reduction.
    ever: bool,
    change: CeChange,
    /// Accurate ECN: the ACE field of the last ACK of new data, and whether packets without data are ECN-capable, whose marks the field
    /// counts, too.
    heard: Option<u64>,
    bare: bool,
}

/// Whether a host uses ECN.
pub(super) fn applies(context: &Context<'_>) -> bool {
    context.any_stack(|stack| stack.ecn != EcnMode::Off)
}

/// The counter in the ACE field (RFC 9768 section 3.2.2).
fn ace(flags: Flags) -> u64 {
    u64::from(flags.has(Flags::AE)) << 2
        | u64::from(flags.has(Flags::CWR)) << 1
        | u64::from(flags.has(Flags::ECE))
}

/// The rules of the documentation of this module.
pub(super) fn rule(flows: usize) -> Box<dyn Rule> {
    PerEnd::<Half>::rule(flows, on)
}

fn on(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let Some(stack) = context.stack(step.flow) else { return };
    if stack.ecn == EcnMode::Off {
        return;
    }
    if step.event.flags.is_some() && step.flags().has(Flags::SYN) {
        handshake(half, stack.ecn, step);
        return;
    }
    if !half.agreed || step.end.over || step.end.fin_in.is_some() || step.end.fin_out.is_some() {
        return;
    }
    if half.mode == Mode::Dctcp {
        half.change.on(context, step, found);
    }
    if step.is_arrival() {
        arrival(half, context, step);
        answered(half, context, step, found);
    } else if step.is_sent() && step.is_stream() {
        echo(half, context, step, found);
        sent(half, context, step, found);
    } else {
        reduction(half, context, step, found);
    }
}

/// RFC 3168 section 6.1.1. Accurate ECN is judged when the first SYN asked for it and no packet of the handshake was marked.
fn handshake(half: &mut Half, wanted: EcnMode, step: &Step<'_>) {
    let (flags, bits) = (step.flags(), ace(step.flags()));
    half.asked = if flags.has(Flags::ACK) { half.asked } else { bits == 7 || bits == 3 };
    if !flags.has(Flags::ACK) {
        return;
    }
    half.agreed = match wanted {
        EcnMode::Classic | EcnMode::Dctcp => half.asked && bits & 3 == 1,
        EcnMode::Accurate => half.asked && (bits == 2 || bits == 3),
        EcnMode::Off => false,
    };
    half.mode = match wanted {
        EcnMode::Classic => Mode::Classic,
        EcnMode::Dctcp => Mode::Dctcp,
        EcnMode::Accurate => Mode::Accurate,
        EcnMode::Off => Mode::Off,
    };
    half.marked = (!step.event.ce).then_some(0);
}

fn arrival(half: &mut Half, context: &Context<'_>, step: &Step<'_>) {
    // Duplicate data do not change the state.
    let data = step.len() > 0 && step.end.repeated != Some((step.seq(), step.seq_end()));
    match half.mode {
        Mode::Classic => {
            let old = step.len() > 0 && step.seq_end() <= step.before.acked_out;
            // Linux accepts CWR of a segment only if its acknowledgment is not older than another one (`tcp_ack`).
            let stale = !context.exact() && step.event.ack.is_some_and(|ack| ack < step.before.una);
            if step.flags().has(Flags::CWR) && (old || stale) {
                half.unsure = half.latched.is_some();
            } else if step.flags().has(Flags::CWR) {
                half.latched = None;
                half.unsure = false;
            }
            if step.event.ce && step.end.repeated == Some((step.seq(), step.seq_end())) {
                half.unsure |= half.latched.is_none();
            } else if step.event.ce {
                half.unsure = false;
                half.latched = half.latched.or(Some(step.row));
            }
            if data {
                half.newest = step.seq_end();
            }
        }
        Mode::Dctcp if data => half.mark = (step.event.ce, step.end.now.frontier),
        Mode::Accurate if step.event.ce => {
            let mss = context.mss(step.peer).max(1);
            // Implementations differ in whether they count a packet of old data only, because it is not
            // acceptable (RFC 9293 section 3.10.7.4), and the ACK that ends the handshake (Linux counts in `tcp_rcv_established`).
            let old = step.end.repeated == Some((step.seq(), step.seq_end()))
                || step.len() == 0 && step.end.now.frontier <= 1;
            half.slack += u64::from(old);
            half.marked = half.marked.map(|n| n + if old { 0 } else { step.len().div_ceil(mss).max(1) });
            // Packets with an option have less payload, so that a merged segment may consist of one more.
            // So may one of small packets: Linux sends at most half of a small window at once (`tcp_bound_to_half_wnd`).
            let merges = context.settings(step.peer).is_none_or(|settings| settings.nic.gro);
            half.slack += u64::from(step.len() > mss || merges && step.len() > mss / 2);
        }
        _ => {}
    }
}

/// Evaluates the ECN flags of a segment that is sent.
fn echo(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let ece = step.flags().has(Flags::ECE);
    // A kernel logs an arrival at the device, before TCP processes it. TCP may send an ACK in between.
    if half.mode == Mode::Classic && !context.exact() && step.event.ack.unwrap_or(0) < half.newest {
        return;
    }
    match half.mode {
        Mode::Classic if half.unsure => {}
        Mode::Classic => match half.latched {
            Some(row) if !ece => {
                found.add(
                    step.of_receiver(context, NAME, "ECE missing before CWR arrived").since(row, step.at()),
                    || {
                        format!(
                            "{} had received a CE mark and no CWR since, but sent an ACK without ECE (RFC 3168 section 6.1.3).",
                            context.who(step.flow)
                        )
                    },
                );
            }
            None if ece && !half.unsure => {
                found.add(step.of_receiver(context, NAME, "ECE without a mark"), || {
                    format!(
                        "{} set ECE, but no CE mark has arrived since the last CWR (RFC 3168 section 6.1.3).",
                        context.who(step.flow)
                    )
                });
            }
            _ => {}
        },
        Mode::Dctcp => {
            let (ce, frontier) = half.mark;
            if step.event.ack == Some(frontier) && frontier > 0 && step.end.above.is_empty() && ce != ece {
                found.add(step.of_receiver(context, NAME, "ECE is not the mark of the last data"), || {
                    format!(
                        "{} acknowledged up to {frontier} {} ECE, but the last data that it received {} CE (RFC 8257 section 3.2).",
                        context.who(step.flow), if ece { "with" } else { "without" }, if ce { "carried" } else { "did not carry" }
                    )
                });
            }
        }
        Mode::Accurate => {
            let Some(marked) = half.marked else { return };
            let (said, counted) = (ace(step.flags()), (5 + marked) % 8);
            // The first ACKs contain the handshake encoding of the ACE field (RFC 9768 section 3.2.2.1).
            let more = (said + 8 - counted) % 8;
            if more > half.slack && half.slack < 4 && step.before.acked_out > 1 && step.end.now.frontier > 1 {
                found.add(step.of_receiver(context, NAME, "the ACE field is not the count of marks").warning(), || {
                    format!(
                        "{} sent an ACE field of {said}; {marked} packets with CE have arrived, which makes it {counted} (RFC 9768 \
                         section 3.2.2).", context.who(step.flow)
                    )
                });
                half.marked = None;
            }
        }
        Mode::Off => {}
    }
}

/// Checks the ECN codepoint and CWR of a segment that is sent.
fn sent(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    half.bare |= step.event.why == ECT && step.len() == 0;
    let new = step.len() > 1 && step.seq() >= step.before.nxt && step.event.kind == EventKind::Out;
    if half.mode == Mode::Accurate {
        return;
    }
    let cwr = step.flags().has(Flags::CWR);
    if cwr && !half.ever {
        found.add(step.of_sender(context, NAME, "CWR without a reduction"), || {
            format!(
                "{} set CWR, but had not reduced its window (RFC 3168 section 6.1.2).",
                context.who(step.flow)
            )
        });
    }
    if cwr {
        half.cwr_due = None;
    } else if let Some(row) = half.cwr_due.filter(|_| new) {
        half.cwr_due = None;
        found.add(
            step.of_sender(context, NAME, "no CWR after a reduction").since(row, step.at()),
            || {
                format!(
                    "{} reduced its window, but the next new data, at position {}, do not carry CWR (RFC 3168 section 6.1.2).",
                    context.who(step.flow), step.seq()
                )
            },
        );
    }
}

/// Detects reductions: rows `window` show the reduction, rows `congestion` its cause.
fn reduction(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let event = step.event;
    half.entered |= event.kind == EventKind::Window
        && matches!(event.window_cause(), Some(WindowCause::Enter | WindowCause::Timeout));
    // An undo after the recovery changes only the window.
    let late = event.window_cause() == Some(WindowCause::Leave)
        && matches!(step.end.now.state, CongestionState::Open | CongestionState::Disorder);
    if step.is_undo() || late {
        half.reduced = None;
        half.entered = false;
        // Linux does not announce what was undone (`tcp_ecn_withdraw_cwr`).
        half.cwr_due = None;
    }
    let begins = event.kind == EventKind::Congestion
        && matches!(
            step.end.now.state,
            CongestionState::Cwr | CongestionState::Recovery | CongestionState::Loss
        )
        && step.end.now.state != step.before.state;
    if !begins {
        return;
    }
    half.ever = true;
    half.unanswered = None;
    if !std::mem::take(&mut half.entered) {
        // A loss and a mark in the same window cause only one reduction.
        return;
    }
    let by_marks =
        step.end.now.state == CongestionState::Cwr && step.congestion_cause() == Some(CongestionCause::Ece);
    if let Some((nxt, row)) = half.reduced
        && by_marks
        && step.end.now.una < nxt
        && half.mode != Mode::Accurate
    {
        found.add(
            step.of_sender(context, NAME, "two reductions for marks in one window").since(row, step.at()),
            || {
                format!(
                    "{} reduced its window for a mark at position {}, before {nxt}, which was next to be sent at the last reduction, \
                     was acknowledged (RFC 3168 section 6.1.2).", context.who(step.flow), step.end.now.una
                )
            },
        );
    }
    // Linux ends the reduction for a loss that a probe repaired at once, so that a mark in the same ACK reduces again (`tcp_process_tlp_ack`).
    half.reduced =
        (step.congestion_cause() != Some(CongestionCause::Tlp)).then_some((step.end.now.nxt, step.row));
    if half.mode != Mode::Accurate {
        half.cwr_due = Some(step.row);
    }
}

/// Checks that a reduction follows an ACK with ECE before a window of data was acknowledged.
fn answered(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    if half.mode == Mode::Off || half.mode == Mode::Accurate && half.bare {
        return;
    }
    let busy = step.end.now.state != CongestionState::Open && step.end.now.state != CongestionState::Disorder;
    let Some(stack) = context.stack(step.flow) else { return };
    let advances = step.end.taken.acked > 0;
    let ece = if half.mode == Mode::Accurate {
        // A change of the counter reports marks (RFC 9768 section 3.2.2).
        let said = ace(step.flags());
        // The sender takes a counter that is zero at first for one that a middlebox clears, and ignores it (RFC 9768 section 3.2.2.4).
        half.bare |= half.heard.is_none() && said == 0 && advances;
        let known = if advances { half.heard.replace(said) } else { None };
        context.exact() && known.is_some_and(|known| known != said)
    } else {
        step.flags().has(Flags::ECE) && advances
    };
    if let Some((row, at, nxt)) = half.unanswered
        && step.before.una > nxt
        && !busy
    {
        half.unanswered = None;
        let mss = context.mss(step.flow);
        // A window at its minimum cannot be reduced.
        if step.end.now.cwnd > 2 * mss && stack.flavor != StackFlavor::FreeBsd {
            found.add(step.of_sender(context, NAME, "ECE not answered by a reduction").since(row, at), || {
                format!(
                    "{} received ECE and acknowledged data up to {} since, a window later, without a reduction (RFC 3168 section \
                     6.1.2).", context.who(step.flow), step.before.una
                )
            });
        }
    }
    if busy {
        half.unanswered = None;
    } else if ece && half.unanswered.is_none() {
        half.unanswered = Some((step.row, step.at(), step.before.nxt));
    }
}
