//! Congestion avoidance of a kernel by what limits the sender: a window that is full grows as much as its controller says, and a window
//! that the application does not fill does not grow (RFC 5681 section 3.1, RFC 7661 section 1, RFC 9438 section 4.3).
//!
//! Linux decides this once per window of data (`tcp_cwnd_validate`): the data up to SND.NXT at the time at which the window was full
//! count as sent by a sender that the window limits.

use super::cubic_curve::share;
use super::names::WINDOW_GROWTH as NAME;
use crate::finding::Findings;
use crate::step::{Context, Step};
use std::collections::VecDeque;
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::{AppCall, StateChange, TcpState};
use tcpassay_tcp::CongestionState;
use tcpassay_units::{Dur, Time};

/// Number of round trips in which the application did not ask for the whole window before growth is reported.
const UNUSED: u64 = 3;
/// Segments per acknowledged full window that Reno adds at least: it adds one, and rounding loses a part.
const RENO: f64 = 0.9;
/// The same for CUBIC: RFC 9438 section 4.3 adds 0.53 segments (Linux: one for 15/8 windows), but Linux follows this at intervals.
const CUBIC: f64 = 0.4;
/// CUBIC on Linux computes its growth anew every 31 ms while its window stays (`bictcp_update`), and then follows within some windows.
const FOLLOWS: Dur = Dur::from_millis(100);
/// Segments by which rounding may delay the growth.
const SPARE: f64 = 2.5;

/// An arrival of a segment. The log tells the window at its time in the next row.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    at: Time,
    row: usize,
    una: u64,
    nxt: u64,
    /// Bytes delivered, in whole segments.
    delivered: u64,
    /// Bytes that the application wants in flight, in whole segments.
    demand: u64,
    /// True if no segment is lost, SACKed or sent again.
    calm: bool,
}

/// State of the rules for the window of one sender.
#[derive(Clone, Debug, Default)]
pub(super) struct ValidatedWindow {
    newest: Option<Arrival>,
    /// The window at the arrival before, if congestion avoidance had begun then.
    before: Option<u64>,
    /// Since the begin of congestion avoidance: the window, the time and the row; then the number of full windows acknowledged.
    from: Option<(u64, Time, usize)>,
    earned: f64,
    /// That number at a time that is [`FOLLOWS`] ago or longer, and at a later time, which follows.
    settled: f64,
    next: (Time, f64),
    /// SND.NXT when the window was full last.
    full_until: u64,
    /// True after the application closed the connection: the log has no later window (`tcp_rcv_established`).
    closed: bool,
    /// At arrivals and writes, whether the application had as much to send as the window holds.
    wanted: VecDeque<(Time, bool)>,
}

