//! The table of connections as hosts with a real stack need it: by addresses and ports.

use super::endpoint::FlowEntry;
use super::recording::ports;
use std::collections::BTreeMap;

/// A host and a port.
pub(super) type Port = (u32, u16);

/// The entries of the flow table by their ports, if a host has a real stack. Entries are not used again then: such a stack may
/// still answer to an old connection.
#[derive(Debug, Default)]
pub(super) struct RealFlows {
    used: bool,
    /// By client and server.
    places: BTreeMap<(Port, Port), usize>,
}

impl RealFlows {
    /// `used`: a host has a real stack.
    pub fn new(used: bool) -> RealFlows {
        RealFlows { used, places: BTreeMap::new() }
    }

    /// Whether all hosts have the model.
    pub fn is_empty(&self) -> bool {
        !self.used
    }

    /// A connection was opened. It replaces an older one with the same ports.
    pub fn opened(&mut self, place: usize, flow: &FlowEntry) {
        if self.used {
            let (client, server) = ports(place, flow);
            self.places.insert(((flow.key.client.0, client), (flow.key.server.0, server)), place);
        }
    }

    /// The entry of the connection between two ports.
    pub fn between(&self, one: Port, other: Port) -> Option<usize> {
        self.places.get(&(one, other)).or_else(|| self.places.get(&(other, one))).copied()
    }
}
