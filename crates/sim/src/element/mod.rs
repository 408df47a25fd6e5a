//! Elements: the components that a packet passes between two stacks.
//!
//! Each element has a specification (`...Spec`), which is passed to [`Network::add`](crate::engine::Network::add),
//! and a state created from it. An element has access to packets and time; it does not depend on connections,
//! topologies or the parameter table. An element without delay forwards packets within the same event.
//!
//! | element | function | events per packet |
//! | --- | --- | --- |
//! | [`LinkSpec`] | rate, delay, drop-tail queue, step marking | 1 |
//! | [`PortSpec`] | any [`QueueSpec`] (FIFO, shapers, AQM) with any [`Pace`], TSO, shared buffers | 2 |
//! | [`RxSpec`] | receive side of a NIC: ring, interrupt coalescing, GRO, LRO | 0 to 1 |
//! | [`SplitSpec`] | segmentation only | 0 |
//! | [`SwitchSpec`] | routing, equal-cost paths by flow | 0 |
//! | [`IngressTagSpec`] | labels packets with their group of input ports at a switch | 0 |
//! | [`AckEceMarker`] | sets ECE on returning ACKs while a queue is long | 0 |
//! | [`MtuSpec`] | drops what is too long for the next link, with ICMP | 0 |
//! | [`MiddleboxSpec`] | changes options, flags and numbers of segments, forgets connections | 0 |
//! | [`LossSpec`], [`CorruptSpec`], [`DuplicateSpec`], [`PolicerSpec`] | impairments | 0 |
//! | [`JitterSpec`], [`ReorderSpec`], [`SlottedMediumSpec`], [`AckThinningSpec`], [`PauseSpec`] | impairments that hold packets | 0 to 1 |

mod ack_marking;
mod ack_thinning;
mod backlog;
#[cfg(test)]
mod conservation_tests;
mod dispatch;
#[cfg(test)]
mod graph_tests;
mod gro;
mod impairment;
mod jitter;
#[cfg(test)]
mod laws_tests;
mod link;
mod loss;
mod middlebox;
mod mtu;
mod pause;
mod policer;
mod port;
mod queue;
mod reorder;
mod ring_buffer;
mod rx;
mod split;
mod switch;
#[cfg(test)]
mod test_net;
mod transmitter;

pub use ack_marking::AckEceMarker;
pub use backlog::Backlog;
pub use dispatch::{Element, IntoElement};
pub use impairment::{CorruptSpec, DuplicateSpec};
pub use jitter::JitterSpec;
pub use link::{LinkSpec, QueueLimit};
pub use loss::{LossSpec, PacketFilter};
pub use middlebox::MiddleboxSpec;
pub use mtu::MtuSpec;
pub use pause::PauseSpec;
pub use policer::{PolicerSpec, SlottedMediumSpec};
pub use tcpassay_case::draws::{Distribution, LossProcess};
pub use tcpassay_case::interrupts::Coalesce;

pub use ack_thinning::AckThinningSpec;
pub use port::{BufferShare, PortSpec};
pub use queue::{
    CoDelSpec, DisciplineSpec, DualBufferSpec, DualPi2Spec, FifoSpec, FqCoDelSpec, FqSpec, HtbClass, HtbSpec,
    PieSpec, QueueSpec, RedSpec, TbfSpec,
};
pub(crate) use queue::{limit, queue_spec};
pub use reorder::ReorderSpec;
pub use rx::{RxOrder, RxSpec};
pub use split::SplitSpec;
pub use switch::{IngressTagSpec, SwitchSpec};

pub use tcpassay_case::pace::Pace;
