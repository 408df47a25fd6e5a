//! Tunnels: the IP packet inside of GRE (RFC 2784, RFC 2890), ERSPAN (draft-foschiano-erspan), IP (RFC 2003, RFC 4213, RFC 2473), VXLAN
//! (RFC 7348), Geneve (RFC 8926), GTP-U (3GPP TS 29.281) and PPTP (RFC 2637).

use crate::link::{self, IpStart, Undecoded};
use serde::Serialize;
use std::fmt;
use std::net::IpAddr;
use strum::{EnumMessage, IntoStaticStr, VariantArray};
use tcpassay_wire::headers::{Extent, IpPacket, NoHeaders, ip};

/// Number of tunnels in each other that are decoded.
pub const DEEPEST: usize = 4;

/// Protocols of IP.
const IPV4: u8 = 4;
const UDP: u8 = 17;
const IPV6: u8 = 41;
const GRE: u8 = 47;
const ESP: u8 = 50;

/// Protocols of GRE and Geneve, as of Ethernet.
const ETHERNET: u16 = 0x6558;
const ERSPAN: u16 = 0x88be;
const ERSPAN_3: u16 = 0x22eb;
const PPP: u16 = 0x880b;
const WCCP: u16 = 0x883e;
/// GRE keepalives, ISO (IS-IS), ARP, NHRP (RFC 2332), LLDP: no TCP is in them.
const KEEPALIVE: u16 = 0;
const ISO: u16 = 0x00fe;
const ARP: u16 = 0x0806;
const NHRP: u16 = 0x2001;
const LLDP: u16 = 0x88cc;

/// The kind of a tunnel.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Debug,
    Serialize,
    EnumMessage,
    IntoStaticStr,
    VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum TunnelKind {
    /// IP in IP
    IpInIp,
    /// 6in4
    V6InV4,
    /// 4in6
    V4InV6,
    /// 6in6
    V6InV6,
    /// GRE
    Gre,
    /// PPTP
    Pptp,
    /// ERSPAN I
    Erspan1,
    /// ERSPAN II
    Erspan2,
    /// ERSPAN III
    Erspan3,
    /// VXLAN
    Vxlan,
    /// Geneve
    Geneve,
    /// GTP-U
    GtpU,
}

impl TunnelKind {
    /// Its usual name.
    pub fn words(self) -> &'static str {
        self.get_documentation().expect("every kind has a name")
    }

    /// Whether its packets are datagrams of UDP, whose later fragments do not show it.
    pub(crate) fn is_over_udp(self) -> bool {
        matches!(self, TunnelKind::Vxlan | TunnelKind::Geneve | TunnelKind::GtpU)
    }
}

/// One tunnel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Tunnel {
    /// Its kind.
    pub kind: TunnelKind,
    /// Its number: the VNI, the key of GRE, the session of ERSPAN, the TEID of GTP-U, the call of PPTP.
    pub id: Option<u32>,
}

/// The tunnels of a packet, the outermost first.
pub(crate) type Tunnels = [Option<Tunnel>; DEEPEST];

/// The tunnels around a packet, and the ends of the outermost one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Around {
    /// The tunnels, the outermost first.
    pub tunnels: [Option<Tunnel>; DEEPEST],
    /// Source and destination of the outermost packet.
    pub ends: [IpAddr; 2],
}

impl fmt::Display for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.words())?;
        match (self.id, self.kind) {
            (None, _) => Ok(()),
            (Some(id), TunnelKind::Vxlan | TunnelKind::Geneve) => write!(f, " VNI {id}"),
            (Some(id), TunnelKind::GtpU) => write!(f, " TEID {id:#010x}"),
            (Some(id), TunnelKind::Erspan2 | TunnelKind::Erspan3) => write!(f, " session {id}"),
            (Some(id), TunnelKind::Pptp) => write!(f, " call {id}"),
            (Some(id), _) => write!(f, " key {id}"),
        }
    }
}

