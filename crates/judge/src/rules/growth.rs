//! Growth of the congestion window: RFC 5681, RFC 3465, RFC 6928, RFC 7661.

use super::additive_increase::{self, Increase};
use super::hystart::Hystart;
use super::names::WINDOW_GROWTH as NAME;
use super::pacing::Spacing;
use super::traced_window::TracedWindow;
use super::validated_window::ValidatedWindow;
use crate::finding::{Findings, Oracle};
use crate::needs::Need;
use crate::step::{Context, Rule, Step};
use std::collections::VecDeque;
use tcpassay_cc::{Arithmetic, ByteCounting};
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::{Timer, WindowCause};
use tcpassay_tcp::{AfterIdle, CongestionState, EcnMode, Pacing, Recovery, StackFlavor};
use tcpassay_units::{Dur, Time};
use tcpassay_wire::Flags;

pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "growth of the congestion window against RFC 5681",
    asserts: "in slow start an ACK increases the window by at most the data that it delivers (Linux: a segment for each \
              packet), and by no more than the byte counting of the profile allows; in congestion avoidance Reno and DCTCP add \
              at most one segment per window of acknowledged data, and exactly one while the window is full; CUBIC adds at \
              most half a window per round trip, grows at least half as fast as Reno since the last reduction while its window \
              is full, and does not exceed the CUBIC function of the time since then without idle periods; an ACK with ECE \
              does not increase the window; a window of which less than half is used does not grow, nor in congestion avoidance on Linux \
              one that the application does not fill; the first flight is at \
              most the initial window; after an idle time of one RTO the first flight is at most the restart window; slow \
              start without a loss or mark does not end while round-trip times are not longer than the shortest one and less \
              than a quarter of the path's capacity is in use; with the HyStart of Linux it ends when the ACKs of a round, at most 2 ms apart, take \
              longer than half of the shortest round-trip time, or the shortest of nine round-trip times of a round is an eighth longer \
              than that (4 to 16 ms), and not before; only probes are sent beyond the window, which is never below \
              one segment; with pacing new segments follow each other at the distance that the rate of window and SRTT gives.",
    why: "RFC 5681 section 3.1 (equations 2 and 3) and 4.1 (idle), RFC 3465 sections 2.1 to 2.3, RFC 6928, RFC 9438 sections 4.2 \
          (target of 1.5 windows), 4.3 (Reno-friendly region) and 5.8 (idle), RFC 9406 section 4 (end of slow start), Linux `hystart_update`, RFC 2861, RFC 7661 section 1 (an unused window is not validated by the path).",
    evidence: "the row with the change of the window, and the row at which counting began.",
    wrong_when: "the oracle has no rule for the controller (it then checks only the initial window). The log of a real kernel \
                 contains the window at each arrival of a segment, so every rule allows for the data that the last arrivals \
                 delivered.",
    needs: &[Need::Event(EventKind::Window)],
};

/// The length of the option of accurate ECN with its padding.
const ACCURATE_OPTION: u64 = 12;
/// The largest length of the options of a header.
const OPTIONS: u64 = 40;

#[derive(Clone, Debug, Default)]
struct Half {
    /// Time of the last ACK, and the bytes that it delivered.
    delivered: (Time, u64),
    /// Bytes by which the last ACK advanced SND.UNA.
    acknowledged: u64,
    /// Congestion avoidance: data acknowledged since counting began, as a number of windows; then the window
    /// and the row at that time.
    earned: f64,
    from: Option<(u64, usize)>,
    /// Bytes acknowledged since the window grew last, while it was full.
    full: u64,
    full_from: Option<(usize, Time)>,
    /// CUBIC: the window, row and time at the begin of congestion avoidance; then the number of windows
    /// acknowledged since, while the window was full.
    stage: Option<(u64, usize, Time)>,
    stage_windows: f64,
    /// Peaks of the flight size: time, bytes.
    peaks: VecDeque<(Time, u64)>,
    /// True after the first ACK of data, which ends the first flight.
    acked: bool,
    syn_sent: u32,
    first: Option<(usize, u64)>,
    last_sent: Time,
    srtt: Option<Dur>,
    /// The longest SRTT so far, because data of a burst are acknowledged long after they filled the window.
    longest: Dur,
    /// The longest round-trip time that was measured in the last two round trips, and when: the window may have been full that long ago.
    sample: (Time, Dur),
    rto: Option<Dur>,
    /// After an idle time: bytes that may be sent before the next ACK; then the bytes sent.
    burst: Option<(u64, u64)>,
    marked: bool,
    /// Time of the last change of the congestion state. An ACK at this time counts, because it may end a
    /// timeout.
    changed: Option<Time>,
    /// State of the rules for the log of a kernel.
    traced: TracedWindow,
    validated: ValidatedWindow,
    hystart: Hystart,
    spacing: Spacing,
}

