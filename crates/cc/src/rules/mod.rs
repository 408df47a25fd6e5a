//! The window rules, each with its source and how it differs from it.

mod bic;
mod cubic;
mod dctcp;
mod mvegas;
mod queue;
mod reno;
mod train;
mod vegas;

pub use bic::LinuxCubic;
pub use cubic::Cubic;
pub use dctcp::Dctcp;
pub use mvegas::ModifiedVegas;
pub use reno::Reno;
pub use train::Detect;
pub use vegas::Vegas;
