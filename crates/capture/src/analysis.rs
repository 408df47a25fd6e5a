//! All connections of a capture, in one pass over its packets.

use crate::content::CapturedSegment;
use crate::counts::PacketCounts;
use crate::flow::{Connection, HalfCounters, Place, Round, Seen};
use crate::icmp::{IcmpError, Reported};
use crate::intake::{Arrival, Arrived, Intake};
use crate::life::{ConnectionFacts, Ended, First, Life, begun};
use crate::reader::{Interface, ReadError, Reader};
use crate::table::{self, Ends, Table, Ways};
use std::collections::BTreeMap;
use std::io::Read;
use std::net::SocketAddr;
use tcpassay_units::{Dur, Time};
use tcpassay_wire::Flags;

/// Options of an analysis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AnalysisOptions {
    /// Only packets of the interface with this name.
    pub interface: Option<String>,
    /// All interfaces are one capture point: each packet passes only one of them.
    pub merge_interfaces: bool,
    /// Maximum number of connections whose state is in memory (about 4 KB each). Of thirty times as many the first packet, of twice as
    /// many the summary is in memory, too.
    pub most_connections: u32,
}

impl Default for AnalysisOptions {
    fn default() -> AnalysisOptions {
        AnalysisOptions { interface: None, merge_interfaces: false, most_connections: 100_000 }
    }
}

/// Connections of which only the first packet or nothing is in memory, per one whose state is.
const FIRST_PER_STATE: u64 = 30;
/// Summaries of ended connections, per one whose state is in memory.
const ENDED_PER_STATE: u64 = 2;
/// Ends that sent malformed options which are named.
const MOST_NAMED: usize = 5;
/// A connection that is silent for longer than this gives room to others.
const IDLE: Dur = Dur::from_secs(600);

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

/// The connections of a capture.
pub struct Analysis {
    options: AnalysisOptions,
    pub(crate) table: Table<Life>,
    pub(crate) ways: Ways,
    /// Connection and sending end of each flow.
    pub(crate) flows: Vec<(u32, u8)>,
    /// Connections whose state is in memory, and those whose summary is.
    open: u64,
    ended: u64,
    /// Connections that are refused before those in memory are examined again.
    patience: u32,
    intake: Intake,
    /// Counters of the packets that were read.
    pub counts: PacketCounts,
    /// The error that ended the reading of the capture; `None` if it was read to its end.
    pub error: Option<ReadError>,
    rounds: Vec<Round>,
    /// ICMP errors by connection, for at most as many connections as may be in memory.
    pub(crate) icmp: BTreeMap<u32, Reported>,
    /// The first ends that sent malformed options.
    pub(crate) malformed_from: Vec<SocketAddr>,
}

impl Analysis {
    /// Creates an analysis without packets.
    pub fn new(options: AnalysisOptions) -> Analysis {
        let intake = Intake::new(options.interface.clone(), options.merge_interfaces);
        Analysis {
            options,
            table: Table::new(),
            ways: Ways::default(),
            flows: Vec::new(),
            open: 0,
            ended: 0,
            patience: 0,
            intake,
            counts: PacketCounts::default(),
            error: None,
            rounds: Vec::new(),
            icmp: BTreeMap::new(),
            malformed_from: Vec::new(),
        }
    }

    /// Reads up to `most` packets. False at the end of the capture, whose error is in [`Analysis::error`].
    pub fn read<R: Read>(&mut self, reader: &mut Reader<R>, most: u64) -> bool {
        for _ in 0..most {
            match reader.next_content(&mut self.counts) {
                Ok(Some(content)) => {
                    let interfaces = reader.interfaces();
                    if let Some(arrival) = self.intake.content(content, interfaces, &mut self.counts) {
                        self.take(&arrival, interfaces);
                    }
                }
                Ok(None) => {
                    self.end(reader);
                    return false;
                }
                Err(error) => {
                    self.error = Some(error);
                    self.end(reader);
                    return false;
                }
            }
        }
        true
    }

    /// Takes in what a packet carries.
    #[inline]
    fn take(&mut self, arrival: &Arrival, interfaces: &[Interface]) {
        match arrival {
            Arrival::Segment(segment) => {
                self.place(segment, interfaces);
            }
            Arrival::Icmp(at, point, error) => self.icmp(*at, *point, **error),
        }
    }

    /// Whether the analysis covers one capture point: one was chosen, or all are considered as one.
    pub(crate) fn is_of_one_point(&self) -> bool {
        self.options.interface.is_some() || self.options.merge_interfaces
    }

    /// The end of the capture: numbers of blocks that were skipped, of interfaces beyond those that are read, and of lost packets.
    fn end<R: Read>(&mut self, reader: &Reader<R>) {
        self.counts.skipped_blocks = reader.skipped_blocks();
        self.counts.too_many_interfaces = reader.too_many_interfaces();
        self.counts.lost_by_capture = reader.lost_packets();
        for entry in self.table.entries_mut() {
            if let Life::Open(connection) = &mut entry.state {
                connection.finish(&mut self.rounds);
            }
        }
    }

