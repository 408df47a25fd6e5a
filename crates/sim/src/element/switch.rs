//! A switch: chooses the port. The port, a link or a [`PortSpec`](super::PortSpec), queues.
//!
//! Among equal ports the flow chooses, by a hash of its number and the switch's own salt: every packet of a flow takes
//! the same path, and two switches in a row do not make the same choice.

use super::{Element, IntoElement};
use crate::engine::{Core, FlowId, HostId, Io, NodeId, PacketId};
use tcpassay_units::Seed;

/// An output-queued switch without routes; see [`Network::route`](crate::engine::Network::route).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SwitchSpec;

/// Stamps packets with the half of the switch's input ports they came by, for the two buffers of
/// [`DualSpec`](super::DualSpec). Stands before the switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IngressSpec {
    /// Which buffer of each output port: 0 or 1.
    pub band: u8,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Ingress(u8);

impl IntoElement for IngressSpec {
    fn into_element(self, _: &str, _: Seed) -> Element {
        assert!(self.band < 2, "a switch has two buffers a port");
        Element::Ingress(Ingress(self.band))
    }
}

impl Ingress {
    pub fn receive(self, io: &mut Io, core: &mut Core, id: PacketId) {
        core.packets[id].band = self.0;
        io.forward(core, id);
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Switch {
    salt: u32,
    /// Of each destination, where its ports begin and end in `ports`.
    routes: Vec<(u32, u32)>,
    ports: Vec<NodeId>,
}

impl IntoElement for SwitchSpec {
    fn into_element(self, name: &str, seed: Seed) -> Element {
        let salt = seed.stream(&format!("{name}.ecmp")).bits32();
        Element::Switch(Switch { salt, routes: Vec::new(), ports: Vec::new() })
    }
}

impl Switch {
    pub fn route(&mut self, dst: HostId, ports: &[NodeId]) {
        assert!(!ports.is_empty(), "a route to nowhere");
        let at = usize::from(dst.0);
        if at >= self.routes.len() {
            self.routes.resize(at + 1, (0, 0));
        }
        let begin = u32::try_from(self.ports.len()).expect("fewer than 2^32 routes");
        self.ports.extend(ports);
        self.routes[at] = (begin, u32::try_from(self.ports.len()).expect("fewer than 2^32 routes"));
    }

    #[inline]
    pub fn receive(&mut self, io: &mut Io, core: &mut Core, id: PacketId) {
        let packet = &core.packets[id];
        let route = self.routes.get(usize::from(packet.dst.0)).copied().unwrap_or_default();
        let ports = &self.ports[route.0 as usize..route.1 as usize];
        let port = match ports {
            [] => panic!("a switch without a route to host {}", packet.dst.0),
            [port] => *port,
            ports => ports[choose(packet.flow, self.salt, ports.len())],
        };
        io.forward_to(core, id, port);
    }
}

/// One of `n`, by flow. The finalizer of `MurmurHash3`, which spreads every bit over all.
pub(crate) fn choose(flow: FlowId, salt: u32, n: usize) -> usize {
    let mut h = flow.0 ^ salt;
    h = (h ^ h >> 16).wrapping_mul(0x85eb_ca6b);
    h = (h ^ h >> 13).wrapping_mul(0xc2b2_ae35);
    h ^= h >> 16;
    usize::try_from((u64::from(h) * n as u64) >> 32).expect("below n")
}
