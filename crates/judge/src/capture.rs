//! Conversion of a packet capture to an event log, for the oracles that only need segments.
//!
//! An event log contains the segments that one end of a connection sends and those that it receives. A
//! capture contains these for the end at which it was taken. Connections that were captured between their
//! ends, or without their handshake, get no log; [`LoggedConnections`] counts them.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::IpAddr;
use tcpassay_capture::{Analysis, AnalysisOptions, Place, ReadError, Reader};
use tcpassay_measure::{Flow, FlowCounters, Header, Recording, SegmentLog, SentBy, TcpSummary, Triple};
use tcpassay_units::{Bytes, Time};
use tcpassay_wire::headers::Headers;

/// Numbers of connections of a capture with and without an event log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LoggedConnections {
    /// Connections with a log.
    pub logged: u64,
    /// Connections whose handshake is not in the capture.
    pub without_handshake: u64,
    /// Connections that were captured between their ends, or at a place that the analysis could not
    /// determine.
    pub between: u64,
    /// The capture has more packets than the log may have.
    pub cut: bool,
}

/// A connection with a log.
struct Logged {
    /// The end at which the capture was taken.
    end: usize,
    log: SegmentLog,
}

/// Converts a capture to a recording with an event log. `known` is the analysis of the whole capture;
/// `reader` reads the same capture from its beginning.
///
/// If the capture ends with an error, the log contains the packets before the error, as `known` does. It contains at most `most_packets`
/// packets, because it is in memory.
pub fn recording<R: Read>(
    known: &Analysis,
    options: &AnalysisOptions,
    reader: &mut Reader<R>,
    version: &str,
    most_packets: u64,
) -> (Recording, LoggedConnections) {
    let mut made = Recording {
        header: Header {
            version: version.to_owned(),
            substrate: "capture".to_owned(),
            // This is not a parameter: a capture has no case, so oracles find no settings.
            case: vec![Triple {
                entity: String::new(),
                parameter: "capture".to_owned(),
                value: "packets".to_owned(),
            }],
            complete: known.error.is_none(),
            ..Header::default()
        },
        counters: BTreeMap::from([(
            "run".to_owned(),
            BTreeMap::from([("tap_lost".to_owned(), known.unseen_bytes())]),
        )]),
        ..Recording::default()
    };
    let (mut connections, mut counts) = choose(known, &mut made);
    let mut packets = 0;
    let mut again = Analysis::new(options.clone());
    let mut start = None;
    loop {
        let next: Result<Option<_>, ReadError> = reader.next_segment(&mut again.counts);
        let Ok(Some(segment)) = next else { break };
        let Some(seen) = again.segment(&segment, reader.interfaces()) else { continue };
        again.take_rounds();
        let start = *start.get_or_insert(seen.at);
        // If the time of a capture goes backwards, the time of the log stays constant.
        made.header.duration = made.header.duration.max(seen.at.since(start));
        let at = Time::ZERO + made.header.duration;
        if let Some(Some(logged)) = connections.get_mut(seen.connection) {
            if packets == most_packets {
                counts.cut = true;
                made.header.complete = false;
                break;
            }
            packets += 1;
            logged.packet(at, seen.from, &segment.headers, &mut made);
        }
    }
    (made, counts)
}

/// The connections that have a log; their hosts and flows are added to the recording.
fn choose(known: &Analysis, made: &mut Recording) -> (Vec<Option<Logged>>, LoggedConnections) {
    let mut counts = LoggedConnections::default();
    let mut hosts: BTreeMap<IpAddr, u32> = BTreeMap::new();
    let connections = known.connections().enumerate().map(|(number, connection)| {
        if !connection.has_handshake {
            counts.without_handshake += 1;
            return None;
        }
        let end = match connection.place {
            Place::Sender => 0,
            Place::Receiver => 1,
            Place::Between | Place::Unknown => {
                counts.between += 1;
                return None;
            }
        };
        counts.logged += 1;
        let places = connection.ends.map(|end| {
            let next = u32::try_from(hosts.len()).expect("fewer than 2^32 addresses");
            *hosts.entry(end.ip()).or_insert_with(|| {
                made.hosts.push(end.ip().to_string());
                next
            })
        });
        let flow = u32::try_from(made.flows.len()).expect("fewer than 2^32 flows");
        for (from, counted) in connection.counters.iter().enumerate() {
            made.flows.push(Flow {
                name: format!("{} > {}", connection.ends[from], connection.ends[1 - from]),
                connection: u32::try_from(number).expect("fewer than 2^32 connections"),
                from: places[from],
                to: places[1 - from],
                class: "capture".to_owned(),
                cc: String::new(),
                mss: Bytes::new(connection.mss[from]),
                start: Time::ZERO,
                end: None,
                counters: FlowCounters {
                    sent_packets: counted.packets,
                    sent_bytes: counted.bytes,
                    retransmitted_packets: counted.retransmissions,
                    retransmitted_bytes: counted.retransmitted_bytes,
                    ..FlowCounters::default()
                },
                tcp: TcpSummary::default(),
            });
        }
        let own = flow + u32::from(end == 1);
        Some(Logged { end, log: SegmentLog::new(places[end], own) })
    });
    (connections.collect(), counts)
}

impl Logged {
    fn packet(&mut self, at: Time, from: usize, headers: &Headers, made: &mut Recording) {
        let by = if from == self.end { SentBy::Own } else { SentBy::Peer };
        let Some(place) = self.log.segment(by, &headers.segment) else { return };
        let seen = (&headers.segment, headers.envelope.ecn);
        self.log.rows(at, by, seen, place, |row| made.events.push(row));
    }
}
