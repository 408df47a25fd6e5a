//! Rules for the congestion window of a kernel, whose log contains the window at each arrival of a segment:
//! growth of the window, and data sent beyond it.
//!
//! A `window` row follows an arrival in the log if the window differs from that at the arrival before.
//! Without such a row the window has not changed. The effect of an ACK on the window is known when the next
//! segment arrives. Until then the data that the ACK delivered bound the growth.

use super::additive_increase::{self, Increase};
use super::cubic_curve::{Curve, share};
use super::names::WINDOW_GROWTH as NAME;
use crate::finding::{Findings, Occurrence};
use crate::step::{Context, Step};
use std::collections::VecDeque;
use tcpassay_measure::EventKind;
use tcpassay_tcp::{AfterIdle, CongestionState};
use tcpassay_units::{Dur, Time};
use tcpassay_wire::Flags;

/// Number of acknowledged windows after which a window that does not grow is reported: in slow start, in
/// congestion avoidance.
const WINDOWS: (u64, u64) = (3, 6);
/// Time after which missing growth of CUBIC is reported. Around its plateau the function of RFC 9438 section 4.2 needs 2.15 s for
/// one segment.
const SETTLED: Dur = Dur::from_millis(2200);
/// Number of round trips without use of the window after which its growth is reported.
const UNUSED: u64 = 3;

/// State of the rules for the window of one sender.
#[derive(Clone, Debug, Default)]
pub(super) struct TracedWindow {
    /// Bytes, in whole segments, that arrivals have delivered since the last `window` row; then those of the
    /// last arrival.
    delivered: u64,
    newest: (Time, u64),
    /// True if another arrival at the same time delivered data.
    several: bool,
    /// Time of a change of the congestion state after which the window is not known until a later arrival.
    unknown: Option<Time>,
    /// Time of the arrival after which the window is known again. The growth until then is not the effect of
    /// one ACK.
    told: Option<Time>,
    /// Time of the last segment that was smaller than the MSS. Linux's window counts packets of any length.
    short: Option<Time>,
    /// Bytes acknowledged since the window changed, while the sender filled it; then the time and the row.
    filled: u64,
    filled_from: Option<(Time, usize)>,
    /// Congestion avoidance of Reno: the window and row at which counting began; then the number of windows
    /// acknowledged since.
    from: Option<(u64, usize)>,
    earned: f64,
    /// Flight size at arrivals: time, bytes.
    flights: VecDeque<(Time, u64)>,
    last_sent: Time,
    /// The window at the last transmission, at which Linux decides whether it is used (`tcp_cwnd_validate`): the present one, that at the last
    /// arrival, and that at the arrival before, whose effect a `window` row shows.
    window_sent: (u64, u64, u64),
    /// After an idle time: the first position, the bytes that may be sent before the next ACK, and the row.
    burst: Option<(u64, u64, usize)>,
    curve: Curve,
    /// True after ssthresh was set.
    reduced: bool,
    marked: bool,
}

