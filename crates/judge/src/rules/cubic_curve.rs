//! An upper bound of CUBIC's window on a kernel, whose controller the log does not show: RFC 9438 sections 4.2, 4.3 and 5.8.

use crate::step::Step;
use std::collections::VecDeque;
use tcpassay_tcp::CongestionState;
use tcpassay_units::{Dur, Time};

/// Constant C of RFC 9438 section 4.1, in segments per cubic second.
const C: f64 = 0.4;
/// RFC 9438 section 4.7: the share of the last maximum that fast convergence keeps.
const CONVERGED: f64 = 0.85;
/// Smallest growth per window on Linux before the first reduction, as a share of the window
/// (`net/ipv4/tcp_cubic.c`, `bictcp_update`: one segment in twenty).
const FIRST: f64 = 0.05;
/// Tolerance in segments: the window is rounded to segments, and Linux computes it every 31 ms.
const SPARE: f64 = 3.0;
/// Growth of Reno's window of RFC 9438 section 4.3 per acknowledged window. Linux adds a segment for each 15/8 windows, rounded down
/// to segments: for each 3/2 windows of two segments.
const RENO: f64 = 2.0 / 3.0;
const DELAY: Dur = Dur::from_millis(40);
/// Linux computes the growth for an ACK at most once in a tick, and then uses it for all ACKs of that tick, while the window grows. A tick is
/// 1 ms in the guests; of the next one only the begin may belong to a round trip.
const TICKS: Dur = Dur::from_millis(2);
/// Largest growth for a window that is acknowledged, as a share of the window (RFC 9438 section 4.2).
const STEEPEST: f64 = 0.5;

/// Elapsed time and acknowledged windows since the last reduction.
#[derive(Clone, Debug, Default)]
pub(super) struct Curve {
    /// The window before the last reduction, in bytes.
    largest: u64,
    /// The window at the begin of the epoch, in bytes; `None` during a reduction.
    start: Option<u64>,
    /// Part of the epoch during which data were outstanding; the time of the previous row follows.
    busy: Dur,
    last: Time,
    /// The last window that congestion avoidance did not cause; the number of windows acknowledged since then follows.
    avoidance: Option<u64>,
    earned: f64,
    /// Windows acknowledged in the last [`TICKS`], with their times.
    recent: VecDeque<(Time, f64)>,
    /// The number of windows acknowledged since the last reduction. Reno's window grows in the whole epoch: after a restart or a slow
    /// begin the window of Linux returns to it at once.
    whole: f64,
    /// True once congestion avoidance has begun. On Linux its epoch then goes on when the window restarts after an idle time: `bictcp_cwnd_event`
    /// only moves its begin, and the window returns to what it was.
    begun: bool,
}

impl Curve {
    /// Adds the time since the previous row to the epoch if data were outstanding.
    pub fn passes(&mut self, step: &Step<'_>) {
        if step.before.nxt > step.before.una {
            self.busy += step.at().since(self.last);
        }
        self.last = step.at();
    }

    /// Processes a change of the congestion state.
    pub fn state(&mut self, step: &Step<'_>) {
        let reduces = |state| !matches!(state, CongestionState::Open | CongestionState::Disorder);
        if step.end.now.state == CongestionState::Loss {
            // RFC 9438 section 4.8 and Linux (`bictcp_reset`): after a timeout no maximum is known, also if the timeout is undone.
            self.largest = 0;
        } else if reduces(step.end.now.state) && !reduces(step.before.state) {
            self.largest = step.before.cwnd;
        }
        if reduces(step.end.now.state) || reduces(step.before.state) {
            self.start = None;
            self.avoidance = None;
            self.earned = 0.0;
            self.busy = Dur::ZERO;
            self.whole = 0.0;
            self.begun = false;
        }
    }

    /// Adds acknowledged data, as a number of windows.
    pub fn acknowledged(&mut self, windows: f64) {
        self.earned += windows;
        self.whole += windows;
        self.recent.push_back((self.last, windows));
        while self.recent.front().is_some_and(|(at, _)| self.last.since(*at) > TICKS) {
            self.recent.pop_front();
        }
    }

    /// The factor by which a window may grow in a tick beyond what the function allows, where round trips are shorter.
    fn overshoot(&self, step: &Step<'_>) -> f64 {
        let short = step.end.round_trips.is_some_and(|(shortest, _)| shortest < TICKS);
        let windows: f64 = self.recent.iter().map(|(_, windows)| windows).sum();
        if short { (windows * STEEPEST).exp() } else { 1.0 }
    }

    /// Discards the epoch: its begin is not known.
    pub fn forget(&mut self) {
        *self = Curve { last: self.last, recent: std::mem::take(&mut self.recent), ..Curve::default() };
    }

    /// Processes a change of the window. `grows`: it grew in congestion avoidance. `segment`: size of a
    /// segment in bytes. Returns the upper bound of the window in segments if it is known.
    pub fn window(&mut self, step: &Step<'_>, segment: u64, grows: bool) -> Option<f64> {
        // If no maximum is known, before the first reduction and after a timeout, the epoch begins when slow start ends.
        let slow_start = step.end.now.cwnd < step.end.now.ssthresh;
        if slow_start && self.largest == 0 && !self.begun {
            self.start = None;
            self.whole = 0.0;
        }
        self.begun |= !slow_start;
        if self.start.is_none() {
            self.busy = Dur::ZERO;
        }
        let start = share(*self.start.get_or_insert(step.end.now.cwnd), segment);
        if !grows {
            self.avoidance = Some(step.end.now.cwnd);
            self.earned = 0.0;
            return None;
        }
        // Linux computes the function every 31 ms, and then makes up for the growth by Reno's estimate since the last time.
        let avoidance = share(*self.avoidance.get_or_insert(step.before.cwnd), segment);
        let longest = step.end.round_trips.map_or(Dur::ZERO, |(_, longest)| longest);
        let t = (self.busy + longest + DELAY).as_secs_f64();
        let curve = |largest: f64| {
            let largest = largest.max(start);
            let k = ((largest - start) / C).cbrt();
            C.mul_add((t - k).powi(3), largest)
        };
        let most = share(self.largest, segment);
        let cubic = curve(most).max(curve(most * CONVERGED)).max(curve(0.0));
        // Before the first reduction, when no maximum is known, Linux's `bictcp_update` adds at least a
        // twentieth of a segment per segment acknowledged.
        let unknown = if self.largest == 0 { avoidance * (self.earned * FIRST).exp() } else { 0.0 };
        let reno = (avoidance + self.earned).max(RENO.mul_add(self.whole, start));
        Some(cubic.max(reno).max(unknown) * 1.05 * self.overshoot(step) + SPARE)
    }
}

/// The quotient `part / whole`; `whole` must not be 0.
#[expect(clippy::cast_precision_loss, reason = "windows are far below 2^53")]
pub(super) fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}
