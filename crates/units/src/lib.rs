//! Units as types: the words in which every other crate speaks.
//!
//! * [`Time`], [`Dur`] - virtual nanoseconds: an instant, and a length of time.
//! * [`Bytes`], [`Rate`] - amounts of data, and data per second. [`Rate::tx_time`] keeps the remainder of its
//!   division, so that a million packets take exactly as long as their bits.
//! * [`SeqNum`] - the 32-bit circle of TCP sequence numbers.
//! * [`Stream`] - seeded randomness, derived from a name, never from the order of creation.
//!
//! Text forms (`"10ms"`, `"1Gbit"`, `"30KB"`) parse with `FromStr`; a bare number is refused, because a number
//! without a unit is how a window comes to be read as a duration.
//!
//! This crate depends on nothing else in the workspace and must not know what TCP is, apart from the circle.

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
