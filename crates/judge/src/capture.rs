//! Conversion of a packet capture to an event log, for the oracles that only need segments.
//!
//! An event log contains the segments that one end of a connection sends and those that it receives. A
//! capture contains these for the end at which it was taken. Connections that were captured between their
//! ends, or without their handshake, get no log; [`LoggedConnections`] counts them.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::IpAddr;
use tcpassay_capture::{Analysis, AnalysisOptions, Place, ReadError, Reader};
use tcpassay_measure::reason::{StateChange, TcpState};
use tcpassay_measure::{
    ECT, EventKind, EventRow, Flow, FlowCounters, Header, Reason, Recording, TcpSummary, Triple,
};
use tcpassay_units::{Bytes, SeqNum, Time};
use tcpassay_wire::headers::Headers;
use tcpassay_wire::{Ecn, Flags, Segment};

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
}

/// A connection with a log.
struct Logged {
    /// The end at which the capture was taken.
    end: usize,
    /// Index of its first flow.
    flow: u32,
    hosts: [u32; 2],
    /// Indexed by end: the initial sequence number, and the position after the last byte sent.
    first: [Option<SeqNum>; 2],
    sent: [u64; 2],
    scales: [Option<u8>; 2],
    established: bool,
}

/// Converts a capture to a recording with an event log. `known` is the analysis of the whole capture;
/// `reader` reads the same capture from its beginning.
///
/// If the capture ends with an error, the log contains the packets before the error, as `known` does.
pub fn recording<R: Read>(
    known: &Analysis,
    options: &AnalysisOptions,
    reader: &mut Reader<R>,
    version: &str,
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
    let (mut connections, counts) = choose(known, &mut made);
    let mut again = Analysis::new(options.clone());
    let mut start = None;
    loop {
        let next: Result<Option<_>, ReadError> = reader.next_segment(&mut again.counts);
        let Ok(Some((at, interface, headers))) = next else { break };
        let Some(seen) = again.segment(at, interface, &headers, reader.interfaces()) else { continue };
        again.take_rounds();
        let start = *start.get_or_insert(seen.at);
        // If the time of a capture goes backwards, the time of the log stays constant.
        made.header.duration = made.header.duration.max(seen.at.since(start));
        let at = Time::ZERO + made.header.duration;
        if let Some(Some(logged)) = connections.get_mut(seen.connection) {
            logged.packet(at, seen.from, &headers, &mut made);
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
        Some(Logged {
            end,
            flow,
            hosts: places,
            first: [None; 2],
            sent: [0; 2],
            scales: [None; 2],
            established: false,
        })
    });
    (connections.collect(), counts)
}

impl Logged {
    fn packet(&mut self, at: Time, from: usize, headers: &Headers, made: &mut Recording) {
        let (end, segment) = (self.end, &headers.segment);
        if segment.flags.has(Flags::SYN) {
            self.first[from] = Some(segment.seq);
            self.scales[from] = segment.options.window_scale.map(|shift| shift.min(14));
        }
        let Some(seq) = self.position(from, segment.seq) else { return };
        let outgoing = from == end;
        let after = seq + u64::from(segment.seq_len());
        let again = after > seq && seq < self.sent[from];
        self.sent[from] = self.sent[from].max(after);
        let kind = match (outgoing, again) {
            (false, _) => EventKind::In,
            (true, false) => EventKind::Out,
            (true, true) => EventKind::Retransmit,
        };
        let (host, flow) = (self.hosts[end], self.flow + u32::from(end == 1));
        let stamps = segment.options.timestamps;
        let value = if outgoing { stamps.map(|s| s.ecr) } else { stamps.map(|s| s.val) };
        let ect = outgoing && headers.envelope.ecn.is_capable();
        let ack = segment.flags.has(Flags::ACK).then(|| self.position(1 - from, segment.ack)).flatten();
        made.events.push(EventRow {
            why: Reason::Borrowed(if ect { ECT } else { "" }),
            seq: Some(seq),
            ack,
            len: Some(segment.len),
            flags: Some(segment.flags),
            window: Some(Bytes::new(self.window(from, segment))),
            value: value.map(u64::from),
            ce: headers.envelope.ecn == Ecn::Ce,
            ..EventRow::new(at, host, Some(flow), kind)
        });
        for block in &segment.options.sack {
            let (Some(start), Some(stop)) =
                (self.position(1 - from, block.start), self.position(1 - from, block.end))
            else {
                continue;
            };
            let Ok(len) = u32::try_from(stop.saturating_sub(start)) else { continue };
            made.events.push(EventRow {
                seq: Some(start),
                len: Some(len),
                ..EventRow::new(at, host, Some(flow), EventKind::Sack)
            });
        }
        // The connection is established when both ends have sent a SYN and one has acknowledged the SYN of
        // the other.
        if !self.established && self.first.iter().all(Option::is_some) && !segment.flags.has(Flags::SYN) {
            self.established = true;
            let opened =
                StateChange::Moved { from: Some(TcpState::SynSent), to: Some(TcpState::Established) };
            made.events.push(EventRow {
                why: opened.to_string().into(),
                ..EventRow::new(at, host, Some(flow), EventKind::State)
            });
        }
    }

    /// The stream position of a sequence number of end `from`. Its SYN has position 0.
    fn position(&self, from: usize, seq: SeqNum) -> Option<u64> {
        seq.unwrap_near(self.first[from]?, self.sent[from])
    }

    fn window(&self, from: usize, segment: &Segment) -> u64 {
        let both = self.scales.iter().all(Option::is_some) && !segment.flags.has(Flags::SYN);
        let shift = if both { self.scales[from].unwrap_or(0) } else { 0 };
        u64::from(segment.window) << shift
    }
}