impl fmt::Display for Around {
    /// `VXLAN VNI 100 (192.0.2.1 > 192.0.2.2)`; inner tunnels come first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner: Vec<String> = self.tunnels.iter().rev().flatten().map(Tunnel::to_string).collect();
        write!(f, "{} ({} > {})", inner.join(" in "), self.ends[0], self.ends[1])
    }
}

/// Why a packet has no IP packet inside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoInner {
    /// The packet is no tunnel.
    NoTunnel,
    /// The tunnel carries another protocol.
    Other,
    Undecoded(Undecoded),
    Headers(NoHeaders),
}

impl From<NoHeaders> for NoInner {
    fn from(why: NoHeaders) -> NoInner {
        NoInner::Headers(why)
    }
}

impl From<Option<Undecoded>> for NoInner {
    fn from(what: Option<Undecoded>) -> NoInner {
        what.map_or(NoInner::Other, NoInner::Undecoded)
    }
}

/// The innermost IP packet of tunnels, and the tunnels.
pub(crate) fn innermost<'a>(outer: &IpPacket<'a>) -> Result<(IpPacket<'a>, Around), NoInner> {
    let mut around = Around { tunnels: [None; DEEPEST], ends: [outer.from, outer.to] };
    let mut packet = *outer;
    for place in 0.. {
        let opened = match open(&packet) {
            Ok(opened) => opened,
            Err(NoInner::NoTunnel) if place > 0 => break,
            Err(why) => return Err(why),
        };
        *around.tunnels.get_mut(place).ok_or(NoInner::Undecoded(Undecoded::TooDeep))? = Some(opened.tunnel);
        let IpStart { at, most, .. } = opened.start;
        // What the outer packet holds, less the headers before.
        let before = u32::try_from(packet.payload.len() - opened.frame.len() + at).unwrap_or(u32::MAX);
        let whole = packet.len.saturating_sub(before);
        packet = ip(&opened.frame[at..], Extent { whole, most })?;
    }
    Ok((packet, around))
}

/// A tunnel, a frame in it, and the place of the IP packet in the frame.
struct Opened<'a> {
    tunnel: Tunnel,
    frame: &'a [u8],
    start: IpStart,
}

fn open<'a>(packet: &IpPacket<'a>) -> Result<Opened<'a>, NoInner> {
    let later = packet.fragment.is_some_and(|(offset, _)| offset > 0);
    let plain =
        |kind| Opened { tunnel: Tunnel { kind, id: None }, frame: packet.payload, start: at_start(0) };
    let v4 = packet.from.is_ipv4();
    match packet.protocol {
        IPV4 | IPV6 | GRE if later => Err(NoInner::Undecoded(Undecoded::TunnelFragment)),
        IPV4 => Ok(plain(if v4 { TunnelKind::IpInIp } else { TunnelKind::V4InV6 })),
        IPV6 => Ok(plain(if v4 { TunnelKind::V6InV4 } else { TunnelKind::V6InV6 })),
        GRE => gre(packet.payload),
        ESP => Err(NoInner::Undecoded(Undecoded::Esp)),
        UDP if !later => udp(packet.payload),
        _ => Err(NoInner::NoTunnel),
    }
}

fn at_start(at: usize) -> IpStart {
    IpStart { at, most: u32::MAX, vlan: 0, device: 0 }
}

fn half(bytes: &[u8], at: usize) -> Result<u16, NoInner> {
    let two = bytes.get(at..at + 2).ok_or(NoHeaders::Short)?;
    Ok(u16::from_be_bytes([two[0], two[1]]))
}

fn word(bytes: &[u8], at: usize) -> Result<u32, NoInner> {
    let four = bytes.get(at..at + 4).ok_or(NoHeaders::Short)?;
    Ok(u32::from_be_bytes([four[0], four[1], four[2], four[3]]))
}

fn byte(bytes: &[u8], at: usize) -> Result<u8, NoInner> {
    Ok(*bytes.get(at).ok_or(NoHeaders::Short)?)
}

