//! The window rules, each with its source and how it differs from it.

mod cubic;
mod cubic_linux;
mod dctcp;
mod linux_hystart;
mod mvegas;
mod queue;
mod reno;
mod vegas;

pub use cubic::Cubic;
pub use cubic_linux::LinuxCubic;
pub use dctcp::Dctcp;
pub use mvegas::ModifiedVegas;
pub use reno::Reno;
pub use vegas::Vegas;
