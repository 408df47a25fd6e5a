//! Arithmetic and measurements of BBR in Linux 6.1: packets, microseconds, gains in 1/256, bandwidths in packets per microsecond times 2^24.

use tcpassay_units::{Bytes, Time};

/// `BBR_UNIT` and `BW_SCALE`.
pub(super) const UNIT: u64 = 256;
pub(super) const SCALE: u32 = 24;

/// The long-term bandwidth of a policed path (`bbr_lt_bw_sampling`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Policer {
    pub samples: bool,
    pub used: bool,
    pub rounds: u32,
    pub bandwidth: u64,
    /// Packets delivered and lost, and the time of the last delivery, when the interval began.
    pub delivered: u64,
    pub lost: u64,
    pub at: Time,
}

/// The aggregation of ACKs (`bbr_update_ack_aggregation`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Aggregation {
    pub since: Time,
    pub acked: u64,
    pub most: [u64; 2],
    pub part: usize,
    pub rounds: u32,
}

/// Rates of the last round trips, from which the largest is taken as `minmax_running_max` does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Maximum([(u64, u64); 3]);

impl Maximum {
    pub fn get(&self) -> u64 {
        self.0[0].1
    }

    pub fn add(&mut self, round: u64, rate: u64) {
        let new = (round, rate);
        let [first, second, third] = self.0;
        if rate >= first.1 || round - third.0 > 10 {
            self.0 = [new; 3];
            return;
        }
        self.0 = if rate >= second.1 {
            [first, new, new]
        } else if rate >= third.1 {
            [first, second, new]
        } else {
            self.0
        };
        let [first, second, third] = self.0;
        let age = round - first.0;
        if age > 10 {
            // The oldest expires, and the next one with it if it is too old as well.
            self.0 = if round - second.0 > 10 { [third, new, new] } else { [second, third, new] };
        } else if second.0 == first.0 && age > 10 / 4 {
            self.0 = [first, new, new];
        } else if third.0 == second.0 && age > 10 / 2 {
            self.0 = [first, second, new];
        }
    }
}

pub(super) fn up(bytes: Bytes, mss: u64) -> u64 {
    bytes.get().div_ceil(mss)
}

pub(super) fn micros(at: Time) -> u64 {
    at.as_nanos() / 1000
}

pub(super) fn over(packets: u64, micros: u64) -> u64 {
    (packets << SCALE) / micros
}

pub(super) fn within(bandwidth: u64, micros: u64) -> u64 {
    bandwidth.saturating_mul(micros) >> SCALE
}

/// Bytes per second, less a percent (`bbr_pacing_margin_percent`).
pub(super) fn bytes_a_second(bandwidth: u64, mss: u64, gain: u64) -> u64 {
    (bandwidth.saturating_mul(mss).saturating_mul(gain) / UNIT).saturating_mul(990_000) >> SCALE
}

/// Segments of a super-segment at a pacing rate (`bbr_tso_segs_goal`).
pub(super) fn super_segment(rate: u64, mss: u64) -> u64 {
    let least = if rate < 150_000 { 1 } else { 2 };
    ((rate / 1024).min(65_535 - 320) / mss).max(least).min(127)
}
