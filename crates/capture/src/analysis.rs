//! All connections of a capture, in one pass over its packets.

use crate::clock::{Clocks, Told};
use crate::flow::{self, Connection, HalfCounters, Place, Round, Seen};
use crate::link::{NetworkLayer, Undecoded, network};
use crate::reader::{CaptureRecord, Interface, ReadError, Reader};
use crate::table::{self, Table, Ways};
use crate::tunnel::{Around, NoInner, TunnelKind, innermost};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Read;
use std::net::SocketAddr;
use tcpassay_units::Time;
use tcpassay_wire::Flags;
use tcpassay_wire::headers::{Extent, Headers, IpPacket, NoHeaders, TCP, ip, tcp};

/// Options of an analysis.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AnalysisOptions {
    /// Only packets of the interface with this name.
    pub interface: Option<String>,
    /// All interfaces are one capture point: each packet passes only one of them.
    pub merge_interfaces: bool,
}

/// Counters of the packets of a capture: those that were analysed, those that were not by reason, and those
/// that are incomplete.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct PacketCounts {
    /// All packets.
    pub packets: u64,
    /// TCP segments that were analysed.
    pub segments: u64,
    /// Packets of other protocols.
    pub other: u64,
    /// Packets of link layers that are not supported, by number.
    pub unsupported_links: BTreeMap<u16, u64>,
    /// TCP segments in tunnels that were analysed, by the outermost tunnel.
    pub tunnels: BTreeMap<TunnelKind, u64>,
    /// Packets that may carry TCP and are not decoded, by the reason.
    pub undecoded: BTreeMap<Undecoded, u64>,
    /// Segments in tunnels beyond the number that is told apart.
    pub too_many_tunnels: u64,
    /// Fragments of IP packets.
    pub fragments: u64,
    /// Packets whose captured bytes end before the window of the TCP header.
    pub short: u64,
    /// Packets whose headers contradict themselves.
    pub malformed: u64,
    /// Segments whose captured bytes end inside the TCP options.
    pub options_cut: u64,
    /// Packets of interfaces that were not chosen.
    pub other_interfaces: u64,
    /// Packets without a time.
    pub timeless: u64,
    /// Packets whose time is more than ten years from the first one of the capture.
    pub contradictory_times: u64,
    /// How often the clock of an interface was set by more than ten years.
    pub clocks_set: u64,
    /// Packets that are earlier than the one before them on their interface.
    pub backwards: u64,
    /// The largest step back.
    pub most_backwards_ns: u64,
    /// Damaged blocks of pcapng that were skipped.
    pub skipped_blocks: u64,
}

/// A TCP segment of a capture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CapturedSegment {
    /// Nanoseconds since 1970, if the packet has a time.
    pub at_ns: Option<u64>,
    /// Index of [`Reader::interfaces`].
    pub interface: usize,
    /// The identifier of the outermost VLAN tag; 0 without one.
    pub vlan: u16,
    /// The tunnels around the packet.
    pub around: Option<Around>,
    /// Its headers.
    pub headers: Headers,
}

/// The connection and the sender of a segment.
#[derive(Clone, Copy, Debug)]
pub struct Placed {
    /// Time of the capture, since 1970.
    pub at: Time,
    /// Index of the connection.
    pub connection: usize,
    /// The end that sends it.
    pub from: usize,
}

/// Properties of a connection, for a second pass over the packets of the capture.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionFacts {
    /// The end that opened it, and the other.
    pub ends: [SocketAddr; 2],
    /// Both SYNs are in the capture, with their options.
    pub has_handshake: bool,
    /// The place at which the capture was taken, for the data of the end that opened the connection.
    pub place: Place,
    /// The largest payload of a segment, by the end that sends it.
    pub mss: [u64; 2],
    /// Counters, by the end that sends.
    pub counters: [HalfCounters; 2],
}

/// The steps in which the clock of the capture advances.
#[derive(Clone, Copy, Debug)]
struct ClockStep {
    /// The shortest time between two successive packets that is not zero.
    least_ns: u64,
    /// Successive packets had equal times.
    equal: bool,
}

impl Default for ClockStep {
    fn default() -> ClockStep {
        ClockStep { least_ns: u64::MAX, equal: false }
    }
}

impl ClockStep {
    #[inline]
    fn add(&mut self, step_ns: u64) {
        if step_ns == 0 {
            self.equal = true;
        } else if step_ns < self.least_ns {
            self.least_ns = step_ns;
        }
    }
}

/// The connections of a capture.
pub struct Analysis {
    options: AnalysisOptions,
    pub(crate) table: Table<Box<Connection>>,
    pub(crate) ways: Ways,
    /// Connection and sending end of each flow.
    pub(crate) flows: Vec<(u32, usize)>,
    clocks: Clocks,
    step: ClockStep,
    /// Counters of the packets that were read.
    pub counts: PacketCounts,
    /// The error that ended the reading of the capture; `None` if it was read to its end.
    pub error: Option<ReadError>,
    rounds: Vec<Round>,
}

