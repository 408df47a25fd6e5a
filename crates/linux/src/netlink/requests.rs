//! Requests that create interfaces, addresses, routes and queue disciplines (rtnetlink), as `ip` and `tc` of iproute2 send them.
//!
//! A request takes microseconds, and a process of `ip` milliseconds; in a guest of User-Mode Linux, whose processes are slow to
//! start, it takes twenty.

use super::{ERROR, Netlink, acknowledged, attribute, u16_at, u32_at};
use crate::sys;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

const NEW_LINK: u16 = 16;
const NEW_ADDRESS: u16 = 20;
const NEW_ROUTE: u16 = 24;
const NEW_QDISC: u16 = 36;
/// `NLM_F_REQUEST`, and it with `NLM_F_EXCL` and `NLM_F_CREATE`.
const REQUEST: u16 = 1;
const CREATE: u16 = 0x601;
const ACKNOWLEDGE: u16 = 4;

/// A request without its sequence number.
#[derive(Debug)]
pub struct Request {
    kind: u16,
    flags: u16,
    body: Vec<u8>,
    /// The files whose numbers it contains.
    #[cfg_attr(not(test), expect(dead_code, reason = "they are open until the request was sent"))]
    files: Vec<OwnedFd>,
}

/// One end of a veth pair.
#[derive(Debug)]
pub struct VethEnd<'a> {
    /// The name.
    pub name: &'a str,
    /// The MTU in bytes.
    pub mtu: u32,
    /// The MAC address.
    pub mac: [u8; 6],
    /// The network namespace in which it is created.
    pub netns: OwnedFd,
}

/// Changes of an interface; `None` and `false` change nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkChanges {
    /// Switches the interface on.
    pub up: bool,
    /// Switches ARP off.
    pub no_arp: bool,
    /// The MTU in bytes.
    pub mtu: Option<u32>,
    /// The largest number of packets of a super-segment.
    pub gso_max_segs: Option<u32>,
    /// The largest super-segment that is sent, in bytes.
    pub gso_max_size: Option<u32>,
    /// The largest super-segment into which packets are merged, in bytes.
    pub gro_max_size: Option<u32>,
}

/// A metric of a route (`RTAX_*`, `include/uapi/linux/rtnetlink.h`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum RouteMetric {
    /// The MSS that is announced.
    AdvertisedMss = 8,
    /// The initial window in segments.
    InitialWindow = 11,
    /// Every segment is acknowledged at once.
    QuickAck = 15,
}

/// The options of a queue discipline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QdiscKind {
    /// A FIFO of so many packets.
    PacketFifo(u32),
    /// A FIFO of so many bytes.
    ByteFifo(u32),
    /// A token bucket: bytes a second, its depth in bytes, and its limit in bytes.
    TokenBucket {
        /// Bytes a second.
        rate: u64,
        /// Depth in bytes.
        burst: u32,
        /// Limit in bytes.
        limit: u32,
    },
    /// A wire: limit in packets, bytes a second, delay in nanoseconds.
    Wire {
        /// Limit in packets.
        limit: u32,
        /// Bytes a second.
        rate: u64,
        /// Nanoseconds.
        delay: u64,
    },
}

/// A queue discipline that is to be created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewQdisc {
    /// The index of the interface.
    pub interface: i32,
    /// The parent, `TC_H_ROOT` for the root.
    pub parent: u32,
    /// The handle.
    pub handle: u32,
    /// Bytes that are added to the length of every packet (`stab overhead`); 0: none.
    pub overhead: i32,
    /// Kind and options.
    pub kind: QdiscKind,
}

/// `TC_H_ROOT`: the parent of the qdisc of an interface.
pub const ROOT: u32 = u32::MAX;

impl Request {
    fn new(kind: u16, flags: u16, body: Vec<u8>) -> Request {
        Request { kind, flags, body, files: Vec::new() }
    }