/// Implements the rules in the documentation of this module.
pub(super) struct Growth {
    halves: Vec<Half>,
}

impl Growth {
    pub fn new(flows: usize) -> Growth {
        Growth { halves: vec![Half::default(); flows] }
    }
}

impl Rule for Growth {
    fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let half = &mut self.halves[step.flow];
        if context.of_kernel() {
            half.traced.on(context, step, found);
            half.validated.on(context, step, found);
        }
        half.hystart.on(context, step, found);
        half.spacing.on(context, step, found);
        match step.event.kind {
            EventKind::In => arrival(half, context, step, found),
            EventKind::Retransmit if step.flags().has(Flags::SYN) => half.syn_sent += 1,
            EventKind::Out => first_flight(half, context, step, found),
            EventKind::Window => window(half, context, step, found),
            EventKind::Congestion => {
                forget(half);
                half.stage = None;
                half.changed = Some(step.at());
                // During recovery round trips are longer, so earlier peaks of the flight remain valid.
                half.peaks.clear();
            }
            // A tail loss probe may send new data beyond the window (RFC 8985 section 7.3).
            EventKind::TimerFire => {
                half.acked |= half.first.is_some();
                half.burst = None;
                // The model counts the window as used as before if these timers release a segment; whether it should is not settled.
                if matches!(step.event.timer(), Some(Timer::Cork | Timer::Persist)) {
                    half.peaks.clear();
                }
                if step.event.timer() == Some(Timer::Rto) {
                    // The timeout stays doubled until the next sample (RFC 6298 section 5.5).
                    half.rto = half.rto.map(|rto| rto + rto);
                }
            }
            EventKind::Rtt => {
                half.srtt = step.event.srtt;
                half.longest = half.longest.max(step.event.srtt.unwrap_or(Dur::ZERO));
                let sample = step.event.value.map_or(Dur::ZERO, Dur::from_nanos);
                if sample >= half.sample.1 || step.at().since(half.sample.0) > half.longest * 2 {
                    half.sample = (step.at(), sample);
                }
                half.rto = step.event.rto;
            }
            _ => {}
        }
        if step.is_sent() && step.len() > 0 {
            half.last_sent = step.at();
        }
    }
}

fn forget(half: &mut Half) {
    half.earned = 0.0;
    half.from = None;
    half.full = 0;
    half.full_from = None;
}

fn controller<'a>(context: &Context<'a>, step: &Step<'_>) -> &'a str {
    &context.recording.flows[step.flow].cc
}

