//! Contents of segments: SACK blocks, timestamps, sizes, position of the FIN.

use super::closing::Closing;
use super::names::SEGMENT_CONTENTS as NAME;
use super::opening::Opening;
use super::sack_blocks::Reports;
use super::timestamp_clock::TimestampClock;
use crate::finding::{Findings, Oracle};
use crate::needs::Need;
use crate::step::{Context, Rule, Step};
use tcpassay_measure::EventKind;
use tcpassay_tcp::{EcnMode, StackFlavor};
use tcpassay_units::Time;
use tcpassay_wire::Flags;

pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "contents of segments against RFC 2018, RFC 2883, RFC 7323 and RFC 9293",
    asserts: "every SACK block reports only data that arrived, and the first block contains the data that arrived last, the others those that changed before it, as many as fit (Linux sends the ACK for compressed ones before a third block changes, which is \
              then that of the data before these); a \
              duplicate is reported by a DSACK block, and a DSACK block reports only data that arrived twice; a segment echoes \
              TS.Recent of RFC 7323, and every segment has a timestamp if both ends use them; the timestamp is that of the time at \
              which the segment is sent; no segment is larger than the \
              MSS or, with segmentation offload, than the largest super-segment; the FIN \
              follows the last byte written; a SYN is sent again after the initial RTO, which doubles, offers and accepts ECN as \
              RFC 3168 says, offers accurate ECN in the first two SYNs at least (RFC 9768), and has data only the first time; a full segment has the MSS that both ends offered less its options; windows above 65,535 are announced \
              only if both ends scale windows, and then in units of the scale; the state of a connection changes only as RFC 9293 \
              says, when the FIN that is the reason has arrived or is acknowledged, and its last states have their duration, TIME-WAIT from the last FIN on.",
    why: "RFC 2018 sections 3 and 4, RFC 2883 section 4, RFC 7323 sections 2.2, 3.2 and 4.3, RFC 6298 section 5.5, RFC 3168 section 6.1.1, RFC 7413 section 4.1.3, RFC 9293 sections 3.3.2, 3.7.1, 3.10.4 and 3.10.7.4.",
    evidence: "the segment with wrong contents, and the arrival or the write that it contradicts.",
    wrong_when: "arrivals are missing from the log, or a host drops data that the log shows as arrived (lack of memory, \
                 reneging): a block that the oracle expects may then be missing.",
    needs: &[Need::BothDirections, Need::Handshake, Need::EveryPacket, Need::NoCopies, Need::AtEnd],
};

#[derive(Clone, Debug, Default)]
struct Half {
    /// TS.Recent and Last.ACK.sent of RFC 7323 section 4.3.
    recent: Option<u32>,
    /// The out-of-order data that arrived last, if no ACK has reported them yet: range, time, row.
    newest: Option<((u64, u64), Time, usize)>,
    /// The out-of-order data that arrived before `newest`, if no ACK has reported them either.
    earlier: Option<(u64, u64)>,
    /// Ranges that arrived again since the last ACK.
    duplicates: Vec<(u64, u64)>,
    /// A completely duplicate segment arrived and no ACK was sent since: its row and range.
    owes_dsack: Option<(usize, (u64, u64))>,
    /// Whether SACK was negotiated. The log does not contain the options of a SYN: SACK is considered
    /// negotiated if a SACK block was seen or the settings of both ends enable it.
    sack: Option<bool>,
    reports: Reports,
}

/// Implements the rules in the documentation of this module.
pub(super) struct Acknowledgment {
    halves: Vec<Half>,
    clocks: Vec<TimestampClock>,
    openings: Vec<Opening>,
    closings: Vec<Closing>,
}

impl Acknowledgment {
    pub fn new(flows: usize) -> Acknowledgment {
        Acknowledgment {
            halves: vec![Half::default(); flows],
            clocks: vec![TimestampClock::default(); flows],
            openings: vec![Opening::default(); flows],
            closings: vec![Closing::default(); flows],
        }
    }
}