    /// Creates a veth pair.
    pub fn veth(ends: [VethEnd; 2]) -> Request {
        const NAME: u16 = 3;
        const MTU: u16 = 4;
        const ADDRESS: u16 = 1;
        const LINK_INFO: u16 = 18;
        const NETNS_FD: u16 = 28;
        let [near, far] = [&ends[0], &ends[1]].map(|end| {
            let mut bytes = vec![0; 16]; // struct ifinfomsg
            bytes.extend(attribute(NAME, &[end.name.as_bytes(), &[0]].concat()));
            bytes.extend(attribute(MTU, &end.mtu.to_ne_bytes()));
            bytes.extend(attribute(ADDRESS, &end.mac));
            bytes.extend(attribute(NETNS_FD, &end.netns.as_raw_fd().to_ne_bytes()));
            bytes
        });
        // IFLA_INFO_KIND, IFLA_INFO_DATA, VETH_INFO_PEER.
        let info = [attribute(1, b"veth\0"), attribute(2, &attribute(1, &far))].concat();
        let body = [near, attribute(LINK_INFO, &info)].concat();
        Request { files: ends.map(|end| end.netns).into(), ..Request::new(NEW_LINK, CREATE, body) }
    }

    /// Changes an interface.
    pub fn link(interface: i32, changes: &LinkChanges) -> Request {
        const UP: u32 = 1;
        const NO_ARP: u32 = 0x80;
        let flags = (UP * u32::from(changes.up)) | (NO_ARP * u32::from(changes.no_arp));
        let mut body = vec![0; 4]; // family, type
        body.extend(interface.to_ne_bytes());
        body.extend(flags.to_ne_bytes());
        body.extend(flags.to_ne_bytes()); // which of them change
        // IFLA_MTU, IFLA_GSO_MAX_SEGS, IFLA_GSO_MAX_SIZE, IFLA_GRO_MAX_SIZE.
        let numbers = [
            (4, changes.mtu),
            (40, changes.gso_max_segs),
            (41, changes.gso_max_size),
            (58, changes.gro_max_size),
        ];
        for (kind, value) in numbers {
            body.extend(value.map(|value| attribute(kind, &value.to_ne_bytes())).unwrap_or_default());
        }
        Request::new(NEW_LINK, REQUEST, body)
    }

    /// Adds an address with the length of its prefix.
    pub fn address(interface: i32, address: Ipv4Addr, prefix: u8) -> Request {
        const INET: u8 = 2;
        let scope = if address.is_loopback() { 254 } else { 0 };
        let mut body = vec![INET, prefix, 0, scope];
        body.extend(interface.to_ne_bytes());
        // IFA_LOCAL, IFA_ADDRESS.
        body.extend(attribute(2, &address.octets()));
        body.extend(attribute(1, &address.octets()));
        Request::new(NEW_ADDRESS, CREATE, body)
    }

    /// Adds a route to a prefix through an interface, by way of a gateway or directly, with metrics.
    pub fn route(
        interface: i32,
        (to, prefix): (Ipv4Addr, u8),
        gateway: Option<Ipv4Addr>,
        metrics: &[(RouteMetric, u32)],
    ) -> Request {
        const INET: u8 = 2;
        const MAIN: u8 = 254;
        const BOOT: u8 = 3;
        const SCOPE_LINK: u8 = 253;
        const UNICAST: u8 = 1;
        let scope = if gateway.is_none() { SCOPE_LINK } else { 0 };
        let mut body = vec![INET, prefix, 0, 0, MAIN, BOOT, scope, UNICAST, 0, 0, 0, 0]; // struct rtmsg
        // RTA_DST, RTA_GATEWAY, RTA_OIF, RTA_METRICS.
        if prefix > 0 {
            body.extend(attribute(1, &to.octets()));
        }
        if let Some(gateway) = gateway {
            body.extend(attribute(5, &gateway.octets()));
        }
        body.extend(attribute(4, &interface.to_ne_bytes()));
        if !metrics.is_empty() {
            let each =
                metrics.iter().flat_map(|(metric, value)| attribute(*metric as u16, &value.to_ne_bytes()));
            body.extend(attribute(8, &each.collect::<Vec<u8>>()));
        }
        Request::new(NEW_ROUTE, CREATE, body)
    }

