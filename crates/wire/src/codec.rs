//! Encoding of segments and datagrams as IPv4 and IPv6 packets, and decoding.
//!
//! The layout of options is that of Linux (`net/ipv4/tcp_output.c`, `tcp_options_write`): MSS; SACK permitted in
//! place of the two NOPs before timestamps; NOP and window scale; two NOPs before SACK blocks. The decoder accepts
//! any order, ignores unknown options, and, like Linux, stops at an option with an invalid length.
//!
//! The payload consists of zeros, so that a packet can be truncated at any length and still has the checksums of the
//! whole packet.

use crate::options::{read_options, write_options};
use crate::{Ecn, Flags, Layout, Segment};
use etherparse::checksum::Sum16BitWords;
use etherparse::{
    IpDscp, IpEcn, IpFragOffset, IpNumber, Ipv4Header, Ipv4Options, Ipv6FlowLabel, Ipv6Header, TcpHeader,
    UdpHeader,
};
use std::net::{IpAddr, SocketAddr};
use tcpassay_units::SeqNum;

/// The headers around a segment or datagram: addresses, ports, ECN, identification, TTL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Envelope {
    /// Sender.
    pub from: SocketAddr,
    /// Receiver; of the same address family as the sender.
    pub to: SocketAddr,
    /// ECN field.
    pub ecn: Ecn,
    /// Identification (IPv4; 0 for IPv6, which has none).
    pub id: u16,
    /// Time to live, or hop limit.
    pub ttl: u8,
}

/// The payload of an IP packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// A TCP segment.
    Tcp(Segment),
    /// A UDP datagram with this many bytes of payload.
    Udp {
        /// Payload bytes.
        len: u32,
    },
}

/// A decoded packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DecodedPacket {
    /// Addresses, ports, ECN.
    pub envelope: Envelope,
    /// What it carries.
    pub content: Content,
    /// Whether the transport checksum is correct; `None` when the packet is truncated or has no checksum.
    pub checksum_ok: Option<bool>,
}

/// A packet that cannot be encoded.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EncodeError {
    /// Sender and receiver have different address families.
    #[error("{from} and {to} are addresses of different families")]
    Families {
        /// The sender's.
        from: IpAddr,
        /// The receiver's.
        to: IpAddr,
    },
    /// The options do not fit into a header.
    #[error("{len} bytes of options; a TCP header has room for 40")]
    Options {
        /// Their length.
        len: u32,
    },
    /// The packet exceeds the largest value of a length field.
    #[error("a packet of {len} bytes; an IP packet has at most 65535 (IPv6: after its header)")]
    TooLong {
        /// Its length.
        len: u64,
    },
}

/// Bytes that cannot be decoded.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end inside a header.
    #[error("{have} bytes end inside the {header} header")]
    Short {
        /// Which header.
        header: &'static str,
        /// How many bytes there are.
        have: usize,
    },
    /// A header is inconsistent.
    #[error("the {header} header is malformed: {why}")]
    Malformed {
        /// Which header.
        header: &'static str,
        /// What is wrong.
        why: String,
    },
    /// Neither TCP nor UDP.
    #[error("IP protocol {0} is neither TCP nor UDP")]
    Protocol(u8),
    /// A fragment.
    #[error("a fragment")]
    Fragment,
}

/// Length of the whole packet that [`encode`] writes, without truncation.
pub fn packet_len(envelope: &Envelope, content: &Content) -> u64 {
    let ip = if envelope.from.is_ipv4() { 20 } else { 40 };
    ip + match content {
        Content::Tcp(segment) => u64::from(segment.header_len()) + u64::from(segment.len),
        Content::Udp { len } => 8 + u64::from(*len),
    }
}

/// Appends the packet to `out`: its headers, and its payload of zeros, up to `snap` bytes in total (at least the
/// headers). Returns the length of the whole packet.
///
/// # Errors
/// Addresses of different families, options beyond 40 bytes, a packet beyond 65535 bytes.
pub fn encode(
    envelope: &Envelope,
    content: &Content,
    snap: usize,
    out: &mut Vec<u8>,
) -> Result<u32, EncodeError> {
    encode_as(envelope, content, Layout::Linux, snap, out)
}