/// The part of a header from `at` on.
fn behind(bytes: &[u8], at: usize) -> Result<&[u8], NoInner> {
    Ok(bytes.get(at..).ok_or(NoHeaders::Short)?)
}

fn gre(bytes: &[u8]) -> Result<Opened<'_>, NoInner> {
    let (flags, protocol) = (half(bytes, 0)?, half(bytes, 2)?);
    let [has_checksum, has_route, has_key, has_number] =
        [0x8000, 0x4000, 0x2000, 0x1000].map(|bit| flags & bit != 0);
    match flags & 7 {
        0 if !has_route => {}
        // The key holds the length of the payload and the call; without a number there is no payload, only an acknowledgement.
        1 if protocol == PPP && has_key => {
            let tunnel = Tunnel { kind: TunnelKind::Pptp, id: Some(word(bytes, 4)? & 0xffff) };
            if !has_number {
                return Err(NoInner::Other);
            }
            let frame = behind(bytes, if flags & 0x80 != 0 { 16 } else { 12 })?;
            let framed = frame.starts_with(&[0xff, 0x03]);
            return Ok(Opened { tunnel, frame, start: link::ppp(frame, if framed { 2 } else { 0 })? });
        }
        _ => return Err(NoInner::Undecoded(Undecoded::UnknownTunnel)),
    }
    let mut at = if has_checksum { 8 } else { 4 };
    let id = has_key.then(|| word(bytes, at)).transpose()?;
    at += 4 * (usize::from(has_key) + usize::from(has_number));
    let tunnel = Tunnel { kind: TunnelKind::Gre, id };
    match protocol {
        ETHERNET => in_ethernet(tunnel, behind(bytes, at)?),
        ERSPAN if has_number => erspan_2(behind(bytes, at)?),
        ERSPAN => in_ethernet(Tunnel { kind: TunnelKind::Erspan1, id: None }, behind(bytes, at)?),
        ERSPAN_3 => erspan_3(behind(bytes, at)?),
        // Version 2 of WCCP has a header of four bytes before the packet.
        WCCP => {
            let own = if byte(bytes, at)? >> 4 == 4 { 0 } else { 4 };
            Ok(Opened { tunnel, frame: behind(bytes, at + own)?, start: at_start(0) })
        }
        PPP => Ok(Opened { tunnel, frame: bytes, start: link::ppp(bytes, at)? }),
        _ => Ok(Opened { tunnel, frame: bytes, start: inner(bytes, protocol, at)? }),
    }
}

/// What follows a header with a protocol of Ethernet in its third byte. Other protocols than those that never have TCP in them, as IEEE 802.11 of an
/// access point, may hide it.
fn inner(bytes: &[u8], protocol: u16, at: usize) -> Result<IpStart, NoInner> {
    link::typed(bytes, 2, at).map_err(|why| match (why, protocol) {
        (None, KEEPALIVE | ISO | ARP | NHRP | LLDP) => NoInner::Other,
        (None, _) => NoInner::Undecoded(Undecoded::UnknownTunnel),
        (why, _) => why.into(),
    })
}

fn in_ethernet(tunnel: Tunnel, frame: &[u8]) -> Result<Opened<'_>, NoInner> {
    Ok(Opened { tunnel, frame, start: link::ethernet(frame)? })
}

fn erspan_2(bytes: &[u8]) -> Result<Opened<'_>, NoInner> {
    if byte(bytes, 0)? >> 4 != 1 {
        return Err(NoInner::Undecoded(Undecoded::UnknownTunnel));
    }
    let id = Some(u32::from(half(bytes, 2)? & 0x3ff));
    in_ethernet(Tunnel { kind: TunnelKind::Erspan2, id }, behind(bytes, 8)?)
}