    /// Creates a queue discipline.
    pub fn qdisc(new: &NewQdisc) -> Request {
        let mut body = vec![0; 4]; // family
        body.extend(new.interface.to_ne_bytes());
        body.extend(new.handle.to_ne_bytes());
        body.extend(new.parent.to_ne_bytes());
        body.extend([0; 4]); // info
        let (name, options): (&[u8], Vec<u8>) = match new.kind {
            QdiscKind::PacketFifo(limit) => (b"pfifo\0", limit.to_ne_bytes().to_vec()),
            QdiscKind::ByteFifo(limit) => (b"bfifo\0", limit.to_ne_bytes().to_vec()),
            QdiscKind::TokenBucket { rate, burst, limit } => (b"tbf\0", token_bucket(rate, burst, limit)),
            QdiscKind::Wire { limit, rate, delay } => (b"netem\0", wire(limit, rate, delay)),
        };
        // TCA_KIND, TCA_OPTIONS, TCA_STAB with TCA_STAB_BASE: `struct tc_sizespec`, whose third word is the overhead.
        body.extend(attribute(1, name));
        body.extend(attribute(2, &options));
        if new.overhead != 0 {
            let mut spec = vec![0; 4];
            spec.extend(new.overhead.to_ne_bytes());
            spec.extend([0; 16]);
            body.extend(attribute(8, &attribute(1, &spec)));
        }
        Request::new(NEW_QDISC, CREATE, body)
    }

    /// The message with a sequence number, acknowledged or answered only if it fails.
    fn message(&self, sequence: u32, acknowledge: bool) -> Vec<u8> {
        let len = u32::try_from(self.body.len() + 16).expect("a short message");
        let mut bytes = len.to_ne_bytes().to_vec();
        bytes.extend(self.kind.to_ne_bytes());
        bytes.extend((self.flags | if acknowledge { ACKNOWLEDGE } else { 0 }).to_ne_bytes());
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend([0; 4]); // port
        bytes.extend(&self.body);
        bytes
    }
}

/// The ticks of 64 ns that `tc` gives times in.
fn ticks(nanos: u64) -> u32 {
    u32::try_from(nanos / 64).unwrap_or(u32::MAX)
}

/// `struct tc_tbf_qopt` and attributes. The kernel computes times from bytes and rate itself.
fn token_bucket(rate: u64, burst: u32, limit: u32) -> Vec<u8> {
    const ETHERNET: u8 = 1;
    let filled = ticks(u64::from(burst) * 1_000_000_000 / rate.max(1));
    // struct tc_ratespec: cell_log, linklayer, overhead, cell_align, mpu, rate.
    let mut parameters = vec![3, ETHERNET, 0, 0, 0xff, 0xff, 0, 0];
    parameters.extend(u32::try_from(rate).unwrap_or(u32::MAX).to_ne_bytes());
    parameters.extend([0; 12]); // no peak rate
    for number in [limit, filled, 0] {
        parameters.extend(number.to_ne_bytes());
    }
    // TCA_TBF_PARMS, TCA_TBF_BURST, TCA_TBF_RATE64.
    let mut options = [attribute(1, &parameters), attribute(6, &burst.to_ne_bytes())].concat();
    if u32::try_from(rate).is_err() {
        options.extend(attribute(4, &rate.to_ne_bytes()));
    }
    options
}

/// `struct tc_netem_qopt` and attributes.
fn wire(limit: u32, rate: u64, delay: u64) -> Vec<u8> {
    let mut options = Vec::new();
    for number in [ticks(delay), limit, 0, 0, 0, 0] {
        options.extend(number.to_ne_bytes());
    }
    // TCA_NETEM_LATENCY64, TCA_NETEM_RATE64, TCA_NETEM_RATE: `struct tc_netem_rate`, whose first word is the rate.
    if delay > 0 {
        options.extend(attribute(10, &delay.to_ne_bytes()));
    }
    if u32::try_from(rate).is_err() {
        options.extend(attribute(8, &rate.to_ne_bytes()));
    }
    let short = u32::try_from(rate).unwrap_or(u32::MAX);
    options.extend(attribute(6, &[short.to_ne_bytes(), [0; 4], [0; 4], [0; 4]].concat()));
    options
}