impl Analysis {
    /// Creates an analysis without packets.
    pub fn new(options: AnalysisOptions) -> Analysis {
        Analysis {
            options,
            table: Table::new(),
            ways: Ways::default(),
            flows: Vec::new(),
            clocks: Clocks::default(),
            step: ClockStep::default(),
            counts: PacketCounts::default(),
            error: None,
            rounds: Vec::new(),
        }
    }

    /// Reads up to `most` packets. False at the end of the capture, whose error is in [`Analysis::error`].
    pub fn read<R: Read>(&mut self, reader: &mut Reader<R>, most: u64) -> bool {
        for _ in 0..most {
            match reader.next_segment(&mut self.counts) {
                Ok(Some(segment)) => {
                    self.segment(&segment, reader.interfaces());
                }
                Ok(None) => {
                    self.end(reader.skipped_blocks());
                    return false;
                }
                Err(error) => {
                    self.error = Some(error);
                    self.end(reader.skipped_blocks());
                    return false;
                }
            }
        }
        true
    }

    /// Whether the analysis covers one capture point: one was chosen, or all are considered as one.
    pub(crate) fn is_of_one_point(&self) -> bool {
        self.options.interface.is_some() || self.options.merge_interfaces
    }

    fn end(&mut self, skipped: u64) {
        self.counts.skipped_blocks = skipped;
        self.table.entries_mut().for_each(|entry| entry.state.finish(&mut self.rounds));
    }

    /// The connections in memory, in the order of their first packets.
    pub(crate) fn open_connections(&self) -> impl Iterator<Item = &Connection> {
        self.table.entries().iter().map(|entry| &*entry.state)
    }

    /// The rounds that ended since the last call, in the order in which they ended.
    pub fn take_rounds(&mut self) -> Vec<Round> {
        let clock_ns = self.clock_step_ns().unwrap_or(0);
        let mut rounds = std::mem::take(&mut self.rounds);
        for round in &mut rounds {
            round.clock_ns = clock_ns;
        }
        rounds
    }

    /// The step of the capture's clock: the shortest time between two packets, in a capture that has packets with equal times.
    pub fn clock_step_ns(&self) -> Option<u64> {
        (self.step.equal && self.step.least_ns < u64::MAX).then_some(self.step.least_ns)
    }

    /// The connections in the order of their first packets.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionFacts> + '_ {
        self.open_connections().map(|one| ConnectionFacts {
            ends: one.ends,
            has_handshake: one.has_both_scales(),
            place: one.place(0),
            mss: [one.mss(0), one.mss(1)],
            counters: [one.halves[0].counters, one.halves[1].counters],
        })
    }

    /// Bytes that were acknowledged but not captured.
    pub fn unseen_bytes(&self) -> u64 {
        self.open_connections().flat_map(|one| &one.halves).map(|half| half.counters.unseen_bytes).sum()
    }

    /// Takes in a segment; `None` when its interface was not chosen, or when there are too many tunnels.
    pub fn segment(&mut self, captured: &CapturedSegment, interfaces: &[Interface]) -> Option<Placed> {
        let CapturedSegment { at_ns, interface, vlan, ref around, ref headers } = *captured;
        let chosen = self.options.interface.as_ref();
        if chosen.is_some_and(|name| interfaces.get(interface).is_none_or(|one| one.name != *name)) {
            self.counts.other_interfaces += 1;
            return None;
        }
        let at = self.clock(at_ns, interface);
        let point = if self.options.merge_interfaces { 0 } else { interface };
        let envelope = &headers.envelope;
        let way =
            flow::Way { ttl: envelope.ttl, vlan, interface: u16::try_from(interface).unwrap_or(u16::MAX) };
        let seen = Seen {
            at,
            ecn: envelope.ecn,
            id: envelope.id,
            checksum: headers.checksum,
            way,
            segment: &headers.segment,
            cut: headers.cut,
        };
        let Some((place, from)) = self.find(point, around.as_ref(), [envelope.from, envelope.to], &seen)
        else {
            self.counts.too_many_tunnels += 1;
            return None;
        };
        self.counts.segments += 1;
        self.counts.options_cut += u64::from(headers.cut);
        if let Some(Some(tunnel)) = around.as_ref().map(|around| around.tunnels[0]) {
            *self.counts.tunnels.entry(tunnel.kind).or_default() += 1;
        }
        let connection = &mut self.table.entry(place).state;
        connection.packet(from, &seen, &mut self.rounds);
        let half = &mut connection.halves[from];
        if half.number.is_none() && half.counters.packets > 0 {
            self.flows.push((place, from));
            half.number = Some(u32::try_from(self.flows.len()).expect("fewer than 2^32 flows"));
        }
        Some(Placed { at, connection: place as usize, from })
    }

    /// The time of a packet. One without a time, or with a time that cannot be true, has that of the packet before it.
    fn clock(&mut self, at: Option<u64>, interface: usize) -> Time {
        let (time, told) = self.clocks.time(at, interface);
        match told {
            Told::Time => {}
            Told::Absent => self.counts.timeless += 1,
            Told::Contradictory => self.counts.contradictory_times += 1,
            Told::Set => self.counts.clocks_set += 1,
        }
        let before = self.clocks.passed(time, interface);
        let back = before.since(time);
        if back.is_zero() {
            self.step.add(time.since(before).as_nanos());
        } else {
            self.counts.backwards += 1;
            self.counts.most_backwards_ns = self.counts.most_backwards_ns.max(back.as_nanos());
        }
        time
    }

    /// The connection of a packet, and which of its ends sends it; `None` when there are too many tunnels.
    fn find(
        &mut self,
        point: usize,
        around: Option<&Around>,
        ends: [SocketAddr; 2],
        seen: &Seen<'_>,
    ) -> Option<(u32, usize)> {
        let point = u32::try_from(point).expect("fewer than 2^32 interfaces");
        let way = self.ways.number(point, around)?;
        match self.table.find(ends, way, &self.ways, |connection, end| connection.packets[end] == 0) {
            table::Place::Known(place, from) => {
                let connection = &mut self.table.entry(place).state;
                if !connection.is_other(from, seen) {
                    return Some((place, from));
                }
                connection.finish(&mut self.rounds);
            }
            table::Place::New => {}
            table::Place::TooMany => return None,
        }
        // A SYN-ACK comes from the end that was opened to.
        let from = usize::from(seen.segment.flags.has(Flags::SYN | Flags::ACK));
        let ends = if from == 1 { [ends[1], ends[0]] } else { ends };
        let connection = Box::new(Connection::new(point as usize, ends, seen.at));
        Some((self.table.open(ends, way, connection), from))
    }
}

