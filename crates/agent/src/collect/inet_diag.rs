//! What the kernel says of sockets beside `TCP_INFO`: queues, memory, and the estimates of the congestion control (`inet_diag`).
//!
//! One dump of each host at every tick of the series: columns of the flow that a socket sends, and of the one that it receives.

use crate::collect::flow_tracker::FlowTracker;
use crate::netns::build::NetnsSet;
use crate::system::Failure;
use std::collections::BTreeMap;
use tcpassay_linux::netlink::{Netlink, attributes, u32_at};
use tcpassay_measure::pcapng::host_of;
use tcpassay_measure::{FlowId, Series, SeriesColumn};
use tcpassay_units::{Dur, Time};

/// Attributes of an answer (`include/uapi/linux/inet_diag.h`).
const VEGAS: u16 = 3;
const MEMORY: u16 = 7;
const BBR: u16 = 16;

/// Values by the interval in which they held.
type Values = Vec<(u64, f64)>;

/// The columns that dumps have filled.
#[derive(Default)]
pub struct InetDiag {
    sockets: Vec<Netlink>,
    columns: BTreeMap<(FlowId, &'static str), Values>,
}

impl InetDiag {
    /// Asks every host, at the end of an interval.
    pub fn sample(
        &mut self,
        hosts: usize,
        at: Time,
        interval: Dur,
        namespaces: &mut NetnsSet,
        flow_tracker: &FlowTracker,
    ) -> Result<(), Failure> {
        let wrong = |e: std::io::Error| format!("inet_diag: {e}");
        let ended = (at.as_nanos() / interval.as_nanos()).saturating_sub(1);
        for host in self.sockets.len()..hosts {
            namespaces.enter(host)?;
            self.sockets.push(Netlink::for_sockets().map_err(wrong)?);
        }
        for netlink in &self.sockets {
            netlink
                .tcp_sockets(|message| {
                    let Some([out, into]) = flows(message, flow_tracker) else { return };
                    let columns = &mut self.columns;
                    said(message, &mut |outward, name, value| {
                        let flow = if outward { out } else { into };
                        columns.entry((flow, name)).or_default().push((ended, value));
                    });
                })
                .map_err(wrong)?;
        }
        Ok(())
    }

    /// Adds the columns to the flows of a series.
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

/// The flows that a socket sends and receives. `struct inet_diag_msg`: family, state, timer, retransmissions; ports in the order of
/// the network; addresses of 16 bytes.
fn flows(message: &[u8], flow_tracker: &FlowTracker) -> Option<[FlowId; 2]> {
    let end = |port: usize, address: usize| {
        let ip: [u8; 4] = message.get(address..address + 4)?.try_into().ok()?;
        let host = host_of(std::net::Ipv4Addr::from(ip).into())?;
        let port = message.get(port..port + 2)?;
        Some((host, u16::from_be_bytes([port[0], port[1]])))
    };
    let (here, there) = (end(4, 8)?, end(6, 24)?);
    Some([flow_tracker.flow(here, there)?, flow_tracker.flow(there, here)?])
}

/// What a message says: of the flow that the socket sends (`true`) or receives, a column and its value.
fn said(message: &[u8], tell: &mut impl FnMut(bool, &'static str, f64)) {
    let number = |bytes: &[u8], at: usize| f64::from(u32_at(bytes, at));
    tell(false, "receive_queue_bytes", number(message, 56));
    tell(true, "send_queue_bytes", number(message, 60));
    for (kind, payload) in attributes(message.get(72..).unwrap_or_default()) {
        match kind {
            // SK_MEMINFO_* (include/uapi/linux/sock_diag.h): what is held for reading, the most; for sending, the most, what is queued.
            MEMORY => {
                tell(false, "receive_memory_bytes", number(payload, 0));
                tell(false, "receive_buffer_bytes", number(payload, 4));
                tell(true, "send_buffer_bytes", number(payload, 12));
                tell(true, "send_memory_bytes", number(payload, 20));
            }
            // struct tcpvegas_info, also of veno, yeah, westwood, illinois, nv: enabled, samples, and two times in microseconds.
            VEGAS if u32_at(payload, 0) != 0 => {
                tell(true, "cc_rtt_ns", number(payload, 8) * 1000.0);
                tell(true, "cc_min_rtt_ns", number(payload, 12) * 1000.0);
            }
            // struct tcp_bbr_info: bytes a second in two halves, microseconds, gains of which 256 is 1.
            BBR => {
                let rate = number(payload, 0) + number(payload, 4) * 4_294_967_296.0;
                tell(true, "cc_bandwidth_bps", rate * 8.0);
                tell(true, "cc_min_rtt_ns", number(payload, 8) * 1000.0);
                tell(true, "cc_pacing_gain", number(payload, 12) / 256.0);
                tell(true, "cc_cwnd_gain", number(payload, 16) / 256.0);
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
        said(message, &mut |out, name, value| all.push((out, name, value)));
        all
    }

    #[test]
    fn a_socket_tells_its_queues_its_memory_and_the_estimates_of_bbr() {
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
    fn a_controller_that_has_switched_itself_off_says_nothing() {
        let mut message = vec![0; 72];
        message.extend(attribute(VEGAS, &[0, 5, 100, 90]));
        assert_eq!(all(&message).len(), 2);
    }
}
