//! The TCP and IP headers of a captured packet, which may be cut anywhere.
//!
//! [`codec::decode`](crate::codec::decode) reads whole packets and verifies their checksums. [`read`] reads what a capture has kept: it
//! needs the first 16 bytes of the TCP header, skips the extension headers of IPv6, and does not look at the payload.

use crate::codec::Envelope;
use crate::options::read_options;
use crate::{Ecn, Flags, Layout, Options, Segment};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use tcpassay_units::SeqNum;

/// The protocol number of TCP.
pub const TCP: u8 = 6;

/// The headers of a TCP segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Headers {
    /// Addresses, ports, ECN field, identification.
    pub envelope: Envelope,
    /// The TCP header. Options behind the end of the captured bytes are absent.
    pub segment: Segment,
    /// The checksum field; 0 if it was not captured.
    pub checksum: u16,
    /// The captured bytes end inside the TCP header, so that options may be missing.
    pub cut: bool,
    /// Which of [`Layout::ALL`] the options of a SYN have; both of another segment, of cut options, and with options of other kinds.
    pub layouts: [bool; 2],
    /// The captured options contradict themselves: one runs past the header, or has a length that its kind does not have.
    pub malformed: bool,
}

impl Headers {
    /// Whether the segment may have other options than those that could be read.
    pub fn has_unknown_options(&self) -> bool {
        self.cut || self.malformed
    }
}

/// The reason why a packet has no readable TCP header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoHeaders {
    /// IP carries another protocol.
    OtherProtocol,
    /// A fragment of an IP packet: a segment cannot be read from one part of it.
    Fragment,
    /// The captured bytes end before the window field of the TCP header.
    Short,
    /// The version, a header length or a total length contradicts the others.
    Malformed,
}

/// What the layer below IP states of the length of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Bytes on the wire from the IP header on. They replace the length field of the IP header if that is 0, as in a packet that was
    /// captured before TSO or after GRO (IPv4 total length 0, IPv6 jumbo payload).
    pub whole: u32,
    /// The bytes that the layer below counts as the packet, if it has a length of its own (PPPoE, IEEE 802.3). What is behind them is
    /// padding, also if IP counts it.
    pub most: u32,
}

impl Extent {
    /// A packet of `whole` bytes below which no layer has a length.
    pub const fn of(whole: u32) -> Extent {
        Extent { whole, most: u32::MAX }
    }
}

/// The IP header of a captured packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IpPacket<'a> {
    /// The source.
    pub from: IpAddr,
    /// The destination.
    pub to: IpAddr,
    /// The ECN field.
    pub ecn: Ecn,
    /// The identification of IPv4; 0 of IPv6.
    pub id: u16,
    /// TTL or hop limit.
    pub ttl: u8,
    /// The protocol of the payload, behind the extension headers of IPv6.
    pub protocol: u8,
    /// The fragment, if it is one: its offset in bytes, and whether more follow.
    pub fragment: Option<(u16, bool)>,
    /// Length of the payload on the wire.
    pub len: u32,
    /// The captured part of the payload.
    pub payload: &'a [u8],
}

/// Reads the headers of the IP packet that begins with `bytes`.
///
/// # Errors
/// See [`NoHeaders`].
#[inline]
pub fn read(bytes: &[u8], extent: Extent) -> Result<Headers, NoHeaders> {
    let ip = ip(bytes, extent)?;
    if ip.protocol != TCP {
        return Err(NoHeaders::OtherProtocol);
    }
    if ip.fragment.is_some() {
        return Err(NoHeaders::Fragment);
    }
    tcp(&ip)
}

/// Reads the IP header at the beginning of `bytes`, with the extension headers of IPv6.
///
/// # Errors
/// [`NoHeaders::Short`] and [`NoHeaders::Malformed`].
#[inline]
pub fn ip(bytes: &[u8], extent: Extent) -> Result<IpPacket<'_>, NoHeaders> {
    match bytes.first().map(|byte| byte >> 4) {
        Some(4) => ipv4(bytes, extent),
        Some(6) => ipv6(bytes, extent),
        Some(_) => Err(NoHeaders::Malformed),
        None => Err(NoHeaders::Short),
    }
}

