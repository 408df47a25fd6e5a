//! The analysis of the packets of a connection.

mod again;
mod connection;
mod copies;
mod ecn;
mod ending;
mod half;
mod ids;
mod kind;
mod lengths;
mod offers;
mod path;
mod points;
mod response;
mod round;
mod sacked;
mod seen;
mod sequence;
mod shares;
mod silence;
mod stall;
mod stamp_clock;
mod waits;

pub use again::Spurious;
pub(crate) use connection::Connection;
pub(crate) use copies::Copies;
pub use ecn::EcnFeedback;
pub use ending::{Ending, EndingKind};
pub(crate) use half::Half;
pub use half::HalfCounters;
pub use lengths::BlackHole;
pub(crate) use offers::Offers;
pub use path::Place;
pub use round::Round;
pub(crate) use seen::{Seen, Way};
pub use shares::TimeShares;
pub use stall::{StallCause, Stalls};
