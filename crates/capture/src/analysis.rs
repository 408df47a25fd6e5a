//! All connections of a capture, in one pass over its packets.

use crate::flow::{Connection, HalfCounters, Place, Round, Seen, Way};
use crate::link::{NetworkLayer, network};
use crate::reader::{CaptureRecord, Interface, ReadError, Reader};
use indexmap::IndexMap;
use serde::Serialize;
use siphasher::sip::SipHasher13;
use std::collections::BTreeMap;
use std::hash::BuildHasherDefault;
use std::io::Read;
use std::net::SocketAddr;
use tcpassay_units::Time;
use tcpassay_wire::Flags;
use tcpassay_wire::headers::{Headers, NoHeaders, read};

/// A connection at one capture point: the interface, and both ends in order.
type Key = (usize, [SocketAddr; 2]);

/// Number of entries of `Analysis::latest`.
const LATEST: usize = 256;

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
    /// Packets that are earlier than the one before them on their interface.
    pub backwards: u64,
    /// The largest step back.
    pub most_backwards_ns: u64,
    /// Damaged blocks of pcapng that were skipped.
    pub skipped_blocks: u64,
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
    places: IndexMap<Key, usize, BuildHasherDefault<SipHasher13>>,
    pub(crate) connections: Vec<Connection>,
    /// Connection and sending end of each flow.
    pub(crate) flows: Vec<(usize, usize)>,
    /// The latest keys by a cheap hash of their ports: a wrong entry only causes a search in `places`.
    latest: Box<[Option<(Key, usize)>]>,
    /// Time of the last packet of each interface.
    clocks: Vec<Time>,
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
            places: IndexMap::default(),
            connections: Vec::new(),
            flows: Vec::new(),
            latest: vec![None; LATEST].into_boxed_slice(),
            clocks: Vec::new(),
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
                Ok(Some((at, interface, headers))) => {
                    self.segment(at, interface, &headers, reader.interfaces());
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
        self.connections.iter_mut().for_each(|connection| connection.finish(&mut self.rounds));
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
        self.connections.iter().map(|one| ConnectionFacts {
            ends: one.ends,
            has_handshake: one.has_both_scales(),
            place: one.place(0),
            mss: [one.mss(0), one.mss(1)],
            counters: [one.halves[0].counters, one.halves[1].counters],
        })
    }

    /// Bytes that were acknowledged but not captured.
    pub fn unseen_bytes(&self) -> u64 {
        self.connections.iter().flat_map(|one| &one.halves).map(|half| half.counters.unseen_bytes).sum()
    }

    /// Takes in a segment; `None` when its interface was not chosen.
    pub fn segment(
        &mut self,
        at: Option<u64>,
        interface: usize,
        headers: &Headers,
        interfaces: &[Interface],
    ) -> Option<Placed> {
        let chosen = self.options.interface.as_ref();
        if chosen.is_some_and(|name| interfaces.get(interface).is_none_or(|one| one.name != *name)) {
            self.counts.other_interfaces += 1;
            return None;
        }
        let at = self.clock(at, interface);
        self.counts.segments += 1;
        self.counts.options_cut += u64::from(headers.cut);
        let point = if self.options.merge_interfaces { 0 } else { interface };
        let envelope = &headers.envelope;
        let way = Way { ttl: envelope.ttl, vlan: 0, interface: u16::try_from(interface).unwrap_or(u16::MAX) };
        let seen = Seen {
            at,
            ecn: envelope.ecn,
            id: envelope.id,
            checksum: headers.checksum,
            way,
            segment: &headers.segment,
            cut: headers.cut,
        };
        let (place, from) = self.find(point, [envelope.from, envelope.to], &seen);
        let connection = &mut self.connections[place];
        connection.packet(from, &seen, &mut self.rounds);
        let half = &mut connection.halves[from];
        if half.number.is_none() && half.counters.packets > 0 {
            self.flows.push((place, from));
            half.number = Some(u32::try_from(self.flows.len()).expect("fewer than 2^32 flows"));
        }
        Some(Placed { at, connection: place, from })
    }

    /// The time of a packet, and how far it steps back.
    fn clock(&mut self, at: Option<u64>, interface: usize) -> Time {
        if self.clocks.len() <= interface {
            self.clocks.resize(interface + 1, Time::ZERO);
        }
        let clock = &mut self.clocks[interface];
        let Some(at) = at else {
            self.counts.timeless += 1;
            return *clock;
        };
        let at = Time::from_nanos(at);
        if at < *clock {
            self.counts.backwards += 1;
            let step = clock.since(at).as_nanos();
            self.counts.most_backwards_ns = self.counts.most_backwards_ns.max(step);
        } else {
            self.step.add(at.since(*clock).as_nanos());
        }
        *clock = at;
        at
    }

    /// The connection of a packet, and which of its ends sends it.
    fn find(&mut self, point: usize, ends: [SocketAddr; 2], seen: &Seen<'_>) -> (usize, usize) {
        // The same place for both directions.
        let slot = usize::from(ends[0].port() ^ ends[1].port()) % LATEST;
        if let Some((key, place)) = &self.latest[slot]
            && key.0 == point
            && (key.1 == ends || key.1 == [ends[1], ends[0]])
            && !seen.segment.flags.has(Flags::SYN)
        {
            return (*place, usize::from(self.connections[*place].ends[0] != ends[0]));
        }
        let swapped = ends[0] > ends[1];
        let key = (point, if swapped { [ends[1], ends[0]] } else { ends });
        let place = match self.places.get(&key).copied() {
            Some(place) => {
                let from = usize::from(self.connections[place].ends[0] != ends[0]);
                if self.connections[place].is_other(from, seen) {
                    self.connections[place].finish(&mut self.rounds);
                    self.open(key, ends, seen)
                } else {
                    place
                }
            }
            None => self.open(key, ends, seen),
        };
        self.latest[slot] = Some((key, place));
        (place, usize::from(self.connections[place].ends[0] != ends[0]))
    }

    fn open(&mut self, key: Key, ends: [SocketAddr; 2], seen: &Seen<'_>) -> usize {
        // A SYN-ACK comes from the end that was opened to.
        let answer = seen.segment.flags.has(Flags::SYN | Flags::ACK);
        let ends = if answer { [ends[1], ends[0]] } else { ends };
        let place = self.connections.len();
        self.connections.push(Connection::new(key.0, ends, seen.at));
        self.places.insert(key, place);
        place
    }
}