fn erspan_3(bytes: &[u8]) -> Result<Opened<'_>, NoInner> {
    let bits = half(bytes, 10)?;
    if bytes[0] >> 4 != 2 {
        return Err(NoInner::Undecoded(Undecoded::UnknownTunnel));
    }
    let tunnel = Tunnel { kind: TunnelKind::Erspan3, id: Some(u32::from(half(bytes, 2)? & 0x3ff)) };
    // The last bit announces a header of the platform. The frame type is 0 for Ethernet, 2 for IP.
    let frame = behind(bytes, if bits & 1 != 0 { 20 } else { 12 })?;
    match bits >> 10 & 0x1f {
        0 => in_ethernet(tunnel, frame),
        2 => Ok(Opened { tunnel, frame, start: at_start(0) }),
        _ => Err(NoInner::Undecoded(Undecoded::UnknownTunnel)),
    }
}

/// A datagram is a tunnel if it goes to the port of one and begins as one: other programs may use the ports.
fn udp(bytes: &[u8]) -> Result<Opened<'_>, NoInner> {
    let to = half(bytes, 2)?;
    if !matches!(to, 4789 | 4790 | 8472 | 6081 | 2152 | 4500) {
        return Err(NoInner::NoTunnel);
    }
    let payload = behind(bytes, 8)?;
    match (to, payload) {
        (4789 | 8472, [flags, _, _, _, _, _, _, 0, frame @ ..]) if flags & 0x7f == 8 => {
            in_ethernet(Tunnel { kind: TunnelKind::Vxlan, id: Some(word(payload, 4)? >> 8) }, frame)
        }
        // The generic protocol extension names what it carries: 1 IPv4, 2 IPv6, 3 Ethernet.
        (4790, [flags, _, _, next, _, _, _, 0, frame @ ..]) if flags & 0xcc == 0x0c => {
            let tunnel = Tunnel { kind: TunnelKind::Vxlan, id: Some(word(payload, 4)? >> 8) };
            match next {
                1 | 2 => Ok(Opened { tunnel, frame, start: at_start(0) }),
                3 => in_ethernet(tunnel, frame),
                _ => Err(NoInner::Undecoded(Undecoded::UnknownTunnel)),
            }
        }
        (6081, [first, flags, ..]) if first >> 6 == 0 && flags & 0x80 == 0 => geneve(payload),
        (2152, [first, 255, ..]) if first >> 4 == 3 => gtp_u(payload),
        // IKE begins with four zeros, and a single byte keeps a binding of a NAT (RFC 3948).
        (4500, [a, b, c, d, ..]) if [a, b, c, d] != [&0; 4] => Err(NoInner::Undecoded(Undecoded::Esp)),
        _ => Err(NoInner::NoTunnel),
    }
}

fn geneve(bytes: &[u8]) -> Result<Opened<'_>, NoInner> {
    let tunnel = Tunnel { kind: TunnelKind::Geneve, id: Some(word(bytes, 4)? >> 8) };
    let at = 8 + 4 * usize::from(bytes[0] & 0x3f);
    let protocol = half(bytes, 2)?;
    match protocol {
        ETHERNET => in_ethernet(tunnel, behind(bytes, at)?),
        _ => Ok(Opened { tunnel, frame: bytes, start: inner(bytes, protocol, at)? }),
    }
}

fn gtp_u(bytes: &[u8]) -> Result<Opened<'_>, NoInner> {
    let tunnel = Tunnel { kind: TunnelKind::GtpU, id: Some(word(bytes, 4)?) };
    let mut at = 8;
    // A number, the number of an N-PDU and the type of an extension header: all are there if one is.
    if bytes[0] & 7 != 0 {
        at = 12;
        let mut next = if bytes[0] & 4 != 0 { byte(bytes, 11)? } else { 0 };
        // The length of an extension header counts four bytes; its last byte is the type of the next one.
        while next != 0 {
            let len = 4 * usize::from(byte(bytes, at)?);
            if len == 0 {
                return Err(NoInner::Undecoded(Undecoded::UnknownTunnel));
            }
            next = byte(bytes, at + len - 1)?;
            at += len;
        }
    }
    match byte(bytes, at)? >> 4 {
        4 | 6 => Ok(Opened { tunnel, frame: bytes, start: at_start(at) }),
        _ => Err(NoInner::Undecoded(Undecoded::UnknownTunnel)),
    }
}
