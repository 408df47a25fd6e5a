//! Numbers as Linux has them: bandwidths in packets a microsecond times 2^24, gains in 1/256, rates in bytes a second.

use tcpassay_units::{Bytes, Time};

/// One, as a gain.
pub(super) const UNIT: u64 = 256;
/// One packet a microsecond, as a bandwidth.
pub(super) const BANDWIDTH_SHIFT: u32 = 24;
/// The rate is so many hundredths of what the gains give, so that a queue drains.
const RATE_PERCENT: u64 = 99;

/// Bandwidth of `packets` in so many microseconds.
pub(super) fn rate_of(packets: u64, micros: u64) -> u64 {
    (packets << BANDWIDTH_SHIFT) / micros
}

/// Packets that a bandwidth delivers in so many microseconds, rounded down.
pub(super) fn packets_in(bandwidth: u64, micros: u64) -> u64 {
    bandwidth.saturating_mul(micros) >> BANDWIDTH_SHIFT
}

/// A bandwidth times a gain in bytes a second, less the margin.
pub(super) fn bytes_per_second(bandwidth: u64, mss: u64, gain: u64) -> u64 {
    let rate =
        (bandwidth.saturating_mul(mss).saturating_mul(gain) / UNIT).saturating_mul(10_000 * RATE_PERCENT);
    rate >> BANDWIDTH_SHIFT
}

/// Whole microseconds.
pub(super) fn micros(at: Time) -> u64 {
    at.as_nanos() / 1000
}

/// Packets of `mss` bytes that hold `bytes`.
pub(super) fn packets(bytes: Bytes, mss: Bytes) -> u64 {
    bytes.get().div_ceil(mss.get())
}

/// A factor as a gain, rounded.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a gain is positive and at most ten"
)]
pub(super) fn gain(factor: f64) -> u64 {
    (factor * 256.0 + 0.5) as u64
}

/// What was delivered and lost since the connection began.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Totals {
    /// Packets delivered.
    pub delivered: u64,
    /// Packets marked lost.
    pub lost: u64,
    /// When the last ones were delivered.
    pub delivered_at: Time,
}
