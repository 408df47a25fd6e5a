//! Fixed-point arithmetic of Linux: bandwidths in packets per microsecond times 2^24, gains in 1/256, rates
//! in bytes per second.

use tcpassay_units::{Bytes, Time};

/// The gain 1.
pub(super) const UNIT: u64 = 256;
/// Bits after the binary point of a bandwidth in packets per microsecond.
pub(super) const BANDWIDTH_SHIFT: u32 = 24;
/// Pacing margin: the pacing rate in percent of bandwidth times gain, below 100 so that a queue drains
/// (`bbr_pacing_margin_percent`).
const RATE_PERCENT: u64 = 99;

/// Bandwidth of `packets` in `micros` microseconds.
pub(super) fn rate_of(packets: u64, micros: u64) -> u64 {
    (packets << BANDWIDTH_SHIFT) / micros
}

/// Number of packets that a bandwidth delivers in `micros` microseconds, rounded down.
pub(super) fn packets_in(bandwidth: u64, micros: u64) -> u64 {
    bandwidth.saturating_mul(micros) >> BANDWIDTH_SHIFT
}

/// Pacing rate in bytes per second: bandwidth times gain, minus the pacing margin.
pub(super) fn bytes_per_second(bandwidth: u64, mss: u64, gain: u64) -> u64 {
    let rate =
        (bandwidth.saturating_mul(mss).saturating_mul(gain) / UNIT).saturating_mul(10_000 * RATE_PERCENT);
    rate >> BANDWIDTH_SHIFT
}

/// Time in whole microseconds.
pub(super) fn micros(at: Time) -> u64 {
    at.as_nanos() / 1000
}

/// Number of packets of `mss` bytes for `bytes`, rounded up.
pub(super) fn packets(bytes: Bytes, mss: Bytes) -> u64 {
    bytes.get().div_ceil(mss.get())
}

/// Converts a factor to a gain in 1/256, rounded.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a gain is positive and at most ten"
)]
pub(super) fn gain(factor: f64) -> u64 {
    (factor * 256.0 + 0.5) as u64
}

/// Packets delivered and lost since the connection began.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Totals {
    /// Packets delivered.
    pub delivered: u64,
    /// Packets marked lost.
    pub lost: u64,
    /// Time of the last delivery.
    pub delivered_at: Time,
}
