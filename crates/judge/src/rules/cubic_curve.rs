//! An upper bound of CUBIC's window: RFC 9438 sections 4.2, 4.3 and 5.8.

use crate::step::Step;
use tcpassay_tcp::CongestionState;
use tcpassay_units::{Dur, Time};

/// RFC 9438 section 4.1: segments per cubic second; section 4.7: what fast convergence leaves of the last maximum.
const C: f64 = 0.4;
const CONVERGED: f64 = 0.85;
/// What Linux adds at least in a window before the first reduction (`net/ipv4/tcp_cubic.c`, `bictcp_update`: one segment in twenty).
const FIRST: f64 = 0.05;
/// The window's rounding to segments, and its computation every 31 ms.
const SPARE: f64 = 3.0;
const DELAY: Dur = Dur::from_millis(40);

/// The time and the windows since the last reduction.
#[derive(Clone, Debug, Default)]
pub(super) struct Curve {
    /// The window before the last reduction, in bytes.
    largest: u64,
    /// The window when the epoch began, in bytes; `None` while a reduction lasts.
    start: Option<u64>,
    /// Time of the epoch in which data were outstanding, and the row before.
    busy: Dur,
    last: Time,
    /// The window when congestion avoidance began last, and windows acknowledged since.
    avoidance: Option<u64>,
    earned: f64,
}

impl Curve {
    /// A row: time passes.
    pub fn passes(&mut self, step: &Step<'_>) {
        if step.before.nxt > step.before.una {
            self.busy += step.at().since(self.last);
        }
        self.last = step.at();
    }

    /// The congestion state changed.
    pub fn state(&mut self, step: &Step<'_>) {
        let reduces = |state| !matches!(state, CongestionState::Open | CongestionState::Disorder);
        if reduces(step.end.now.state) && !reduces(step.before.state) {
            self.largest = step.before.cwnd;
        }
        if reduces(step.end.now.state) || reduces(step.before.state) {
            self.start = None;
            self.avoidance = None;
            self.busy = Dur::ZERO;
        }
    }

    /// So many windows were acknowledged.
    pub fn acknowledged(&mut self, windows: f64) {
        self.earned += windows;
    }

    /// Nothing is known of the epoch.
    pub fn forget(&mut self) {
        *self = Curve { last: self.last, ..Curve::default() };
    }

    /// A window after its growth in congestion avoidance, or another one (not `grows`), with the size of a segment in bytes. Returns the
    /// bound in segments, when it is known.
    pub fn window(&mut self, step: &Step<'_>, segment: u64, grows: bool) -> Option<f64> {
        // Before the first reduction the epoch begins when slow start ends.
        if self.largest == 0 && step.end.now.cwnd < step.end.now.ssthresh {
            self.start = None;
        }
        if self.start.is_none() {
            self.busy = Dur::ZERO;
        }
        let start = share(*self.start.get_or_insert(step.end.now.cwnd), segment);
        if !grows {
            self.avoidance = None;
            return None;
        }
        if self.avoidance.is_none() {
            self.earned = 0.0;
        }
        let avoidance = share(*self.avoidance.get_or_insert(step.end.now.cwnd), segment);
        let longest = step.end.round_trips.map_or(Dur::ZERO, |(_, longest)| longest);
        let t = (self.busy + longest + DELAY).as_secs_f64();
        let curve = |largest: f64| {
            let largest = largest.max(start);
            let k = ((largest - start) / C).cbrt();
            C.mul_add((t - k).powi(3), largest)
        };
        let most = share(self.largest, segment);
        let cubic = curve(most).max(curve(most * CONVERGED)).max(curve(0.0));
        // Linux's `bictcp_update` adds a twentieth a window at least while no reduction has told it of a maximum.
        let unknown = if self.largest == 0 { avoidance * (self.earned * FIRST).exp() } else { 0.0 };
        Some(cubic.max(avoidance + self.earned).max(unknown) * 1.05 + SPARE)
    }
}

/// A part of a whole that is not 0.
#[expect(clippy::cast_precision_loss, reason = "windows are far below 2^53")]
pub(super) fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}
