//! The link layers of captures: where the IP packet begins, and how long the link layer says it is.

use crate::reader::LinkType;
use strum::{EnumMessage, IntoStaticStr, VariantArray};

/// VLAN tags (IEEE 802.1Q, 802.1ad, and two numbers in use before 802.1ad).
const TAGS: [u16; 4] = [0x8100, 0x88a8, 0x9100, 0x9200];
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const MPLS: [u16; 2] = [0x8847, 0x8848];
const PPPOE: u16 = 0x8864;
const MACSEC: u16 = 0x88e5;
/// Protocol numbers of PPP.
const PPP_IPV4: u16 = 0x0021;
const PPP_IPV6: u16 = 0x0057;
const PPP_COMPRESSED: u16 = 0x00fd;
/// The attribute of NFLOG that holds the packet (`NFULA_PAYLOAD` of Linux).
const NFLOG_PAYLOAD: u16 = 9;

/// The position of the IP packet in a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NetworkLayer {
    /// The frame carries an IP packet.
    Ip(IpStart),
    /// The frame carries another protocol, or its captured bytes end before.
    Other,
    /// The link type is not supported.
    Unsupported,
    /// The frame carries what is not decoded.
    Undecoded(Undecoded),
}

/// The place of an IP packet in a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IpStart {
    /// Its first byte.
    pub at: usize,
    /// Its length by the link layer (PPPoE, IEEE 802.3); `u32::MAX` without one. What is behind it is padding.
    pub most: u32,
    /// The identifier of the outermost VLAN tag; 0 without one.
    pub vlan: u16,
    /// The index of the network interface (Linux cooked capture v2); 0 where the frame has none.
    pub device: u16,
}

/// Kinds of packets that are not decoded although they may carry TCP.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Debug,
    EnumMessage,
    IntoStaticStr,
    VariantArray,
    serde::Serialize,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Undecoded {
    /// ESP (IPsec)
    Esp,
    /// MACsec
    Macsec,
    /// encrypted IEEE 802.11
    EncryptedWifi,
    /// compressed or encrypted PPP
    CompressedPpp,
    /// fragments of tunnelled packets
    TunnelFragment,
    /// tunnels with an unknown version, unknown flags or an unknown payload
    UnknownTunnel,
    /// more tunnels in each other than are decoded
    TooDeep,
}

/// Finds the IP packet in a frame of link type `link`.
#[inline]
pub fn network(link: LinkType, frame: &[u8]) -> NetworkLayer {
    let found = match link.0 {
        // NULL and LOOP: an address family of four bytes, in the byte order of the host that captured, or of the network.
        0 | 108 => family(frame),
        1 => typed(frame, 12, 14),
        // Token Ring, with the route if the source address has its bit; FDDI.
        6 => token_ring(frame),
        10 => llc(frame, 13, u32::MAX, 0),
        // RAW, and numbers that systems use for it; IPV4 and IPV6.
        12 | 14 | 101 | 228 | 229 => ip(frame, 0),
        // PPP and PPP_HDLC, with or without address and control.
        9 | 50 => ppp_framed(frame, 0),
        51 => pppoe(frame, 0, 0),
        100 => llc(frame, 0, u32::MAX, 0),
        // C_HDLC: address and control.
        104 => typed(frame, 2, 4),
        105 => wifi(frame, 0, false),
        // ENC: address family, SPI, flags.
        109 => ip(frame, 12),
        // Linux cooked capture, versions 1 and 2.
        113 => typed(frame, 14, 16),
        276 => typed(frame, 0, 20).map(|start| IpStart { device: half(frame, 6).unwrap_or(0), ..start }),
        // PFLOG: its first byte is the length of its header, which is padded.
        117 => frame
            .first()
            .map_or(Err(Undecoded::OTHER), |len| ip(frame, usize::from(*len).next_multiple_of(4))),
        // PRISM, RADIOTAP, AVS before IEEE 802.11.
        119 => wifi(frame, 144, false),
        127 => radiotap(frame),
        163 => word(frame, 4).map_or(Err(Undecoded::OTHER), |len| wifi(frame, len as usize, false)),
        // IP over IEEE 1394.
        138 => typed(frame, 16, 18),
        // PPP_WITH_DIR and C_HDLC_WITH_DIR begin with the direction.
        204 => ppp_framed(frame, 1),
        205 => typed(frame, 3, 5),
        219 => mpls(frame, 0, 0),
        239 => nflog(frame),
        _ => return NetworkLayer::Unsupported,
    };
    match found {
        Ok(start) => NetworkLayer::Ip(start),
        Err(None) => NetworkLayer::Other,
        Err(Some(what)) => NetworkLayer::Undecoded(what),
    }
}

