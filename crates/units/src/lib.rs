//! Types for units.
//!
//! * [`Time`], [`Dur`] - virtual nanoseconds: an instant and a duration.
//! * [`Bytes`], [`Rate`] - amounts of data, and data per second. [`Rate::tx_time`] keeps the remainder of its
//!   division, so that rounding errors do not accumulate.
//! * [`SeqNum`] - 32-bit TCP sequence numbers with wrap-around.
//! * [`Stream`] - a random stream, derived from a seed and a name, independent of the order of creation.
//!
//! Text forms (`"10ms"`, `"1Gbit"`, `"30KB"`) are parsed with `FromStr`. A number without a unit is rejected, because
//! its meaning is ambiguous.
//!
//! This crate depends on no other crate of the workspace. Apart from sequence numbers it does not depend on TCP.

mod data;
mod parse;
mod seq;
mod stream;
mod time;

pub use data::{Bytes, Carry, Rate, count};
pub use parse::UnitError;
pub use seq::SeqNum;
pub use stream::{Seed, Stream};
pub use time::{Dur, Time};
