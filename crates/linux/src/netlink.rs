//! Netlink: the qdiscs (rtnetlink, `RTM_GETQDISC`) and TCP sockets (`sock_diag`) of the network namespace of the process, and its
//! interfaces ([`links`]); and requests that create interfaces, addresses, routes and qdiscs ([`requests`]).

pub mod links;
pub mod requests;

use crate::sys;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, OwnedFd};

/// A queue discipline and its counters since it was installed.
#[derive(Clone, Debug, Default)]
pub struct Qdisc {
    /// The index of its interface.
    pub interface: i32,
    /// The major number of its handle.
    pub handle: u16,
    /// True if the qdisc is the root of its interface.
    pub is_root: bool,
    /// The kind, for example `tbf` or `netem`.
    pub kind: String,
    /// Bytes that have left the qdisc.
    pub bytes: u64,
    /// Packets that have left the qdisc.
    pub packets: u64,
    /// Packets that the qdisc has dropped.
    pub drops: u64,
    /// The backlog in bytes.
    pub backlog: u64,
    /// Packets that the qdisc has marked with CE.
    pub marks: u64,
    /// The capacity of a FIFO in bytes (`bfifo`) or packets (`pfifo`); 0 for other kinds.
    pub limit: u64,
}

/// The offsets of 32-bit counters of CE marks in the statistics of a kind of qdisc (`TCA_STATS_APP`, the `tc_*_xstats` of `linux/pkt_sched.h`).
pub type MarkOffsets = fn(&str) -> &'static [usize];

/// A netlink socket. It belongs to the namespace in which it was opened.
pub struct Netlink(OwnedFd);

/// The 16-bit number at an offset, in the byte order of the machine.
pub fn u16_at(bytes: &[u8], at: usize) -> usize {
    bytes.get(at..at + 2).map_or(0, |b| usize::from(u16::from_ne_bytes([b[0], b[1]])))
}

/// The 32-bit number at an offset, in the byte order of the machine.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |b| u32::from_ne_bytes(b.try_into().expect("4 bytes")))
}

