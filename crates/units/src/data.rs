//! Amounts of data and rates.

use crate::Dur;
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

/// An amount of data in bytes.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(u64);

/// A rate in bits per second; never zero.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

/// The remainder of a division into whole nanoseconds, carried over to the next packet.
///
/// In units of `1 / rate` nanoseconds, always below one nanosecond.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Carry(u64);

/// Adds `n` packets, bytes or events to a counter.
///
/// The addition does not check for overflow: a counter starts at zero and no run reaches 2^64. The check would cost
/// more than the addition, and a packet is counted a dozen times on its path.
#[inline]
pub const fn count(counter: &mut u64, n: u64) {
    *counter = counter.wrapping_add(n);
}

impl Carry {
    /// The remainder: bits times nanoseconds, less than the rate in bits per second.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl Bytes {
    /// Zero.
    pub const ZERO: Bytes = Bytes(0);
    /// Larger than any buffer.
    pub const MAX: Bytes = Bytes(u64::MAX);

    /// `n` bytes.
    pub const fn new(n: u64) -> Bytes {
        Bytes(n)
    }

    /// As a plain number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// As a plain number of bytes, for formulas.
    #[expect(clippy::cast_precision_loss, reason = "exact below 2^53 bytes, 9 petabytes")]
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }

    /// The whole number of bytes nearest to `x`; negative values and NaN give zero.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
    pub fn from_f64(x: f64) -> Bytes {
        Bytes(libm::round(x) as u64)
    }

    /// Whether this is zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// `self - other`, or zero.
    pub const fn saturating_sub(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(other.0))
    }

    /// `self + other`, or [`Bytes::MAX`].
    pub const fn saturating_add(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(other.0))
    }

    /// `self * n`, or [`Bytes::MAX`].
    pub const fn saturating_mul(self, n: u64) -> Bytes {
        Bytes(self.0.saturating_mul(n))
    }
}

impl Rate {
    /// `bits` per second. Panics when that is zero.
    pub const fn from_bits_per_sec(bits: u64) -> Rate {
        assert!(bits > 0, "a rate of zero");
        Rate(bits)
    }

    /// `n` Mbit/s (decimal).
    pub const fn from_mbit(n: u64) -> Rate {
        Rate::from_bits_per_sec(n * 1_000_000)
    }

    /// `n` Gbit/s (decimal).
    pub const fn from_gbit(n: u64) -> Rate {
        Rate::from_bits_per_sec(n * 1_000_000_000)
    }

    /// Bits per second.
    pub const fn bits_per_sec(self) -> u64 {
        self.0
    }

    /// The rate that transfers `bytes` in `per`, at least 1 bit/s. Panics when `per` is zero.
    pub fn from_bytes_per(bytes: Bytes, per: Dur) -> Rate {
        assert!(!per.is_zero(), "a rate over a duration of zero");
        let bits = u128::from(bytes.0) * 8 * 1_000_000_000 / u128::from(per.as_nanos());
        Rate(u64::try_from(bits).unwrap_or(u64::MAX).max(1))
    }

    /// The transmission time of `bytes` in whole nanoseconds. The remainder of the division is kept in `carry` for
    /// the next packet, so that the error of a sum over packets is below one nanosecond.
    ///
    /// Panics above 2 GB, which no packet reaches.
    pub fn tx_time(self, bytes: Bytes, carry: &mut Carry) -> Dur {
        let bits_ns = bytes.0 * 8_000_000_000 + carry.0;
        *carry = Carry(bits_ns % self.0);
        Dur::from_nanos(bits_ns / self.0)
    }

    /// The transmission time of `bytes`, rounded up to a whole nanosecond.
    pub fn time_for(self, bytes: Bytes) -> Dur {
        let ns = (u128::from(bytes.0) * 8_000_000_000).div_ceil(u128::from(self.0));
        Dur::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// Whole bytes transferred in `d`; for a round-trip time this is the bandwidth-delay product (BDP).
    pub fn bytes_in(self, d: Dur) -> Bytes {
        let bytes = u128::from(self.0) * u128::from(d.as_nanos()) / 8_000_000_000;
        Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    /// `self * x`, at least 1 bit/s.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "float casts saturate; exact below 2^53 bit/s"
    )]
    pub fn mul_f64(self, x: f64) -> Rate {
        Rate((libm::round(self.0 as f64 * x) as u64).max(1))
    }
}

