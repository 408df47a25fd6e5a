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
//! | [`IngressSpec`] | says by which half of a switch's ports a packet came in | 0 |
//! | [`MarkAcks`] | ECE on returning ACKs while a queue is long | 0 |
//! | [`LossSpec`], [`CorruptSpec`], [`DuplicateSpec`], [`PolicerSpec`] | impairments | 0 |
//! | [`JitterSpec`], [`ReorderSpec`], [`SlotSpec`], [`ThinSpec`] | impairments that hold packets | 0 to 1 |

#[cfg(test)]
mod conservation_tests;
mod damage;
mod dim;
#[cfg(test)]
mod graph_tests;
mod gro;
mod jitter;
mod link;
mod loss;
mod mark;
mod pace;
mod policer;
mod port;
mod queue;
mod reorder;
mod ring;
mod rx;
mod split;
mod switch;
#[cfg(test)]
mod test_net;
mod thin;

pub use damage::{CorruptSpec, DuplicateSpec};
pub use jitter::JitterSpec;
pub use link::{Limit, LinkSpec};
pub use loss::{LossSpec, Which};
pub use mark::MarkAcks;
pub use policer::{PolicerSpec, SlotSpec};
pub use tcpassay_case::draws::{Distribution, LossModel};

pub use port::{PortSpec, Share};
pub use queue::{
    CoDelSpec, DualPi2Spec, DualSpec, FifoSpec, FqCoDelSpec, FqSpec, HtbClass, HtbSpec, PieSpec, QueueSpec,
    RedSpec, TbfSpec,
};
pub use reorder::ReorderSpec;
pub use rx::{Coalesce, RxOrder, RxSpec};
pub use split::SplitSpec;
pub use switch::{IngressSpec, SwitchSpec};
pub use thin::ThinSpec;

pub use tcpassay_case::pace::Pace;

pub(crate) use switch::Switch;

use crate::engine::{Core, FlowId, HostId, Io, PacketId};
use damage::Damage;
use jitter::Jitter;
use link::Link;
use loss::Loss;
use policer::{Policer, Slot};
use port::Port;
use reorder::Reorder;
use rx::Rx;
use switch::Ingress;
use tcpassay_units::Seed;
use thin::Thin;

/// What waits in an element: packets that are not yet being sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Backlog {
    /// Packets (super-segments count once).
    pub packets: u32,
    /// Their IP bytes.
    pub bytes: u64,
}

/// A specification that makes an element.
pub trait IntoElement {
    /// The element called `name`, which draws from streams of `seed` named after it.
    fn into_element(self, name: &str, seed: Seed) -> Element;
}

/// Any element. Calls are dispatched by `match`: the hot path has no virtual call.
#[derive(Clone, Debug)]
#[expect(private_interfaces, reason = "made from a specification only")]
pub enum Element {
    /// Where packets to a host end.
    Host(HostId),
    /// See [`LinkSpec`].
    Link(Link),
    /// See [`PortSpec`].
    Port(Box<Port>),
    /// See [`RxSpec`].
    Rx(Box<Rx>),
    /// See [`SplitSpec`].
    Split,
    /// See [`SwitchSpec`].
    Switch(Switch),
    /// See [`IngressSpec`].
    Ingress(Ingress),
    /// See [`MarkAcks`].
    MarkAcks(MarkAcks),
    /// See [`LossSpec`].
    Loss(Box<Loss>),
    /// See [`CorruptSpec`], [`DuplicateSpec`].
    Damage(Box<Damage>),
    /// See [`PolicerSpec`].
    Policer(Box<Policer>),
    /// See [`JitterSpec`].
    Jitter(Box<Jitter>),
    /// See [`ReorderSpec`].
    Reorder(Box<Reorder>),
    /// See [`SlotSpec`].
    Slot(Box<Slot>),
    /// See [`ThinSpec`].
    Thin(Box<Thin>),
}

impl Element {
    #[inline]
    pub(crate) fn receive(&mut self, io: &mut Io, core: &mut Core, id: PacketId) {
        match self {
            Element::Port(e) => e.receive(io, core, id),
            Element::Rx(e) => e.receive(io, core, id),
            Element::Split => split::receive(io, core, id),
            Element::Ingress(e) => e.receive(io, core, id),
            Element::Loss(e) => e.receive(io, core, id),
            Element::Damage(e) => e.receive(io, core, id),
            Element::Policer(e) => e.receive(io, core, id),
            Element::Jitter(e) => e.receive(io, core, id),
            Element::Reorder(e) => e.receive(io, core, id),
            Element::Slot(e) => e.receive(io, core, id),
            Element::Thin(e) => e.receive(io, core, id),
            Element::Link(_) | Element::Switch(_) | Element::Host(_) | Element::MarkAcks(_) => {
                unreachable!("the run loop delivers to these")
            }
        }
    }

    #[inline]
    pub(crate) fn wake(&mut self, io: &mut Io, core: &mut Core) {
        match self {
            Element::Port(e) => e.wake(io, core),
            Element::Rx(e) => e.wake(io, core),
            Element::Jitter(e) => e.wake(io, core),
            Element::Reorder(e) => e.wake(io, core),
            Element::Slot(e) => e.wake(io, core),
            Element::Thin(e) => e.wake(io, core),
            _ => unreachable!("the run loop wakes links, and nothing else asks to be woken"),
        }
    }

    /// Whether it ever asks to be woken.
    pub(crate) fn wakes(&self) -> bool {
        match self {
            Element::Link(_)
            | Element::Port(_)
            | Element::Rx(_)
            | Element::Jitter(_)
            | Element::Reorder(_)
            | Element::Slot(_)
            | Element::Thin(_) => true,
            Element::Host(_)
            | Element::Split
            | Element::Switch(_)
            | Element::Ingress(_)
            | Element::MarkAcks(_)
            | Element::Loss(_)
            | Element::Damage(_)
            | Element::Policer(_) => false,
        }
    }

    /// Packets inside, counted in its queues.
    pub(crate) fn held(&self) -> u64 {
        match self {
            Element::Link(e) => e.held(),
            Element::Port(e) => e.held(),
            Element::Rx(e) => e.held(),
            Element::Jitter(e) => e.held(),
            Element::Reorder(e) => e.held(),
            Element::Slot(e) => e.held(),
            Element::Thin(e) => e.held(),
            _ => 0,
        }
    }

    /// What waits before `flow`.
    pub(crate) fn backlog(&mut self, core: &Core, flow: FlowId) -> Backlog {
        match self {
            Element::Link(e) => e.backlog(core),
            Element::Port(e) => e.backlog(flow),
            _ => Backlog::default(),
        }
    }
}

impl Element {
    /// All that waits.
    pub(crate) fn waiting(&mut self, core: &Core) -> Backlog {
        match self {
            Element::Link(e) => e.backlog(core),
            Element::Port(e) => e.waiting(),
            _ => Backlog::default(),
        }
    }
}

impl IntoElement for Element {
    fn into_element(self, _: &str, _: Seed) -> Element {
        self
    }
}
