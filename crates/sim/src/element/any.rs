//! Any element, and how one is made from its specification.

use super::backlog::Backlog;
use super::damage::{CorruptSpec, Damage, DuplicateSpec};
use super::jitter::{Jitter, JitterSpec};
use super::link::{Link, LinkSpec};
use super::loss::{Loss, LossSpec};
use super::mark::MarkAcks;
use super::policer::{Policer, PolicerSpec, Slot, SlotSpec};
use super::port::{Port, PortSpec};
use super::reorder::{Reorder, ReorderSpec};
use super::rx::{Rx, RxSpec};
use super::split::{self, SplitSpec};
use super::switch::{Ingress, IngressSpec, Switch, SwitchSpec};
use super::thin::{Thin, ThinSpec};
use crate::engine::{Core, FlowId, HostId, Io, PacketId};
use tcpassay_units::Seed;

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

/// Elements that a specification makes with its `make`.
macro_rules! made_from {
    ($($spec:ty => $element:expr),+ $(,)?) => {$(
        impl IntoElement for $spec {
            fn into_element(self, name: &str, seed: Seed) -> Element {
                $element(self.make(name, seed).into())
            }
        }
    )+};
}

made_from! {
    LinkSpec => Element::Link,
    PortSpec => Element::Port,
    RxSpec => Element::Rx,
    IngressSpec => Element::Ingress,
    SwitchSpec => Element::Switch,
    LossSpec => Element::Loss,
    CorruptSpec => Element::Damage,
    DuplicateSpec => Element::Damage,
    PolicerSpec => Element::Policer,
    JitterSpec => Element::Jitter,
    ReorderSpec => Element::Reorder,
    SlotSpec => Element::Slot,
    ThinSpec => Element::Thin,
}

impl IntoElement for MarkAcks {
    fn into_element(self, _: &str, _: Seed) -> Element {
        Element::MarkAcks(self)
    }
}

impl IntoElement for SplitSpec {
    fn into_element(self, _: &str, _: Seed) -> Element {
        Element::Split
    }
}
