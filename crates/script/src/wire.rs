//! Encoding of the packets of a script, and decoding of the TCP options of received packets.
//!
//! The options are encoded in the order of the script, and the payload is zero. `tcpassay_wire::codec` encodes options as Linux
//! does. A script may want other options, such as one kind twice.

use crate::ast::{IcmpMessage, IpField, TcpOption, TcpPacket};
use std::net::{IpAddr, SocketAddr};
use tcpassay_wire::Flags;

/// The TOS byte of an inbound packet.
pub fn tos(ip: IpField) -> u8 {
    match ip {
        IpField::Unsaid => 0,
        IpField::Ecn(bits) => bits,
        IpField::EitherEct => 2,
        IpField::Tos(tos) => tos,
    }
}

/// The ones' complement sum of RFC 1071.
fn sum(parts: &[&[u8]]) -> u16 {
    let mut total = 0_u64;
    for part in parts {
        let (pairs, rest) = part.as_chunks::<2>();
        total += pairs.iter().map(|p| u64::from(u16::from_be_bytes(*p))).sum::<u64>();
        total += rest.first().map_or(0, |last| u64::from(*last) << 8);
    }
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    u16::try_from(total).expect("folded")
}

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

/// An IP header for `len` bytes of `protocol`.
fn ip_header(from: IpAddr, to: IpAddr, tos: u8, protocol: u8, len: usize) -> Result<Vec<u8>, String> {
    let too_long = |_| format!("a packet with {len} bytes after its IP header");
    let mut header = Vec::new();
    if from.is_ipv4() {
        let total = u16::try_from(len + 20).map_err(too_long)?;
        header.extend([0x45, tos]);
        header.extend(total.to_be_bytes());
        header.extend([0, 0, 0, 0, 255, protocol, 0, 0]);
        header.extend(octets(from));
        header.extend(octets(to));
        let checksum = !sum(&[&header]);
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
    } else {
        let payload = u16::try_from(len).map_err(too_long)?;
        header.extend([0x60 | tos >> 4, tos << 4, 0, 0]);
        header.extend(payload.to_be_bytes());
        header.extend([protocol, 255]);
        header.extend(octets(from));
        header.extend(octets(to));
    }
    Ok(header)
}

/// The pseudo header of the checksum.
fn pseudo(from: IpAddr, to: IpAddr, protocol: u8, len: usize) -> Vec<u8> {
    let mut bytes = octets(from);
    bytes.extend(octets(to));
    bytes.extend(u32::try_from(len).expect("an IP packet").to_be_bytes());
    bytes.extend([0, 0, 0, protocol]);
    bytes
}

/// The bytes of the options, padded with zeros to a multiple of 4.
fn options(list: &[TcpOption]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    for opt in list {
        match opt {
            TcpOption::Mss(n) => {
                bytes.extend([2, 4]);
                bytes.extend(n.to_be_bytes());
            }
            TcpOption::WindowScale(n) => bytes.extend([3, 3, *n]),
            TcpOption::SackPermitted => bytes.extend([4, 2]),
            TcpOption::Sack(blocks) => {
                let len =
                    u8::try_from(2 + 8 * blocks.len()).map_err(|_| "too many SACK blocks".to_owned())?;
                bytes.extend([5, len]);
                for (start, end) in blocks {
                    bytes.extend(start.to_be_bytes());
                    bytes.extend(end.to_be_bytes());
                }
            }
            TcpOption::Timestamps(val, ecr) => {
                bytes.extend([8, 10]);
                bytes.extend(val.unwrap_or(0).to_be_bytes());
                bytes.extend(ecr.unwrap_or(0).to_be_bytes());
            }
            TcpOption::Nop => bytes.push(1),
            TcpOption::Eol => bytes.push(0),
            TcpOption::FastOpen { experimental, cookie } => {
                let cookie = bytes_of(cookie).ok_or("a cookie to inject must be hexadecimal digits")?;
                let magic: &[u8] = if *experimental { &[0xf9, 0x89] } else { &[] };
                let len = u8::try_from(2 + magic.len() + cookie.len()).map_err(|_| "too long a cookie")?;
                bytes.extend([if *experimental { 254 } else { 34 }, len]);
                bytes.extend(magic);
                bytes.extend(cookie);
            }
            TcpOption::Md5(digest) => {
                let digest = bytes_of(digest).filter(|digest| digest.len() == 16);
                bytes.extend([19, 18]);
                bytes.extend(digest.ok_or("an MD5 digest to inject must be 32 hexadecimal digits")?);
            }
            TcpOption::AccurateEcn(_) => return Err(format!("the TCP option {opt}")),
        }
    }
    while !bytes.len().is_multiple_of(4) {
        bytes.push(0);
    }
    if bytes.len() > 40 {
        return Err(format!("{} bytes of options; a TCP header has room for 40", bytes.len()));
    }
    Ok(bytes)
}

