//! The union of all elements, and their construction from specifications.

use super::ack_marking::AckEceMarker;
use super::ack_thinning::{AckThinning, AckThinningSpec};
use super::backlog::Backlog;
use super::impairment::{CorruptSpec, DuplicateSpec, Impairment};
use super::jitter::{Jitter, JitterSpec};
use super::link::{Link, LinkSpec};
use super::loss::{Loss, LossSpec};
use super::middlebox::{Middlebox, MiddleboxSpec};
use super::mtu::{Mtu, MtuSpec};
use super::pause::{Pause, PauseSpec};
use super::policer::{Policer, PolicerSpec, SlottedMedium, SlottedMediumSpec};
use super::port::{Port, PortSpec};
use super::reorder::{Reorder, ReorderSpec};
use super::rx::{Rx, RxSpec};
use super::split::{self, SplitSpec};
use super::switch::{IngressTag, IngressTagSpec, Switch, SwitchSpec};
use crate::engine::{Core, ElementContext, FlowLabel, HostId, PacketId};
use tcpassay_units::Seed;

/// A specification from which an element is created.
pub trait IntoElement {
    /// Creates the element `name`, whose random streams are derived from `seed` and `name`.
    fn into_element(self, name: &str, seed: Seed) -> Element;
}

/// Any element. Calls are dispatched with `match`, because virtual calls would cost time for each packet.
#[derive(Clone, Debug)]
#[expect(private_interfaces, reason = "made from a specification only")]
pub enum Element {
    /// The endpoint of packets to a host.
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
    /// See [`IngressTagSpec`].
    IngressTag(IngressTag),
    /// See [`AckEceMarker`].
    AckEceMarker(AckEceMarker),
    /// See [`LossSpec`].
    Loss(Box<Loss>),
    /// See [`CorruptSpec`], [`DuplicateSpec`].
    Impairment(Box<Impairment>),
    /// See [`PolicerSpec`].
    Policer(Box<Policer>),
    /// See [`JitterSpec`].
    Jitter(Box<Jitter>),
    /// See [`ReorderSpec`].
    Reorder(Box<Reorder>),
    /// See [`SlottedMediumSpec`].
    SlottedMedium(Box<SlottedMedium>),
    /// See [`AckThinningSpec`].
    AckThinning(Box<AckThinning>),
    /// See [`PauseSpec`].
    Pause(Box<Pause>),
    /// See [`MtuSpec`].
    Mtu(Box<Mtu>),
    /// See [`MiddleboxSpec`].
    Middlebox(Box<Middlebox>),
}

impl Element {
    #[inline]
    pub(crate) fn receive(&mut self, ctx: &mut ElementContext, core: &mut Core, id: PacketId) {
        match self {
            Element::Port(e) => e.receive(ctx, core, id),
            Element::Rx(e) => e.receive(ctx, core, id),
            Element::Split => split::receive(ctx, core, id),
            Element::IngressTag(e) => e.receive(ctx, core, id),
            Element::Loss(e) => e.receive(ctx, core, id),
            Element::Impairment(e) => e.receive(ctx, core, id),
            Element::Policer(e) => e.receive(ctx, core, id),
            Element::Jitter(e) => e.receive(ctx, core, id),
            Element::Reorder(e) => e.receive(ctx, core, id),
            Element::SlottedMedium(e) => e.receive(ctx, core, id),
            Element::AckThinning(e) => e.receive(ctx, core, id),
            Element::Pause(e) => e.receive(ctx, core, id),
            Element::Mtu(e) => e.receive(ctx, core, id),
            Element::Middlebox(e) => e.receive(ctx, core, id),
            Element::Link(_) | Element::Switch(_) | Element::Host(_) | Element::AckEceMarker(_) => {
                unreachable!("the run loop delivers to these")
            }
        }
    }

    #[inline]
    pub(crate) fn wake(&mut self, ctx: &mut ElementContext, core: &mut Core) {
        match self {
            Element::Port(e) => e.wake(ctx, core),
            Element::Rx(e) => e.wake(ctx, core),
            Element::Jitter(e) => e.wake(ctx, core),
            Element::Reorder(e) => e.wake(ctx, core),
            Element::SlottedMedium(e) => e.wake(ctx, core),
            Element::AckThinning(e) => e.wake(ctx, core),
            Element::Pause(e) => e.wake(ctx, core),
            _ => unreachable!("the run loop wakes links, and nothing else asks to be woken"),
        }
    }

    /// Whether the element ever schedules events.
    pub(crate) fn wakes(&self) -> bool {
        match self {
            Element::Link(_)
            | Element::Port(_)
            | Element::Rx(_)
            | Element::Jitter(_)
            | Element::Reorder(_)
            | Element::SlottedMedium(_)
            | Element::AckThinning(_)
            | Element::Pause(_) => true,
            Element::Host(_)
            | Element::Split
            | Element::Switch(_)
            | Element::IngressTag(_)
            | Element::AckEceMarker(_)
            | Element::Loss(_)
            | Element::Impairment(_)
            | Element::Policer(_)
            | Element::Mtu(_)
            | Element::Middlebox(_) => false,
        }
    }

    /// Number of packets in the queues of the element.
    pub(crate) fn held(&self) -> u64 {
        match self {
            Element::Link(e) => e.held(),
            Element::Port(e) => e.held(),
            Element::Rx(e) => e.held(),
            Element::Jitter(e) => e.held(),
            Element::Reorder(e) => e.held(),
            Element::SlottedMedium(e) => e.held(),
            Element::AckThinning(e) => e.held(),
            Element::Pause(e) => e.held(),
            _ => 0,
        }
    }

    /// The backlog in front of a packet of `flow`.
    pub(crate) fn backlog(&mut self, core: &Core, flow: FlowLabel) -> Backlog {
        match self {
            Element::Link(e) => e.backlog(core),
            Element::Port(e) => e.backlog(flow),
            _ => Backlog::default(),
        }
    }
}

impl Element {
    /// The backlog over all flows.
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

/// Implements [`IntoElement`] for specifications with a method `make`.
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
    IngressTagSpec => Element::IngressTag,
    SwitchSpec => Element::Switch,
    LossSpec => Element::Loss,
    CorruptSpec => Element::Impairment,
    DuplicateSpec => Element::Impairment,
    PolicerSpec => Element::Policer,
    JitterSpec => Element::Jitter,
    ReorderSpec => Element::Reorder,
    SlottedMediumSpec => Element::SlottedMedium,
    AckThinningSpec => Element::AckThinning,
    PauseSpec => Element::Pause,
    MtuSpec => Element::Mtu,
    MiddleboxSpec => Element::Middlebox,
}

impl IntoElement for AckEceMarker {
    fn into_element(self, _: &str, _: Seed) -> Element {
        Element::AckEceMarker(self)
    }
}

impl IntoElement for SplitSpec {
    fn into_element(self, _: &str, _: Seed) -> Element {
        Element::Split
    }
}
