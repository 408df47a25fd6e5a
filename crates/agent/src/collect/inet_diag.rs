//! Socket statistics from `inet_diag`: queues, memory, and the estimates of the congestion controller.
//!
//! At each tick of the series the kernel is asked for the sockets of each host, from when an application has opened or accepted them until
//! they have no peer, also after the application has closed them. The values are columns of the flow that a socket sends or of the flow that
//! it receives.

use crate::collect::flow_tracker::FlowTracker;
use crate::netns::build::NetnsSet;
use crate::netns::topology::NetnsTopology;
use crate::system::Failure;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddrV4;
use tcpassay_linux::netlink::{Netlink, attributes, u32_at};
use tcpassay_measure::pcapng::host_of;
use tcpassay_measure::{FlowId, Series, SeriesColumn};
use tcpassay_units::{Dur, Time};

/// Attributes of a message (`include/uapi/linux/inet_diag.h`).
const VEGAS: u16 = 3;
const MEMORY: u16 = 7;
const BBR: u16 = 16;

/// Values of a column, each with the number of its interval.
type Values = Vec<(u64, f64)>;

/// A socket with more others in its namespace is found by a dump, which costs as much as this number of single requests on a machine whose
/// hash table has 65,536 places.
const MOST_SINGLE: usize = 64;

/// The addresses of a socket, its own first.
pub type SocketEnds = [SocketAddrV4; 2];

/// The sockets of a host.
struct HostSockets {
    host: usize,
    netlink: Netlink,
    /// The sockets that existed at the last tick, and new ones.
    alive: BTreeSet<SocketEnds>,
}

/// The columns of all flows.
#[derive(Default)]
pub struct InetDiag {
    hosts: Vec<HostSockets>,
    columns: BTreeMap<(FlowId, &'static str), Values>,
}

impl InetDiag {
    /// Adds the values of all hosts at the end of an interval. `new`: the sockets that applications have opened or accepted since the
    /// last call, each with its host.
    pub fn sample(
        &mut self,
        topology: &NetnsTopology,
        (at, interval): (Time, Dur),
        namespaces: &mut NetnsSet,
        flow_tracker: &FlowTracker,
        new: &mut Vec<(usize, SocketEnds)>,
    ) -> Result<(), Failure> {
        let wrong = |e: std::io::Error| format!("inet_diag: {e}");
        let ended = (at.as_nanos() / interval.as_nanos()).saturating_sub(1);
        if self.hosts.is_empty() {
            for host in (0..topology.hosts.len()).filter(|host| topology.has_host(*host)) {
                namespaces.enter(host)?;
                let netlink = Netlink::for_sockets().map_err(wrong)?;
                self.hosts.push(HostSockets { host, netlink, alive: BTreeSet::new() });
            }
        }
        for HostSockets { host, netlink, alive } in &mut self.hosts {
            alive.extend(new.iter().filter(|(of, _)| of == host).map(|(_, ends)| *ends));
            let columns = &mut self.columns;
            let mut add = |message: &[u8]| {
                let Some([out, into]) = flows(message, flow_tracker) else { return };
                values(message, &mut |outward, name, value| {
                    let flow = if outward { out } else { into };
                    columns.entry((flow, name)).or_default().push((ended, value));
                });
            };
            if alive.len() > MOST_SINGLE {
                let mut found = BTreeSet::new();
                let seen = |message: &[u8]| {
                    found.extend(ends(message));
                    add(message);
                };
                netlink.tcp_sockets(seen).map_err(wrong)?;
                alive.retain(|ends| found.contains(ends));
            } else {
                let mut ended = Vec::new();
                for ends in alive.iter() {
                    if !netlink.tcp_socket(*ends, &mut add).map_err(wrong)? {
                        ended.push(*ends);
                    }
                }
                alive.retain(|ends| !ended.contains(ends));
            }
        }
        new.clear();
        Ok(())
    }

