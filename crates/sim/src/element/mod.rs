//! Elements: what a packet meets between two stacks.
//!
//! Each has a `...Spec`, which says what was asked for and is handed to [`Network::add`](crate::engine::Network::add), and
//! the state of a run made from it. An element sees packets and time; it must not know connections, topologies or the
//! parameter table. Elements that delay nothing hand a packet on in the same event.
//!
//! | element | what it does | events per packet |
//! | --- | --- | --- |
//! | [`LinkSpec`] | rate, delay, drop-tail queue, step marking | 1 |
//! | [`PortSpec`] | any [`QueueSpec`] (FIFO, shapers, AQM) before any [`Pace`], TSO, shared buffers | 2 |
//! | [`RxSpec`] | the receiving NIC: ring, interrupt coalescing, GRO, LRO | 0 to 1 |
//! | [`SplitSpec`] | segmentation alone | 0 |
//! | [`SwitchSpec`] | routing, equal-cost paths by flow | 0 |
//! | [`IngressTagSpec`] | says by which half of a switch's ports a packet came in | 0 |
//! | [`AckEceMarker`] | ECE on returning ACKs while a queue is long | 0 |
//! | [`LossSpec`], [`CorruptSpec`], [`DuplicateSpec`], [`PolicerSpec`] | impairments | 0 |
//! | [`JitterSpec`], [`ReorderSpec`], [`SlottedMediumSpec`], [`AckThinningSpec`] | impairments that hold packets | 0 to 1 |

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
mod link;
mod loss;
mod net_dim;
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
pub use policer::{PolicerSpec, SlottedMediumSpec};
pub use tcpassay_case::draws::{Distribution, LossProcess};

pub use ack_thinning::AckThinningSpec;
pub use port::{BufferShare, PortSpec};
pub use queue::{
    CoDelSpec, DisciplineSpec, DualBufferSpec, DualPi2Spec, FifoSpec, FqCoDelSpec, FqSpec, HtbClass, HtbSpec,
    PieSpec, QueueSpec, RedSpec, TbfSpec,
};
pub use reorder::ReorderSpec;
pub use rx::{Coalesce, RxOrder, RxSpec};
pub use split::SplitSpec;
pub use switch::{IngressTagSpec, SwitchSpec};

pub use tcpassay_case::pace::Pace;
