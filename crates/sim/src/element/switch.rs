//! A switch: it selects the output port. The port, a link or a [`PortSpec`](super::PortSpec), has the queue.
//!
//! Among ports of equal cost, a hash of the flow and of the switch's own salt selects the port: all packets of a flow
//! take the same path, and consecutive switches select independently.

use crate::engine::{Core, ElementContext, FlowLabel, HostId, NodeId, PacketHandle, PacketId};
use tcpassay_units::Seed;

/// An output-queued switch without routes; see [`Network::route`](crate::engine::Network::route).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SwitchSpec;

/// Labels packets with the group of input ports (first or second half) through which they entered the switch, for the
/// two buffers of [`DualBufferSpec`](super::DualBufferSpec). Placed in front of the switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IngressTagSpec {
    /// Index of the buffer at each output port: 0 or 1.
    pub band: u8,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct IngressTag(u8);

impl IngressTagSpec {
    pub(super) fn make(self, _: &str, _: Seed) -> IngressTag {
        assert!(self.band < 2, "a switch has two buffers a port");
        IngressTag(self.band)
    }
}

impl IngressTag {
    pub fn receive(self, ctx: &mut ElementContext, core: &mut Core, id: PacketId) {
        core.packets[id].band = self.0;
        ctx.forward(core, id);
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Switch {
    salt: u32,
    /// The routes by destination.
    routes: Vec<RouteEntry>,
    ports: Vec<NodeId>,
}

/// The ports towards a destination: none, one, or the index of the first one in [`Switch::ports`].
#[derive(Clone, Copy, Debug, Default)]
struct RouteEntry {
    ports: u32,
    first: u32,
}

#[cold]
fn no_route(dst: HostId) -> ! {
    panic!("a switch without a route to host {}", dst.0)
}

impl SwitchSpec {
    pub(super) fn make(self, name: &str, seed: Seed) -> Switch {
        let SwitchSpec = self;
        let salt = seed.stream(&format!("{name}.ecmp")).bits32();
        Switch { salt, routes: Vec::new(), ports: Vec::new() }
    }
}

impl Switch {
    pub fn route(&mut self, dst: HostId, ports: &[NodeId]) {
        assert!(!ports.is_empty(), "a route to nowhere");
        let at = usize::from(dst.0);
        if at >= self.routes.len() {
            self.routes.resize(at + 1, RouteEntry::default());
        }
        let first = match ports {
            [only] => only.0,
            _ => u32::try_from(self.ports.len()).expect("fewer than 2^32 routes"),
        };
        if ports.len() > 1 {
            self.ports.extend(ports);
        }
        self.routes[at] =
            RouteEntry { ports: u32::try_from(ports.len()).expect("fewer than 2^32 ports"), first };
    }

    /// The next node for a packet.
    #[inline]
    pub fn port(&self, handle: PacketHandle) -> NodeId {
        let Some(route) = self.routes.get(usize::from(handle.dst.0)) else { no_route(handle.dst) };
        if route.ports == 1 {
            return NodeId(route.first);
        }
        let ports = &self.ports[route.first as usize..][..route.ports as usize];
        if ports.is_empty() {
            no_route(handle.dst);
        }
        ports[choose(handle.flow, self.salt, ports.len())]
    }
}

/// Selects one of `n` ports by flow. The finalizer of `MurmurHash3` mixes all bits.
pub(crate) fn choose(flow: FlowLabel, salt: u32, n: usize) -> usize {
    let mut h = flow.0 ^ salt;
    h = (h ^ h >> 16).wrapping_mul(0x85eb_ca6b);
    h = (h ^ h >> 13).wrapping_mul(0xc2b2_ae35);
    h ^= h >> 16;
    usize::try_from((u64::from(h) * n as u64) >> 32).expect("below n")
}