/// The attributes of a message: type and payload.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
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
    /// A socket for qdiscs.
    pub fn open() -> io::Result<Netlink> {
        sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE).map(Netlink)
    }

    /// The index of an interface in the namespace of the socket.
    pub fn interface_index(&self, name: &str) -> io::Result<i32> {
        sys::interface_index_by(self.0.as_fd(), name)
    }

    /// A socket for the statistics of TCP sockets.
    pub fn for_sockets() -> io::Result<Netlink> {
        sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_SOCK_DIAG).map(Netlink)
    }

    /// Calls `each` for every IPv4 TCP socket that has a peer, with `struct inet_diag_msg` and its attributes (`include/uapi/linux/inet_diag.h`):
    /// memory (`INET_DIAG_SKMEMINFO`) and the estimates of the congestion controller (`INET_DIAG_VEGASINFO`).
    ///
    /// The kernel looks at all sockets of all namespaces.
    pub fn tcp_sockets(&self, each: impl FnMut(&[u8])) -> io::Result<()> {
        // A dump ignores the addresses.
        let unspecified = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
        self.request(&socket_request(REQUEST_DUMP, [unspecified; 2]), BY_FAMILY, each)
    }

    /// Calls `each` as [`Netlink::tcp_sockets`] for the socket between two addresses, the one of this namespace first. Returns false if
    /// there is none that has a peer. The kernel finds it by its hash.
    pub fn tcp_socket(&self, ends: [SocketAddrV4; 2], mut each: impl FnMut(&[u8])) -> io::Result<bool> {
        // The longest answer has less than 400 bytes.
        let mut answer = [0; 4096];
        sys::send(self.0.as_fd(), &socket_request(REQUEST, ends))?;
        let n = sys::receive(self.0.as_fd(), &mut answer)?;
        let message = &answer[..n.min(u32_at(&answer, 0) as usize)];
        match u16_at(message, 4) {
            kind if kind == usize::from(BY_FAMILY) => {
                let state = message.get(17).copied().unwrap_or(0);
                // A socket in TIME-WAIT, and the listener, which is found if no connection is.
                let found = SOCKET_STATES.checked_shr(u32::from(state)).unwrap_or(0) & 1 == 1;
                if found {
                    each(&message[16..]);
                }
                Ok(found)
            }
            ERROR if message.len() >= 20 => match acknowledged(message) {
                Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(false),
                other => other.map(|()| false),
            },
            other => Err(io::Error::other(format!("a netlink message of type {other}"))),
        }
    }

    /// All qdiscs of the namespace.
    pub fn qdiscs(&self, marks: MarkOffsets) -> io::Result<Vec<Qdisc>> {
        const NEW_QDISC: u16 = 36;
        let mut all = Vec::new();
        self.dump(NEW_QDISC, 0, |message| all.push(qdisc(message, marks)))?;
        Ok(all)
    }

    /// Lets a RED qdisc use the backlog instead of an average: sets the weight to 1 (`Wlog` = 0), which `tc` cannot express. `handle` is the
    /// major number of the qdisc's handle.
    pub fn red_without_average(&self, interface: i32, handle: u16) -> io::Result<()> {
        const NEW_QDISC: u16 = 36;
        let mut request = None;
        self.dump(NEW_QDISC, interface, |message| {
            if u32_at(message, 4).cast_signed() == interface && u32_at(message, 8) == u32::from(handle) << 16
            {
                request = red_by_backlog(message);
            }
        })?;
        let request =
            request.ok_or_else(|| io::Error::other("the interface has no RED qdisc with this handle"))?;
        sys::send(self.0.as_fd(), &request)?;
        let mut answer = [0; 1024];
        let n = sys::receive(self.0.as_fd(), &mut answer)?;
        if n < 20 || u16_at(&answer, 4) != ERROR {
            return Err(io::Error::other("the kernel did not acknowledge the change"));
        }
        acknowledged(&answer)
    }

    /// The rate in bits/s of the first class of the HTB qdisc with this handle (its major number); `None` if there is no class.
    pub fn class_rate(&self, interface: i32, handle: u16) -> io::Result<Option<u64>> {
        const NEW_CLASS: u16 = 40;
        let mut rate = None;
        self.dump(NEW_CLASS, interface, |message| {
            if u32_at(message, 8) == u32::from(handle) << 16 | 1 {
                rate = htb_rate(message);
            }
        })?;
        Ok(rate)
    }

    /// Requests all objects of a kind: of an interface, or of all interfaces (0). The kernel answers with messages of the type `kind`.
    fn dump(&self, kind: u16, interface: i32, each: impl FnMut(&[u8])) -> io::Result<()> {
        let mut request = header(36, kind + 2, REQUEST_DUMP); // RTM_GET... follows RTM_NEW... and RTM_DEL...
        request.extend([0; 4]); // struct tcmsg: family,
        request.extend(interface.to_ne_bytes());
        request.extend([0; 12]); // handle, parent, info
        self.request(&request, kind, each)
    }

    /// Sends a request, and calls `each` for the messages of the type `kind` in the answer.
    fn request(&self, request: &[u8], kind: u16, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        const DONE: usize = 3;
        // The maximum length of a message from the kernel (net/netlink/af_netlink.c, netlink_recvmsg).
        const LONGEST: usize = 32_768;
        sys::send(self.0.as_fd(), request)?;
        let mut buffer = vec![0; 2 * LONGEST];
        loop {
            // NLMSG_DONE is a datagram of its own. The kernel creates it when the previous datagram is received.
            let (one, two) = buffer.split_at_mut(LONGEST);
            let [first, second] = sys::receive_two(self.0.as_fd(), [one, two])?;
            for mut rest in [&buffer[..first], &buffer[LONGEST..LONGEST + second]] {
                while rest.len() >= 16 {
                    let len = u32_at(rest, 0) as usize;
                    match u16_at(rest, 4) {
                        DONE => return Ok(()),
                        got if got == usize::from(kind) => each(&rest[16..len.min(rest.len())]),
                        ERROR if rest.len() >= 20 => acknowledged(rest)?,
                        other => {
                            return Err(io::Error::other(format!("a netlink message of type {other}")));
                        }
                    }
                    rest = &rest[len.next_multiple_of(4).min(rest.len())..];
                }
            }
        }
    }
}

/// `NLMSG_ERROR`, the type of a message with an error code, which is 0 in an acknowledgement.
const ERROR: usize = 2;

/// The result that a message of the type [`ERROR`] of at least 20 bytes contains.
fn acknowledged(message: &[u8]) -> io::Result<()> {
    match u32_at(message, 16).cast_signed() {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(-code)),
    }
}

/// The flags of a request for one object, and for all objects of a kind.
const REQUEST: u16 = 1;
const REQUEST_DUMP: u16 = 0x301;

/// A `struct nlmsghdr` of a request. Sequence number and port are 0.
fn header(len: u32, kind: u16, flags: u16) -> Vec<u8> {
    let mut bytes = len.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes
}

