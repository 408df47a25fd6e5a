//! Whole IPv4 packets of TCP with their payload, as a real stack passes them to its network device.
//!
//! [`codec`](crate::codec) writes packets whose payload consists of zeros and may be cut. Here all bytes are present, so that
//! both checksums are computed and verified over what the packet carries.

use crate::codec::{EncodeError, Envelope, ipv4_header, pseudo_header, tcp_header};
use crate::headers::{Extent, Headers, NoHeaders, read};
use crate::{Layout, Segment};
use etherparse::IpNumber;
use etherparse::checksum::Sum16BitWords;
use std::net::IpAddr;

/// A packet that [`decode`] has read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WholePacket<'a> {
    /// Addresses, ports, and the TCP header.
    pub headers: Headers,
    /// The payload of the segment.
    pub payload: &'a [u8],
    /// Whether the checksum of the IP header is correct (RFC 791 section 3.1).
    pub ip_checksum_ok: bool,
    /// Whether the checksum of the segment is correct (RFC 9293 section 3.1).
    pub tcp_checksum_ok: bool,
}

/// Appends a packet to `out`. The length of the segment is that of `payload`.
///
/// # Errors
/// Addresses that are not IPv4, options beyond 40 bytes, a packet beyond 65535 bytes.
pub fn encode(
    envelope: &Envelope,
    segment: &Segment,
    payload: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let (IpAddr::V4(from), IpAddr::V4(to)) = (envelope.from.ip(), envelope.to.ip()) else {
        return Err(EncodeError::Families { from: envelope.from.ip(), to: envelope.to.ip() });
    };
    let len = 20 + segment.header_len() as usize + payload.len();
    let total = u16::try_from(len).map_err(|_| EncodeError::TooLong { len: len as u64 })?;
    let sum = pseudo_header(envelope, total - 20, IpNumber::TCP)?.add_slice(payload);
    let header = tcp_header(envelope, segment, Layout::Linux, sum)?;
    out.extend_from_slice(&ipv4_header(envelope, from.octets(), to.octets(), total, IpNumber::TCP));
    out.extend_from_slice(&header.to_bytes());
    out.extend_from_slice(payload);
    Ok(())
}

/// Reads a packet. `bytes` must be the whole packet and nothing else.
///
/// # Errors
/// See [`NoHeaders`]. IPv6 and bytes beyond the packet are `Malformed`, missing bytes are `Short`.
pub fn decode(bytes: &[u8]) -> Result<WholePacket<'_>, NoHeaders> {
    let headers = read(bytes, Extent::of(0))?;
    if headers.envelope.from.is_ipv6() {
        return Err(NoHeaders::Malformed);
    }
    let total = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
    if headers.cut || total > bytes.len() {
        return Err(NoHeaders::Short);
    }
    if total != bytes.len() {
        return Err(NoHeaders::Malformed);
    }
    let ip_header = usize::from(bytes[0] & 15) * 4;
    let covered = &bytes[ip_header..];
    let length = u16::try_from(covered.len()).expect("the length field of a packet has 16 bits");
    let sum = pseudo_header(&headers.envelope, length, IpNumber::TCP).expect("two IPv4 addresses");
    let payload = &bytes[total - headers.segment.len as usize..];
    // A sum that includes its own complement has all bits set.
    let ip_checksum_ok = Sum16BitWords::new().add_slice(&bytes[..ip_header]).ones_complement() == 0;
    let tcp_checksum_ok = sum.add_slice(covered).ones_complement() == 0;
    Ok(WholePacket { headers, payload, ip_checksum_ok, tcp_checksum_ok })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ecn, Flags, Timestamps};
    use std::net::SocketAddr;
    use tcpassay_units::SeqNum;

    fn packet(payload: &[u8]) -> (Envelope, Segment, Vec<u8>) {
        let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let envelope = Envelope {
            from: address("10.0.0.1:32768"),
            to: address("10.0.0.2:5001"),
            ecn: Ecn::Ect0,
            id: 7,
            ttl: 64,
        };
        let mut segment = Segment {
            seq: SeqNum::new(u32::MAX),
            ack: SeqNum::new(9),
            len: u32::try_from(payload.len()).expect("short"),
            flags: Flags::ACK | Flags::PSH,
            window: 1000,
            ..Segment::default()
        };
        segment.options.timestamps = Some(Timestamps { val: 1, ecr: 2 });
        let mut bytes = Vec::new();
        encode(&envelope, &segment, payload, &mut bytes).expect("it fits");
        (envelope, segment, bytes)
    }

    #[test]
    fn a_packet_is_read_as_it_was_written() {
        let (envelope, segment, bytes) = packet(b"payload");
        let read = decode(&bytes).expect("a packet");
        assert_eq!((read.headers.envelope, read.headers.segment), (envelope, segment));
        assert_eq!((read.payload, read.ip_checksum_ok, read.tcp_checksum_ok), (&b"payload"[..], true, true));
        assert_eq!(bytes.len(), 20 + 32 + 7);
    }

    #[test]
    fn each_checksum_shows_a_changed_bit_in_what_it_covers() {
        for (place, expected) in [(8, (false, true)), (20 + 14, (true, false)), (20 + 32 + 3, (true, false))]
        {
            let (_, _, mut bytes) = packet(b"payload");
            bytes[place] ^= 1;
            let read = decode(&bytes).expect("a packet");
            assert_eq!((read.ip_checksum_ok, read.tcp_checksum_ok), expected, "byte {place}");
        }
    }

    #[test]
    fn a_packet_with_missing_or_further_bytes_is_refused() {
        let (_, _, bytes) = packet(b"payload");
        assert_eq!(decode(&bytes[..bytes.len() - 1]), Err(NoHeaders::Short));
        assert_eq!(decode(&bytes[..30]), Err(NoHeaders::Short));
        assert_eq!(decode(&[&bytes[..], &[0]].concat()), Err(NoHeaders::Malformed));
        assert_eq!(decode(&[]), Err(NoHeaders::Short));
    }
}
