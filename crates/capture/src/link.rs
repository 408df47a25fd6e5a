//! The link layers of captures: where the IP packet begins.

use crate::reader::LinkType;

/// VLAN tags (IEEE 802.1Q, 802.1ad, and two numbers in use before 802.1ad).
const TAGS: [u16; 4] = [0x8100, 0x88a8, 0x9100, 0x9200];
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const MPLS: [u16; 2] = [0x8847, 0x8848];
const PPPOE: u16 = 0x8864;
/// Protocol numbers of PPP.
const PPP_IPV4: u16 = 0x0021;
const PPP_IPV6: u16 = 0x0057;

/// The position of the IP packet in a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NetworkLayer {
    /// At this byte.
    Ip(usize),
    /// The frame carries another protocol, or its captured bytes end before.
    Other,
    /// The link type is not supported.
    Unsupported,
}

/// Finds the IP packet in a frame of link type `link`.
#[inline]
pub fn network(link: LinkType, frame: &[u8]) -> NetworkLayer {
    let start = match link.0 {
        // NULL and LOOP: an address family of four bytes, in the byte order of the host that captured, or of the network.
        0 | 108 => family(frame),
        1 => ethernet(frame),
        // RAW, and numbers that systems use for it; IPV4 and IPV6.
        12 | 14 | 101 | 228 | 229 => ip(frame, 0),
        // PPP and PPP_HDLC, with or without address and control.
        9 | 50 => match frame {
            [0xff, 0x03, ..] => ppp(frame, 2),
            _ => ppp(frame, 0),
        },
        // Linux cooked capture, versions 1 and 2.
        113 => typed(frame, 14, 16),
        276 => typed(frame, 0, 20),
        _ => return NetworkLayer::Unsupported,
    };
    start.map_or(NetworkLayer::Other, NetworkLayer::Ip)
}

fn half(frame: &[u8], at: usize) -> Option<u16> {
    frame.get(at..at + 2).map(|two| u16::from_be_bytes([two[0], two[1]]))
}

/// The version must be one of IP.
fn ip(frame: &[u8], at: usize) -> Option<usize> {
    matches!(frame.get(at)? >> 4, 4 | 6).then_some(at)
}

fn family(frame: &[u8]) -> Option<usize> {
    let four: [u8; 4] = frame.get(..4)?.try_into().expect("four bytes");
    // AF_INET everywhere; AF_INET6 of Linux, of NetBSD and OpenBSD, of FreeBSD, of Darwin.
    let is_ip = |family| matches!(family, 2 | 10 | 24 | 28 | 30);
    (is_ip(u32::from_be_bytes(four)) || is_ip(u32::from_le_bytes(four))).then(|| ip(frame, 4)).flatten()
}

fn ethernet(frame: &[u8]) -> Option<usize> {
    match half(frame, 12)? {
        // A length: IEEE 802.2 with SNAP.
        0..=1500 => match frame.get(14..20)? {
            [0xaa, 0xaa, 0x03, 0, 0, 0] => typed(frame, 20, 22),
            _ => None,
        },
        _ => typed(frame, 12, 14),
    }
}

/// The type (as of Ethernet) is at `kind`; what it names begins at `at`.
fn typed(frame: &[u8], kind: usize, mut at: usize) -> Option<usize> {
    let mut kind = half(frame, kind)?;
    while TAGS.contains(&kind) {
        kind = half(frame, at + 2)?;
        at += 4;
    }
    match kind {
        IPV4 | IPV6 => ip(frame, at),
        PPPOE => ppp(frame, at + 6),
        _ if MPLS.contains(&kind) => {
            // Labels up to the bottom of the stack (RFC 3032).
            while frame.get(at + 2)? & 1 == 0 {
                at += 4;
            }
            ip(frame, at + 4)
        }
        _ => None,
    }
}

fn ppp(frame: &[u8], at: usize) -> Option<usize> {
    match half(frame, at)? {
        PPP_IPV4 | PPP_IPV6 => ip(frame, at + 2),
        _ => None,
    }
}
