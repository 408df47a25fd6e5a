//! Instants and durations of virtual time.

use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

/// An instant: nanoseconds since the start of the run.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

/// A duration in nanoseconds; never negative.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Dur(u64);

impl Time {
    /// The start of the run.
    pub const ZERO: Time = Time(0);
    /// Later than any event of a run (584 years).
    pub const MAX: Time = Time(u64::MAX);

    /// The instant `ns` nanoseconds after the start.
    pub const fn from_nanos(ns: u64) -> Time {
        Time(ns)
    }

    /// Nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time passed since `earlier`; zero when `earlier` is in the future.
    pub const fn since(self, earlier: Time) -> Dur {
        Dur(self.0.saturating_sub(earlier.0))
    }

    /// `self + d`, at most [`Time::MAX`].
    pub const fn saturating_add(self, d: Dur) -> Time {
        Time(self.0.saturating_add(d.0))
    }

    /// `self - d`, at least the start.
    pub const fn saturating_sub(self, d: Dur) -> Time {
        Time(self.0.saturating_sub(d.0))
    }
}

impl Dur {
    /// Zero.
    pub const ZERO: Dur = Dur(0);
    /// Longer than any run.
    pub const MAX: Dur = Dur(u64::MAX);

    /// `n` nanoseconds.
    pub const fn from_nanos(n: u64) -> Dur {
        Dur(n)
    }

    /// `n` microseconds.
    pub const fn from_micros(n: u64) -> Dur {
        Dur(n * 1_000)
    }

    /// `n` milliseconds.
    pub const fn from_millis(n: u64) -> Dur {
        Dur(n * 1_000_000)
    }

    /// `n` seconds.
    pub const fn from_secs(n: u64) -> Dur {
        Dur(n * 1_000_000_000)
    }

    /// The nearest whole nanosecond to `s` seconds; negative values and NaN give zero.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
    pub fn from_secs_f64(s: f64) -> Dur {
        Dur(libm::round(s * 1e9) as u64)
    }

    /// Whole nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole microseconds, rounded down.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Whole milliseconds, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Seconds, for formulas and tables.
    #[expect(clippy::cast_precision_loss, reason = "2^53 ns is 104 days; below that the value is exact")]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Whether this is zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// `self - other`, or zero.
    pub const fn saturating_sub(self, other: Dur) -> Dur {
        Dur(self.0.saturating_sub(other.0))
    }

    /// `self + other`, or [`Dur::MAX`].
    pub const fn saturating_add(self, other: Dur) -> Dur {
        Dur(self.0.saturating_add(other.0))
    }

    /// `self * n`, or [`Dur::MAX`].
    pub const fn saturating_mul(self, n: u64) -> Dur {
        Dur(self.0.saturating_mul(n))
    }

    /// `self * x` to the nearest nanosecond; negative factors give zero.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "float casts saturate; exact below 104 days"
    )]
    pub fn mul_f64(self, x: f64) -> Dur {
        Dur(libm::round(self.0 as f64 * x) as u64)
    }

    /// The absolute difference of two durations.
    pub const fn abs_diff(self, other: Dur) -> Dur {
        Dur(self.0.abs_diff(other.0))
    }
}

impl Add<Dur> for Time {
    type Output = Time;
    fn add(self, d: Dur) -> Time {
        Time(self.0 + d.0)
    }
}

impl AddAssign<Dur> for Time {
    fn add_assign(&mut self, d: Dur) {
        self.0 += d.0;
    }
}

/// Panics when the second instant is the later one, which is a bug of the caller.
impl Sub for Time {
    type Output = Dur;
    fn sub(self, earlier: Time) -> Dur {
        Dur(self.0.checked_sub(earlier.0).expect("the subtracted instant is later"))
    }
}

impl Sub<Dur> for Time {
    type Output = Time;
    fn sub(self, d: Dur) -> Time {
        Time(self.0.checked_sub(d.0).expect("an instant before the start of the run"))
    }
}

impl Add for Dur {
    type Output = Dur;
    fn add(self, other: Dur) -> Dur {
        Dur(self.0 + other.0)
    }
}

impl AddAssign for Dur {
    fn add_assign(&mut self, other: Dur) {
        self.0 += other.0;
    }
}

