//! The window rules, each with its source and its differences from the source.

mod cubic;
mod cubic_linux;
mod dctcp;
mod linux_hystart;
mod mvegas;
mod reno;
mod vegas;
mod vegas_rounds;

pub use cubic::Cubic;
pub use cubic_linux::LinuxCubic;
pub use dctcp::Dctcp;
pub use mvegas::ModifiedVegas;
pub use reno::Reno;
pub use vegas::Vegas;