/// `SOCK_DIAG_BY_FAMILY`, the type of requests and answers about sockets.
const BY_FAMILY: u16 = 20;
/// The states of sockets that have a peer: ESTABLISHED, `SYN_SENT`, `FIN_WAIT1`, `FIN_WAIT2`, `CLOSE_WAIT`, `LAST_ACK`, CLOSING.
const SOCKET_STATES: u32 = 1 << 1 | 1 << 2 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << 11;

/// A request (`struct inet_diag_req_v2`) for the TCP socket between two addresses, the local one first.
fn socket_request(flags: u16, [here, there]: [SocketAddrV4; 2]) -> Vec<u8> {
    const MEMORY_AND_CONTROL: u8 = 1 << (7 - 1) | 1 << (3 - 1);
    let mut request = header(72, BY_FAMILY, flags);
    request.extend([2, 6, MEMORY_AND_CONTROL, 0]); // AF_INET, IPPROTO_TCP
    request.extend(SOCKET_STATES.to_ne_bytes());
    // struct inet_diag_sockid: both ports, both addresses of 16 bytes, any interface, no cookie.
    request.extend(here.port().to_be_bytes());
    request.extend(there.port().to_be_bytes());
    for end in [here, there] {
        request.extend(end.ip().octets());
        request.extend([0; 12]);
    }
    request.extend([0; 4]);
    request.extend([0xff; 8]);
    request
}

fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(payload.len() + 4).expect("a short attribute");
    let mut bytes = len.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The request that changes the weight of a RED to 1, from the message of a dump; `None` if the message is about another qdisc.
fn red_by_backlog(message: &[u8]) -> Option<Vec<u8>> {
    const NEW_QDISC: u16 = 36;
    const REQUEST_ACK: u16 = 5;
    const KIND: u16 = 1;
    const OPTIONS: u16 = 2;
    // `TCA_RED_*`. In `struct tc_red_qopt` three words precede `Wlog`, `Plog`, `Scell_log` and `flags` (linux/pkt_sched.h). The kernel also sends
    // the flags as an attribute, and accepts them in one place only.
    const PARMS: u16 = 1;
    const STAB: u16 = 2;
    const WLOG: usize = 12;
    const FLAGS: usize = 15;
    let of = |wanted: u16| {
        attributes(message.get(20..)?).find(|(kind, _)| *kind == wanted).map(|(_, payload)| payload)
    };
    if of(KIND)? != b"red\0" {
        return None;
    }
    // A dump does not contain the table of the decay by idle time. Without an average the table has no effect.
    let mut options = attribute(STAB, &[0; 256]);
    for (kind, payload) in attributes(of(OPTIONS)?) {
        let mut payload = payload.to_vec();
        if kind == PARMS {
            *payload.get_mut(WLOG)? = 0;
            *payload.get_mut(FLAGS)? = 0;
        }
        options.extend(attribute(kind, &payload));
    }
    let mut body = message.get(..16)?.to_vec();
    body.extend([0; 4]); // info
    body.extend(attribute(KIND, b"red\0"));
    body.extend(attribute(OPTIONS, &options));
    let mut request = u32::try_from(body.len() + 16).ok()?.to_ne_bytes().to_vec();
    request.extend(NEW_QDISC.to_ne_bytes());
    request.extend(REQUEST_ACK.to_ne_bytes());
    request.extend([0; 8]);
    request.extend(body);
    Some(request)
}

/// The rate of an HTB class in bits/s. `TCA_HTB_PARMS` begins with a `struct tc_ratespec`, whose last 32 bits are bytes/s; `TCA_HTB_RATE64` has
/// larger rates.
fn htb_rate(message: &[u8]) -> Option<u64> {
    let (_, options) = attributes(message.get(20..)?).find(|(kind, _)| *kind == 2)?;
    let of = |wanted: u16| attributes(options).find(|(kind, _)| *kind == wanted).map(|(_, payload)| payload);
    let wide = of(6).and_then(|b| Some(u64::from_ne_bytes(b.get(..8)?.try_into().expect("8 bytes"))));
    wide.or_else(|| Some(u64::from(u32_at(of(1)?, 8)))).map(|bytes| bytes * 8)
}