impl TracedWindow {
    /// A row of a kernel's log.
    pub fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        self.curve.passes(step);
        match step.event.kind {
            EventKind::In if !step.flags().has(Flags::SYN) => self.arrival(context, step, found),
            EventKind::Window => self.window(context, step, found),
            EventKind::Congestion => {
                self.unknown = Some(step.at());
                self.curve.state(step);
                self.reduced |= step.end.now.state != CongestionState::Disorder;
                self.forget();
            }
            EventKind::TimerFire => {
                self.unknown = Some(step.at());
                self.burst = None;
                self.forget();
            }
            EventKind::Out if step.len() > 0 => {
                self.window_sent.0 = step.before.cwnd;
                self.sent(context, step, found);
            }
            EventKind::Retransmit if step.len() > 0 => {
                self.last_sent = step.at();
                self.burst = None;
            }
            _ => {}
        }
    }

    fn forget(&mut self) {
        self.filled = 0;
        self.filled_from = None;
        self.from = None;
        self.earned = 0.0;
        self.flights.clear();
    }

    fn arrival(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        if self.unknown.is_some_and(|at| step.at() > at) {
            self.unknown = None;
            self.told = Some(step.at());
        }
        let taken = step.end.taken;
        let (now, last, _) = self.window_sent;
        self.window_sent = (now, now, last);
        self.marked = step.flags().has(Flags::ECE);
        self.delivered += taken.in_packets;
        let same = self.newest.0 == step.at() && self.newest.1 > 0;
        let before = if same { self.newest.1 } else { 0 };
        self.newest = (step.at(), before + taken.in_packets);
        self.several = same;
        // A DSACK may undo a reduction without a change of the state (`tcp_try_undo_dsack`).
        if taken.dsacked > 0 {
            self.unknown = Some(step.at());
        }
        if taken.acked > 0 || taken.delivered > 0 {
            self.burst = None;
        }
        let flight = step.before.nxt - step.before.una;
        self.flights.push_back((step.at(), flight));
        let Some((_, longest)) = step.end.round_trips else { return };
        let kept = longest * (UNUSED + 1) + Dur::from_millis(2);
        while self.flights.front().is_some_and(|(at, _)| step.at().since(*at) > kept) {
            self.flights.pop_front();
        }
        self.earned += share(taken.in_packets, step.before.cwnd);
        self.curve.acknowledged(share(taken.in_packets, step.before.cwnd));
        self.fills(context, step, flight, found);
    }

    /// RFC 5681 section 3.1: the window of a sender that fills it grows.
    fn fills(&mut self, context: &Context<'_>, step: &Step<'_>, flight: u64, found: &mut Findings) {
        let (taken, end, now) = (step.end.taken, step.end, &step.end.now);
        let Some(settings) = context.settings(step.flow) else { return };
        let mss = context.mss(step.flow);
        let cwnd = step.before.cwnd;
        let slow_start = cwnd < step.before.ssthresh;
        let controller = context.recording.flows[step.flow].cc.as_str();
        let rule = match controller {
            "reno" | "cubic" => true,
            // DCTCP may reduce in each window with marks, so only its slow start is checked.
            "dctcp" => slow_start,
            _ => false,
        };
        let calm =
            step.before.state == CongestionState::Open && end.sacked == 0 && end.again == 0 && !self.marked;
        let writes = end.logs_writes && end.written >= now.nxt + 2 * mss && end.fin_out.is_none();
        let peer = end.wnd >= cwnd + 2 * mss;
        // Linux counts a window as filled in slow start when more than half of it is used (`tcp_is_cwnd_limited`), and may hold back a third
        // of it for a larger super-segment (`tcp_tso_should_defer`).
        let full = if slow_start { flight > cwnd / 2 + mss } else { flight + cwnd / 3 + 2 * mss >= cwnd };
        let plain = settings.buffers.send.is_none() && settings.stack.notsent_lowat.is_none();
        // The row of an arrival precedes the `window` row that belongs to it.
        let known = self.unknown.is_none() && self.told != Some(step.at());
        if taken.acked == 0 || cwnd == 0 {
            return;
        }
        if !(rule && calm && writes && peer && full && plain && known) {
            self.filled = 0;
            self.filled_from = None;
            return;
        }
        self.filled += taken.acked;
        let (since, row) = *self.filled_from.get_or_insert((step.at(), step.row));
        let windows = if slow_start { WINDOWS.0 } else { WINDOWS.1 };
        let settled = slow_start || controller != "cubic" || step.at().since(since) > SETTLED;
        if self.filled > windows * (cwnd + mss) && settled {
            self.filled = 0;
            self.filled_from = None;
            let title =
                if slow_start { "slow start without growth" } else { "congestion avoidance without growth" };
            found.add(step.of_sender(context, NAME, title).since(row, since).warning(), || {
                format!(
                    "{} had more data than its window of {cwnd} bytes held, kept the window in use, and had {windows} windows \
                     acknowledged; the window did not grow (RFC 5681 section 3.1).", context.who(step.flow)
                )
            });
        }
    }

    /// Checks the window at the arrival of a segment.
    fn window(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let (before, after) = (step.before.cwnd, step.end.now.cwnd);
        let pending = if self.newest.0 == step.at() { self.newest.1 } else { 0 };
        // Of several arrivals at one instant each may have met another window.
        let known = if self.several && self.newest.0 == step.at() { 0 } else { pending };
        let delivered = self.delivered - known.min(self.delivered);
        self.delivered = pending;
        self.filled = 0;
        self.filled_from = None;
        let mss = context.mss(step.flow);
        if after < mss {
            found.add(step.of_sender(context, NAME, "a congestion window below one segment"), || {
                format!(
                    "The congestion window of {} is {after} bytes; one segment has {mss} (RFC 5681 section 3.1: the loss window is one \
                     segment).", context.who(step.flow)
                )
            });
        }
        self.ends_slow_start(context, step, found);
        let judged = matches!(context.recording.flows[step.flow].cc.as_str(), "reno" | "dctcp" | "cubic");
        let settled = self.unknown.is_none() && self.told != Some(step.at());
        let open = step.before.state == CongestionState::Open && settled;
        let met = step.event.why == "met by a segment";
        if before == 0 || after <= before || !judged || !open || !met {
            self.from = None;
            self.earned = 0.0;
            self.curve.window(step, mss, false);
            return;
        }
        let grew = after - before;
        if before < step.before.ssthresh {
            self.from = None;
            self.earned = 0.0;
            let sack = |flow| context.stack(flow).is_some_and(|stack| stack.sack);
            let counted = sack(step.flow) && sack(step.peer) && step.end.round_trips.is_some();
            if grew > delivered + 2 * mss && counted && !self.is_short(step) {
                found.add(step.of_sender(context, NAME, "slow start adds more than was acknowledged"), || {
                    format!(
                        "In slow start the window of {} grew by {grew} bytes while {delivered} bytes were acknowledged (RFC 5681 section \
                         3.1).", context.who(step.flow)
                    )
                });
            }
            self.curve.window(step, mss, false);
        } else if context.recording.flows[step.flow].cc == "cubic" {
            self.cubic(context, step, grew, delivered, found);
        } else {
            let (from, row) = *self.from.get_or_insert((before, step.row));
            if share(after - from, mss) > self.earned * 1.02 + 2.5 {
                self.from = None;
                let increase = Increase { row, from, to: after, windows: self.earned, mss };
                additive_increase::report(&increase, context, step, found);
            }
        }
        self.unused(context, step, found);
    }

    /// RFC 9438 section 4.2: the window grows by at most half per round trip, and does not exceed the CUBIC
    /// function of the time without idle periods.
    fn cubic(
        &mut self,
        context: &Context<'_>,
        step: &Step<'_>,
        grew: u64,
        delivered: u64,
        found: &mut Findings,
    ) {
        let mss = context.mss(step.flow);
        if grew > delivered / 2 + 2 * mss {
            found.add(step.of_sender(context, NAME, "CUBIC adds more than half a window per round trip"), || {
                format!(
                    "In congestion avoidance the window of {} grew by {grew} bytes while {delivered} were acknowledged (RFC 9438 section \
                     4.2).", context.who(step.flow)
                )
            });
        }
        let defaults = context.settings(step.flow).is_some_and(|settings| settings.cc_values.is_empty());
        if let Some(bound) = self.curve.window(step, mss, true).filter(|_| defaults)
            && share(step.end.now.cwnd, mss) > bound
        {
            self.curve.forget();
            found.add(step.of_sender(context, NAME, "the window exceeds the CUBIC function"), || {
                format!(
                    "The window of {} grew to {} bytes; CUBIC's function of the time since the last reduction, without idle periods, and \
                     Reno's growth allow {bound:.0} segments of {mss} bytes (RFC 9438 sections 4.2, 4.3 and 5.8).",
                    context.who(step.flow), step.end.now.cwnd
                )
            });
        }
    }

    /// Whether segments smaller than the MSS were sent in the last round trips, so that the number of
    /// packets does not follow from bytes.
    fn is_short(&self, step: &Step<'_>) -> bool {
        let longest = step.end.round_trips.map_or(Dur::ZERO, |(_, longest)| longest);
        self.short.is_some_and(|at| step.at().since(at) <= longest * (UNUSED + 1))
    }

    /// RFC 7661 section 1: an unused window is not validated by the path and must not grow.
    fn unused(&self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let Some((_, longest)) = step.end.round_trips else { return };
        let mss = context.mss(step.flow);
        let most = self.flights.iter().map(|(_, flight)| *flight).max().unwrap_or(0);
        let covered = self.flights.front().is_some_and(|(at, _)| step.at().since(*at) >= longest * UNUSED)
            && self.flights.len() > 6;
        let before = step.before.cwnd;
        if covered && most + 3 * mss < before.min(self.window_sent.2) / 2 && !self.is_short(step) {
            found.add(step.of_sender(context, NAME, "an unused window grows").warning(), || {
                format!(
                    "The window of {} grew from {before} to {} bytes, but in the last {UNUSED} round trips no more than {most} bytes were \
                     in flight (RFC 7661 section 1).", context.who(step.flow), step.end.now.cwnd
                )
            });
        }
    }

    /// RFC 9406: HyStart ends slow start when round-trip times become longer. Linux also ends it when the
    /// ACKs of a window take half of a round-trip time; the window is then half of the bandwidth-delay
    /// product.
    fn ends_slow_start(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let (before, after) = (step.before.ssthresh, step.end.now.ssthresh);
        let first = before == u64::MAX && after != u64::MAX && step.before.cwnd > 0 && !self.reduced;
        self.reduced |= after != u64::MAX;
        let flow = &context.recording.flows[step.flow];
        let alone = context.recording.flows.iter().filter(|other| other.to == flow.to).count() == 1;
        if !first || self.marked || self.unknown.is_some() || flow.cc != "cubic" || !alone {
            return;
        }
        let Some((shortest, _)) = step.end.round_trips else { return };
        let Some(rate) = context.facts.and_then(|facts| facts.rate(flow.from, flow.to)) else {
            return;
        };
        let sample = step.end.recent_round_trip;
        let holds = rate.bytes_in(shortest).get();
        let rises = sample > shortest + (shortest / 8).max(Dur::from_millis(2));
        if !rises && step.end.now.cwnd < holds / 4 {
            found.add(step.of_sender(context, NAME, "slow start ends without a sign of congestion").warning(), || {
                format!(
                    "Slow start of {} ended with a window of {} bytes, without a loss, a mark, or a longer round-trip time than {shortest:#}; the bandwidth-delay product of the path is {holds} bytes (RFC 9406 section 4).", context.who(step.flow), step.end.now.cwnd
                )
            });
        }
    }

    fn sent(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        self.restart(context, step, found);
        self.last_sent = step.at();
        if !step.len().is_multiple_of(context.mss(step.flow).max(1)) {
            self.short = Some(step.at());
        }
        let (end, cwnd) = (step.end, step.end.now.cwnd);
        let mss = context.mss(step.flow);
        let calm = end.now.state == CongestionState::Open && end.sacked == 0 && end.again == 0;
        if !calm || self.unknown.is_some() || cwnd == 0 || end.fin_out.is_some() {
            return;
        }
        // Tolerance for a tail loss probe and the rounding up to a full segment.
        let most = cwnd + self.delivered + 3 * mss;
        if end.outstanding() > most {
            found.add(step.of_sender(context, NAME, "data beyond the congestion window"), || {
                format!(
                    "{} has {} bytes outstanding, with a congestion window of {cwnd} bytes and {} acknowledged since (RFC 5681 \
                     section 3.1).",
                    context.who(step.flow), end.outstanding(), self.delivered
                )
            });
        }
    }

    /// RFC 2861 as implemented by Linux: after an RTO without transmissions the window is halved once per
    /// RTO, down to the restart window.
    fn restart(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let Some(stack) = context.stack(step.flow) else { return };
        let idle = step.at().since(self.last_sent);
        let rto = step.end.most_rto(stack.rto.min);
        let controlled = matches!(context.recording.flows[step.flow].cc.as_str(), "reno" | "dctcp" | "cubic");
        let rests = step.before.nxt == step.before.una && rto > Dur::ZERO && idle > rto;
        let mss = context.mss(step.flow);
        if rests && controlled && stack.after_idle == AfterIdle::Decay && step.end.now.cwnd > 0 {
            let halvings = (idle / rto).min(40);
            let initial = u64::from(stack.initial_window.max(1)) * mss;
            let most = ((step.end.now.cwnd + self.delivered) >> halvings).max(initial) + 2 * mss;
            self.burst = Some((step.seq(), most, step.row));
        }
        if let Some((start, most, row)) = self.burst
            && step.seq_end().saturating_sub(start) > most
        {
            self.burst = None;
            let first: Occurrence = step.of_sender(context, NAME, "no restart window after idle");
            found.add(first.since(row, step.at()), || {
                format!(
                    "{} had sent nothing for longer than its RTO, which is {rto:#} at most, and then sent more than {most} bytes before an \
                     ACK came: its restart window, or its window halved once per RTO (RFC 5681 section 4.1, RFC 2861).",
                    context.who(step.flow)
                )
            });
        }
    }
}
