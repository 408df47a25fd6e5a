//! The addresses and ports of connections, by which both ends of a connection of the workload are found.

use crate::system::Failure;
use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::ops::RangeInclusive;
use std::os::fd::BorrowedFd;
use tcpassay_linux::sys;
use tcpassay_measure::FlowId;
use tcpassay_measure::pcapng::host_address;
use tcpassay_workload::ConnKey;

/// The first port of servers. Each part of the workload has its own port.
const FIRST_PORT: u16 = 5001;
/// The first port of clients of connections between two machines, above those of servers.
const FIRST_CLIENT_PORT: u16 = 6000;

/// A connection, and the flows of its two directions.
pub type ConnectionFlows = (ConnKey, [FlowId; 2]);

/// Connections that no server has accepted yet, by the addresses of client and server.
///
/// The client's address alone does not identify a connection: Linux chooses source ports for each destination separately
/// (`__inet_hash_connect`), so that two connections of one host to two servers may have the same source port.
#[derive(Default)]
pub struct PendingConnections(BTreeMap<(SocketAddrV4, SocketAddrV4), ConnectionFlows>);

impl PendingConnections {
    pub fn insert(&mut self, client: SocketAddrV4, server: SocketAddrV4, connection: ConnectionFlows) {
        self.0.insert((client, server), connection);
    }

    pub fn take(&mut self, client: SocketAddrV4, server: SocketAddrV4) -> Option<ConnectionFlows> {
        self.0.remove(&(client, server))
    }
}

/// The port of the client of a connection between two machines.
pub fn client_port(key: ConnKey) -> Result<u16, Failure> {
    let port = key.index.checked_add(u32::from(FIRST_CLIENT_PORT)).and_then(|port| u16::try_from(port).ok());
    port.ok_or_else(|| {
        let most = u16::MAX - FIRST_CLIENT_PORT;
        format!("a client opens more than {most} connections, for which the ports between two machines do not suffice")
    })
}

/// Sends the SYN of a connection.
pub fn connect(fd: BorrowedFd, key: ConnKey) -> Result<(), Failure> {
    let server = server_address(key.server.0 as usize, key.part);
    sys::connect(fd, server).map_err(|e| format!("connecting to {server}: {e}"))
}

/// The address at which a host listens for a part of the workload.
pub fn server_address(host: usize, part: u16) -> SocketAddrV4 {
    SocketAddrV4::new(host_address(u32::try_from(host).expect("few hosts")), FIRST_PORT + part)
}

/// The ports at which servers listen for this number of parts of the workload.
pub fn server_ports(parts: usize) -> RangeInclusive<u16> {
    let last = u16::try_from(parts.saturating_sub(1)).map_or(u16::MAX, |n| FIRST_PORT.saturating_add(n));
    FIRST_PORT..=last
}

/// The part of the workload and the number of a connection between two machines, from its ports.
pub fn part_and_index(client: SocketAddrV4, server: SocketAddrV4) -> Option<(u16, u32)> {
    let part = server.port().checked_sub(FIRST_PORT)?;
    Some((part, u32::from(client.port().checked_sub(FIRST_CLIENT_PORT)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpassay_workload::HostIndex;

    #[test]
    fn two_connections_from_one_port_to_two_servers_are_told_apart() {
        let client = SocketAddrV4::new(host_address(0), 40_000);
        let connection = |server, n| {
            let key = ConnKey { part: 0, client: HostIndex(0), server: HostIndex(server), index: n };
            (key, [FlowId(2 * n), FlowId(2 * n + 1)])
        };
        let mut pending = PendingConnections::default();
        pending.insert(client, server_address(1, 0), connection(1, 0));
        pending.insert(client, server_address(2, 0), connection(2, 1));
        assert_eq!(pending.take(client, server_address(2, 0)), Some(connection(2, 1)));
        assert_eq!(pending.take(client, server_address(1, 0)), Some(connection(1, 0)));
        assert_eq!(pending.take(client, server_address(1, 0)), None);
    }

    #[test]
    fn each_part_of_the_workload_has_a_port_of_its_own() {
        assert_eq!(server_address(1, 0).port(), 5001);
        assert_eq!(server_address(1, 3).port(), 5004);
        assert_eq!(server_ports(4), 5001..=5004);
        assert_eq!(server_address(1, 3).ip(), server_address(1, 0).ip());
        assert_ne!(server_address(2, 0).ip(), server_address(1, 0).ip());
    }

    #[test]
    fn the_ports_of_a_connection_between_machines_contain_its_part_and_number() {
        let key = ConnKey { part: 2, client: HostIndex(0), server: HostIndex(1), index: 7 };
        let client = SocketAddrV4::new(host_address(0), client_port(key).unwrap());
        assert_eq!(part_and_index(client, server_address(1, 2)), Some((2, 7)));
        assert_eq!(part_and_index(client, SocketAddrV4::new(host_address(1), 80)), None);
        assert!(client_port(ConnKey { index: 60_000, ..key }).is_err());
    }
}