impl<R: Read> Reader<R> {
    /// The next TCP segment, with its time and interface; other packets are counted.
    ///
    /// # Errors
    /// Those of [`Reader::next_packet`].
    #[inline]
    pub fn next_segment(
        &mut self,
        counts: &mut PacketCounts,
    ) -> Result<Option<(Option<u64>, usize, Headers)>, ReadError> {
        loop {
            let Some(packet) = self.next_packet()? else { return Ok(None) };
            counts.packets += 1;
            if let Some(headers) = headers(&packet, counts) {
                return Ok(Some((packet.at_ns, packet.interface, headers)));
            }
        }
    }
}

/// The headers of a packet that is a TCP segment.
#[inline]
fn headers(packet: &CaptureRecord<'_>, counts: &mut PacketCounts) -> Option<Headers> {
    let at = match network(packet.link, packet.data) {
        NetworkLayer::Ip(at) => at,
        NetworkLayer::Other => {
            counts.other += 1;
            return None;
        }
        NetworkLayer::Unsupported => {
            *counts.unsupported_links.entry(packet.link.0).or_default() += 1;
            return None;
        }
    };
    let before = u32::try_from(at).expect("a link-layer header");
    match read(&packet.data[at..], packet.original_len.saturating_sub(before)) {
        Ok(headers) => return Some(headers),
        Err(NoHeaders::OtherProtocol) => counts.other += 1,
        Err(NoHeaders::Fragment) => counts.fragments += 1,
        Err(NoHeaders::Short) => counts.short += 1,
        Err(NoHeaders::Malformed) => counts.malformed += 1,
    }
    None
}
