//! The modes, their gains, and the target of data in flight.

use super::arithmetic::{BANDWIDTH_SHIFT, UNIT};
use tcpassay_units::Bytes;

/// Gain in Drain.
const DRAIN: u64 = UNIT * 1000 / 2885;
/// Gains of the eight phases of `ProbeBw`.
const CYCLE: [u64; 8] = [UNIT * 5 / 4, UNIT * 3 / 4, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT];
/// Phases of `ProbeBw`.
pub(super) const PHASES: usize = CYCLE.len();
/// The initial window of Linux in packets (`TCP_INIT_CWND`).
pub(super) const INITIAL: u64 = 10;
/// Below this rate, in bytes a second, Linux sends single segments (`bbr_min_tso_rate`).
const SINGLE_SEGMENTS: u64 = 1_200_000 / 8;
/// The longest super-segment whose length follows the rate: 64 KiB without the longest header.
const LONGEST_SEGMENT: u64 = 65_535 - 320;

/// The states of the model of the path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

/// The gains that parameters set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Gains {
    /// Gain of rate and window in Startup.
    pub startup: u64,
    /// Gain of the window in `ProbeBw`.
    pub window: u64,
}

impl Gains {
    /// The gain of the pacing rate.
    pub fn pacing(&self, mode: Mode, phase: usize, policed: bool) -> u64 {
        match mode {
            Mode::Startup => self.startup,
            Mode::Drain => DRAIN,
            Mode::ProbeBw if policed => UNIT,
            Mode::ProbeBw => CYCLE[phase],
            Mode::ProbeRtt => UNIT,
        }
    }

    /// The gain of the window.
    pub fn window(&self, mode: Mode) -> u64 {
        match mode {
            Mode::Startup | Mode::Drain => self.startup,
            Mode::ProbeBw => self.window,
            Mode::ProbeRtt => UNIT,
        }
    }
}

/// The bandwidth-delay product in packets, rounded up; the initial window without a round-trip time.
pub(super) fn product(bandwidth: u64, min_rtt: Option<u64>, gain: u64) -> u64 {
    let Some(rtt) = min_rtt else { return INITIAL };
    (bandwidth.saturating_mul(rtt).saturating_mul(gain) / UNIT).div_ceil(1 << BANDWIDTH_SHIFT)
}

/// Number of packets of a super-segment at a pacing rate in bytes per second.
pub(super) fn burst(rate: u64, mss: Bytes) -> u64 {
    let least = if rate < SINGLE_SEGMENTS { 1 } else { 2 };
    let size = (rate >> 10).min(LONGEST_SEGMENT);
    (size / mss.get()).max(least).min(127)
}

/// Quantization budget (`bbr_quantization_budget`): adds space for three super-segments, rounds up to an
/// even number of packets because of delayed ACKs, and adds two packets in the probing phase.
pub(super) fn quantized(window: u64, burst: u64, probes: bool) -> u64 {
    let window = (window + 3 * burst).next_multiple_of(2);
    if probes { window + 2 } else { window }
}
