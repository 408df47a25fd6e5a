//! What hosts with a real stack ask of the flow table.

use super::endpoint::FlowEntry;
use super::recording::ports;
use super::stacks::Stacks;
use crate::engine::{FlowLabel, HostId, Route};
use std::net::{SocketAddr, SocketAddrV4};
use tcpassay_measure::{FlowId, pcapng};
use tcpassay_workload::ConnKey;

fn address(host: u32, port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(pcapng::host_address(host), port)
}

impl Stacks {
    /// The entry of a packet's flow; `None` if it was used again.
    pub(super) fn place_of(&self, flow: FlowLabel) -> Option<usize> {
        let (place, generation) = FlowEntry::place(flow);
        self.recorder.flows.get(place).filter(|entry| entry.generation == generation).map(|_| place)
    }

    /// The addresses of a packet that `from` sends: its own and that of its peer.
    pub(super) fn addresses(&self, place: usize, from: HostId) -> (SocketAddrV4, SocketAddrV4) {
        let flow = &self.recorder.flows[place];
        let (client, server) = ports(place, flow);
        let ends = [address(flow.key.client.0, client), address(flow.key.server.0, server)];
        if from == flow.server { (ends[1], ends[0]) } else { (ends[0], ends[1]) }
    }

    /// The entry of the connection to which a packet of host `host` belongs, by its addresses.
    pub(super) fn flow_between(&self, host: usize, from: SocketAddr, to: SocketAddr) -> Option<usize> {
        let own = (pcapng::host_of(from.ip())?, from.port());
        let peer = (pcapng::host_of(to.ip())?, to.port());
        if own.0 as usize != host {
            return None;
        }
        self.real.between(own, peer)
    }

    /// Where the packets go that `host` sends in a connection, the flow that it sends, and the flow that it receives.
    pub(super) fn end_at(&self, place: usize, host: HostId) -> (Route, FlowId, FlowId) {
        let flow = &self.recorder.flows[place];
        let server = flow.server == host;
        let client = self.hosts[flow.key.client.0 as usize].id;
        let route = Route {
            src: host,
            dst: if server { client } else { flow.server },
            flow: FlowEntry::id(place, flow.generation),
            notify: false,
            accecn: false,
        };
        (route, flow.out[usize::from(server)], flow.out[usize::from(!server)])
    }

    /// Marks that the server has accepted a connection; false if it did so before.
    pub(super) fn take_accept(&mut self, place: usize) -> bool {
        !std::mem::replace(&mut self.recorder.flows[place].accepted, true)
    }

    /// The connection of an entry.
    pub(super) fn key_at(&self, place: usize) -> ConnKey {
        self.recorder.flows[place].key
    }
}
