//! Queueing disciplines of a [`Port`](super::PortSpec): they hold waiting packets, select the next packet, and drop
//! or mark packets.
//!
//! A discipline has access to packets and time. It does not depend on the rate of the port; shapers have their own
//! rates.

mod codel;
mod discipline;
mod dualpi2;
mod fair;
mod fifo;
mod fq_codel;
mod htb;
mod pie;
mod red;
mod shaped;
mod tbf;

pub use codel::CoDelSpec;
pub use discipline::DisciplineSpec;
pub use dualpi2::DualPi2Spec;
pub use fair::{DualBufferSpec, FqSpec};
pub use fifo::FifoSpec;
pub use fq_codel::FqCoDelSpec;
pub use htb::{HtbClass, HtbSpec};
pub use pie::PieSpec;
pub use red::RedSpec;
pub use shaped::QueueSpec;
pub use tbf::TbfSpec;

pub(crate) use shaped::{DequeueResult, Queue};
