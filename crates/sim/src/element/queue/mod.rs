//! Queueing disciplines of a [`Port`](super::PortSpec): they hold waiting packets, select the next packet, and drop
//! or mark packets.
//!
//! A discipline has access to packets and time. It does not depend on the rate of the port; shapers have their own
//! rates.

mod discipline;
mod htb;
mod shaped;
mod tbf;

pub(crate) use discipline::limit;
pub use discipline::{
    CoDelSpec, DisciplineSpec, DualBufferSpec, DualPi2Spec, FifoSpec, FqCoDelSpec, FqSpec, PieSpec, RedSpec,
};
pub use htb::{HtbClass, HtbSpec};
pub use shaped::QueueSpec;
pub use tbf::TbfSpec;

pub(crate) use shaped::{DequeueResult, Queue, queue_spec};
