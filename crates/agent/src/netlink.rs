//! Qdiscs of the namespace that the process is in, as the kernel tells them (rtnetlink, `RTM_GETQDISC`).

use crate::sys;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// A qdisc and its counters.
#[derive(Debug, Default)]
pub struct Qdisc {
    /// Interface.
    pub interface: i32,
    /// Major number of its handle.
    pub handle: u16,
    /// `tbf`, `netem`, ...
    pub kind: String,
    /// Bytes that left it.
    pub bytes: u64,
    /// Packets that left it.
    pub packets: u64,
    /// Packets that it dropped.
    pub drops: u64,
    /// Bytes in it.
    pub backlog: u64,
    /// Packets that it marked.
    pub marks: u64,
}

/// A netlink socket of one namespace.
pub struct Netlink(OwnedFd);

fn u16_at(bytes: &[u8], at: usize) -> usize {
    bytes.get(at..at + 2).map_or(0, |b| usize::from(u16::from_ne_bytes([b[0], b[1]])))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |b| u32::from_ne_bytes(b.try_into().expect("4 bytes")))
}

/// The attributes of a message: type and payload.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = u16_at(bytes, 0);
        if len < 4 || len > bytes.len() {
            return None;
        }
        let kind = u16::try_from(u16_at(bytes, 2) & 0x3fff).expect("14 bits");
        let payload = &bytes[4..len];
        bytes = &bytes[(len.next_multiple_of(4)).min(bytes.len())..];
        Some((kind, payload))
    })
}

impl Netlink {
    /// For the namespace that the process is in.
    pub fn open() -> io::Result<Netlink> {
        sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE).map(Netlink)
    }

    /// Every qdisc of the namespace.
    pub fn qdiscs(&self) -> io::Result<Vec<Qdisc>> {
        const GET_QDISC: u16 = 38;
        const REQUEST_DUMP: u16 = 0x301;
        const DONE: usize = 3;
        let mut request = Vec::new();
        request.extend(36_u32.to_ne_bytes());
        request.extend(GET_QDISC.to_ne_bytes());
        request.extend(REQUEST_DUMP.to_ne_bytes());
        request.extend([0; 8]); // sequence number, port
        request.extend([0; 20]); // struct tcmsg
        sys::send(self.0.as_fd(), &request)?;
        let mut all = Vec::new();
        let mut buffer = vec![0; 65_536];
        loop {
            let n = sys::receive(self.0.as_fd(), &mut buffer)?;
            let mut rest = &buffer[..n];
            while rest.len() >= 16 {
                let len = u32_at(rest, 0) as usize;
                match u16_at(rest, 4) {
                    DONE => return Ok(all),
                    36 => all.push(qdisc(&rest[16..len.min(rest.len())])),
                    _ => return Err(io::Error::other("the kernel refused to list qdiscs")),
                }
                rest = &rest[len.next_multiple_of(4).min(rest.len())..];
            }
        }
    }
}

fn qdisc(message: &[u8]) -> Qdisc {
    let mut q = Qdisc {
        interface: u32_at(message, 4).cast_signed(),
        handle: u16::try_from(u32_at(message, 8) >> 16).expect("16 bits"),
        ..Qdisc::default()
    };
    let mut own: &[u8] = &[];
    for (kind, payload) in attributes(message.get(20..).unwrap_or_default()) {
        match kind {
            1 => q.kind = String::from_utf8_lossy(payload.strip_suffix(&[0]).unwrap_or(payload)).into_owned(),
            7 => {
                for (kind, stats) in attributes(payload) {
                    match kind {
                        // struct gnet_stats_basic: bytes (64 bits), packets.
                        1 => {
                            q.bytes = u64::from(u32_at(stats, 0)) | u64::from(u32_at(stats, 4)) << 32;
                            q.packets = u64::from(u32_at(stats, 8));
                        }
                        // struct gnet_stats_queue: qlen, backlog, drops, requeues, overlimits.
                        3 => {
                            q.backlog = u64::from(u32_at(stats, 4));
                            q.drops = u64::from(u32_at(stats, 8));
                        }
                        4 => own = stats,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    // Where each keeps its marks (linux/pkt_sched.h: tc_red_xstats, tc_codel_xstats, tc_fq_codel_xstats, tc_pie_xstats).
    let marks: &[usize] = match q.kind.as_str() {
        "red" => &[12],
        "codel" => &[24, 32],
        "fq_codel" => &[12, 28],
        "pie" => &[36],
        _ => &[],
    };
    q.marks = marks.iter().map(|at| u64::from(u32_at(own, *at))).sum();
    q
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = u16::try_from(payload.len() + 4).unwrap().to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(payload);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn a_red_qdisc_tells_its_bytes_drops_and_marks() {
        let words = |all: &[u32]| all.iter().flat_map(|w| w.to_ne_bytes()).collect::<Vec<u8>>();
        let mut stats = attribute(1, &words(&[3_000_000_000, 1, 7]));
        stats.extend(attribute(3, &words(&[2, 3000, 5, 0, 0])));
        stats.extend(attribute(4, &words(&[0, 0, 0, 9])));
        let mut message = words(&[0, 4, 0x0010_0000, 0x0001_0001, 0]);
        message.extend(attribute(1, b"red\0"));
        message.extend(attribute(7, &stats));
        let q = qdisc(&message);
        assert_eq!((q.kind.as_str(), q.interface, q.handle), ("red", 4, 0x10));
        assert_eq!((q.bytes, q.packets, q.drops, q.backlog, q.marks), (7_294_967_296, 7, 5, 3000, 9));
    }
}