impl ValidatedWindow {
    /// A row of a kernel's log.
    pub fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        if step.event.kind != EventKind::Window
            && let Some(arrival) = self.newest.take()
        {
            self.settle(context, step, arrival, found);
        }
        match step.event.kind {
            EventKind::In if step.before.cwnd >= step.before.ssthresh && !self.closed => {
                self.arrival(context, step);
            }
            EventKind::App if self.from.is_some() && step.event.app_call() == Some(AppCall::Write) => {
                self.wanted
                    .push_back((step.at(), fills(context, step, demand(context, step), step.end.now.cwnd)));
            }
            EventKind::Congestion | EventKind::TimerFire | EventKind::Retransmit => self.forget(),
            EventKind::State => {
                self.forget();
                self.closed = StateChange::read(&step.event.why).is_none_or(|change| {
                    !matches!(change, StateChange::Moved { to: Some(TcpState::Established), .. })
                });
            }
            _ => {}
        }
    }

    fn forget(&mut self) {
        *self = ValidatedWindow { closed: self.closed, ..ValidatedWindow::default() };
    }

    fn arrival(&mut self, context: &Context<'_>, step: &Step<'_>) {
        let (end, taken) = (step.end, step.end.taken);
        // A DSACK may undo a reduction without a change of the state (`tcp_try_undo_dsack`).
        if taken.dsacked > 0 {
            self.forget();
            return;
        }
        let demand = demand(context, step) + taken.in_packets;
        let calm = step.before.state == CongestionState::Open && end.sacked == 0 && end.again == 0;
        self.newest = Some(Arrival {
            at: step.at(),
            row: step.row,
            una: step.before.una,
            nxt: step.before.nxt,
            delivered: taken.in_packets,
            demand,
            calm,
        });
    }

    /// Processes an arrival when the window at its time is known.
    fn settle(&mut self, context: &Context<'_>, step: &Step<'_>, arrival: Arrival, found: &mut Findings) {
        let (cwnd, ssthresh) = (step.before.cwnd, step.before.ssthresh);
        let mss = context.mss(step.flow);
        let (factor, at_once) = match context.recording.flows[step.flow].cc.as_str() {
            "reno" => (RENO, true),
            "cubic" => (CUBIC, false),
            _ => return,
        };
        if cwnd < ssthresh || cwnd == 0 || self.before.is_some_and(|before| cwnd < before) {
            self.forget();
            return;
        }
        if let Some(before) = self.before.filter(|before| cwnd > *before) {
            self.unused(context, step, (before, cwnd), arrival, found);
        }
        self.before = Some(cwnd);
        self.wanted.push_back((arrival.at, fills(context, step, arrival.demand, cwnd)));
        let Some((_, longest)) = step.end.round_trips else { return };
        let kept = longest * (UNUSED + 1) + Dur::from_millis(2);
        while self.wanted.front().is_some_and(|(at, _)| arrival.at.since(*at) > kept) {
            self.wanted.pop_front();
        }
        let (from, since, row) = *self.from.get_or_insert((cwnd, arrival.at, arrival.row));
        if at_once {
            self.settled = self.earned;
        } else if arrival.at.since(self.next.0) >= FOLLOWS {
            self.settled = self.next.1;
            self.next = (arrival.at, self.earned);
        }
        if self.settled.mul_add(factor, -SPARE) > share(cwnd - from, mss) {
            let windows = self.settled;
            self.forget();
            found.add(step.of_sender(context, NAME, "a full window grows too slowly").since(row, since).warning(), || {
                format!(
                    "In congestion avoidance the window of {} was {from} bytes at {since:#}; {windows:.1} windows were acknowledged while it was full, \
                     and it is {cwnd} bytes, which is less than {factor} segments a window (RFC 5681 section 3.1, RFC 9438 section 4.3).",
                    context.who(step.flow)
                )
            });
            return;
        }
        if arrival.nxt - arrival.una >= cwnd {
            self.full_until = arrival.nxt;
        }
        if arrival.calm && arrival.una < self.full_until {
            self.earned += share(arrival.delivered, cwnd);
        }
    }

    /// RFC 7661 section 1: a window that the application does not fill is not validated by the path. The growth is an effect of the
    /// arrival before.
    fn unused(
        &self,
        context: &Context<'_>,
        step: &Step<'_>,
        (before, after): (u64, u64),
        arrival: Arrival,
        found: &mut Findings,
    ) {
        let Some((_, longest)) = step.end.round_trips else { return };
        let Some((since, _)) = self.wanted.front() else { return };
        let covered = arrival.at.since(*since) >= longest * UNUSED && self.wanted.len() > 6;
        if covered && step.end.logs_writes && !self.wanted.iter().any(|(_, wanted)| *wanted) {
            let title = "a window grows that the application does not fill";
            found.add(step.of_sender(context, NAME, title).since(arrival.row, arrival.at).warning(), || {
                format!(
                    "In congestion avoidance the window of {} grew from {before} to {after} bytes, but since {since:#} its application has never had as \
                     much to send as the window holds (RFC 7661 section 1).", context.who(step.flow)
                )
            });
        }
    }
}

/// Whether a demand fills a window but for two segments.
fn fills(context: &Context<'_>, step: &Step<'_>, demand: u64, window: u64) -> bool {
    demand + 2 * context.mss(step.flow) >= window
}

/// Bytes that are outstanding or that the application has written and wait, in whole segments: Linux's window counts packets of any length.
fn demand(context: &Context<'_>, step: &Step<'_>) -> u64 {
    let mss = context.mss(step.flow).max(1);
    step.end.in_packets + step.end.written.saturating_sub(step.end.now.nxt).next_multiple_of(mss)
}