/// The IP packet of an Ethernet frame, as in tunnels.
pub(crate) fn ethernet(frame: &[u8]) -> Found {
    typed(frame, 12, 14)
}

/// The place of an IP packet; otherwise what it may be that is not decoded.
pub(crate) type Found = Result<IpStart, Option<Undecoded>>;

impl Undecoded {
    /// Another protocol, or the captured bytes end.
    pub(crate) const OTHER: Option<Undecoded> = None;

    /// What it is in words.
    pub fn words(self) -> &'static str {
        self.get_documentation().expect("every kind has a text")
    }
}

fn half(frame: &[u8], at: usize) -> Option<u16> {
    frame.get(at..at.checked_add(2)?).map(|two| u16::from_be_bytes([two[0], two[1]]))
}

fn word(frame: &[u8], at: usize) -> Option<u32> {
    frame.get(at..at.checked_add(4)?).map(|four| u32::from_be_bytes([four[0], four[1], four[2], four[3]]))
}

/// The version must be one of IP.
fn ip(frame: &[u8], at: usize) -> Found {
    bounded(frame, at, u32::MAX, 0)
}

/// An IP packet of `most` bytes by the link layer.
#[inline]
fn bounded(frame: &[u8], at: usize, most: u32, vlan: u16) -> Found {
    match frame.get(at).map(|byte| byte >> 4) {
        Some(4 | 6) => Ok(IpStart { at, most, vlan, device: 0 }),
        _ => Err(Undecoded::OTHER),
    }
}

fn family(frame: &[u8]) -> Found {
    let Some(four) = word(frame, 0) else { return Err(Undecoded::OTHER) };
    // AF_INET everywhere; AF_INET6 of Linux, of NetBSD and OpenBSD, of FreeBSD, of Darwin.
    let is_ip = |family| matches!(family, 2 | 10 | 24 | 28 | 30);
    if is_ip(four) || is_ip(four.swap_bytes()) { ip(frame, 4) } else { Err(Undecoded::OTHER) }
}

/// The type (as of Ethernet) is at `kind`; what it names begins at `at`.
#[inline]
pub(crate) fn typed(frame: &[u8], kind: usize, mut at: usize) -> Found {
    let mut kind = half(frame, kind).ok_or(Undecoded::OTHER)?;
    let mut vlan = 0;
    while TAGS.contains(&kind) {
        let tag = half(frame, at).ok_or(Undecoded::OTHER)? & 0xfff;
        vlan = if vlan == 0 { tag } else { vlan };
        kind = half(frame, at + 2).ok_or(Undecoded::OTHER)?;
        at += 4;
    }
    match kind {
        IPV4 | IPV6 => bounded(frame, at, u32::MAX, vlan),
        // A length: IEEE 802.2. Without one the packet is as long as IP says.
        0 => llc(frame, at, u32::MAX, vlan),
        1..=1500 => llc(frame, at, u32::from(kind), vlan),
        PPPOE => pppoe(frame, at, vlan),
        MACSEC => Err(Some(Undecoded::Macsec)),
        _ if MPLS.contains(&kind) => mpls(frame, at, vlan),
        _ => Err(Undecoded::OTHER),
    }
}

/// IEEE 802.2 of `len` bytes: SNAP (RFC 1042), or IP as its own service access point.
fn llc(frame: &[u8], at: usize, len: u32, vlan: u16) -> Found {
    let header = match frame.get(at..).unwrap_or_default() {
        [0xaa, 0xaa, 0x03, 0, 0, 0 | 0xf8, kind @ ..] if kind.len() >= 2 => {
            match u16::from_be_bytes([kind[0], kind[1]]) {
                IPV4 | IPV6 => 8,
                // Another type; a length cannot follow.
                0..=1500 => return Err(Undecoded::OTHER),
                _ => return typed(frame, at + 6, at + 8).map(|start| IpStart { vlan, ..start }),
            }
        }
        [0x06, 0x06, 0x03, ..] => 3,
        _ => return Err(Undecoded::OTHER),
    };
    // FDDI, Token Ring and IEEE 802.11 have no length.
    let most = if len == u32::MAX { len } else { len.saturating_sub(header) };
    bounded(frame, at + header as usize, most, vlan)
}