    /// The counters of both directions of all connections, and which directions have data. Connections of one packet have no ACK of data.
    pub(crate) fn counters(&self) -> impl Iterator<Item = (HalfCounters, bool)> + '_ {
        self.table.entries().iter().flat_map(|entry| match &entry.state {
            Life::Open(connection) => {
                connection.halves.iter().map(|half| (half.counted(), half.number.is_some())).collect()
            }
            Life::Ended(ended) => {
                let has_data =
                    |end: &SocketAddr| ended.flows.iter().any(|flow| flow.sender == end.to_string());
                let facts = &ended.facts;
                facts.counters.iter().zip(&facts.ends).map(|(one, end)| (*one, has_data(end))).collect()
            }
            Life::First(_) | Life::Forgotten => Vec::new(),
        })
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
        self.intake.clock.step_ns()
    }

    /// The connections in the order of their first packets.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionFacts> + '_ {
        self.table.entries().iter().map(|entry| match &entry.state {
            Life::Ended(ended) => ended.facts,
            Life::Forgotten => ConnectionFacts {
                ends: entry.ends(),
                has_handshake: false,
                place: Place::Unknown,
                mss: [1; 2],
                counters: [HalfCounters::default(); 2],
                packets: 0,
                answers_in: [None; 2],
                routed: [None; 2],
            },
            Life::Open(connection) => facts(connection),
            Life::First(first) => facts(&first.connection(self.point(entry), entry.ends())),
        })
    }

    /// The capture point of a connection.
    pub(crate) fn point(&self, entry: &table::Entry<Life>) -> usize {
        self.ways.point(entry.way(0)) as usize
    }

    /// Bytes that were acknowledged but not captured.
    pub fn unseen_bytes(&self) -> u64 {
        self.counters().map(|(counters, _)| counters.unseen_bytes).sum()
    }

    /// Takes in a segment; `None` when its interface was not chosen, or when there are too many tunnels or connections.
    pub fn segment(&mut self, captured: &CapturedSegment, interfaces: &[Interface]) -> Option<Placed> {
        let arrived = self.intake.segment(captured.clone(), interfaces, &mut self.counts)?;
        self.place(&arrived, interfaces)
    }

    /// Takes in a segment of an interface that was chosen.
    fn place(&mut self, arrived: &Arrived, interfaces: &[Interface]) -> Option<Placed> {
        let Arrived { at, ends, point, ref around, .. } = *arrived;
        let seen = Seen {
            at,
            ecn: arrived.ecn,
            id: arrived.id,
            checksum: arrived.checksum,
            way: arrived.way,
            segment: &arrived.segment,
            cut: arrived.cut || arrived.malformed,
        };
        let Some(way) = self.ways.number(point, around.as_deref()) else {
            self.counts.too_many_tunnels += 1;
            return None;
        };
        let (place, from) = match self.table.find(&ends, way, &self.ways, is_silent) {
            table::Place::TooMany => {
                self.counts.too_many_tunnels += 1;
                return None;
            }
            table::Place::Known(place, from) => match self.resume(place, from, &seen, interfaces) {
                Known::Continues => (place, from),
                Known::Ended => self.begin(point, way, ends, &seen, interfaces)?,
                Known::NoRoom => return None,
            },
            table::Place::New => self.begin(point, way, ends, &seen, interfaces)?,
        };
        self.counts.segments += 1;
        self.counts.options_cut += u64::from(arrived.cut);
        if arrived.malformed {
            self.counts.malformed_options += 1;
            let from = ends.sockets()[0];
            if self.malformed_from.len() < MOST_NAMED && !self.malformed_from.contains(&from) {
                self.malformed_from.push(from);
            }
        }
        if let Some(Some(tunnel)) = around.as_ref().map(|around| around.tunnels[0]) {
            *self.counts.tunnels.entry(tunnel.kind).or_default() += 1;
        }
        Some(Placed { at, connection: place as usize, from })
    }

    /// An ICMP error about a segment: it belongs to the latest connection of its ends at this point that has sequence numbers near its own.
    #[cold]
    fn icmp(&mut self, at: Time, point: u32, error: IcmpError) {
        let (ways, seq) = (&self.ways, error.seq);
        let found = self.table.newest(error.ends, |entry, from| {
            ways.point(entry.way(from)) == point
                && match &entry.state {
                    Life::Open(connection) => connection.halves[from].sequence.is_near(seq),
                    Life::First(_) | Life::Ended(_) | Life::Forgotten => true,
                }
        });
        self.counts.icmp_errors += 1;
        let most = self.options.most_connections as usize;
        let Some((place, from)) =
            found.filter(|(place, _)| self.icmp.len() < most || self.icmp.contains_key(place))
        else {
            self.counts.icmp_of_others += 1;
            return;
        };
        self.icmp.entry(place).or_default().add(error, from, at);
    }

    /// A packet of a connection that is in memory.
    #[inline]
    fn resume(&mut self, place: u32, from: usize, seen: &Seen<'_>, interfaces: &[Interface]) -> Known {
        if let Life::First(first) = self.table.entry(place).state {
            if !self.has_room(seen.at, interfaces) {
                return Known::NoRoom;
            }
            let entry = &self.table.entries()[place as usize];
            let connection = Box::new(first.connection(self.point(entry), entry.ends()));
            self.table.entry(place).state = Life::Open(connection);
            self.open += 1;
        }
        let Life::Open(connection) = &mut self.table.entry(place).state else { return Known::Ended };
        if connection.is_other(from, seen) {
            connection.finish(&mut self.rounds);
            return Known::Ended;
        }
        connection.packet(from, seen, &mut self.rounds);
        let half = &mut connection.halves[from];
        if half.number.is_none() && half.counters.packets > 0 {
            self.flows.push((place, u8::from(from == 1)));
            half.number = Some(u32::try_from(self.flows.len()).expect("fewer than 2^32 flows"));
        }
        Known::Continues
    }

    /// The first packet of a connection.
    fn begin(
        &mut self,
        point: u32,
        way: table::Way,
        ends: Ends,
        seen: &Seen<'_>,
        interfaces: &[Interface],
    ) -> Option<(u32, usize)> {
        if self.table.len() as u64 >= u64::from(self.options.most_connections) * FIRST_PER_STATE {
            self.counts.too_many_connections += 1;
            return None;
        }
        // A SYN-ACK comes from the end that was opened to.
        let from = usize::from(seen.segment.flags.has(Flags::SYN | Flags::ACK));
        let ends = if from == 1 { ends.swapped() } else { ends };
        let mut connection = begun(point as usize, ends.sockets(), from, seen, 0);
        let has_data = connection.halves[from].counters.packets > 0;
        let number =
            if has_data { u32::try_from(self.flows.len() + 1).expect("fewer than 2^32 flows") } else { 0 };
        let life = if let Some(first) = First::of(seen, from, number) {
            Life::First(first)
        } else if self.has_room(seen.at, interfaces) {
            self.open += 1;
            connection.halves[from].number = has_data.then_some(number);
            Life::Open(Box::new(connection))
        } else {
            return None;
        };
        let place = self.table.open(ends, way, life);
        if has_data {
            self.flows.push((place, u8::from(from == 1)));
        }
        Some((place, from))
    }

    /// Whether the state of a further connection may be in memory; otherwise its packet is counted. Connections that ended give room.
    #[inline]
    fn has_room(&mut self, now: Time, interfaces: &[Interface]) -> bool {
        self.open < u64::from(self.options.most_connections) || self.makes_room(now, interfaces)
    }

    #[cold]
    fn makes_room(&mut self, now: Time, interfaces: &[Interface]) -> bool {
        if self.patience == 0 {
            self.patience = self.options.most_connections / 8;
            self.end_connections(now, interfaces);
        } else {
            self.patience -= 1;
        }
        let has_room = self.open < u64::from(self.options.most_connections);
        self.counts.too_many_connections += u64::from(!has_room);
        has_room
    }

    /// Summarises connections that ended (FIN of both ends, RST) or were silent for long.
    fn end_connections(&mut self, now: Time, interfaces: &[Interface]) {
        let most = u64::from(self.options.most_connections) * ENDED_PER_STATE;
        for place in 0..self.table.len() {
            let entry = &mut self.table.entries_mut()[place];
            let Life::Open(connection) = &mut entry.state else { continue };
            if !connection.is_over && now.since(connection.last) <= IDLE {
                continue;
            }
            connection.finish(&mut self.rounds);
            let flows = self.describe(place, interfaces);
            let entry = &mut self.table.entries_mut()[place];
            let Life::Open(connection) = &entry.state else { continue };
            let described = if self.ended < most { flows.len() } else { 0 };
            self.counts.undescribed_flows += (flows.len() - described) as u64;
            entry.state = if described > 0 {
                self.ended += 1;
                Life::Ended(Box::new(Ended { facts: facts(connection), flows }))
            } else {
                Life::Forgotten
            };
            self.open -= 1;
            self.counts.ended_connections += 1;
        }
    }
}

/// What becomes of a packet between ends that are known.
enum Known {
    /// It belongs to the connection, and was taken in.
    Continues,
    /// It begins another connection.
    Ended,
    /// There is no room for the state of the connection.
    NoRoom,
}

/// Whether an end has sent nothing yet.
fn is_silent(life: &Life, end: usize) -> bool {
    match life {
        Life::First(first) => usize::from(first.from) != end,
        Life::Open(connection) => connection.packets[end] == 0,
        Life::Ended(_) | Life::Forgotten => false,
    }
}

fn facts(connection: &Connection) -> ConnectionFacts {
    ConnectionFacts {
        ends: connection.ends,
        has_handshake: connection.has_both_syns(),
        place: connection.place(0),
        mss: [connection.mss(0), connection.mss(1)],
        counters: [connection.halves[0].counted(), connection.halves[1].counted()],
        packets: connection.packets.iter().sum(),
        answers_in: [connection.answers[0].least(), connection.answers[1].least()],
        routed: [0, 1].map(|end| connection.points.routed(end)),
    }
}