fn qdisc(message: &[u8], marks: MarkOffsets) -> Qdisc {
    let mut q = Qdisc {
        interface: u32_at(message, 4).cast_signed(),
        handle: u16::try_from(u32_at(message, 8) >> 16).expect("16 bits"),
        is_root: u32_at(message, 12) == u32::MAX, // TC_H_ROOT
        ..Qdisc::default()
    };
    let mut own: &[u8] = &[];
    for (kind, payload) in attributes(message.get(20..).unwrap_or_default()) {
        match kind {
            1 => q.kind = String::from_utf8_lossy(payload.strip_suffix(&[0]).unwrap_or(payload)).into_owned(),
            2 if q.kind.ends_with("fifo") => q.limit = u64::from(u32_at(payload, 0)), // struct tc_fifo_qopt
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
    q.marks = marks(&q.kind).iter().map(|at| u64::from(u32_at(own, *at))).sum();
    q
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{SocketAddr, TcpListener, TcpStream};

    #[test]
    fn the_bytes_drops_and_marks_of_a_red_qdisc_are_read() {
        let words = |all: &[u32]| all.iter().flat_map(|w| w.to_ne_bytes()).collect::<Vec<u8>>();
        let mut stats = attribute(1, &words(&[3_000_000_000, 1, 7]));
        stats.extend(attribute(3, &words(&[2, 3000, 5, 0, 0])));
        stats.extend(attribute(4, &words(&[7, 2, 0, 9])));
        let mut message = words(&[0, 4, 0x0010_0000, 0x0001_0001, 0]);
        message.extend(attribute(1, b"red\0"));
        message.extend(attribute(7, &stats));
        let q = qdisc(&message, |kind| if kind == "red" { &[4, 12] } else { &[] });
        assert_eq!((q.kind.as_str(), q.interface, q.handle), ("red", 4, 0x10));
        assert_eq!((q.bytes, q.packets, q.drops, q.backlog, q.marks), (7_294_967_296, 7, 5, 3000, 11));
    }

    #[test]
    fn a_socket_is_found_by_its_addresses_until_it_has_no_peer() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let SocketAddr::V4(server) = listener.local_addr().unwrap() else { panic!("IPv4") };
        let client = TcpStream::connect(server).unwrap();
        let (accepted, SocketAddr::V4(from)) = listener.accept().unwrap() else { panic!("IPv4") };
        let netlink = Netlink::for_sockets().unwrap();
        let found = |ends| {
            let mut messages = Vec::new();
            let found = netlink.tcp_socket(ends, |message| messages.push(message.to_vec())).unwrap();
            assert_eq!(messages.len(), usize::from(found));
            messages.pop()
        };
        for ends in [[from, server], [server, from]] {
            let message = found(ends).unwrap();
            let ports: Vec<u8> = ends.iter().flat_map(|end| end.port().to_be_bytes()).collect();
            // AF_INET and ESTABLISHED; the ports; the memory.
            assert_eq!((&message[..2], &message[4..8]), (&[2, 1][..], &ports[..]));
            assert!(attributes(&message[72..]).any(|(kind, payload)| kind == 7 && payload.len() >= 24));
            let mut all = Vec::new();
            netlink.tcp_sockets(|message| all.push(message[4..8].to_vec())).unwrap();
            assert!(all.contains(&ports));
        }
        // The listener has the address, but no peer.
        let nobody = SocketAddrV4::new(Ipv4Addr::LOCALHOST, from.port() ^ 1);
        assert_eq!(found([server, nobody]), None);
        // The client's socket, which closes first, is in TIME-WAIT, and the server's is gone.
        drop(client);
        assert_eq!(io::Read::read(&mut &accepted, &mut [0; 1]).unwrap(), 0);
        drop(accepted);
        assert_eq!((found([from, server]), found([server, from])), (None, None));
    }

    #[test]
    fn only_the_weight_of_a_red_is_changed() {
        let words = |all: &[u32]| all.iter().flat_map(|w| w.to_ne_bytes()).collect::<Vec<u8>>();
        let mut parms = words(&[500_000, 40_000, 40_001]);
        parms.extend([1, 2, 3, 9]);
        let mut options = attribute(1, &parms);
        options.extend(attribute(3, &words(&[77])));
        let mut message = words(&[0, 4, 0x0010_0000, 0x0001_0001, 2]);
        message.extend(attribute(1, b"red\0"));
        message.extend(attribute(2, &options));
        let request = red_by_backlog(&message).unwrap();
        assert_eq!(u32_at(&request, 0) as usize, request.len());
        assert_eq!((u16_at(&request, 4), &request[16..32]), (36, &message[..16]));
        let (_, options) = attributes(&request[36..]).find(|(kind, _)| *kind == 2).unwrap();
        let of = |wanted: u16| attributes(options).find(|(kind, _)| *kind == wanted).unwrap().1;
        assert_eq!((&of(1)[..12], &of(1)[12..]), (&parms[..12], &[0, 2, 3, 0][..]));
        assert_eq!((of(2), of(3)), (&[0; 256][..], &words(&[77])[..]));
        let mut other = words(&[0, 4, 0x0010_0000, 0x0001_0001, 0]);
        other.extend(attribute(1, b"pie\0"));
        assert_eq!(red_by_backlog(&other), None);
    }
}