fn token_ring(frame: &[u8]) -> Found {
    let routed = frame.get(8).is_some_and(|byte| byte & 0x80 != 0);
    let route = if routed { frame.get(14).map_or(0, |byte| usize::from(byte & 0x1f)) } else { 0 };
    llc(frame, 14 + route, u32::MAX, 0)
}

/// Labels up to the bottom of the stack (RFC 3032), then IP.
fn mpls(frame: &[u8], mut at: usize, vlan: u16) -> Found {
    while frame.get(at + 2).ok_or(Undecoded::OTHER)? & 1 == 0 {
        at += 4;
    }
    bounded(frame, at + 4, u32::MAX, vlan)
}

/// PPPoE (RFC 2516 section 4): its length counts the protocol of PPP and the packet.
fn pppoe(frame: &[u8], at: usize, vlan: u16) -> Found {
    let len = half(frame, at + 4).ok_or(Undecoded::OTHER)?;
    let start = ppp(frame, at + 6)?;
    let before = u32::try_from(start.at - at - 6).expect("one or two bytes");
    let most = if len == 0 { u32::MAX } else { u32::from(len).saturating_sub(before) };
    Ok(IpStart { most, vlan, ..start })
}

fn ppp_framed(frame: &[u8], at: usize) -> Found {
    let framed = frame.get(at..).is_some_and(|rest| rest.starts_with(&[0xff, 0x03]));
    ppp(frame, if framed { at + 2 } else { at })
}

/// The protocol of PPP, of which one byte suffices (RFC 1661 section 2), then the packet.
pub(crate) fn ppp(frame: &[u8], at: usize) -> Found {
    let first = *frame.get(at).ok_or(Undecoded::OTHER)?;
    let (protocol, at) = if first & 1 == 1 {
        (u16::from(first), at + 1)
    } else {
        (half(frame, at).ok_or(Undecoded::OTHER)?, at + 2)
    };
    match protocol {
        PPP_IPV4 | PPP_IPV6 => ip(frame, at),
        PPP_COMPRESSED => Err(Some(Undecoded::CompressedPpp)),
        _ => Err(Undecoded::OTHER),
    }
}

/// A data frame of IEEE 802.11; `padded`: its header is padded to four bytes.
fn wifi(frame: &[u8], at: usize, padded: bool) -> Found {
    let Some([control, flags, ..]) = frame.get(at..) else { return Err(Undecoded::OTHER) };
    let (is_data, is_empty, is_qos) = (control >> 2 & 3 == 2, control & 0x40 != 0, control & 0x80 != 0);
    if !is_data || is_empty {
        return Err(Undecoded::OTHER);
    }
    if flags & 0x40 != 0 {
        return Err(Some(Undecoded::EncryptedWifi));
    }
    // A fourth address; control of QoS, and with it that of high throughput.
    let mut len = 24 + if flags & 3 == 3 { 6 } else { 0 };
    if is_qos {
        // Several packets in one frame.
        if frame.get(at + len).is_none_or(|byte| byte & 0x80 != 0) {
            return Err(Undecoded::OTHER);
        }
        len += if flags & 0x80 != 0 { 6 } else { 2 };
    }
    if padded {
        len = len.next_multiple_of(4);
    }
    llc(frame, at + len, u32::MAX, 0)
}

/// Radiotap: version, padding, length, words of bits for the fields that are present, in little-endian order.
fn radiotap(frame: &[u8]) -> Found {
    let len = usize::from(half(frame, 2).ok_or(Undecoded::OTHER)?.swap_bytes());
    let present = word(frame, 4).ok_or(Undecoded::OTHER)?.swap_bytes();
    let mut at = 8;
    let mut more = present;
    while more & 0x8000_0000 != 0 {
        more = word(frame, at).ok_or(Undecoded::OTHER)?.swap_bytes();
        at += 4;
    }
    // The clock comes before the flags, aligned to eight bytes.
    if present & 1 != 0 {
        at = at.next_multiple_of(8) + 8;
    }
    let flags = if present & 2 != 0 { frame.get(at).copied().unwrap_or(0) } else { 0 };
    wifi(frame, len, flags & 0x20 != 0)
}

/// Netfilter's log: a header of four bytes, then attributes in the byte order of the host that captured.
fn nflog(frame: &[u8]) -> Found {
    let little = |at| half(frame, at).map(u16::swap_bytes);
    let mut at = 4;
    while let (Some(len), Some(kind)) = (little(at), little(at + 2)) {
        if kind == NFLOG_PAYLOAD {
            return ip(frame, at + 4);
        }
        at += usize::from(len.max(4)).next_multiple_of(4);
    }
    Err(Undecoded::OTHER)
}