impl Rule for Acknowledgment {
    fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        if !context.of_kernel() {
            // The clock of the model is exact.
        } else if step.is_sent() {
            self.clocks[step.flow].sent(step);
        } else if step.event.kind == EventKind::In {
            self.clocks[step.peer].arrived(context, step, found);
        }
        self.openings[step.flow].on(context, step, found);
        self.openings[step.peer].comes(step);
        self.closings[step.flow].on(context, step, found);
        if step.event.flags.is_none() {
            return;
        }
        let half = &mut self.halves[step.flow];
        if half.sack.is_none() {
            let on = |flow| context.stack(flow).is_some_and(|stack| stack.sack);
            half.sack = Some(on(step.flow) && on(step.peer));
        }
        if step.is_arrival() {
            let forgets = context
                .stack(step.flow)
                .is_some_and(|stack| stack.flavor == StackFlavor::Linux || stack.delayed_ack.adaptive);
            arrival(half, step, forgets);
            if context.exact() {
                half.reports.arrived(context, step);
            }
        } else if step.event.kind == EventKind::In {
            // A segment below the window is answered by an ACK that reports it as a duplicate.
            half.duplicates.push((step.seq(), step.seq_end()));
        } else if step.is_sent() && step.is_stream() {
            blocks(half, context, step, found);
            size(context, step, found);
            fin(context, step, found);
            stamp(half, context, step, found);
            (half.newest, half.earlier) = (None, None);
            // A segment with data need not have room for the option, and the next ACK reports the duplicate.
            if step.len() == 0 || !step.sacks.is_empty() {
                half.duplicates.clear();
            }
            half.owes_dsack = None;
        }
    }
}

/// `forgets`: the arrival of data discards an earlier duplicate that no ACK has reported yet (Linux,
/// `tcp_data_queue`).
fn arrival(half: &mut Half, step: &Step<'_>, forgets: bool) {
    let stamp = step.event.value.and_then(|value| u32::try_from(value).ok());
    if step.flags().has(Flags::RST) {
        return;
    }
    if step.flags().has(Flags::SYN) {
        half.recent = stamp;
        return;
    }
    if let (Some(value), Some(recent)) = (stamp, half.recent)
        && value.wrapping_sub(recent).cast_signed() >= 0
        && step.seq() <= step.before.acked_out.max(1)
    {
        half.recent = Some(value);
    }
    if step.len() == 0 && !step.flags().has(Flags::FIN) {
        return;
    }
    if forgets {
        half.owes_dsack = None;
    }
    // A FIN occupies one sequence number.
    let (start, end) = (step.seq(), step.seq_end() + u64::from(step.flags().has(Flags::FIN)));
    if start > step.before.frontier && step.end.repeated.is_none() && step.len() > 0 {
        half.earlier = half.newest.map(|(range, _, _)| range);
        half.newest = Some(((start, step.seq_end()), step.at(), step.row));
    } else if step.end.now.frontier > step.before.frontier {
        half.newest = None;
    }
    if let Some(range) = step.end.repeated {
        half.newest = None;
        half.duplicates.push(range);
        // Linux does not detect every duplicate above RCV.NXT (`tcp_ooo_try_coalesce`).
        if range == (start, end) && step.len() > 0 && (!forgets || end <= step.before.frontier) {
            half.owes_dsack = Some((step.row, range));
        }
    }
}