#[expect(clippy::cast_precision_loss, reason = "windows are far below 2^53")]
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn arrival(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    if step.flags().has(Flags::SYN) {
        return;
    }
    let flight = step.before.nxt - step.before.una;
    half.peaks.push_back((step.at(), flight));
    let longest = if half.longest == Dur::ZERO { Dur::from_secs(1) } else { half.longest };
    let window = longest * 2 + Dur::from_millis(1);
    while half.peaks.len() > 64 && half.peaks.front().is_some_and(|(at, _)| step.at().since(*at) > window) {
        half.peaks.pop_front();
    }
    let taken = step.end.taken;
    let delivered = match context.stack(step.flow).map(|stack| stack.flavor) {
        // `tcp_cong_avoid` of Linux adds a segment for each packet.
        Some(StackFlavor::Linux) => taken.in_packets,
        // RFC 5681 section 3.1 and FreeBSD (`bytes_this_ack`): what SND.UNA passed, although it had been SACKed before.
        Some(StackFlavor::FreeBsd) => taken.delivered.max(taken.acked),
        _ => taken.delivered,
    };
    half.marked = step.flags().has(Flags::ECE);
    half.acknowledged = taken.acked;
    if delivered > 0 {
        half.delivered = (step.at(), delivered);
    }
    half.acked |= half.first.is_some();
    // A duplicate ACK also permits a segment (RFC 3042).
    half.burst = None;
    let mss = context.mss(step.flow);
    let calm = step.before.state == CongestionState::Open && step.end.sacked == 0 && !half.marked;
    let cwnd = step.before.cwnd;
    let peer = step.end.wnd >= cwnd + 2 * mss;
    // In a small window two segments of room are a large part.
    let spare = if cwnd >= 8 * mss { 2 * mss } else { mss };
    let full = calm && peer && cwnd >= 4 * mss && flight + spare > cwnd && taken.acked > 0;
    if !full || step.before.cwnd < step.before.ssthresh {
        half.full = 0;
        half.full_from = None;
    } else {
        half.full_from.get_or_insert((step.row, step.at()));
        half.full += taken.acked;
    }
    half.earned += share(delivered, cwnd);
    // Without byte counting an ACK adds one MSS whatever it acknowledges. If ACKs are lost or thinned,
    // growth has no lower bound.
    if context.stack(step.flow).is_none_or(|stack| stack.byte_counting == ByteCounting::PerAck) {
        return;
    }
    let no_room = full && flight + mss > cwnd;
    cubic_keeps_up(half, context, step, found, no_room.then_some(taken.acked));
    if half.full == 0 {
        return;
    }
    let windows = match controller(context, step) {
        "reno" | "dctcp" => 4,
        "cubic" => 200,
        _ => return,
    };
    if half.full > windows * (cwnd + mss)
        && context.exact()
        && let Some((row, at)) = half.full_from.take()
    {
        half.full = 0;
        found.add(step.of_sender(context, NAME, "congestion avoidance without growth").since(row, at).warning(), || {
            format!(
                "{} filled its window of {cwnd} bytes in congestion avoidance and had {windows} windows acknowledged, and the window \
                 did not grow (RFC 5681 section 3.1).", context.who(step.flow)
            )
        });
    }
}

/// RFC 9438 section 4.3: the window is at least that of Reno with CUBIC's own factor, counted from the last reduction. `acked`:
/// bytes acknowledged while the window was full.
fn cubic_keeps_up(
    half: &mut Half,
    context: &Context<'_>,
    step: &Step<'_>,
    found: &mut Findings,
    acked: Option<u64>,
) {
    let (cwnd, ssthresh) = (step.before.cwnd, step.before.ssthresh);
    let calm = step.before.state == CongestionState::Open;
    if cwnd == 0 || cwnd < ssthresh || !calm || !context.exact() || controller(context, step) != "cubic" {
        half.stage = None;
        return;
    }
    let (from, row, at) = *half.stage.get_or_insert_with(|| {
        half.stage_windows = 0.0;
        (cwnd, step.row, step.at())
    });
    half.stage_windows += acked.map_or(0.0, |bytes| share(bytes, cwnd).min(1.0));
    let mss = context.mss(step.flow);
    let beta = context.settings(step.flow).and_then(|s| s.cc_values.get("beta").copied()).unwrap_or(0.7);
    // Linux recomputes the increment at most every 31 ms (`bictcp_update`).
    let slow = context.stack(step.flow).is_some_and(|stack| stack.cc_arithmetic == Arithmetic::Linux);
    if slow && step.at().since(at) < Dur::from_millis(200) {
        return;
    }
    // Half of what section 4.3 adds, and two segments of rounding.
    let earned = 0.5 * 3.0 * (1.0 - beta) / (1.0 + beta) * half.stage_windows - 2.0;
    if earned > share(cwnd.saturating_sub(from), mss) + 1.0 {
        half.stage = None;
        found.add(step.of_sender(context, NAME, "CUBIC grows more slowly than Reno").since(row, at), || {
            format!(
                "In congestion avoidance the window of {} was {from} bytes at {at}; {:.0} full windows later it is {cwnd}, less than \
                 Reno's with CUBIC's factor (RFC 9438 section 4.3).", context.who(step.flow), half.stage_windows
            )
        });
    }
}