impl Add for Bytes {
    type Output = Bytes;
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0 + other.0)
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Bytes) {
        self.0 += other.0;
    }
}

/// Panics when the result would be negative, which is a bug of the caller.
impl Sub for Bytes {
    type Output = Bytes;
    fn sub(self, other: Bytes) -> Bytes {
        Bytes(self.0.checked_sub(other.0).expect("a negative amount of data"))
    }
}

impl SubAssign for Bytes {
    fn sub_assign(&mut self, other: Bytes) {
        *self = *self - other;
    }
}

impl Mul<u64> for Bytes {
    type Output = Bytes;
    fn mul(self, n: u64) -> Bytes {
        Bytes(self.0 * n)
    }
}

impl Div<u64> for Bytes {
    type Output = Bytes;
    fn div(self, n: u64) -> Bytes {
        Bytes(self.0 / n)
    }
}

impl Div for Bytes {
    type Output = u64;
    fn div(self, other: Bytes) -> u64 {
        self.0 / other.0
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Bytes>>(iter: I) -> Bytes {
        iter.fold(Bytes::ZERO, Add::add)
    }
}

/// Formats in the largest decimal unit that represents the value exactly: `30KB`, `1500B`, `4MB`.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        largest_exact(f, self.0, &["B", "KB", "MB", "GB"])
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Formats in the largest decimal unit that represents the value exactly: `2Gbit`, `1500Kbit`.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        largest_exact(f, self.0, &["bit", "Kbit", "Mbit", "Gbit"])
    }
}

impl fmt::Debug for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn largest_exact(f: &mut fmt::Formatter<'_>, mut n: u64, units: &[&str]) -> fmt::Result {
    let mut at = 0;
    while n > 0 && n.is_multiple_of(1000) && at + 1 < units.len() {
        n /= 1000;
        at += 1;
    }
    write!(f, "{n}{}", units[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_packets_at_3_gbit_take_as_long_as_their_bits_to_the_nanosecond() {
        let rate = Rate::from_gbit(3);
        let mut carry = Carry::default();
        let mut total = Dur::ZERO;
        for _ in 0..1_000_000 {
            total += rate.tx_time(Bytes::new(1514), &mut carry);
        }
        // 1514 * 8 * 10^6 bits / 3 Gbit/s = 4.037333333... s
        assert_eq!(total, Dur::from_nanos(4_037_333_333));
    }

    #[test]
    fn the_bandwidth_delay_product_of_10_gbit_and_100_us_is_125_kb() {
        assert_eq!(Rate::from_gbit(10).bytes_in(Dur::from_micros(100)), Bytes::new(125_000));
    }

    #[test]
    fn one_byte_at_3_gbit_rounds_up_to_3_ns() {
        assert_eq!(Rate::from_gbit(3).time_for(Bytes::new(1)), Dur::from_nanos(3));
    }

    #[test]
    fn amounts_and_rates_print_in_the_largest_exact_unit() {
        assert_eq!(Bytes::new(30_000).to_string(), "30KB");
        assert_eq!(Bytes::new(1_500).to_string(), "1500B");
        assert_eq!(Rate::from_mbit(1_500).to_string(), "1500Mbit");
        assert_eq!(Rate::from_gbit(2).to_string(), "2Gbit");
    }

    #[test]
    fn a_rate_is_bytes_over_time() {
        let rate = Rate::from_bytes_per(Bytes::new(125_000), Dur::from_micros(100));
        assert_eq!(rate, Rate::from_gbit(10));
    }

    #[test]
    #[should_panic(expected = "a negative amount of data")]
    fn subtracting_a_larger_amount_panics() {
        let _ = Bytes::new(1) - Bytes::new(2);
    }
}