impl Sub for Dur {
    type Output = Dur;
    fn sub(self, other: Dur) -> Dur {
        Dur(self.0.checked_sub(other.0).expect("a negative duration"))
    }
}

impl SubAssign for Dur {
    fn sub_assign(&mut self, other: Dur) {
        *self = *self - other;
    }
}

impl Mul<u64> for Dur {
    type Output = Dur;
    fn mul(self, n: u64) -> Dur {
        Dur(self.0 * n)
    }
}

impl Div<u64> for Dur {
    type Output = Dur;
    fn div(self, n: u64) -> Dur {
        Dur(self.0 / n)
    }
}

impl Div for Dur {
    type Output = u64;
    fn div(self, other: Dur) -> u64 {
        self.0 / other.0
    }
}

/// Formats in the largest unit that represents the value exactly: `200ms`, `1500us`, `7ns`.
/// The largest unit that is exact: `200ms`. The alternate form `{:#}` is for sentences: milliseconds to the microsecond,
/// `200 ms`, `6.482 ms`, `0.05 ms`, and below a microsecond to the nanosecond.
impl fmt::Display for Dur {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0;
        if f.alternate() {
            return in_ms(ns, f);
        }
        let (n, unit) = match ns {
            0 => (0, "s"),
            _ if ns.is_multiple_of(1_000_000_000) => (ns / 1_000_000_000, "s"),
            _ if ns.is_multiple_of(1_000_000) => (ns / 1_000_000, "ms"),
            _ if ns.is_multiple_of(1_000) => (ns / 1_000, "us"),
            _ => (ns, "ns"),
        };
        write!(f, "{n}{unit}")
    }
}

impl fmt::Debug for Dur {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Seconds with nine decimals: `0.200000000`; in the alternate form as a [`Dur`].
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            return in_ms(self.0, f);
        }
        write!(f, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn in_ms(ns: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let ns = if ns < 1000 { ns } else { (ns + 500) / 1000 * 1000 };
    let text = format!("{}.{:06}", ns / 1_000_000, ns % 1_000_000);
    write!(f, "{} ms", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_in_a_sentence_is_in_milliseconds_to_the_microsecond() {
        assert_eq!(format!("{:#}", Time::from_nanos(190_287_000)), "190.287 ms");
        assert_eq!(format!("{:#}", Dur::from_nanos(6_482_499)), "6.482 ms");
        assert_eq!(format!("{:#}", Dur::from_secs(3)), "3000 ms");
        assert_eq!(format!("{:#}", Dur::from_micros(50)), "0.05 ms");
        assert_eq!(format!("{:#}", Dur::from_nanos(300)), "0.0003 ms");
        assert_eq!(format!("{:#}", Dur::ZERO), "0 ms");
    }

    #[test]
    fn a_duration_prints_in_the_largest_unit_that_is_exact() {
        assert_eq!(Dur::from_millis(200).to_string(), "200ms");
        assert_eq!(Dur::from_micros(1500).to_string(), "1500us");
        assert_eq!(Dur::from_secs(3).to_string(), "3s");
        assert_eq!(Dur::ZERO.to_string(), "0s");
        assert_eq!(Dur::from_nanos(7).to_string(), "7ns");
    }

    #[test]
    fn an_instant_prints_seconds_with_nanoseconds() {
        assert_eq!(Time::from_nanos(1_200_000_003).to_string(), "1.200000003");
    }

    #[test]
    fn since_a_later_instant_is_zero() {
        assert_eq!(Time::from_nanos(5).since(Time::from_nanos(9)), Dur::ZERO);
    }

    #[test]
    #[should_panic(expected = "the subtracted instant is later")]
    fn subtracting_a_later_instant_panics() {
        let _ = Time::from_nanos(5) - Time::from_nanos(9);
    }

    #[test]
    fn seconds_round_to_the_nearest_nanosecond() {
        assert_eq!(Dur::from_secs_f64(0.000_000_001_6), Dur::from_nanos(2));
        assert_eq!(Dur::from_secs_f64(-1.0), Dur::ZERO);
        assert_eq!(Dur::from_secs_f64(f64::NAN), Dur::ZERO);
    }
}