impl Netlink {
    /// Sends requests in one datagram. The kernel processes all of them in this order, also after one that fails.
    ///
    /// # Errors
    /// The index of the first one that failed, and its error.
    pub fn make(&self, requests: &[Request]) -> Result<(), (usize, io::Error)> {
        let Some(last) = requests.len().checked_sub(1) else { return Ok(()) };
        let number = |at: usize| u32::try_from(at).expect("few requests");
        let messages: Vec<u8> =
            requests.iter().enumerate().flat_map(|(at, r)| r.message(number(at), at == last)).collect();
        sys::send(self.0.as_fd(), &messages).map_err(|e| (0, e))?;
        loop {
            let mut answer = [0; 4096];
            let n = sys::receive(self.0.as_fd(), &mut answer).map_err(|e| (0, e))?;
            if n < 20 || u16_at(&answer, 4) != ERROR {
                return Err((0, io::Error::other("the kernel answered with something else than a result")));
            }
            let at = u32_at(&answer, 8) as usize;
            acknowledged(&answer).map_err(|e| (at, e))?;
            if at == last {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::attributes;
    use super::*;

    fn part(bytes: &[u8], wanted: u16) -> Vec<u8> {
        attributes(bytes).find(|(kind, _)| *kind == wanted).map(|(_, payload)| payload.to_vec()).unwrap()
    }

    #[test]
    fn a_veth_pair_names_both_namespaces_and_keeps_them_open() {
        let end = |name| VethEnd {
            name,
            mtu: 1500,
            mac: [2, 0, 0, 0, 0, 1],
            netns: std::fs::File::open("/dev/null").unwrap().into(),
        };
        let request = Request::veth([end("c0a"), end("c0b")]);
        let numbers: Vec<[u8; 4]> = request.files.iter().map(|file| file.as_raw_fd().to_ne_bytes()).collect();
        let near = &request.body[16..];
        assert_eq!((part(near, 3), part(near, 28)), (b"c0a\0".to_vec(), numbers[0].to_vec()));
        let info = part(near, 18);
        let far = part(&part(&info, 2), 1)[16..].to_vec();
        assert_eq!((part(&far, 3), part(&far, 28)), (b"c0b\0".to_vec(), numbers[1].to_vec()));
        // RTM_NEWLINK; NLM_F_REQUEST, NLM_F_ACK, NLM_F_EXCL, NLM_F_CREATE.
        let message = request.message(7, true);
        assert_eq!((u16_at(&message, 4), u16_at(&message, 6), u32_at(&message, 8)), (16, 0x605, 7));
    }

    #[test]
    fn a_route_without_a_gateway_has_the_scope_of_the_link() {
        let to = ([10, 0, 0, 2].into(), 32);
        let direct = Request::route(3, to, None, &[(RouteMetric::InitialWindow, 4)]);
        let by_way = Request::route(3, to, Some([10, 0, 0, 1].into()), &[]);
        assert_eq!((direct.body[6], by_way.body[6]), (253, 0));
        assert_eq!(part(&part(&direct.body[12..], 8), 11), 4_u32.to_ne_bytes());
        assert_eq!(part(&by_way.body[12..], 5), [10, 0, 0, 1]);
    }

    #[test]
    fn rates_of_4_gigabytes_a_second_and_more_need_64_bits() {
        let options = |kind| {
            let new = NewQdisc { interface: 2, parent: ROOT, handle: 0x1_0000, overhead: -14, kind };
            let body = Request::qdisc(&new).body;
            assert_eq!(u32_at(&part(&part(&body[20..], 8), 1), 4).cast_signed(), -14);
            part(&body[20..], 2)
        };
        let bucket = |rate| options(QdiscKind::TokenBucket { rate, burst: 1514, limit: 9000 });
        let rates = |options: &[u8]| (u32_at(&part(options, 1), 8), attributes(options).count());
        assert_eq!(rates(&bucket(12_500_000)), (12_500_000, 2));
        assert_eq!(rates(&bucket(5_000_000_000)), (u32::MAX, 3));
        let wire = options(QdiscKind::Wire { limit: 10, rate: 5_000_000_000, delay: 1_000_001 });
        assert_eq!((u32_at(&wire, 0), u32_at(&wire, 4)), (15_625, 10), "ticks of 64 ns, packets");
        assert_eq!(part(&wire[24..], 10), 1_000_001_i64.to_ne_bytes());
        assert_eq!(part(&wire[24..], 8), 5_000_000_000_u64.to_ne_bytes());
    }

    #[test]
    fn the_first_request_that_fails_is_named() {
        let netlink = Netlink::open().unwrap();
        let absent = || Request::link(i32::MAX, &LinkChanges::default());
        let (at, error) = netlink.make(&[absent(), absent()]).unwrap_err();
        assert_eq!(at, 0);
        assert!(matches!(error.raw_os_error(), Some(libc::ENODEV | libc::EPERM)), "{error}");
    }
}
