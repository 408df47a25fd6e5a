//! What the packets of a capture carry: TCP segments, also in tunnels, and ICMP errors about them.

use crate::counts::PacketCounts;
use crate::icmp::IcmpError;
use crate::link::{NetworkLayer, Undecoded, network};
use crate::reader::{CaptureRecord, ReadError, Reader};
use crate::tunnel::{Around, NoInner, innermost};
use std::io::Read;
use tcpassay_wire::headers::{Extent, Headers, IpPacket, NoHeaders, TCP, ip, tcp};

/// A TCP segment of a capture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CapturedSegment {
    /// Nanoseconds since 1970, if the packet has a time.
    pub at_ns: Option<u64>,
    /// Index of [`Reader::interfaces`].
    pub interface: usize,
    /// The identifier of the outermost VLAN tag; 0 without one.
    pub vlan: u16,
    /// The index of the network interface (Linux cooked capture v2); 0 where the packet has none.
    pub device: u16,
    /// The tunnels around the packet.
    pub around: Option<Box<Around>>,
    /// Its headers.
    pub headers: Headers,
}

impl<R: Read> Reader<R> {
    /// The TCP segment of the next packet; a packet without one is counted. `None` at the end.
    ///
    /// # Errors
    /// Those of [`Reader::next_packet`].
    #[inline]
    pub fn next_segment(
        &mut self,
        counts: &mut PacketCounts,
    ) -> Result<Option<Option<CapturedSegment>>, ReadError> {
        let content = self.next_content(counts)?;
        Ok(content.map(|content| match content {
            Content::Segment(segment) => Some(segment),
            Content::Icmp(..) | Content::Other => None,
        }))
    }

    /// What the next packet carries. `None` at the end.
    #[inline]
    pub(crate) fn next_content(&mut self, counts: &mut PacketCounts) -> Result<Option<Content>, ReadError> {
        let over_udp = self.over_udp;
        let Some(packet) = self.next_packet()? else { return Ok(None) };
        counts.packets += 1;
        let content = content(&packet, over_udp, counts);
        if let Content::Segment(CapturedSegment { around: Some(around), .. }) = &content {
            self.over_udp |= around.tunnels[0].is_some_and(|tunnel| tunnel.kind.is_over_udp());
        }
        Ok(Some(content))
    }
}

/// What a packet carries.
pub(crate) enum Content {
    Segment(CapturedSegment),
    /// An ICMP error about a segment: its time, its interface.
    Icmp(Option<u64>, usize, Box<IcmpError>),
    /// It was counted.
    Other,
}

/// What a packet carries; one without a segment or an error about one is counted. `over_udp`: there are tunnels over UDP.
#[inline]
fn content(packet: &CaptureRecord<'_>, over_udp: bool, counts: &mut PacketCounts) -> Content {
    let start = match network(packet.link, packet.data) {
        NetworkLayer::Ip(start) => start,
        NetworkLayer::Other => {
            counts.other += 1;
            return Content::Other;
        }
        NetworkLayer::Unsupported => {
            *counts.unsupported_links.entry(packet.link.0).or_default() += 1;
            return Content::Other;
        }
        NetworkLayer::Undecoded(what) => {
            *counts.undecoded.entry(what).or_default() += 1;
            return Content::Other;
        }
    };
    let before = u32::try_from(start.at).unwrap_or(u32::MAX);
    let extent = Extent { whole: packet.original_len.saturating_sub(before), most: start.most };
    let made = |headers, around| CapturedSegment {
        at_ns: packet.at_ns,
        interface: packet.interface,
        vlan: start.vlan,
        device: start.device,
        around,
        headers,
    };
    let found = match ip(&packet.data[start.at..], extent) {
        Ok(ip) if ip.protocol == TCP => whole_tcp(&ip).map(|headers| made(headers, None)),
        Ok(ip) => {
            // Of a copy, so that the other one need not be in memory.
            let outer = ip;
            match tunnelled(&outer, over_udp, counts) {
                Inner::Segment(found) => found.map(|(headers, around)| made(headers, Some(Box::new(around)))),
                Inner::Icmp(error) => return Content::Icmp(packet.at_ns, packet.interface, Box::new(error)),
                Inner::Counted => return Content::Other,
            }
        }
        Err(why) => Err(why),
    };
    match found {
        Ok(segment) => return Content::Segment(segment),
        Err(NoHeaders::OtherProtocol) => counts.other += 1,
        Err(NoHeaders::Fragment) => counts.fragments += 1,
        Err(NoHeaders::Short) => counts.short += 1,
        Err(NoHeaders::Malformed) => counts.malformed += 1,
    }
    Content::Other
}

#[inline]
fn whole_tcp(ip: &IpPacket<'_>) -> Result<Headers, NoHeaders> {
    if ip.fragment.is_some() { Err(NoHeaders::Fragment) } else { tcp(ip) }
}

/// What an IP packet carries that is no segment.
enum Inner {
    /// A segment in tunnels, or why there is none.
    Segment(Result<(Headers, Around), NoHeaders>),
    Icmp(IcmpError),
    /// The packet was counted.
    Counted,
}

/// The TCP segment in the tunnels of a packet, or the error about one, which may be in tunnels, too.
#[cold]
fn tunnelled(outer: &IpPacket<'_>, over_udp: bool, counts: &mut PacketCounts) -> Inner {
    if let Some(error) = IcmpError::of(outer) {
        return Inner::Icmp(error);
    }
    let why = match innermost(outer) {
        Ok((ip, around)) if ip.protocol == TCP => {
            return Inner::Segment(whole_tcp(&ip).map(|headers| (headers, around)));
        }
        Ok((ip, _)) => match IcmpError::of(&ip) {
            Some(error) => return Inner::Icmp(error),
            None => NoHeaders::OtherProtocol,
        },
        Err(NoInner::Other) => NoHeaders::OtherProtocol,
        Err(NoInner::NoTunnel) => {
            // A later fragment of a datagram has no port, but tunnels over UDP are there.
            let is_later = outer.fragment.is_some_and(|(offset, _)| offset > 0);
            if is_later && over_udp {
                *counts.undecoded.entry(Undecoded::TunnelFragment).or_default() += 1;
                return Inner::Counted;
            }
            NoHeaders::OtherProtocol
        }
        Err(NoInner::Undecoded(what)) => {
            *counts.undecoded.entry(what).or_default() += 1;
            return Inner::Counted;
        }
        Err(NoInner::Headers(why)) => why,
    };
    Inner::Segment(Err(why))
}