    /// Adds the columns to the flows of the series.
    pub fn append(self, series: &mut Series) {
        for ((flow, name), values) in self.columns {
            let entity = format!("flow.{}", flow.0);
            let Some(entity) = series.entities.iter_mut().find(|e| e.entity == entity) else { continue };
            let mut column = vec![f64::NAN; entity.len()];
            for (interval, value) in values {
                let place = interval.checked_sub(entity.first).and_then(|i| usize::try_from(i).ok());
                if let Some(cell) = place.and_then(|i| column.get_mut(i)) {
                    *cell = value;
                }
            }
            entity.columns.push(SeriesColumn { name: name.to_owned(), values: column });
            entity.columns.sort_by(|a, b| a.name.cmp(&b.name));
        }
    }
}

/// The addresses of the socket of a message. `struct inet_diag_msg` has family, state, timer and retransmissions (one byte
/// each), the ports in network byte order, and addresses of 16 bytes.
fn ends(message: &[u8]) -> Option<SocketEnds> {
    let end = |port: usize, address: usize| {
        let ip: [u8; 4] = message.get(address..address + 4)?.try_into().ok()?;
        let port = message.get(port..port + 2)?;
        Some(SocketAddrV4::new(ip.into(), u16::from_be_bytes([port[0], port[1]])))
    };
    Some([end(4, 8)?, end(6, 24)?])
}

/// The flows that the socket of a message sends and receives.
fn flows(message: &[u8], flow_tracker: &FlowTracker) -> Option<[FlowId; 2]> {
    let [here, there] = ends(message)?.map(|end| Some((host_of((*end.ip()).into())?, end.port())));
    let (here, there) = (here?, there?);
    Some([flow_tracker.flow(here, there)?, flow_tracker.flow(there, here)?])
}

/// Calls `add` for each value of a message, with true if it belongs to the flow that the socket sends, and the column.
fn values(message: &[u8], add: &mut impl FnMut(bool, &'static str, f64)) {
    let number = |bytes: &[u8], at: usize| f64::from(u32_at(bytes, at));
    add(false, "receive_queue_bytes", number(message, 56));
    add(true, "send_queue_bytes", number(message, 60));
    for (kind, payload) in attributes(message.get(72..).unwrap_or_default()) {
        match kind {
            // SK_MEMINFO_* (include/uapi/linux/sock_diag.h), words 0, 1, 3 and 5: rmem_alloc, rcvbuf, sndbuf, wmem_queued.
            MEMORY => {
                add(false, "receive_memory_bytes", number(payload, 0));
                add(false, "receive_buffer_bytes", number(payload, 4));
                add(true, "send_buffer_bytes", number(payload, 12));
                add(true, "send_memory_bytes", number(payload, 20));
            }
            // struct tcpvegas_info, also of veno, yeah, westwood, illinois and nv: enabled, samples, RTT and minimum RTT in microseconds.
            VEGAS if u32_at(payload, 0) != 0 => {
                add(true, "cc_rtt_ns", number(payload, 8) * 1000.0);
                add(true, "cc_min_rtt_ns", number(payload, 12) * 1000.0);
            }
            // struct tcp_bbr_info: bandwidth in bytes/s as two words, minimum RTT in microseconds, gains in units of 1/256.
            BBR => {
                let rate = number(payload, 0) + number(payload, 4) * 4_294_967_296.0;
                add(true, "cc_bandwidth_bps", rate * 8.0);
                add(true, "cc_min_rtt_ns", number(payload, 8) * 1000.0);
                add(true, "cc_pacing_gain", number(payload, 12) / 256.0);
                add(true, "cc_cwnd_gain", number(payload, 16) / 256.0);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, words: &[u32]) -> Vec<u8> {
        let mut bytes = u16::try_from(4 * words.len() + 4).unwrap().to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(words.iter().flat_map(|w| w.to_ne_bytes()));
        bytes
    }

    fn all(message: &[u8]) -> Vec<(bool, &'static str, f64)> {
        let mut all = Vec::new();
        values(message, &mut |out, name, value| all.push((out, name, value)));
        all
    }

    #[test]
    fn a_message_has_the_queues_the_memory_and_the_estimates_of_bbr() {
        let mut message = vec![0; 72];
        message[56..60].copy_from_slice(&7_u32.to_ne_bytes());
        message[60..64].copy_from_slice(&9_u32.to_ne_bytes());
        message.extend(attribute(MEMORY, &[1, 2, 3, 4, 5, 6, 7, 8, 9]));
        message.extend(attribute(BBR, &[1_250_000, 0, 10_500, 739, 512]));
        assert_eq!(
            all(&message),
            [
                (false, "receive_queue_bytes", 7.0),
                (true, "send_queue_bytes", 9.0),
                (false, "receive_memory_bytes", 1.0),
                (false, "receive_buffer_bytes", 2.0),
                (true, "send_buffer_bytes", 4.0),
                (true, "send_memory_bytes", 6.0),
                (true, "cc_bandwidth_bps", 1e7),
                (true, "cc_min_rtt_ns", 10_500_000.0),
                (true, "cc_pacing_gain", 739.0 / 256.0),
                (true, "cc_cwnd_gain", 2.0),
            ]
        );
    }

    #[test]
    fn the_estimates_of_a_disabled_controller_are_absent() {
        let mut message = vec![0; 72];
        message.extend(attribute(VEGAS, &[0, 5, 100, 90]));
        assert_eq!(all(&message).len(), 2);
    }
}
