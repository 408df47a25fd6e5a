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
//! | [`SplitSpec`] | segmentation alone | 0 |
//! | [`MarkAcks`] | ECE on returning ACKs while a queue is long | 0 |
//! | [`SwitchSpec`] | routing, equal-cost paths by flow | 0 |

mod link;
mod mark;
mod pace;
mod port;
mod queue;
mod split;
mod switch;
#[cfg(test)]
mod test_net;

pub use link::{Limit, LinkSpec};
pub use mark::MarkAcks;
pub use pace::{Pace, TraceError};
pub use port::{PortSpec, Share};
pub use queue::{FifoSpec, HtbClass, HtbSpec, QueueSpec, TbfSpec};
pub use split::SplitSpec;
pub use switch::SwitchSpec;

pub(crate) use switch::Switch;

use crate::engine::{Core, FlowId, HostId, Io, PacketId};
use link::Link;
use port::Port;
use split::Split;
use tcpassay_units::Seed;

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
    /// See [`SplitSpec`].
    Split(Split),
    /// See [`MarkAcks`].
    MarkAcks(MarkAcks),
    /// See [`SwitchSpec`].
    Switch(Switch),
}

impl Element {
    #[inline]
    pub(crate) fn receive(&mut self, io: &mut Io, core: &mut Core, id: PacketId) {
        match self {
            Element::Link(e) => e.receive(io, core, id),
            Element::Switch(e) => e.receive(io, core, id),
            Element::Port(e) => e.receive(io, core, id),
            Element::Split(e) => e.receive(io, core, id),
            Element::Host(_) | Element::MarkAcks(_) => unreachable!("the run loop delivers to these"),
        }
    }

    #[inline]
    pub(crate) fn wake(&mut self, io: &mut Io, core: &mut Core) {
        match self {
            Element::Link(e) => e.wake(io, core),
            Element::Port(e) => e.wake(io, core),
            Element::Host(_) | Element::MarkAcks(_) | Element::Switch(_) | Element::Split(_) => {
                unreachable!("an element that never asks to be woken")
            }
        }
    }

    /// Packets inside, counted in its queues.
    pub(crate) fn held(&self) -> u64 {
        match self {
            Element::Link(e) => e.held(),
            Element::Port(e) => e.held(),
            Element::Host(_) | Element::MarkAcks(_) | Element::Switch(_) | Element::Split(_) => 0,
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

impl IntoElement for Element {
    fn into_element(self, _: &str, _: Seed) -> Element {
        self
    }
}
