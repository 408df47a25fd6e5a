//! Queueing disciplines of a [`Port`](super::PortSpec): what waits, in which order it leaves, what is dropped or marked.
//!
//! A discipline sees packets and time. It must not know the rate at which it is emptied, apart from shapers, which have
//! their own.

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