/// Checks a `window` row that an ACK caused.
fn window(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let event = step.event;
    let (before, after) = (step.before.cwnd, step.end.now.cwnd);
    let Some(stack) = context.stack(step.flow) else { return };
    if event.window_cause() != Some(WindowCause::Ack) || before == 0 || after <= before {
        forget(half);
        return;
    }
    half.full = 0;
    half.full_from = None;
    let classic = stack.ecn == EcnMode::Classic && step.before.state == CongestionState::Open;
    let settled = half.changed != Some(step.at());
    if half.marked && classic && settled && half.delivered.0 == step.at() && context.exact() {
        found.add(step.of_sender(context, NAME, "an ACK with ECE lets the window grow"), || {
            format!(
                "The window of {} grew from {before} to {after} bytes with an ACK that carried ECE (RFC 3168 section 6.1.2).",
                context.who(step.flow)
            )
        });
    }
    let mss = context.mss(step.flow);
    let name = controller(context, step);
    if !matches!(name, "reno" | "dctcp" | "cubic") {
        return;
    }
    // Without SACK, duplicates count as segments that left the network; the log does not contain this count.
    let uses_sack = |flow| context.stack(flow).is_some_and(|stack| stack.sack);
    if !(uses_sack(step.flow) && uses_sack(step.peer)) || stack.recovery == Recovery::NewReno {
        return;
    }
    let grew = after - before;
    let (at, delivered) = half.delivered;
    let delivered = if at == step.at() { delivered } else { 0 };
    // FreeBSD also uses slow start at the threshold, and may exceed it.
    let at_threshold = stack.cc_arithmetic == Arithmetic::FreeBsd && before == step.before.ssthresh;
    if before < step.before.ssthresh || at_threshold {
        let limit = match stack.byte_counting {
            ByteCounting::PerAck => mss,
            // RFC 3465 section 2.3: in the slow start that follows a timeout.
            ByteCounting::Limit(_) if step.before.state == CongestionState::Loss => mss,
            ByteCounting::Limit(n) => u64::from(n) * mss,
            ByteCounting::All => u64::MAX,
        };
        // What was SACKed before counts when it is acknowledged (RFC 3465 section 2.1).
        let counted = delivered.max(if at == step.at() { half.acknowledged } else { 0 });
        let most = counted.min(limit);
        // A FIN occupies a sequence number and no byte, and options take a part of a segment. Linux counts whole segments.
        let exact = stack.cc_arithmetic == Arithmetic::Rfc && stack.flavor == StackFlavor::Rfc;
        let spare = if exact { OPTIONS } else { mss };
        if grew > most.saturating_add(spare) {
            found.add(step.of_sender(context, NAME, "slow start adds more than was acknowledged"), || {
                format!(
                    "In slow start the window of {} grew by {grew} bytes with an ACK of {delivered}; {most} are allowed (RFC 5681 \
                     section 3.1, RFC 3465).", context.who(step.flow)
                )
            });
        }
        half.earned = 0.0;
        half.from = None;
    } else if name == "cubic" {
        if grew > delivered / 2 + 2 * mss {
            found.add(step.of_sender(context, NAME, "CUBIC adds more than half a window per round trip"), || {
                format!(
                    "In congestion avoidance the window of {} grew by {grew} bytes with an ACK of {delivered} (RFC 9438 section 4.2).",
                    context.who(step.flow)
                )
            });
        }
    } else if step.before.state != CongestionState::Loss {
        let (from, row) = *half.from.get_or_insert((before, step.row));
        // One segment for each window, one that was earned before counting began, one for rounding.
        let most = half.earned.mul_add(1.0, 2.0);
        if share(after - from, mss) > most * 1.02 + 0.5 {
            let increase = Increase { row, from, to: after, windows: half.earned, mss };
            additive_increase::report(&increase, context, step, found);
            forget(half);
        }
    }
    unused(half, context, step, found);
}