impl<R: Read> Reader<R> {
    /// The next TCP segment; other packets are counted.
    ///
    /// # Errors
    /// Those of [`Reader::next_packet`].
    #[inline]
    pub fn next_segment(&mut self, counts: &mut PacketCounts) -> Result<Option<CapturedSegment>, ReadError> {
        loop {
            let Some(packet) = self.next_packet()? else { return Ok(None) };
            counts.packets += 1;
            if let Some(segment) = segment(&packet, counts) {
                return Ok(Some(segment));
            }
        }
    }
}

/// The TCP segment of a packet.
#[inline]
fn segment(packet: &CaptureRecord<'_>, counts: &mut PacketCounts) -> Option<CapturedSegment> {
    let start = match network(packet.link, packet.data) {
        NetworkLayer::Ip(start) => start,
        NetworkLayer::Other => {
            counts.other += 1;
            return None;
        }
        NetworkLayer::Unsupported => {
            *counts.unsupported_links.entry(packet.link.0).or_default() += 1;
            return None;
        }
        NetworkLayer::Undecoded(what) => {
            *counts.undecoded.entry(what).or_default() += 1;
            return None;
        }
    };
    let before = u32::try_from(start.at).unwrap_or(u32::MAX);
    let extent = Extent { whole: packet.original_len.saturating_sub(before), most: start.most };
    let made = |headers, around| CapturedSegment {
        at_ns: packet.at_ns,
        interface: packet.interface,
        vlan: start.vlan,
        around,
        headers,
    };
    let found = match ip(&packet.data[start.at..], extent) {
        Ok(ip) if ip.protocol == TCP => whole_tcp(&ip).map(|headers| made(headers, None)),
        Ok(ip) => tunnelled(&ip, counts)?.map(|(headers, around)| made(headers, Some(around))),
        Err(why) => Err(why),
    };
    match found {
        Ok(segment) => return Some(segment),
        Err(NoHeaders::OtherProtocol) => counts.other += 1,
        Err(NoHeaders::Fragment) => counts.fragments += 1,
        Err(NoHeaders::Short) => counts.short += 1,
        Err(NoHeaders::Malformed) => counts.malformed += 1,
    }
    None
}

#[inline]
fn whole_tcp(ip: &IpPacket<'_>) -> Result<Headers, NoHeaders> {
    if ip.fragment.is_some() { Err(NoHeaders::Fragment) } else { tcp(ip) }
}

/// The TCP segment in the tunnels of a packet; `None` when the packet was counted here.
#[cold]
fn tunnelled(
    outer: &IpPacket<'_>,
    counts: &mut PacketCounts,
) -> Option<Result<(Headers, Around), NoHeaders>> {
    match innermost(outer) {
        Ok((ip, around)) if ip.protocol == TCP => Some(whole_tcp(&ip).map(|headers| (headers, around))),
        Ok(_) | Err(NoInner::Other) => Some(Err(NoHeaders::OtherProtocol)),
        Err(NoInner::NoTunnel) => {
            // A later fragment of a datagram has no port, but tunnels over UDP are there.
            let is_later = outer.fragment.is_some_and(|(offset, _)| offset > 0);
            if is_later && counts.tunnels.keys().any(|kind| kind.is_over_udp()) {
                *counts.undecoded.entry(Undecoded::TunnelFragment).or_default() += 1;
                return None;
            }
            Some(Err(NoHeaders::OtherProtocol))
        }
        Err(NoInner::Undecoded(what)) => {
            *counts.undecoded.entry(what).or_default() += 1;
            None
        }
        Err(NoInner::Headers(why)) => Some(Err(why)),
    }
}