/// The same with the options of SYNs in a layout.
///
/// # Errors
/// Those of [`encode`].
pub fn encode_as(
    envelope: &Envelope,
    content: &Content,
    layout: Layout,
    snap: usize,
    out: &mut Vec<u8>,
) -> Result<u32, EncodeError> {
    let whole = packet_len(envelope, content);
    let too_long = EncodeError::TooLong { len: whole };
    let ip_header = if envelope.from.is_ipv4() { 20 } else { 40 };
    let Ok(transport_len) = u16::try_from(whole - ip_header) else { return Err(too_long) };
    let start = out.len();
    let (sum, protocol) = match content {
        Content::Tcp(_) => (pseudo_header(envelope, transport_len, IpNumber::TCP)?, IpNumber::TCP),
        Content::Udp { .. } => (pseudo_header(envelope, transport_len, IpNumber::UDP)?, IpNumber::UDP),
    };
    let transport = match content {
        Content::Tcp(segment) => tcp_header(envelope, segment, layout, sum)?.to_bytes(),
        Content::Udp { .. } => udp_header(envelope, transport_len, sum).to_bytes().into_iter().collect(),
    };
    match (envelope.from.ip(), envelope.to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let total_len = u16::try_from(whole).map_err(|_| too_long)?;
            out.extend_from_slice(&ipv4_header(envelope, from.octets(), to.octets(), total_len, protocol));
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let header = Ipv6Header {
                traffic_class: envelope.ecn.bits(),
                flow_label: Ipv6FlowLabel::ZERO,
                payload_length: transport_len,
                next_header: protocol,
                hop_limit: envelope.ttl,
                source: from.octets(),
                destination: to.octets(),
            };
            out.extend_from_slice(&header.to_bytes());
        }
        (from, to) => return Err(EncodeError::Families { from, to }),
    }
    out.extend_from_slice(&transport);
    let headers = out.len() - start;
    let whole = u32::try_from(whole).expect("at most 65575");
    out.resize(start + (whole as usize).min(snap.max(headers)), 0);
    Ok(whole)
}

pub(crate) fn ipv4_header(
    envelope: &Envelope,
    source: [u8; 4],
    destination: [u8; 4],
    total_len: u16,
    protocol: IpNumber,
) -> impl std::ops::Deref<Target = [u8]> {
    let mut header = Ipv4Header {
        dscp: IpDscp::ZERO,
        ecn: IpEcn::try_new(envelope.ecn.bits()).expect("two bits"),
        total_len,
        identification: envelope.id,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: IpFragOffset::ZERO,
        time_to_live: envelope.ttl,
        protocol,
        header_checksum: 0,
        source,
        destination,
        options: Ipv4Options::new(),
    };
    header.header_checksum = header.calc_header_checksum();
    header.to_bytes()
}

/// The checksum of the pseudo header: addresses, protocol, length of header and payload.
pub(crate) fn pseudo_header(
    envelope: &Envelope,
    len: u16,
    protocol: IpNumber,
) -> Result<Sum16BitWords, EncodeError> {
    let mut sum = Sum16BitWords::new();
    sum = match (envelope.from.ip(), envelope.to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => sum.add_4bytes(from.octets()).add_4bytes(to.octets()),
        (IpAddr::V6(from), IpAddr::V6(to)) => sum.add_16bytes(from.octets()).add_16bytes(to.octets()),
        (from, to) => return Err(EncodeError::Families { from, to }),
    };
    Ok(sum.add_2bytes(len.to_be_bytes()).add_2bytes([0, protocol.0]))
}

/// The TCP header of a segment; `sum` is the checksum of the pseudo header and the payload.
pub(crate) fn tcp_header(
    envelope: &Envelope,
    segment: &Segment,
    layout: Layout,
    sum: Sum16BitWords,
) -> Result<TcpHeader, EncodeError> {
    let mut header =
        TcpHeader::new(envelope.from.port(), envelope.to.port(), segment.seq.get(), segment.window);
    let options = write_options(&segment.options, layout);
    let len = segment.options.wire_len();
    header.set_options_raw(&options).map_err(|_| EncodeError::Options { len })?;
    header.acknowledgment_number = segment.ack.get();
    header.urgent_pointer = segment.urgent;
    let flag = |flag| segment.flags.has(flag);
    header.fin = flag(Flags::FIN);
    header.syn = flag(Flags::SYN);
    header.rst = flag(Flags::RST);
    header.psh = flag(Flags::PSH);
    header.ack = flag(Flags::ACK);
    header.urg = flag(Flags::URG);
    header.ece = flag(Flags::ECE);
    header.cwr = flag(Flags::CWR);
    header.ns = flag(Flags::AE);
    header.checksum = sum.add_slice(&header.to_bytes()).ones_complement().to_be();
    Ok(header)
}

fn udp_header(envelope: &Envelope, length: u16, sum: Sum16BitWords) -> UdpHeader {
    let mut header = UdpHeader {
        source_port: envelope.from.port(),
        destination_port: envelope.to.port(),
        length,
        checksum: 0,
    };
    // Zero means that there is no checksum (RFC 768).
    header.checksum = sum.add_slice(&header.to_bytes()).to_ones_complement_with_no_zero().to_be();
    header
}

