//! 32-bit TCP sequence numbers with wrap-around.

use std::fmt;
use std::ops::{Add, Sub};

/// A TCP sequence or acknowledgement number as in a header.
///
/// It does not implement `Ord`: with wrap-around, "less" is defined only for numbers less than 2^31 apart (RFC 9293
/// section 3.4). The stack converts positions to 64 bits with [`SeqNum::unwrap_near`] and compares those.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SeqNum(u32);

impl SeqNum {
    /// Creates a sequence number from a header field.
    pub const fn new(n: u32) -> SeqNum {
        SeqNum(n)
    }

    /// The value of the header field.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Signed distance from `other` to `self`, modulo 2^32.
    pub const fn distance(self, other: SeqNum) -> i32 {
        self.0.wrapping_sub(other.0).cast_signed()
    }

    /// The 64-bit position closest to `near` whose sequence number is `self`, when `base` is position 0.
    ///
    /// Returns `None` when that is below position 0 (older than the connection).
    pub const fn unwrap_near(self, base: SeqNum, near: u64) -> Option<u64> {
        let here = base.at(near);
        near.checked_add_signed(self.distance(here) as i64)
    }

    /// The sequence number of the 64-bit position `pos` when `self` is position 0.
    #[expect(clippy::cast_possible_truncation, reason = "wrap-around keeps the low 32 bits")]
    #[must_use]
    pub const fn at(self, pos: u64) -> SeqNum {
        SeqNum(self.0.wrapping_add(pos as u32))
    }
}

impl Add<u32> for SeqNum {
    type Output = SeqNum;
    fn add(self, n: u32) -> SeqNum {
        SeqNum(self.0.wrapping_add(n))
    }
}

impl Sub<u32> for SeqNum {
    type Output = SeqNum;
    fn sub(self, n: u32) -> SeqNum {
        SeqNum(self.0.wrapping_sub(n))
    }
}

impl fmt::Display for SeqNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for SeqNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_distance_of_two_numbers_is_the_shorter_one_modulo_2_to_the_32() {
        assert_eq!(SeqNum::new(5).distance(SeqNum::new(u32::MAX)), 6);
        assert_eq!(SeqNum::new(u32::MAX).distance(SeqNum::new(5)), -6);
    }

    #[test]
    fn a_number_older_than_the_connection_has_no_position() {
        assert_eq!(SeqNum::new(99).unwrap_near(SeqNum::new(100), 0), None);
    }

    proptest! {
        #[test]
        fn a_position_is_restored_across_wrap_around_with_a_near_reference(
            base: u32, pos in 0u64..1 << 40, off in -(1i64 << 31)..(1i64 << 31),
        ) {
            let near = pos.saturating_add_signed(off);
            let wire = SeqNum::new(base).at(pos);
            // A distance of exactly half of the number space is ambiguous.
            prop_assume!(pos.abs_diff(near) < 1 << 31);
            prop_assert_eq!(wire.unwrap_near(SeqNum::new(base), near), Some(pos));
        }
    }
}