fn blocks(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let Some(ack) = step.event.ack else { return };
    let end = step.end;
    let dsack = step.sacks.first().filter(|first| {
        first.1 <= ack || step.sacks.get(1).is_some_and(|second| second.0 <= first.0 && first.1 <= second.1)
    });
    for block in step.sacks {
        if block.0 == block.1 {
            found.add(step.of_receiver(context, NAME, "an empty SACK block"), || {
                format!(
                    "{} sent a SACK block that begins and ends at {} with ACK {ack}; a block is a range of data that was received (RFC 2018 section 3).",
                    context.who(step.flow), block.0
                )
            });
        } else if block.0 > block.1 || !end.has(block.0, block.1) {
            found.add(step.of_receiver(context, NAME, "a SACK block of data that did not arrive"), || {
                format!(
                    "{} sent a SACK block {} to {} with ACK {ack}, but not all of these positions have arrived (RFC 2018 section 3).",
                    context.who(step.flow), block.0, block.1
                )
            });
        }
    }
    // The ACK that DCTCP sends at a change of CE describes the state before the change.
    if ack < end.now.frontier || !context.exact() {
        return;
    }
    if let Some(&(start, stop)) = dsack
        && !half.duplicates.iter().any(|range| range.0 < stop && start < range.1)
    {
        found.add(step.of_receiver(context, NAME, "a DSACK of data that arrived once"), || {
            format!(
                "{} reported positions {start} to {stop} as duplicates, but none of them arrived twice since its last report (RFC 2883 section 4).", context.who(step.flow)
            )
        });
    }
    if half.sack != Some(true) || step.len() > 0 || end.fin_in.is_some() {
        return;
    }
    let Some(stack) = context.stack(step.flow) else { return };
    let first = step.sacks.get(usize::from(dsack.is_some()));
    // The ACK for compressed ones leaves before a third block changes, so that it does not report what arrived last
    // (`tcp_sack_compress_send_ack`): an earlier segment is its reason.
    let pending = stack.ack_compression.is_some()
        && half.newest.is_some_and(|(_, at, _)| at == step.at())
        && half.earlier.zip(first).is_some_and(|(range, first)| first.0 <= range.0 && range.1 <= first.1);
    half.reports.sent(context, step, (dsack.is_some(), pending), found);
    if let Some((row, range)) = half.owes_dsack
        && stack.dsack
        && dsack.is_none()
    {
        found.add(
            step.of_receiver(context, NAME, "a duplicate is not reported").since(row, step.at()),
            || {
                format!(
                    "Positions {} to {} arrived twice at {}, and its next ACK has no DSACK block (RFC 2883 section 4).",
                    range.0, range.1, context.who(step.flow)
                )
            },
        );
    }
    // The ACK that DCTCP sends at a change of CE describes the state before the change.
    let then = stack.ecn == EcnMode::Dctcp;
    if half.newest.is_some() && !end.above.is_empty() && first.is_none() && !then {
        found.add(step.of_receiver(context, NAME, "an ACK without SACK blocks above a gap"), || {
            format!("{} holds data above position {ack} and sent an ACK without a SACK block (RFC 2018 section 4).", context.who(step.flow))
        });
    } else if let (Some(first), Some((newest, _, row))) = (first, half.newest)
        && half.duplicates.is_empty()
        && !pending
        && (newest.0 < first.0 || newest.1 > first.1)
        && newest.1 <= end.above.last().map_or(0, |r| r.1)
    {
        found.add(
            step.of_receiver(context, NAME, "the first SACK block is not of the newest data").since(row, step.at()),
            || {
                format!(
                    "Positions {} to {} were the last to arrive at {}, but the first SACK block of its next ACK is {} to {} \
                     (RFC 2018 section 4).",
                    newest.0, newest.1, context.who(step.flow), first.0, first.1
                )
            },
        );
    }
}

/// RFC 7323 section 4.3.
fn stamp(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let closing = step.end.fin_in.is_some() || step.end.fin_out.is_some();
    if half.recent.is_some() && step.event.value.is_none() && context.exact() && step.end.open && !closing {
        found.add(step.of_receiver(context, NAME, "a segment without a timestamp"), || {
            format!(
                "{} sent a segment without a timestamp, although both ends use them (RFC 7323 section 3.2).",
                context.who(step.flow)
            )
        });
    }
    let (Some(recent), Some(echo)) = (half.recent, step.event.value) else { return };
    if echo != u64::from(recent) && context.exact() && step.end.open && !closing {
        found.add(step.of_receiver(context, NAME, "a timestamp echo that is not TS.Recent"), || {
            format!(
                "{} echoed the timestamp {echo}; TS.Recent is {recent} (RFC 7323 section 4.3).",
                context.who(step.flow)
            )
        });
        half.recent = u32::try_from(echo).ok();
    }
}

fn size(context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let Some(settings) = context.settings(step.flow).filter(|_| context.exact()) else { return };
    let mss = context.mss(step.flow);
    let stack = &settings.stack;
    let most = if stack.mtu_probing.is_some() { settings.mtu.get() } else { mss };
    let most = stack.tso.map_or(most, |gso| gso.get().max(most));
    if step.len() > most {
        found.add(step.of_sender(context, NAME, "a segment above the MSS"), || {
            format!(
                "{} sent a segment of {} bytes; {most} are allowed (RFC 9293 section 3.7.1).",
                context.who(step.flow),
                step.len()
            )
        });
    }
}

fn fin(context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let fin = step.flags().has(Flags::FIN);
    if fin && context.exact() && step.end.logs_writes && step.seq_end() != step.end.written {
        found.add(step.of_sender(context, NAME, "a FIN that is not at the end of the data"), || {
            format!(
                "{} sent its FIN at position {}, but the application wrote up to {} (RFC 9293 section 3.10.4).",
                context.who(step.flow), step.seq_end(), step.end.written
            )
        });
    }
}