/// Decodes an IP packet, which may be truncated anywhere after its headers.
///
/// # Errors
/// Bytes that end inside a header, inconsistent headers, other protocols and fragments.
pub fn decode(bytes: &[u8]) -> Result<DecodedPacket, DecodeError> {
    let ip = read_ip(bytes)?;
    let (from_port, to_port, content, cut) = match ip.protocol {
        IpNumber::TCP => read_tcp(&ip)?,
        IpNumber::UDP => read_udp(&ip)?,
        other => return Err(DecodeError::Protocol(other.0)),
    };
    let envelope = Envelope {
        from: SocketAddr::new(ip.from, from_port),
        to: SocketAddr::new(ip.to, to_port),
        ecn: ip.ecn,
        id: ip.id,
        ttl: ip.ttl,
    };
    let has_checksum = ip.protocol == IpNumber::TCP || ip.rest[6..8] != [0, 0];
    let checksum_ok = (!cut && has_checksum).then(|| {
        let covered = &ip.rest[..usize::from(ip.len)];
        let sum = pseudo_header(&envelope, ip.len, ip.protocol).expect("both of one header");
        // A sum that includes its own complement has all bits set.
        sum.add_slice(covered).ones_complement() == 0
    });
    Ok(DecodedPacket { envelope, content, checksum_ok })
}

/// An IP header and its payload.
struct Ip<'a> {
    from: IpAddr,
    to: IpAddr,
    ecn: Ecn,
    id: u16,
    ttl: u8,
    protocol: IpNumber,
    /// Length of the payload according to the header.
    len: u16,
    /// The available bytes of the payload.
    rest: &'a [u8],
}

fn read_ip(bytes: &[u8]) -> Result<Ip<'_>, DecodeError> {
    let have = bytes.len();
    match bytes.first().map(|b| b >> 4) {
        Some(4) => {
            let (h, rest) =
                Ipv4Header::from_slice(bytes).map_err(|e| ip_error("IPv4", have, 20, &e.to_string()))?;
            if h.is_fragmenting_payload() {
                return Err(DecodeError::Fragment);
            }
            let len = h.payload_len().map_err(|e| malformed("IPv4", &e))?;
            Ok(Ip {
                from: IpAddr::V4(h.source.into()),
                to: IpAddr::V4(h.destination.into()),
                ecn: Ecn::from_bits(h.ecn.value()),
                id: h.identification,
                ttl: h.time_to_live,
                protocol: h.protocol,
                len,
                rest,
            })
        }
        Some(6) => {
            let (h, rest) =
                Ipv6Header::from_slice(bytes).map_err(|e| ip_error("IPv6", have, 40, &e.to_string()))?;
            Ok(Ip {
                from: IpAddr::V6(h.source.into()),
                to: IpAddr::V6(h.destination.into()),
                ecn: Ecn::from_bits(h.traffic_class),
                id: 0,
                ttl: h.hop_limit,
                protocol: h.next_header,
                len: h.payload_length,
                rest,
            })
        }
        Some(version) => Err(malformed("IP", &format!("version {version}"))),
        None => Err(DecodeError::Short { header: "IP", have: 0 }),
    }
}

fn ip_error(header: &'static str, have: usize, least: usize, why: &str) -> DecodeError {
    if have < least { DecodeError::Short { header, have } } else { malformed(header, &why) }
}

fn malformed(header: &'static str, why: &impl std::fmt::Display) -> DecodeError {
    DecodeError::Malformed { header, why: why.to_string() }
}

type Transport = (u16, u16, Content, bool);

fn read_tcp(ip: &Ip<'_>) -> Result<Transport, DecodeError> {
    let have = ip.rest.len();
    if have < 20 {
        return Err(DecodeError::Short { header: "TCP", have });
    }
    let (h, _) = TcpHeader::from_slice(ip.rest).map_err(|e| ip_error("TCP", have, 20, &e.to_string()))?;
    let Some(len) = ip.len.checked_sub(h.header_len_u16()) else {
        return Err(malformed("TCP", &"it is longer than the packet"));
    };
    let bits = [
        (h.fin, Flags::FIN),
        (h.syn, Flags::SYN),
        (h.rst, Flags::RST),
        (h.psh, Flags::PSH),
        (h.ack, Flags::ACK),
        (h.urg, Flags::URG),
        (h.ece, Flags::ECE),
        (h.cwr, Flags::CWR),
        (h.ns, Flags::AE),
    ];
    let mut flags = Flags::NONE;
    for (_, flag) in bits.into_iter().filter(|(set, _)| *set) {
        flags |= flag;
    }
    let segment = Segment {
        seq: SeqNum::new(h.sequence_number),
        ack: SeqNum::new(h.acknowledgment_number),
        flags,
        window: h.window_size,
        urgent: h.urgent_pointer,
        len: u32::from(len),
        options: read_options(h.options.as_slice()).0,
    };
    Ok((h.source_port, h.destination_port, Content::Tcp(segment), have < usize::from(ip.len)))
}

fn read_udp(ip: &Ip<'_>) -> Result<Transport, DecodeError> {
    let have = ip.rest.len();
    let (h, _) = UdpHeader::from_slice(ip.rest).map_err(|_| DecodeError::Short { header: "UDP", have })?;
    if h.length < 8 || h.length > ip.len {
        let why = format!("a length of {} in a packet with room for {}", h.length, ip.len);
        return Err(malformed("UDP", &why));
    }
    let content = Content::Udp { len: u32::from(h.length) - 8 };
    Ok((h.source_port, h.destination_port, content, have < usize::from(ip.len)))
}
