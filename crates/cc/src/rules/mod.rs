//! The window rules, each with its source and how it differs from it.

mod reno;

pub use reno::Reno;
