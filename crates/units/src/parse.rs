//! Parsing of text with a unit.

use crate::{Bytes, Dur, Rate};
use std::str::FromStr;

/// A text that is not a value of the expected unit: the value and what is allowed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{value}` is not a {what}: {why}; allowed are a number and one of {allowed}, as in `{example}`")]
pub struct UnitError {
    value: String,
    what: &'static str,
    why: &'static str,
    allowed: &'static str,
    example: &'static str,
}

struct Kind {
    what: &'static str,
    allowed: &'static str,
    example: &'static str,
    units: &'static [(&'static str, u64)],
}

const DUR: Kind = Kind {
    what: "length of time",
    allowed: "ns us ms s min h",
    example: "10ms",
    units: &[
        ("ns", 1),
        ("us", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("min", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ],
};

const BYTES: Kind = Kind {
    what: "number of bytes",
    allowed: "B KB MB GB KiB MiB GiB",
    example: "30KB",
    units: &[
        ("B", 1),
        ("KB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
    ],
};

const RATE: Kind = Kind {
    what: "rate",
    allowed: "bit Kbit Mbit Gbit",
    example: "1Gbit",
    units: &[("bit", 1), ("Kbit", 1_000), ("Mbit", 1_000_000), ("Gbit", 1_000_000_000)],
};

impl Kind {
    /// The value in the smallest unit. The number may have decimals when the result is an integer.
    fn parse(&self, text: &str) -> Result<u64, UnitError> {
        let fail = |why| UnitError {
            value: text.to_owned(),
            what: self.what,
            why,
            allowed: self.allowed,
            example: self.example,
        };
        let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        if number.is_empty() {
            return Err(fail("it does not start with a number"));
        }
        if unit.is_empty() {
            return Err(fail("the unit is missing"));
        }
        let Some((_, scale)) = self.units.iter().find(|(name, _)| *name == unit) else {
            return Err(fail("the unit is unknown here"));
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if number.ends_with('.') || whole.is_empty() || fraction.contains('.') || fraction.len() > 18 {
            return Err(fail("the number is malformed"));
        }
        let too_large = || fail("the number is too large");
        let digits: u128 = format!("{whole}{fraction}").parse().map_err(|_| too_large())?;
        let power = 10u128.pow(u32::try_from(fraction.len()).expect("at most 18"));
        let scaled = digits.checked_mul(u128::from(*scale)).ok_or_else(too_large)?;
        if !scaled.is_multiple_of(power) {
            return Err(fail("it is not a whole number of the smallest unit"));
        }
        u64::try_from(scaled / power).map_err(|_| too_large())
    }
}

impl FromStr for Dur {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Dur, UnitError> {
        DUR.parse(text).map(Dur::from_nanos)
    }
}

impl FromStr for Bytes {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Bytes, UnitError> {
        BYTES.parse(text).map(Bytes::new)
    }
}

impl FromStr for Rate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Rate, UnitError> {
        match RATE.parse(text)? {
            0 => Err(UnitError {
                value: text.to_owned(),
                what: RATE.what,
                why: "a rate is at least 1 bit/s",
                allowed: RATE.allowed,
                example: RATE.example,
            }),
            bits => Ok(Rate::from_bits_per_sec(bits)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn units_of_time_data_and_rate_parse() {
        assert_eq!("10ms".parse(), Ok(Dur::from_millis(10)));
        assert_eq!("1.5us".parse(), Ok(Dur::from_nanos(1500)));
        assert_eq!("30KB".parse(), Ok(Bytes::new(30_000)));
        assert_eq!("64KiB".parse(), Ok(Bytes::new(65_536)));
        assert_eq!("2Gbit".parse(), Ok(Rate::from_gbit(2)));
    }

    #[test]
    fn a_bare_number_is_refused_and_the_error_says_what_is_allowed() {
        let error = "10".parse::<Dur>().unwrap_err().to_string();
        assert_eq!(
            error,
            "`10` is not a length of time: the unit is missing; allowed are a number and one of ns us ms s min h, as in `10ms`"
        );
    }

    #[test]
    fn the_unit_of_another_kind_is_refused() {
        assert!("10ms".parse::<Bytes>().is_err());
        assert!("10KB".parse::<Rate>().is_err());
        assert!("1Gbit".parse::<Dur>().is_err());
    }

    #[test]
    fn signs_spaces_halves_of_a_nanosecond_and_zero_rates_are_refused() {
        for text in ["-1ms", " 1ms", "1 ms", "1.5ns", ".5ms", "1.ms", "1..2ms", "", "ms", "99999999999h"] {
            assert!(text.parse::<Dur>().is_err(), "{text}");
        }
        assert!("0Gbit".parse::<Rate>().is_err());
    }

    proptest! {
        #[test]
        fn a_printed_value_is_parsed_to_the_same_value(n: u64) {
            prop_assert_eq!(Dur::from_nanos(n).to_string().parse(), Ok(Dur::from_nanos(n)));
            prop_assert_eq!(Bytes::new(n).to_string().parse(), Ok(Bytes::new(n)));
            let rate = Rate::from_bits_per_sec(n.max(1));
            prop_assert_eq!(rate.to_string().parse(), Ok(rate));
        }

        #[test]
        fn no_text_panics(text: String) {
            let _ = text.parse::<Dur>();
            let _ = text.parse::<Bytes>();
            let _ = text.parse::<Rate>();
        }
    }
}