fn unused(half: &Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let Some(stack) = context.stack(step.flow) else { return };
    let before = step.before.cwnd;
    if !context.exact() || stack.flavor != StackFlavor::Rfc || stack.cc_arithmetic == Arithmetic::FreeBsd {
        return;
    }
    let mss = context.mss(step.flow);
    let (sampled, sample) = half.sample;
    let recent = step.at().since(sampled) <= half.longest * 2;
    let longest = if recent { half.longest.max(sample) } else { half.longest };
    let covered =
        half.peaks.front().is_some_and(|(at, _)| half.srtt.is_some() && step.at().since(*at) >= longest * 2);
    let used = |flight: u64| flight + 2 * mss >= before / 8 * 3;
    // The last peaks are usually the largest ones.
    if covered
        && half.peaks.len() > 2
        && step.before.state == CongestionState::Open
        && !half.peaks.iter().rev().any(|(_, flight)| used(*flight))
    {
        let most = half.peaks.iter().map(|(_, flight)| *flight).max().unwrap_or(0);
        found.add(step.of_sender(context, NAME, "an unused window grows"), || {
            format!(
                "The window of {} grew from {before} to {} bytes, but in the last two round trips no more than {most} bytes were in \
                 flight (RFC 7661 section 1).", context.who(step.flow), step.end.now.cwnd
            )
        });
    }
}

/// Checks the first flight against the initial window, and the flight after an idle time against the restart
/// window.
fn first_flight(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    if step.flags().has(Flags::SYN) {
        half.syn_sent += 1;
        return;
    }
    let Some(stack) = context.stack(step.flow) else { return };
    if step.len() == 0 {
        return;
    }
    let mss = context.mss(step.flow);
    let initial = u64::from(stack.initial_window.max(1)) * mss;
    if !half.acked {
        let (_, start) = *half.first.get_or_insert((step.row, step.seq()));
        let sent = step.seq_end() - start;
        // The log of a kernel does not identify a tail loss probe among the first segments.
        let probe = if context.exact() { 0 } else { mss };
        // A segment without the option of accurate ECN is longer than one with it, and the window counts the longer ones.
        let option = if stack.ecn == EcnMode::Accurate {
            u64::from(stack.initial_window) * ACCURATE_OPTION
        } else {
            0
        };
        if sent > initial + probe + option && step.event.kind == EventKind::Out && start == 1 {
            found.add(step.of_sender(context, NAME, "the first flight is above the initial window"), || {
                format!(
                    "{} sent {sent} bytes before the first ACK of data; its initial window is {} segments of {mss} bytes (RFC 6928).",
                    context.who(step.flow), stack.initial_window
                )
            });
        }
        // Linux reduces the window after the second retransmission (`tcp_init_transfer`).
        let lost = match stack.flavor {
            StackFlavor::Rfc => half.syn_sent > 1,
            StackFlavor::FreeBsd => context.exact() && half.syn_sent > 1,
            StackFlavor::Linux => context.exact() && half.syn_sent > 2,
        };
        if sent > mss && lost && start == 1 {
            found.add(step.of_sender(context, NAME, "more than one segment after a lost SYN"), || {
                format!(
                    "{} retransmitted its SYN and sent {sent} bytes before the first ACK of data; one segment is allowed (RFC 5681 \
                     section 3.1).", context.who(step.flow)
                )
            });
        }
        return;
    }
    let idle = step.at().since(half.last_sent);
    if step.before.nxt == step.before.una && half.rto.is_some_and(|rto| idle > rto + Dur::from_millis(1)) {
        let bound = match stack.after_idle {
            // RFC 2861 halves the window once per RTO; the log does not contain the current RTO.
            AfterIdle::Keep | AfterIdle::Decay => None,
            AfterIdle::Restart => Some(initial),
        };
        let keeps = stack.pacing != Pacing::Off || !context.window_based(step.flow);
        half.burst = bound.filter(|_| !keeps).map(|bytes| (step.seq(), bytes));
    }
    if let Some((start, bytes)) = half.burst
        && step.seq_end().saturating_sub(start) > bytes
    {
        half.burst = None;
        found.add(step.of_sender(context, NAME, "no restart window after idle"), || {
            format!(
                "{} was idle for longer than its RTO and then sent more than {bytes} bytes, its restart window, before an ACK came \
                 (RFC 5681 section 4.1).", context.who(step.flow)
            )
        });
    }
}
