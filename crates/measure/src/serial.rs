//! Serialization of units as integers in JSON; the field name contains the unit (`start_ns`, `rate_bps`).

macro_rules! unit {
    ($name:ident, $type:ty, $to:ident, $from:path) => {
        pub(crate) mod $name {
            use serde::{Deserialize, Deserializer, Serializer};

            pub fn serialize<S: Serializer>(value: &$type, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_u64(value.$to())
            }

            pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<$type, D::Error> {
                u64::deserialize(d).map($from)
            }
        }
    };
}

macro_rules! optional_unit {
    ($name:ident, $type:ty, $to:ident, $from:path) => {
        pub(crate) mod $name {
            use serde::{Deserialize, Deserializer, Serializer};

            #[expect(clippy::ref_option, reason = "the signature that serde calls")]
            pub fn serialize<S: Serializer>(value: &Option<$type>, s: S) -> Result<S::Ok, S::Error> {
                match value {
                    Some(value) => s.serialize_some(&value.$to()),
                    None => s.serialize_none(),
                }
            }

            pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<$type>, D::Error> {
                Ok(Option::<u64>::deserialize(d)?.map($from))
            }
        }
    };
}

unit!(time, tcpassay_units::Time, as_nanos, tcpassay_units::Time::from_nanos);
unit!(dur, tcpassay_units::Dur, as_nanos, tcpassay_units::Dur::from_nanos);
unit!(bytes, tcpassay_units::Bytes, get, tcpassay_units::Bytes::new);
optional_unit!(optional_time, tcpassay_units::Time, as_nanos, tcpassay_units::Time::from_nanos);
optional_unit!(optional_rate, tcpassay_units::Rate, bits_per_sec, crate::serial::rate_from);

/// A rate read from a file. Zero is not a valid rate and is read as 1 bit/s, so that the file can be read.
fn rate_from(bits: u64) -> tcpassay_units::Rate {
    tcpassay_units::Rate::from_bits_per_sec(bits.max(1))
}