/// The bytes of a TCP packet. `tcp` has the numbers of the kernel.
///
/// # Errors
/// A value that a packet cannot carry.
pub fn segment(from: SocketAddr, to: SocketAddr, tos: u8, tcp: &TcpPacket) -> Result<Vec<u8>, String> {
    const PROTOCOL: u8 = 6;
    let options = options(tcp.options.as_deref().unwrap_or_default())?;
    let header = 20 + options.len();
    let len = header + tcp.len as usize;
    let mut bytes = ip_header(from.ip(), to.ip(), tos, PROTOCOL, len)?;
    let start = bytes.len();
    bytes.extend(from.port().to_be_bytes());
    bytes.extend(to.port().to_be_bytes());
    bytes.extend(tcp.seq.to_be_bytes());
    bytes.extend(tcp.ack.unwrap_or(0).to_be_bytes());
    let words = u16::try_from(header / 4).expect("at most 15");
    bytes.extend((words << 12 | tcp.flags.bits() & 0x1ff).to_be_bytes());
    bytes.extend(tcp.window.unwrap_or(0).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(tcp.urgent.unwrap_or(0).to_be_bytes());
    bytes.extend(options);
    // The zeros of the payload do not change the checksum.
    let checksum = !sum(&[&pseudo(from.ip(), to.ip(), PROTOCOL, len), &bytes[start..]]);
    bytes[start + 16..start + 18].copy_from_slice(&checksum.to_be_bytes());
    bytes.resize(start + len, 0);
    Ok(bytes)
}

/// The type and code of an ICMP message (IANA registries) by the names of packetdrill.
fn kind(icmp: &IcmpMessage, v4: bool) -> Option<(u8, u8)> {
    let code = |names: &[(&str, u8)]| {
        let plain = icmp.code.is_empty().then_some(0).or_else(|| icmp.code.parse().ok());
        names.iter().find(|(name, _)| *name == icmp.code).map(|(_, n)| *n).or(plain)
    };
    let unreachable_v4 = [
        ("net_unreachable", 0),
        ("host_unreachable", 1),
        ("protocol_unreachable", 2),
        ("port_unreachable", 3),
        ("frag_needed", 4),
        ("source_route_failed", 5),
        ("net_unknown", 6),
        ("host_unknown", 7),
        ("source_host_isolated", 8),
        ("net_prohibited", 9),
        ("host_prohibited", 10),
        ("net_unreachable_for_tos", 11),
        ("host_unreachable_for_tos", 12),
        ("packet_filtered", 13),
        ("precedence_violation", 14),
        ("precedence_cutoff", 15),
    ];
    let unreachable_v6 = [
        ("no_route", 0),
        ("admin_prohibited", 1),
        ("not_neighbour", 2),
        ("addr_unreachable", 3),
        ("address_unreachable", 3),
        ("port_unreachable", 4),
        ("policy_fail", 5),
        ("reject_route", 6),
    ];
    match (icmp.kind.as_str(), v4) {
        ("unreachable", true) => Some((3, code(&unreachable_v4)?)),
        ("time_exceeded", true) => Some((11, code(&[("exc_ttl", 0), ("exc_fragtime", 1)])?)),
        ("source_quench", true) => Some((4, 0)),
        ("parameter_problem", true) => Some((12, code(&[])?)),
        ("unreachable", false) => Some((1, code(&unreachable_v6)?)),
        ("packet_too_big", false) => Some((2, 0)),
        ("time_exceeded", false) => Some((3, code(&[("exc_hop", 0), ("exc_frag", 1)])?)),
        ("parameter_problem", false) => Some((4, code(&[])?)),
        _ => None,
    }
}

/// An ICMP message from `to` about a segment `from -> to` whose first sequence number was `seq`.
///
/// # Errors
/// A value that a packet cannot carry.
pub fn icmp(from: SocketAddr, to: SocketAddr, seq: u32, icmp: &IcmpMessage) -> Result<Vec<u8>, String> {
    let v4 = from.is_ipv4();
    let (kind, code) = kind(icmp, v4).ok_or_else(|| format!("ICMP {} {}", icmp.kind, icmp.code))?;
    let mut echoed = ip_header(from.ip(), to.ip(), 0, 6, 20)?;
    echoed.extend(from.port().to_be_bytes());
    echoed.extend(to.port().to_be_bytes());
    echoed.extend(seq.to_be_bytes());
    echoed.extend([0; 4]);
    echoed.extend((5_u16 << 12 | Flags::ACK.bits()).to_be_bytes());
    echoed.extend([0; 6]);
    let mut message = vec![kind, code, 0, 0];
    let mtu = icmp.mtu.unwrap_or(0);
    message.extend(mtu.to_be_bytes());
    message.extend(echoed);
    let protocol = if v4 { 1 } else { 58 };
    let above = if v4 { Vec::new() } else { pseudo(to.ip(), from.ip(), protocol, message.len()) };
    let checksum = !sum(&[&above, &message]);
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    let mut bytes = ip_header(to.ip(), from.ip(), 0, protocol, message.len())?;
    bytes.extend(message);
    Ok(bytes)
}

/// The TOS byte and the TCP options of a packet. `None` if it is not a TCP packet or has IP options.
pub fn read(bytes: &[u8]) -> Option<(u8, Vec<TcpOption>)> {
    let (tos, tcp) = match bytes.first()? >> 4 {
        4 => (*bytes.get(1)?, bytes.get(usize::from(bytes[0] & 0xf) * 4..)?),
        6 => (bytes[0] << 4 | bytes.get(1)? >> 4, bytes.get(40..)?),
        _ => return None,
    };
    let mut rest = tcp.get(20..usize::from(tcp.get(12)? >> 4) * 4)?;
    let mut list = Vec::new();
    while let Some((&kind, after)) = rest.split_first() {
        if kind < 2 {
            list.push(if kind == 0 { TcpOption::Eol } else { TcpOption::Nop });
            rest = after;
            continue;
        }
        let len = usize::from(*after.first()?);
        let body = rest.get(2..len)?;
        let word =
            |at: usize| body.get(at..at + 4).map(|b| u32::from_be_bytes(b.try_into().expect("4 bytes")));
        list.push(match (kind, body.len()) {
            (2, 2) => TcpOption::Mss(u16::from_be_bytes([body[0], body[1]])),
            (3, 1) => TcpOption::WindowScale(body[0]),
            (4, 0) => TcpOption::SackPermitted,
            (5, n) if n % 8 == 0 => TcpOption::Sack(
                (0..n / 8).map(|i| Some((word(8 * i)?, word(8 * i + 4)?))).collect::<Option<_>>()?,
            ),
            (8, 8) => TcpOption::Timestamps(word(0), word(4)),
            (34, _) => TcpOption::FastOpen { experimental: false, cookie: hexadecimal(body) },
            (254, _) if body.starts_with(&[0xf9, 0x89]) => {
                TcpOption::FastOpen { experimental: true, cookie: hexadecimal(&body[2..]) }
            }
            // AccECN, and options that scripts cannot express.
            _ => TcpOption::AccurateEcn(format!("kind {kind} {}", hexadecimal(body))),
        });
        rest = &rest[len..];
    }
    Some((tos, list))
}

/// The bytes of hexadecimal digits.
fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, b| {
        write!(text, "{b:02x}").expect("a String takes everything");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpassay_wire::codec::{Content, decode};

    fn packet(v6: bool) -> (Vec<u8>, Vec<TcpOption>) {
        let (from, to) = if v6 {
            ("[2001:db8::1]:80".parse().unwrap(), "[fd3d:fa7b:d17d::1]:8080".parse().unwrap())
        } else {
            ("192.0.2.1:80".parse().unwrap(), "192.168.0.1:8080".parse().unwrap())
        };
        let list = vec![
            TcpOption::Nop,
            TcpOption::Timestamps(Some(7), Some(9)),
            TcpOption::Sack(vec![(100, 200)]),
            TcpOption::Mss(1000),
            // The list has whole words. Otherwise the padding would be decoded as `eol`.
            TcpOption::Nop,
            TcpOption::Nop,
            TcpOption::Nop,
        ];
        let tcp = TcpPacket {
            flags: Flags::ACK | Flags::PSH | Flags::AE,
            seq: 0xffff_fff0,
            any_seq: false,
            len: 1001,
            ack: Some(77),
            window: Some(300),
            urgent: Some(5),
            options: Some(list.clone()),
        };
        (segment(from, to, 3, &tcp).unwrap(), list)
    }

    #[test]
    fn a_packet_is_written_as_the_script_has_it_with_a_right_checksum() {
        for v6 in [false, true] {
            let (bytes, list) = packet(v6);
            let read_back = decode(&bytes).unwrap();
            assert_eq!(read_back.checksum_ok, Some(true));
            let Content::Tcp(s) = read_back.content else { panic!("TCP") };
            assert_eq!((s.seq.get(), s.len, s.window, s.urgent), (0xffff_fff0, 1001, 300, 5));
            assert!(s.flags.has(Flags::AE) && s.flags.has(Flags::PSH));
            assert_eq!(read(&bytes), Some((3, list)));
        }
    }

    #[test]
    fn an_icmp_message_echoes_the_segment_and_has_a_right_checksum() {
        let message = IcmpMessage {
            kind: "unreachable".to_owned(),
            code: "frag_needed".to_owned(),
            mtu: Some(1200),
            seq: Some(1),
        };
        let (from, to) = ("192.168.0.1:8080".parse().unwrap(), "192.0.2.1:80".parse().unwrap());
        let bytes = icmp(from, to, 0x0102_0304, &message).unwrap();
        assert_eq!(&bytes[20..22], &[3, 4]);
        assert_eq!(&bytes[24..28], &[0, 0, 4, 176]);
        assert_eq!(&bytes[28 + 20 + 4..28 + 20 + 8], &[1, 2, 3, 4]);
        assert_eq!(sum(&[&bytes[20..]]), 0xffff);
    }
}
