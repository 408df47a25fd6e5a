//! The analysis of the packets of a connection.

mod again;
mod connection;
mod half;
mod response;
mod round;
mod sequence;
mod stall;

pub use again::Spurious;
pub use connection::Place;
pub(crate) use connection::{Connection, Scale};
pub use half::HalfCounters;
pub(crate) use half::{Half, Seen};
pub use round::Round;
pub use stall::{StallCause, Stalls};
