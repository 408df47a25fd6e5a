//! ICMP errors about TCP segments: RFC 792, RFC 1191 and RFC 1812 for IPv4, RFC 4443 for IPv6.

use serde::Serialize;
use std::net::{IpAddr, SocketAddr};
use strum::{EnumMessage, IntoStaticStr, VariantArray};
use tcpassay_units::{SeqNum, Time};
use tcpassay_wire::headers::{Extent, IpPacket, TCP, ip};

/// Protocols of IP.
const ICMP: u8 = 1;
const ICMP_V6: u8 = 58;
/// Messages of different kinds, routers or senders that are kept for a connection.
const MOST: usize = 8;

/// The kind of an error.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, EnumMessage, IntoStaticStr, VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum IcmpKind {
    /// packet too big (fragmentation needed)
    TooBig,
    /// network unreachable
    NetworkUnreachable,
    /// host unreachable
    HostUnreachable,
    /// protocol unreachable
    ProtocolUnreachable,
    /// port unreachable
    PortUnreachable,
    /// prohibited by an administrator
    Prohibited,
    /// destination unreachable
    Unreachable,
    /// TTL exceeded
    TtlExceeded,
    /// fragments missing when their time was over
    FragmentsMissing,
    /// source quench
    SourceQuench,
    /// parameter problem
    ParameterProblem,
}

impl IcmpKind {
    /// The error in words.
    pub fn words(self) -> &'static str {
        self.get_documentation().expect("every kind has a text")
    }

    fn of_v4(kind: u8, code: u8) -> Option<IcmpKind> {
        Some(match (kind, code) {
            (3, 0 | 6 | 11) => IcmpKind::NetworkUnreachable,
            (3, 1 | 7 | 8 | 12) => IcmpKind::HostUnreachable,
            (3, 2) => IcmpKind::ProtocolUnreachable,
            (3, 3) => IcmpKind::PortUnreachable,
            (3, 4) => IcmpKind::TooBig,
            (3, 9 | 10 | 13) => IcmpKind::Prohibited,
            (3, _) => IcmpKind::Unreachable,
            (4, _) => IcmpKind::SourceQuench,
            (11, 0) => IcmpKind::TtlExceeded,
            (11, _) => IcmpKind::FragmentsMissing,
            (12, _) => IcmpKind::ParameterProblem,
            _ => return None,
        })
    }

    fn of_v6(kind: u8, code: u8) -> Option<IcmpKind> {
        Some(match (kind, code) {
            (1, 0) => IcmpKind::NetworkUnreachable,
            (1, 1 | 5 | 6) => IcmpKind::Prohibited,
            (1, 3) => IcmpKind::HostUnreachable,
            (1, 4) => IcmpKind::PortUnreachable,
            (1, _) => IcmpKind::Unreachable,
            (2, _) => IcmpKind::TooBig,
            (3, 0) => IcmpKind::TtlExceeded,
            (3, _) => IcmpKind::FragmentsMissing,
            (4, _) => IcmpKind::ParameterProblem,
            _ => return None,
        })
    }
}

/// An error about a TCP segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IcmpError {
    kind: IcmpKind,
    /// Who sent it.
    router: IpAddr,
    /// The ends of the segment: sender and receiver.
    pub ends: [SocketAddr; 2],
    /// Its sequence number.
    pub seq: SeqNum,
    /// Its length with the IP header.
    length: u32,
    /// The MTU of the next link; 0 if the message does not state it.
    mtu: u32,
}

impl IcmpError {
    /// The error that a packet carries. `None` if it carries none, or one about something else, or if the captured bytes end before the
    /// sequence number of the segment.
    pub fn of(packet: &IpPacket<'_>) -> Option<IcmpError> {
        if packet.fragment.is_some_and(|(offset, _)| offset > 0) {
            return None;
        }
        let bytes = packet.payload;
        let (head, quoted) = bytes.split_at_checked(8)?;
        let kind = match packet.protocol {
            ICMP => IcmpKind::of_v4(head[0], head[1])?,
            ICMP_V6 => IcmpKind::of_v6(head[0], head[1])?,
            _ => return None,
        };
        let mtu = match (kind, packet.protocol) {
            (IcmpKind::TooBig, ICMP) => u32::from(u16::from_be_bytes([head[6], head[7]])),
            (IcmpKind::TooBig, _) => u32::from_be_bytes([head[4], head[5], head[6], head[7]]),
            _ => 0,
        };
        let most = u32::try_from(quoted.len()).unwrap_or(u32::MAX);
        let inner = ip(quoted, Extent::of(most)).ok()?;
        // A later fragment has no ports.
        if inner.protocol != TCP || inner.fragment.is_some_and(|(offset, _)| offset > 0) {
            return None;
        }
        let tcp: [u8; 8] = inner.payload.get(..8)?.try_into().ok()?;
        let port = |at: usize| u16::from_be_bytes([tcp[at], tcp[at + 1]]);
        let header = quoted.len() - inner.payload.len();
        Some(IcmpError {
            kind,
            router: packet.from,
            ends: [SocketAddr::new(inner.from, port(0)), SocketAddr::new(inner.to, port(2))],
            seq: SeqNum::new(u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]])),
            length: inner.len.saturating_add(u32::try_from(header).unwrap_or(0)),
            mtu,
        })
    }
}

/// Errors of one kind, from one router, about the segments of one end. Times count from the first packet of the connection.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct IcmpErrors {
    /// The kind.
    pub kind: IcmpKind,
    /// Address of the router or host that sent them.
    pub router: String,
    /// Address and port of the end whose segments they are about.
    pub about: String,
    /// Their number.
    pub count: u64,
    /// When the first one passed.
    pub first_ns: u64,
    /// When the last one passed.
    pub last_ns: u64,
    /// Length of the longest of these segments, with the IP header.
    pub length: u32,
    /// The smallest MTU that they state for the next link; 0 if they state none.
    pub mtu: u32,
}

/// Errors of one kind, from one router, about the segments of end `from`.
#[derive(Clone, Copy, Debug)]
struct Same {
    error: IcmpError,
    from: usize,
    first: Time,
    last: Time,
    count: u64,
}

/// The errors about the segments of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reported {
    list: Vec<Same>,
}

impl Reported {
    /// An error about a segment of end `from`.
    pub fn add(&mut self, error: IcmpError, from: usize, at: Time) {
        let is_same = |one: &&mut Same| {
            (one.error.kind, one.error.router, one.from) == (error.kind, error.router, from)
        };
        if let Some(same) = self.list.iter_mut().find(is_same) {
            same.count += 1;
            same.last = at;
            same.error.length = same.error.length.max(error.length);
            if error.mtu > 0 && (same.error.mtu == 0 || error.mtu < same.error.mtu) {
                same.error.mtu = error.mtu;
            }
        } else if self.list.len() < MOST {
            self.list.push(Same { error, from, first: at, last: at, count: 1 });
        }
    }

    /// The errors about segments of those ends that `about` names, in a connection that began at `begin`.
    pub fn about(&self, about: [bool; 2], begin: Time) -> Vec<IcmpErrors> {
        let wanted = self.list.iter().filter(|one| about[one.from]);
        wanted
            .map(|one| IcmpErrors {
                kind: one.error.kind,
                router: one.error.router.to_string(),
                about: one.error.ends[0].to_string(),
                count: one.count,
                first_ns: one.first.since(begin).as_nanos(),
                last_ns: one.last.since(begin).as_nanos(),
                length: one.error.length,
                mtu: one.error.mtu,
            })
            .collect()
    }
}