/// Reads the TCP header of a whole IP packet, or of the first fragment of one.
///
/// # Errors
/// [`NoHeaders::Short`] and [`NoHeaders::Malformed`].
#[inline]
pub fn tcp(ip: &IpPacket<'_>) -> Result<Headers, NoHeaders> {
    let tcp = ip.payload;
    if tcp.len() < 16 {
        return Err(NoHeaders::Short);
    }
    let header_len = usize::from(tcp[12] >> 4) * 4;
    let Some(len) = ip.len.checked_sub(u32::try_from(header_len).expect("at most 60")) else {
        return Err(NoHeaders::Malformed);
    };
    if header_len < 20 {
        return Err(NoHeaders::Malformed);
    }
    let end = header_len.min(tcp.len());
    let (options, whole) = tcp.get(20..end).map_or((Options::default(), true), read_options);
    let segment = Segment {
        seq: SeqNum::new(word(tcp, 4)),
        ack: SeqNum::new(word(tcp, 8)),
        len,
        flags: Flags::from_bits(half(tcp, 12) & 0x1ff),
        window: half(tcp, 14),
        urgent: if tcp.len() >= 20 { half(tcp, 18) } else { 0 },
        options,
    };
    let envelope = Envelope {
        from: SocketAddr::new(ip.from, half(tcp, 0)),
        to: SocketAddr::new(ip.to, half(tcp, 2)),
        ecn: ip.ecn,
        id: ip.id,
        ttl: ip.ttl,
    };
    let checksum = if tcp.len() >= 18 { half(tcp, 16) } else { 0 };
    let cut = end < header_len;
    let layouts = match tcp.get(20..end) {
        Some(bytes) if segment.flags.has(Flags::SYN) && !cut => Layout::possible(bytes, &segment.options),
        _ => [true; 2],
    };
    Ok(Headers { envelope, segment, checksum, cut, layouts, malformed: !whole && !cut })
}

#[inline]
fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[inline]
fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[inline]
fn ipv4(bytes: &[u8], extent: Extent) -> Result<IpPacket<'_>, NoHeaders> {
    if bytes.len() < 20 {
        return Err(NoHeaders::Short);
    }
    let header_len = u32::from(bytes[0] & 15) * 4;
    let total = total(u32::from(half(bytes, 2)), extent);
    if header_len < 20 || total < header_len {
        return Err(NoHeaders::Malformed);
    }
    // The flag "more fragments", and the offset in units of eight bytes.
    let bits = half(bytes, 6);
    let fragment = (bits & 0x3fff != 0).then_some(((bits & 0x1fff) * 8, bits & 0x2000 != 0));
    let address = |at: usize| IpAddr::V4(Ipv4Addr::from_bits(word(bytes, at)));
    Ok(IpPacket {
        from: address(12),
        to: address(16),
        ecn: Ecn::from_bits(bytes[1]),
        id: half(bytes, 4),
        ttl: bytes[8],
        protocol: bytes[9],
        fragment,
        len: total - header_len,
        payload: captured(bytes, header_len, total)?,
    })
}

/// The length of a packet whose IP header states `stated`.
#[inline]
fn total(stated: u32, extent: Extent) -> u32 {
    if stated == 0 { extent.whole } else { stated }.min(extent.most)
}

/// The captured part of the payload, without what follows the packet on the wire (padding of Ethernet).
#[inline]
fn captured(bytes: &[u8], header_len: u32, total: u32) -> Result<&[u8], NoHeaders> {
    let end = bytes.len().min(usize::try_from(total).unwrap_or(usize::MAX));
    bytes.get(header_len as usize..end).ok_or(NoHeaders::Short)
}

fn ipv6(bytes: &[u8], extent: Extent) -> Result<IpPacket<'_>, NoHeaders> {
    if bytes.len() < 40 {
        return Err(NoHeaders::Short);
    }
    let stated = match u32::from(half(bytes, 4)) {
        0 => 0,
        payload => payload + 40,
    };
    let total = total(stated, extent);
    let mut protocol = bytes[6];
    let mut fragment = None;
    let mut at = 40_usize;
    // Behind the header of a later fragment there is no further header.
    while fragment.is_none_or(|(offset, _)| offset == 0) {
        // Lengths of RFC 8200 section 4; AH counts 4 bytes (RFC 4302 section 2.2).
        let header = match protocol {
            0 | 43 | 44 | 51 | 60 | 135 | 139 | 140 => bytes.get(at..at + 8).ok_or(NoHeaders::Short)?,
            _ => break,
        };
        at += match protocol {
            44 => {
                let bits = half(header, 2);
                // A fragment header without a further fragment is an atomic fragment (RFC 6946).
                fragment = (bits & 0xfff9 != 0).then_some((bits & 0xfff8, bits & 1 != 0)).or(fragment);
                8
            }
            51 => (usize::from(header[1]) + 2) * 4,
            _ => (usize::from(header[1]) + 1) * 8,
        };
        protocol = header[0];
    }
    let header_len = u32::try_from(at).map_err(|_| NoHeaders::Malformed)?;
    if total < header_len {
        return Err(NoHeaders::Malformed);
    }
    let address = |at: usize| {
        let octets: [u8; 16] = bytes[at..at + 16].try_into().expect("sixteen bytes");
        IpAddr::V6(Ipv6Addr::from(octets))
    };
    Ok(IpPacket {
        from: address(8),
        to: address(24),
        ecn: Ecn::from_bits(bytes[1] >> 4),
        id: 0,
        ttl: bytes[7],
        protocol,
        fragment,
        len: total - header_len,
        payload: captured(bytes, header_len, total)?,
    })
}
